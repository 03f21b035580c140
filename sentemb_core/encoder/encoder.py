"""The encoder: token ids in, one vector a sentence out."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch.nn.functional as F
from jaxtyping import Float, Int
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import PreTrainedModel

from sentemb_core.encoder.pooling import Pooling, first_last_mean, mean_pool
from sentemb_core.encoder.static import StaticTable
from sentemb_core.types import Json, Similarity


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
    """

    def __init__(
        self,
        backbone: PreTrainedModel | StaticTable,
        tokenizer: Tokenizer,
        *,
        pooling: Pooling,
        similarity: Similarity,
        max_length: int,
        tokenizer_config: Json | None = None,
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
        self.eval()

    @property
    def kind(self) -> Literal["transformer", "static"]:
        return "static" if isinstance(self.backbone, StaticTable) else "transformer"

    @property
    def dim(self) -> int:
        """Width of a sentence vector."""
        if isinstance(self.backbone, StaticTable):
            return self.backbone.embedding.embedding_dim
        return int(self.backbone.config.hidden_size)

    @property
    def add_special_tokens(self) -> bool:
        """Whether ids carry [CLS] and [SEP] or their like: never for a static table."""
        return self.kind == "transformer"

    @property
    def pad_id(self) -> int:
        """Fills the places that a mask hides."""
        return self._special_id("pad_token", "[PAD]")

    def tokenise(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Token ids (int64) of each text, special tokens included, cut to `max_length`.

        A text of which nothing is left becomes one unknown token, as in the token cache.
        """
        encodings = self.tokenizer.encode_batch_fast(
            list(texts), add_special_tokens=self.add_special_tokens
        )
        unknown = [self._special_id("unk_token", "[UNK]")]
        return [np.asarray(encoding.ids or unknown, dtype=np.int64) for encoding in encodings]

    def forward(
        self, ids: Int[Tensor, "batch time"], mask: Int[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch dim"]:
        """Pooled states in float32, not normalised: see `vectors`.

        Args:
            ids: Token ids, padded at the right.
            mask: 1 on real tokens; none when all rows have exactly this length, which spares
                the attention its mask.
        """
        if isinstance(self.backbone, StaticTable):
            return self.backbone(ids, mask)
        both_ends = self.pooling == "first_last_mean"
        states = self.backbone(input_ids=ids, attention_mask=mask, output_hidden_states=both_ends)
        if both_ends:
            return first_last_mean(states.hidden_states[0], states.last_hidden_state, mask)
        if self.pooling == "mean":
            return mean_pool(states.last_hidden_state, mask)
        if self.pooling == "cls":
            return states.pooler_output.float()
        return states.last_hidden_state[:, 0].float()

    def vectors(self, pooled: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch dim"]:
        """What is compared: of length 1 for cosine, as it is for dot."""
        return F.normalize(pooled, dim=-1) if self.similarity == "cosine" else pooled

    def _special_id(self, name: str, usual: str) -> int:
        return self.tokenizer.token_to_id(self.tokenizer_config.get(name, usual)) or 0
