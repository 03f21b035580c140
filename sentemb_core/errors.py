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

    def __str__(self) -> str:
        return f"{self.code} {super().__str__()}"


class UsageError(SentembError, ValueError):
    """An invalid command line or setting."""

    code = "E001"
    exit_code = 2


class BadDataError(SentembError, ValueError):
    """Unusable input data."""

    code = "E100"
    exit_code = 3


class EmptyCorpusError(BadDataError):
    """The corpus has no usable document."""

    code = "E101"


class EmptyPairsError(BadDataError):
    """Too few documents have two sentences, so there are no pairs."""

    code = "E102"


class UnreadableSourceError(BadDataError, OSError):
    """A source is absent, damaged, of an unknown format, or changed during the run."""

    code = "E103"


class MissingColumnError(BadDataError, LookupError):
    """A column is absent."""

    code = "E104"


class DuplicateIdError(BadDataError):
    """Two rows have the same document id, and `on_duplicate` is `error`."""

    code = "E105"


class BadEmbeddingError(BadDataError, ArithmeticError):
    """A sentence vector is not finite, or is zero where a direction is needed.

    Zero is allowed from a table of token or word vectors, for a text without a known word.

    Attributes:
        sentences: Indices of the first such sentences.
        documents: The same sentences by document (`batching.naming_documents` adds it).
        encoder: Name and revision of the encoder (the caller adds it; arrays know neither).
    """

    code = "E201"
    documents: str = ""
    encoder: str = ""

    def __init__(self, message: str, sentences: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.sentences = sentences

    def __str__(self) -> str:
        documents = f" Found in {self.documents}." if self.documents else ""
        encoder = f" Encoder: {self.encoder}." if self.encoder else ""
        return super().__str__() + documents + encoder


class OtherEncoderError(BadDataError):
    """Vectors of another encoder."""

    code = "E202"


class NoNegativesError(UsageError):
    """A batch of fewer than two documents has no negatives."""

    code = "E301"


class DivergedError(SentembError, ArithmeticError):
    """A loss or a gradient is not finite."""

    code = "E302"
    exit_code = 3


class RecipeError(UsageError):
    """Parts of a method, or method and encoder, do not fit together."""

    code = "E303"


class MissingEncoderError(UsageError, FileNotFoundError):
    """An encoder is not on this machine."""

    code = "E401"


class UnsafeModelError(BadDataError):
    """A model folder holds pickled weights or its own code."""

    code = "E402"


class UnknownLabelsError(BadDataError, LookupError):
    """Labels name documents that the corpus does not have."""

    code = "E501"


class NoQueriesError(BadDataError):
    """A split of the validation pool, or a task, has no query with a relevant document."""

    code = "E502"


class ConstantScoresError(BadDataError):
    """All gold scores are equal, so there is no correlation."""

    code = "E503"


class CorruptArtifactError(SentembError, OSError):
    """The bytes of an artifact do not match its digest. It is quarantined and rebuilt."""

    code = "E600"
    exit_code = 5


class StorageError(SentembError, OSError):
    """The store cannot write: disk full, no permission, or too many open files."""

    code = "E601"
    exit_code = 5


class ServerLostError(SentembError, ConnectionError):
    """The Prefect server of a run stopped. Finished stages are saved."""

    code = "E602"
    exit_code = 5


class OutOfMemoryError(SentembError, MemoryError):
    """A batch does not fit into memory and cannot be split further."""

    code = "E603"
    exit_code = 5


class OtherDeviceError(SentembError, RuntimeError):
    """A stage would run on another kind of device than its key names."""

    code = "E604"
    exit_code = 5


class GateRefusedError(SentembError):
    """The candidate did not pass the gate; the champion stays."""

    code = "E701"
    exit_code = 4


class RegistryError(SentembError, LookupError):
    """A registered model, version or alias does not exist, or cannot be used."""

    code = "E702"
    exit_code = 2


class RegistryDownError(RegistryError):
    """The registry, or the storage of its files, does not answer."""

    code = "E703"
    exit_code = 5
