"""Backbones: the static table, and what each kind of transformer can do.

An encoder's transformer reads a sentence in both directions, or is the encoder half of a T5, or is
a decoder that was trained as an encoder.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from sentemb_core.encoder.folder_files import first_folder, read_json
from sentemb_core.errors import UsageError
from sentemb_core.redaction import first_line
from sentemb_core.types import Json, Pooling

T5_FAMILY = {"t5", "mt5", "umt5"}
"""Model types of which the encoder half is read, as sentence-transformers does."""

BIDIRECTIONAL_GENERATORS = {"bert-generation", "xlnet"}
"""Model types that generate text and read it in both directions all the same."""

TOKEN_TABLE, TOKEN_TABLE_ALIAS = "shared.weight", "encoder.embed_tokens.weight"
"""T5 has one table of token vectors under two names; safetensors keeps one of them."""


class StaticTable(nn.Module):
    """One vector per token, without context, order or dropout; a sentence is their mean."""

    def __init__(self, weights: Float[Tensor, "vocabulary dim"]) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(weights, freeze=False)

    @classmethod
    def random(cls, vocabulary: int, dim: int, seed: int) -> "StaticTable":
        """Vectors drawn from N(0, 0.05^2): small, so that the first steps set the directions."""
        generator = torch.Generator().manual_seed(seed)
        return cls(torch.randn(vocabulary, dim, generator=generator) * 0.05)

    def forward(
        self, ids: Int[Tensor, "batch time"], mask: Int[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch dim"]:
        """Means of the rows' token vectors, which are never all in memory at once."""
        weights = self.embedding.weight
        if mask is None:
            return F.embedding_bag(ids, weights, mode="mean")
        real = mask.bool()
        starts = F.pad(real.sum(1).cumsum(0)[:-1], (1, 0))
        return F.embedding_bag(ids[real], weights, starts, mode="mean")


def token_vectors(tensors: Mapping[str, Tensor]) -> Float[Tensor, "vocabulary dim"]:
    """Return the table of a StaticEmbedding in float32.

    model2vec names it `embeddings`; a token's row is `mapping[token]` of it, times
    `weights[token]`, where the file has these.
    """
    if "embedding.weight" in tensors:
        return tensors["embedding.weight"].to(torch.float32, copy=True)
    table = tensors["embeddings"].to(torch.float32, copy=True)
    if "mapping" in tensors:
        table = table[tensors["mapping"].long()]
    return table * tensors["weights"].float()[:, None] if "weights" in tensors else table


def refuse_generators(folder: Path) -> None:
    """Refuse a folder with a transformer that generates text.

    The encoder half of a T5 is read. A decoder is read if its folder states how tokens become a
    vector (modules.json), as that of an embedding model does.

    Raises:
        UsageError: E001, with the model type.
    """
    config = read_json(first_folder(folder) / "config.json")
    model_type = config.get("model_type")
    if model_type is None:
        return
    if _has_two_halves(model_type):
        kind = "an encoder and a decoder"
    elif is_causal(config) and not (folder / "modules.json").is_file():
        kind = "a decoder without modules.json, which would state how tokens become a vector"
    else:
        return
    raise UsageError(
        "A sentence encoder is a transformer that reads in both directions, the encoder half of a "
        "T5, MT5 or UMT5, or a decoder saved as an encoder by sentence-transformers. "
        f"{folder} holds {kind} (model_type {model_type!r}). Start from an encoder such as BERT, "
        "ModernBERT, T5 or Qwen3-Embedding, or from 'minilm'."
    )


def _has_two_halves(model_type: str) -> bool:
    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES

    return (
        model_type not in T5_FAMILY and model_type in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    )


def is_causal(config: Json) -> bool:
    """Whether a transformer of this config.json is a decoder: a token sees only earlier tokens."""
    model_type = config.get("model_type")
    if model_type is None:  # a static table, for which transformers need not be imported
        return False
    from transformers.models.auto import modeling_auto as known

    bidirectional = (
        model_type in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES
        or model_type in BIDIRECTIONAL_GENERATORS
        or config.get("use_bidirectional_attention")
        or config.get("is_causal") is False
    )
    return model_type in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not bidirectional


