"""What annotation needs of a corpus; `corpus.tokens.TokenCorpus` provides it."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int64

from sentemb_core.documents import Spans


@runtime_checkable
class Shard(Protocol):
    """Consecutive whole documents."""

    @property
    def index(self) -> int: ...
    @property
    def documents(self) -> slice: ...
    @property
    def sentences(self) -> slice: ...


@runtime_checkable
class Sentences(Protocol):
    """What encoding needs of a corpus."""

    @property
    def shards(self) -> Sequence[Shard]: ...
    def shard_tokens(self, k: int) -> list[np.ndarray]: ...
    def place(self, sentence: int) -> tuple[str, int]: ...


@runtime_checkable
class Corpus(Sentences, Protocol):
    """What graph, clusters and pairs need of a corpus as well."""

    def __len__(self) -> int: ...
    def shard_offsets(self, k: int) -> Int64[np.ndarray, " bounds"]: ...
    def shard_held_out(self, k: int) -> Bool[np.ndarray, " documents"]: ...
    def spans_of(self, sentences: Int64[np.ndarray, " n"]) -> Spans: ...
    def texts(self, sentences: Int64[np.ndarray, " n"]) -> list[str]: ...
