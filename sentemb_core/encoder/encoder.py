"""The encoder: token ids in, one vector a sentence out."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from tokenizers import Tokenizer
from torch import Tensor, nn

from sentemb_core.encoder.backbones import StaticTable, max_positions
from sentemb_core.encoder.dense import require_dense
from sentemb_core.encoder.packing import packed, packs, read_packed
from sentemb_core.encoder.pooling import TWO_LAYERS, mean_pool, two_layer_mean
from sentemb_core.errors import RecipeError
from sentemb_core.types import Json, Pooling, Similarity

if TYPE_CHECKING:
    from transformers import PreTrainedModel  # its import takes as long as torch's

Edit = Callable[[Tensor], Tensor]
"""From the embedding layer's output [batch, time, dim] to what the layers shall see instead."""


@dataclass(frozen=True)
class Reading:
    """What reading some rows gave.

    Attributes:
        pooled: One vector a row (a method's own reader may give more axes).
        layers: States [batch, time, dim] of the embedding layer and of every layer above it; empty
            unless they were asked for.
    """

    pooled: Float[Tensor, "batch ..."]
    layers: tuple[Tensor, ...] = ()


class Encoder(nn.Module):
    """A backbone (transformer or static table), its tokenizer, a pooling and a similarity.

    It begins in eval mode, as transformers' models do: whoever trains calls `train()`.

    Args:
        backbone: What turns ids into states.
        tokenizer: Takes over this object: padding is switched off, truncation set to `max_length`.
        pooling: How token states become a sentence (a static table knows `mean` alone).
        similarity: cosine: `vectors` have length 1; dot: they are the pooled states.
        max_length: Tokens a sentence, special tokens included.
        tokenizer_config: What transformers' AutoTokenizer must know beside tokenizer.json.
        layers: Linear and ReLU layers that the pooled vector goes through (a whitening, a flow).

    Raises:
        UsageError: `layers` has others.
    """

    def __init__(
        self,
        backbone: "PreTrainedModel | StaticTable",
        tokenizer: Tokenizer,
        *,
        pooling: Pooling,
        similarity: Similarity,
        max_length: int,
        tokenizer_config: Json | None = None,
        layers: nn.Sequential | None = None,
    ) -> None:
        super().__init__()
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_length)
        self.backbone = backbone
        self.tokenizer = tokenizer
        self.pooling: Pooling = pooling
        self.similarity: Similarity = similarity
        self.max_length = max_length
        self.tokenizer_config: Json = tokenizer_config or {}
        self.layers = None if layers is None else require_dense(layers)
        self.eval()

    def parts(
        self, backbone: "PreTrainedModel | StaticTable", layers: nn.Sequential | None
    ) -> Json:
        """What another encoder is made of that has these two in place of its own, as arguments."""
        return {
            "backbone": backbone,
            "tokenizer": self.tokenizer,
            "pooling": self.pooling,
            "similarity": self.similarity,
            "max_length": self.max_length,
            "tokenizer_config": self.tokenizer_config,
            "layers": layers,
        }

    @property
    def kind(self) -> Literal["transformer", "static"]:
        return "static" if isinstance(self.backbone, StaticTable) else "transformer"

    @property
    def dim(self) -> int:
        """Width of a sentence vector."""
        widths = [layer.out_features for layer in self.layers or () if isinstance(layer, nn.Linear)]
        return widths[-1] if widths else self.hidden_dim

    @property
    def hidden_dim(self) -> int:
        """Width of a token's state, and of the pooled vector before `layers`."""
        if isinstance(self.backbone, StaticTable):
            return self.backbone.embedding.embedding_dim
        return int(self.backbone.config.hidden_size)

    @property
    def add_special_tokens(self) -> bool:
        """Whether ids carry [CLS] and [SEP] or their like: never for a static table."""
        return self.kind == "transformer"

    @property
    def framed(self) -> bool:
        """Whether ids begin and end with a special token, for views that cut, join or frame rows.

        Raises:
            RecipeError: They have special tokens in other places: T5 ends with one alone.
        """
        if not self.add_special_tokens:
            return False
        marks = self.tokenizer.encode("a", add_special_tokens=True).special_tokens_mask
        if sum(marks) == 2 and marks[0] == marks[-1] == 1:
            return True
        if sum(marks) == 0:
            return False
        raise RecipeError(
            "A method that cuts, joins or frames rows wants one special token at both ends of a "
            f"row, or none; this encoder ({type(self.backbone).__name__}) has them otherwise: "
            "start from an encoder like BERT, or take simcse, infocse_idc or conpono"
        )

    @property
    def positions(self) -> int | None:
        """Tokens a text may have; none where positions are not a table."""
        return max_positions(self.backbone)

    @property
    def device(self) -> torch.device:
        """Where its weights lie, and so where it computes."""
        return next(self.parameters()).device

    @property
    def packs(self) -> bool:
        """Whether `forward` computes no padding: on a CPU, where the backbone allows it."""
        return self.device.type == "cpu" and packs(self.backbone)

    @property
    def pad_id(self) -> int:
        """Fills the places that a mask hides."""
        return self._special_id("pad_token", "[PAD]")

    @property
    def unknown_id(self) -> int:
        """Stands for a piece that the vocabulary lacks, and for a text of which nothing is left."""
        told: str | None = getattr(self.tokenizer.model, "unk_token", None)
        return self._special_id("unk_token", told or "[UNK]")

    def tokenise(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Token ids (int64) of each text, special tokens included, cut to `max_length`.

        A text of which nothing is left becomes one unknown token, as in the token cache.
        """
        encodings = self.tokenizer.encode_batch_fast(
            list(texts), add_special_tokens=self.add_special_tokens
        )
        nothing = [self.unknown_id]
        return [np.asarray(encoding.ids or nothing, dtype=np.int64) for encoding in encodings]

    def forward(
        self, ids: Int[Tensor, "batch time"], mask: Int[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch dim"]:
        """Pooled states after `layers`, in float32, not normalised: see `vectors`.

        Args:
            ids: Token ids, padded at the right.
            mask: 1 on real tokens; none when all rows have exactly this length.
        """
        if mask is None or not self.packs:
            return self.read(ids, mask).pooled
        batch = packed(ids, mask, self.pad_id)
        stretches = read_packed(self.backbone, batch, layers=self.pooling in TWO_LAYERS)
        pooled = torch.cat([self._pooled(states, None) for states in stretches])
        return self.finished(pooled[batch.rows.argsort()])

    def read(
        self,
        ids: Int[Tensor, "batch time"],
        mask: Int[Tensor, "batch time"] | None = None,
        *,
        layers: bool = False,
        edit: Edit | None = None,
        positions: Int[Tensor, "batch time"] | None = None,
    ) -> Reading:
        """`forward`, with what happens inside: for training alone.

        Args:
            ids: As `forward`.
            mask: As `forward`.
            layers: Whether to return the states of all layers.
            edit: Changes what the embedding layer hands to the layers (after its layer norm).
            positions: Position of every token; none, as the backbone counts.

        Raises:
            RecipeError: A static table has neither layers nor positions.
        """
        if isinstance(self.backbone, StaticTable):
            if layers or edit is not None or positions is not None:
                raise RecipeError(
                    "Perturbations and auxiliary networks act between the layers of a transformer; "
                    "this encoder is a static table: start from a transformer, or take conpono, "
                    "ict or infocse_idc."
                )
            return Reading(self.finished(self.backbone(ids, mask)))
        optional = {} if positions is None else {"position_ids": positions}
        with self._edited(edit):
            states = self.backbone(
                input_ids=ids,
                attention_mask=mask,
                output_hidden_states=layers or self.pooling in TWO_LAYERS,
                **optional,
            )
        pooled = self.finished(self._pooled(states, mask))
        return Reading(pooled, states.hidden_states if layers else ())

    def _pooled(self, states: Any, mask: Tensor | None) -> Float[Tensor, "batch dim"]:
        if self.pooling in TWO_LAYERS:
            lower, upper = TWO_LAYERS[self.pooling]
            return two_layer_mean(states.hidden_states[lower], states.hidden_states[upper], mask)
        if self.pooling == "mean":
            return mean_pool(states.last_hidden_state, mask)
        if self.pooling == "cls":
            return states.pooler_output.float()
        return states.last_hidden_state[:, 0].float()

    def finished(self, pooled: Float[Tensor, "batch width"]) -> Float[Tensor, "batch dim"]:
        """After `layers`, which are not rounded to bfloat16: a whitening enlarges what is small."""
        if self.layers is None:
            return pooled
        with torch.autocast(pooled.device.type, enabled=False):
            return self.layers(pooled)

    @contextmanager
    def _edited(self, edit: Edit | None) -> Generator[None]:
        """A forward hook, so that no backbone is patched."""
        if edit is None:
            yield
            return

        def edited(_module: nn.Module, _inputs: Any, states: Tensor) -> Tensor:
            return edit(states)

        embeddings = cast(Any, self.backbone).embeddings
        hook = embeddings.register_forward_hook(edited)
        try:
            yield
        finally:
            hook.remove()

    def vectors(self, pooled: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch dim"]:
        """What is compared: of length 1 for cosine, as it is for dot."""
        return F.normalize(pooled, dim=-1) if self.similarity == "cosine" else pooled

    def _special_id(self, name: str, usual: str) -> int:
        return self.tokenizer.token_to_id(self.tokenizer_config.get(name, usual)) or 0
