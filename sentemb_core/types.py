"""Small types that all parts use."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Pooling = Literal[
    "mean",
    "cls",
    "cls_before_pooler",
    "last",
    "first_last_mean",
    "last_two_mean",
    "first_block_last_mean",
]
"""`mean`: of the last layer; `cls`: BERT's dense layer and tanh on the first token;
`cls_before_pooler`: the first token; `last`: the last token; the others: mean of two layers
(`encoder.pooling.TWO_LAYERS`)."""

Role = Literal["text", "query", "document", "sentence"]
"""What an encoder reads a text as; it decides the prompt. `sentence`: a sentence of a document;
`text`: neither a query nor a document."""

Similarity = Literal["cosine", "dot"]
"""Similarity of two vectors, in the graph, the loss and validation."""

Precision = Literal["float32", "bfloat16"]
"""Precision of the matrix products in a forward pass."""

Storage = Literal["float16", "float32"]
"""Precision of stored vectors."""

Map = Literal["whitening", "soft_whitening", "flow"]
"""A map on the vectors of a frozen encoder."""

Positives = Literal["cluster", "edge", "related"]
"""Positive pairs of an annotation: of clusters, of edges, or of edges and related pairs."""

Splitter = Literal["syntok", "regex", "none", "words"]
"""Sentence splitter; none: every text is one sentence; words: parts of at most 8 words."""

SearchTask = Literal["search", "titles", "sessions", "similar"]
"""What a retriever is used for: texts look for documents (search), documents for their titles,
sessions for an item; similar: both directions."""

OnDuplicate = Literal["keep-first", "error"]
"""What to do with a repeated document id."""

OnStep = Callable[[int, Mapping[str, float]], None]
"""Called with the step and its metrics."""

Json = dict[str, Any]


class Value(BaseModel):
    """A frozen value of records and reports; an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Config(Value):
    """Settings: a frozen value whose numbers are finite."""

    model_config = ConfigDict(allow_inf_nan=False, use_attribute_docstrings=True)


class ArtifactRef(Value):
    """Kind and content digest of an artifact: the SHA-256 of its manifest.

    Equal content has the same digest, whatever produced it. So later stages stay cached if a
    rebuilt artifact is unchanged.
    """

    kind: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0, description="Bytes of all files.")

    def __str__(self) -> str:
        return f"{self.kind}:{self.digest[:12]}"


class StageTiming(Value):
    """One stage of a run; for a `hit`, the store had its result.

    `seconds` is the time of its computation, in this run or, for a hit, in an earlier one.
    """

    stage: str
    round: str = ""
    seconds: float = Field(ge=0)
    hit: bool
