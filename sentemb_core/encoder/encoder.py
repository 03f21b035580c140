"""The encoder: token ids in, one vector per sentence out."""

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
from sentemb_core.encoder.dense import Normalize, require_layers
from sentemb_core.encoder.packing import packed, packs, read_packed
from sentemb_core.encoder.pooling import TWO_LAYERS, last_token, mean_pool, two_layer_mean
from sentemb_core.encoder.prompts import Prompts
from sentemb_core.encoder.safety import tokenising
from sentemb_core.encoder.truncation import Cut
from sentemb_core.errors import RecipeError
from sentemb_core.types import Json, Pooling, Role, Similarity

if TYPE_CHECKING:
    from transformers import PreTrainedModel  # its import takes as long as torch's

Edit = Callable[[Tensor], Tensor]
"""Replaces the output of the embedding layer [batch, time, dim] before the next layer reads it."""


@dataclass(frozen=True)
class Reading:
    """The result of one forward pass."""

    pooled: Float[Tensor, "batch ..."]
    """One vector per row (the forward pass of a method may add axes)."""
    layers: tuple[Tensor, ...] = ()
    """If requested, states [batch, time, dim] of the embedding layer and every layer above it."""


class Encoder(nn.Module):
    """A backbone (transformer or static table), its tokenizer, a pooling and a similarity.

    It is created in eval mode, as models of transformers are; training calls `train()`.

    Args:
        backbone: Turns ids into states.
        tokenizer: This object is changed: padding is disabled, truncation is set to `text_length`.
        pooling: How token states become a sentence vector; a static table has `mean` only.
        similarity: cosine: `vectors` have length 1; dot: they are the pooled states.
        max_length: Tokens a sentence, special tokens and prompt included.
        text_length: The same of a whole text, such as a query. None: `max_length`.
        prompts: Texts before queries and documents.
        tokenizer_config: What transformers' AutoTokenizer needs besides tokenizer.json.
        layers: Layers after the pooling (`dense.require_layers`): a whitening, a normalizing flow.

    Raises:
        UsageError: `layers` has a layer of another type or width.
    """

    def __init__(
        self,
        backbone: "PreTrainedModel | StaticTable",
        tokenizer: Tokenizer,
        *,
        pooling: Pooling,
        similarity: Similarity,
        max_length: int,
        text_length: int | None = None,
        prompts: Prompts | None = None,
        tokenizer_config: Json | None = None,
        layers: nn.Sequential | None = None,
    ) -> None:
        super().__init__()
        tokenizer.no_padding()
        tokenizer.enable_truncation(text_length or max_length)
        self.backbone = backbone
        self.tokenizer = tokenizer
        self.pooling: Pooling = pooling
        self.similarity: Similarity = similarity
        self.max_length = max_length
        self.text_length = text_length or max_length
        self.prompts = prompts or Prompts()
        self.tokenizer_config: Json = tokenizer_config or {}
        self.layers = None if layers is None else require_layers(layers, self.hidden_dim)
        self.eval()

    def parts(
        self, backbone: "PreTrainedModel | StaticTable", layers: nn.Sequential | None
    ) -> Json:
        """The arguments of an encoder that differs from this one in backbone and layers only."""
        return {
            "backbone": backbone,
            "tokenizer": self.tokenizer,
            "pooling": self.pooling,
            "similarity": self.similarity,
            "max_length": self.max_length,
            "text_length": self.text_length,
            "prompts": self.prompts,
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
        """Width of a token state, and of the pooled vector before `layers`."""
        if isinstance(self.backbone, StaticTable):
            return self.backbone.embedding.embedding_dim
        return int(self.backbone.config.hidden_size)

    @property
    def add_special_tokens(self) -> bool:
        """Whether ids contain special tokens such as [CLS] and [SEP]: never for a static table."""
        return self.kind == "transformer"

    @property
    def framed(self) -> bool:
        """Whether ids begin and end with a special token, for views that cut, join or frame rows.

        Raises:
            RecipeError: Special tokens are in other places (T5 has one at the end only), or a
                prompt is a part of every row.
        """
        if prompt := self.prompts.before("sentence"):
            raise RecipeError(
                "A method that cuts, joins or frames rows needs sentences without a prompt; this "
                f"encoder reads each with {prompt!r}. Set encoder.document_prompt=none, or take "
                "infocse_idc, conpono or fine_tune."
            )
        if self.special_tokens in ((1, 1), (0, 0)):
            return self.special_tokens == (1, 1)
        raise RecipeError(
            "A method that cuts, joins or frames rows needs one special token at each end of a "
            f"row, or no special tokens. {type(self.backbone).__name__} has them in other places. "
            "Start from an encoder like BERT, or take simcse, infocse_idc or conpono."
        )

    @property
    def special_tokens(self) -> tuple[int, int]:
        """Numbers of special tokens before and behind a text; BERT has one of each."""
        if not self.add_special_tokens:
            return 0, 0
        marks = self.tokenizer.encode("a", add_special_tokens=True).special_tokens_mask
        before = marks.index(0)
        return before, sum(marks) - before

    @property
    def positions(self) -> int | None:
        """Largest number of tokens of a text; None where positions are not a table."""
        return max_positions(self.backbone)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def packs(self) -> bool:
        """Whether `forward` computes without padding: on a CPU, if the backbone allows it."""
        return self.device.type == "cpu" and packs(self.backbone)

    @property
    def pad_id(self) -> int:
        return self._special_id("pad_token", "[PAD]")

    @property
    def unknown_id(self) -> int:
        """Id of the token for pieces outside the vocabulary, and for a text without tokens."""
        token: str | None = getattr(self.tokenizer.model, "unk_token", None)
        return self._special_id("unk_token", token or "[UNK]")

    def tokenise(
        self, texts: Sequence[str], role: Role = "text", cut: Cut | None = None
    ) -> list[np.ndarray]:
        """Return the token ids (int64) of each text, with special tokens.

        Args:
            texts: A text without tokens becomes one unknown token, as in the token cache.
            role: It decides the prompt before each text, and the limit (`longest`).
            cut: It counts the texts, and those above the limit.
        """
        prompt = self.prompts.before(role)
        self.tokenizer.enable_truncation(self.longest(role))
        with tokenising():
            encodings = self.tokenizer.encode_batch_fast(
                [prompt + text for text in texts], add_special_tokens=self.add_special_tokens
            )
        self.tokenizer.enable_truncation(self.text_length)
        if cut:
            cut.limit = self.longest(role)
            cut.texts += len(encodings)
            longer = [text for text, each in zip(texts, encodings, strict=True) if each.overflowing]
            cut.cut += len(longer)
            cut.example = cut.example or next(iter(longer), "")
        unknown = [self.unknown_id]
        return [np.asarray(encoding.ids or unknown, dtype=np.int64) for encoding in encodings]

    def longest(self, role: Role) -> int:
        """Largest number of tokens of a text of this role."""
        return self.max_length if role == "sentence" else self.text_length

    def prompt_tokens(self, role: Role) -> int:
        """Number of tokens of the prompt before a text of this role."""
        return self.prompts.length(role, self.tokenizer)

    def forward(
        self, ids: Int[Tensor, "batch time"], mask: Int[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch dim"]:
        """Return the pooled states after `layers`, in float32 and not normalised (see `vectors`).

        Args:
            ids: Token ids, padded at the right.
            mask: 1 on real tokens; None if all rows have this length.
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
        """Return what `forward` does, with access to the inside: for training only.

        Args:
            ids: As `forward`.
            mask: As `forward`.
            layers: Whether to return the states of all layers.
            edit: Changes the output of the embedding layer (after its layer norm).
            positions: Position of every token; None: as the backbone counts.

        Raises:
            RecipeError: A static table has neither layers nor positions.
        """
        if isinstance(self.backbone, StaticTable):
            if layers or edit is not None or positions is not None:
                raise RecipeError(
                    "Perturbations and auxiliary networks need the layers of a transformer, and "
                    "this encoder is a static table. Start from a transformer, or take conpono, "
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

    def vectors_and_states(
        self, ids: Int[Tensor, "batch time"], prompt: int = 0
    ) -> tuple[Float[Tensor, "batch dim"], Float[Tensor, "batch tokens width"]]:
        """Return the vectors of texts of one length, and the last states of their tokens.

        Special tokens and the first `prompt` tokens behind them have no state. A static table's
        states are its rows.
        """
        before, behind = self.special_tokens
        before += prompt
        if ids.shape[1] <= before + behind:  # an empty text keeps its special tokens
            before = behind = 0
        own = slice(before, ids.shape[1] - behind)
        if isinstance(self.backbone, StaticTable):
            states = self.backbone.embedding(ids)
            return self.vectors(self.finished(self.backbone(ids))), states[:, own]
        states: Any = self.backbone(input_ids=ids, output_hidden_states=self.pooling in TWO_LAYERS)
        return (
            self.vectors(self.finished(self._pooled(states, None))),
            states.last_hidden_state[:, own],
        )

    def _pooled(self, states: Any, mask: Tensor | None) -> Float[Tensor, "batch dim"]:
        if self.pooling in TWO_LAYERS:
            lower, upper = TWO_LAYERS[self.pooling]
            return two_layer_mean(states.hidden_states[lower], states.hidden_states[upper], mask)
        if self.pooling == "mean":
            return mean_pool(states.last_hidden_state, mask)
        if self.pooling == "last":
            return last_token(states.last_hidden_state, mask)
        if self.pooling == "cls":
            return states.pooler_output.float()
        return states.last_hidden_state[:, 0].float()

    def finished(self, pooled: Float[Tensor, "batch width"]) -> Float[Tensor, "batch dim"]:
        """Apply `layers` in float32, never in bfloat16: a whitening enlarges small values."""
        if self.layers is None:
            return pooled
        with torch.autocast(pooled.device.type, enabled=False):
            return self.layers(pooled)

    def mapped(self, vectors: Float[Tensor, "batch width"]) -> Float[Tensor, "batch dim"]:
        """Return the vectors of texts from those in front of the map that is behind a Normalize.

        An encoder without such a map returns the vectors as they are.
        """
        layers = list(self.layers or ())
        places = [place for place, layer in enumerate(layers) if isinstance(layer, Normalize)]
        return self.vectors(nn.Sequential(*layers[places[-1] :])(vectors)) if places else vectors

    @contextmanager
    def _edited(self, edit: Edit | None) -> Generator[None]:
        """Apply `edit` in a forward hook, so that no backbone is patched."""
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
        """The vectors to compare: of length 1 for cosine, unchanged for dot."""
        return F.normalize(pooled, dim=-1) if self.similarity == "cosine" else pooled

    def _special_id(self, name: str, usual: str) -> int:
        return self.tokenizer.token_to_id(self.tokenizer_config.get(name, usual)) or 0
