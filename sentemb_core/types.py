"""Small values that cross the borders of the house."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Pooling = Literal[
    "mean",
    "cls",
    "cls_before_pooler",
    "first_last_mean",
    "last_two_mean",
    "first_block_last_mean",
]
"""`mean`: of the last layer; `cls`: BERT's own dense + tanh on the first token;
`cls_before_pooler`: the first token itself; the others: mean of two layers
(`encoder.pooling.TWO_LAYERS`)."""

Similarity = Literal["cosine", "dot"]
"""How two sentence vectors are compared: in the graph, in the loss and in validation alike."""

Precision = Literal["float32", "bfloat16"]
"""Of the matrix products of a forward."""

Storage = Literal["float16", "float32"]
"""Of vectors on disk."""

Map = Literal["whitening", "soft_whitening", "flow"]
"""What an encoder may stand behind, fitted on its own vectors while it stays as it is."""

Positives = Literal["cluster", "edge", "related"]
"""What the pairs of an annotation are: those of clusters, edges, edges and related pairs."""

Splitter = Literal["syntok", "regex", "none"]
"""What cuts running text into sentences; none: every text is one."""

OnDuplicate = Literal["keep-first", "error"]
"""What a repeated document id means."""

OnStep = Callable[[int, Mapping[str, float]], None]
"""Tracking crosses the floor as a plain callable: step, metrics."""

Json = dict[str, Any]


class Value(BaseModel):
    """Frozen, as records and reports store it; a field that it does not have is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Config(Value):
    """Finite, too; a misspelt key is an error that names its path."""

    model_config = ConfigDict(allow_inf_nan=False)


class ArtifactRef(Value):
    """A name for bytes in the store: what they are and the SHA-256 of their manifest's content.

    Equal content has equal digests, whatever produced it, so a rebuilt artifact that did not
    change leaves everything downstream cached.
    """

    kind: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0, description="Bytes of all files.")

    def __str__(self) -> str:
        return f"{self.kind}:{self.digest[:12]}"
