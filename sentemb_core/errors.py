"""Every error of this package. Its message states the rule, the value found, and the way out.

The code names the kind of error (docs/errors.md). The exit code says what must change: 1 our code,
2 the command, 3 the data, 4 the candidate of the gate, 5 disk, memory or a server.
"""

from collections.abc import Sequence
from typing import ClassVar


class SentembError(Exception):
    """Base of all errors. `str(error)` starts with the code."""

    code: ClassVar[str] = "E000"
    exit_code: ClassVar[int] = 1

    def __init_subclass__(cls, code: str, exit_code: int | None = None) -> None:
        cls.code = code
        cls.exit_code = exit_code or cls.exit_code

    def __str__(self) -> str:
        return f"{self.code} {super().__str__()}"


class UsageError(SentembError, ValueError, code="E001", exit_code=2):
    """An invalid command line or setting."""


class BadDataError(SentembError, ValueError, code="E100", exit_code=3):
    """Unusable input data."""


class EmptyCorpusError(BadDataError, code="E101"):
    """The corpus has no usable document."""


class EmptyPairsError(BadDataError, code="E102"):
    """Too few documents have two sentences, so there are no pairs."""


class UnreadableSourceError(BadDataError, OSError, code="E103"):
    """A source is absent, damaged, of an unknown format, or changed during the run."""


class MissingColumnError(BadDataError, LookupError, code="E104"):
    """A column is absent."""


class DuplicateIdError(BadDataError, code="E105"):
    """Two rows have the same document id, and `on_duplicate` is `error`."""


class LongDocumentError(BadDataError, code="E106"):
    """A document has too many sentences to compare all of them with each other."""


class BadEmbeddingError(BadDataError, ArithmeticError, code="E201"):
    """A sentence vector is not finite, or is zero where a direction is needed.

    Zero is allowed from a table of token or word vectors, for a text without a known word.

    Attributes:
        sentences: Indices of the first such sentences.
        documents: The same sentences by document (`batching.naming_documents` adds it).
        encoder: Name and revision of the encoder (the caller adds it; arrays know neither).
    """

    documents: str = ""
    encoder: str = ""

    def __init__(self, message: str, sentences: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.sentences = sentences

    def __str__(self) -> str:
        documents = f" Found in {self.documents}." if self.documents else ""
        encoder = f" Encoder: {self.encoder}." if self.encoder else ""
        return super().__str__() + documents + encoder


class OtherEncoderError(BadDataError, code="E202"):
    """Vectors of another encoder."""


class NoNegativesError(UsageError, code="E301"):
    """A batch of fewer than two documents has no negatives."""


class DivergedError(SentembError, ArithmeticError, code="E302", exit_code=3):
    """A loss or a gradient is not finite."""


class RecipeError(UsageError, code="E303"):
    """Parts of a method, or method and encoder, do not fit together."""


class MissingEncoderError(UsageError, FileNotFoundError, code="E401"):
    """An encoder is not on this machine."""


class UnsafeModelError(BadDataError, code="E402"):
    """A model folder holds pickled weights or its own code."""


class UnknownLabelsError(BadDataError, LookupError, code="E501"):
    """Labels name documents that the corpus does not have."""


class NoQueriesError(BadDataError, code="E502"):
    """A split of the validation pool, or a task, has no query with a relevant document."""


class ConstantScoresError(BadDataError, code="E503"):
    """All gold scores are equal, so there is no correlation."""


class CorruptArtifactError(SentembError, OSError, code="E600", exit_code=5):
    """The bytes of an artifact do not match its digest. It is quarantined and rebuilt."""


class StorageError(SentembError, OSError, code="E601", exit_code=5):
    """The store cannot write: disk full, no permission, or too many open files."""


class ServerLostError(SentembError, ConnectionError, code="E602", exit_code=5):
    """The Prefect server of a run did not start. The run goes on without it."""


class OutOfMemoryError(SentembError, MemoryError, code="E603", exit_code=5):
    """A batch does not fit into memory and cannot be split further."""


class OtherDeviceError(SentembError, RuntimeError, code="E604", exit_code=5):
    """A stage would run on another kind of device, or with other code, than its key names."""


class BrokenFileError(SentembError, OSError, code="E605", exit_code=5):
    """A file of the home is damaged, or has no seal because an earlier version wrote it."""


class LostRankError(SentembError, ChildProcessError, code="E606", exit_code=5):
    """A process of a training on several devices ended before the training."""


class SharedStoreError(SentembError, ConnectionError, code="E607", exit_code=5):
    """The shared store does not answer, refuses a request, or cannot create names exclusively."""


class ShardError(SentembError, RuntimeError, code="E608", exit_code=3):
    """A stage failed on some shards of a corpus. The results of the others are stored."""


class ClusterError(SentembError, ConnectionError, code="E609", exit_code=5):
    """The scheduler of a Dask cluster does not answer, or has no worker."""


class GateRefusedError(SentembError, code="E701", exit_code=4):
    """The candidate did not pass the gate; the champion stays."""


class RegistryError(SentembError, LookupError, code="E702", exit_code=2):
    """A registered model, version or alias does not exist, or cannot be used."""


class RegistryDownError(RegistryError, code="E703", exit_code=5):
    """The registry, or the storage of its files, does not answer."""
