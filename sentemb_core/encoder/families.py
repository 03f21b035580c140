"""Which transformers are encoders: those that read a sentence both ways, and T5's encoder half."""

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from sentemb_core.encoder.json_files import read_json
from sentemb_core.errors import UsageError

T5_FAMILY = {"t5", "mt5", "umt5"}
"""Model types of which the encoder half is read, as sentence-transformers reads it."""

ENCODERS_TOO = {"bert-generation", "xlnet"}
"""Model types that generate text, and read it both ways all the same."""

TOKEN_TABLE, ITS_OTHER_NAME = "shared.weight", "encoder.embed_tokens.weight"
"""T5 has one table of token vectors under two names; safetensors keeps one."""


def refuse_decoders(folder: Path) -> None:
    """Refuse a folder of a transformer that writes text, but for the encoder half of a T5.

    Raises:
        UsageError: E001, naming its model type.
    """
    config = read_json(folder / "config.json")
    kind = config.get("model_type")
    if kind and kind not in T5_FAMILY and (found := _decoder(kind, config)):
        raise UsageError(
            "A sentence encoder is a transformer that reads a sentence both ways, or the encoder "
            f"half of a T5, MT5 or UMT5; {folder} holds {found} (model_type {kind!r}). Start from "
            "an encoder such as BERT, RoBERTa, ModernBERT or T5, or from 'minilm'."
        )


def _decoder(kind: str, config: dict[str, Any]) -> str | None:
    """What transformers has this model type for, if it is for writing."""
    from transformers.models.auto import modeling_auto as known

    if kind in known.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        return "an encoder and a decoder"
    encodes = kind in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES or kind in ENCODERS_TOO
    both_ways = config.get("use_bidirectional_attention") or config.get("is_causal") is False
    writes = kind in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not (encodes or both_ways)
    return "a decoder, in which a word sees only what precedes it" if writes else None


def is_t5(backbone: nn.Module) -> bool:
    """Whether a backbone is the encoder half of a T5: no [CLS], and no layer of embeddings."""
    return _type_of(backbone) in T5_FAMILY


def begins_with_a_word(backbone: nn.Module) -> bool:
    """Whether no token in front stands for the sentence: a T5 has none, XLNet's comes last."""
    return _type_of(backbone) in T5_FAMILY | {"xlnet"}


def _type_of(backbone: nn.Module) -> str | None:
    return getattr(getattr(backbone, "config", None), "model_type", None)


def keep_table_once(backbone: nn.Module) -> None:
    """Let the state dict of a T5 name its table once, and take such a state dict."""
    backbone.register_state_dict_post_hook(_without_other_name)
    backbone.register_load_state_dict_pre_hook(_with_other_name)


def _without_other_name(_: nn.Module, state: dict[str, Tensor], prefix: str, *__: Any) -> None:
    state.pop(prefix + ITS_OTHER_NAME, None)


def _with_other_name(_: nn.Module, state: dict[str, Tensor], prefix: str, *__: Any) -> None:
    state[prefix + ITS_OTHER_NAME] = state[prefix + TOKEN_TABLE]