def keep_table_once(backbone: nn.Module) -> None:
    """Let a T5 write its token table under one name into the state dict, and read it back."""
    backbone.register_state_dict_post_hook(_without_alias)
    backbone.register_load_state_dict_pre_hook(_with_alias)


def _without_alias(_: nn.Module, state: dict[str, Tensor], prefix: str, *__: Any) -> None:
    state.pop(prefix + TOKEN_TABLE_ALIAS, None)


def _with_alias(_: nn.Module, state: dict[str, Tensor], prefix: str, *__: Any) -> None:
    state[prefix + TOKEN_TABLE_ALIAS] = state[prefix + TOKEN_TABLE]


def max_positions(backbone: nn.Module) -> int | None:
    """Largest number of tokens that a sentence may have; None where positions are not a table."""
    positions = _positions(backbone)
    return None if positions is None else len(positions)


def first_position(backbone: nn.Module) -> int:
    """The position of a text's first token; 0 where positions are not a table."""
    positions = _positions(backbone)
    return 0 if positions is None else positions.start


def _positions(backbone: nn.Module) -> range | None:
    """The positions of a text's tokens; None without a table.

    RoBERTa and its relatives start behind the padding position.
    """
    for name, table in backbone.named_modules():
        if name.endswith("position_embeddings") and isinstance(table, nn.Embedding):
            first = 0 if table.padding_idx is None else table.padding_idx + 1
            return range(first, table.num_embeddings)
    return None


def require_fit(backbone: Any, pooling: Pooling, max_length: int) -> None:
    """Refuse settings that the backbone cannot serve.

    Raises:
        UsageError: E001, for a pooling without states or weights, or a length beyond the positions.
    """
    require_pooling(backbone, pooling)
    longest = max_positions(backbone)
    if longest is not None and max_length > longest:
        raise UsageError(
            f"max_length must not exceed the {longest} positions of this encoder, found "
            f"{max_length}. Lower it."
        )


def require_every_length(folder: Path, backbone: Any) -> None:
    """Refuse a transformer of a folder that reads texts of certain lengths only, by two trials.

    Nystromformer without its own tokenizer does, and any with `chunk_size_feed_forward`.

    Raises:
        UsageError: E001, with the length and the error.
    """
    for length in (2, 3):
        try:
            with torch.inference_mode():
                backbone(input_ids=torch.zeros(1, length, dtype=torch.long))
        except Exception as error:  # every architecture has errors of its own
            raise UsageError(
                f"A sentence encoder reads texts of any length; the transformer in {folder} fails "
                f"at {length} tokens: {first_line(error).rstrip('.')}. Take another encoder."
            ) from error


def require_pooling(backbone: Any, pooling: Pooling) -> None:
    """Refuse a pooling that the backbone has no states or no weights for.

    Raises:
        UsageError: E001, with the poolings that it has.
    """
    if isinstance(backbone, StaticTable) and pooling != "mean":
        raise UsageError(
            f"A static encoder has pooling 'mean' only, found {pooling!r}. Leave it out, or "
            "start from a transformer such as 'minilm'."
        )
    config = {} if isinstance(backbone, StaticTable) else cast(Json, backbone.config.to_dict())
    no_first_token = config.get("model_type") in T5_FAMILY | {"xlnet"}  # XLNet's stands last
    lacks_first_token = no_first_token or is_causal(config)
    if lacks_first_token and pooling in ("cls", "cls_before_pooler"):
        raise UsageError(
            f"Pooling {pooling!r} needs a first token that stands for the sentence, and "
            f"{type(backbone).__name__} has none. Take 'mean', 'last' or a pooling of two layers."
        )
    if pooling == "cls" and not hasattr(getattr(backbone, "pooler", None), "dense"):
        raise UsageError(
            "Pooling 'cls' needs the pretrained pooler of the encoder, and this encoder has none. "
            "Take 'cls_before_pooler' or 'mean'."
        )
