"""Every error a person can meet: the rule, what was found, the way out, a code and an exit code."""

from collections.abc import Sequence
from typing import ClassVar


class SentembError(Exception):
    """Base of all our errors. `str(error)` starts with its code."""

    code: ClassVar[str] = "E000"
    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        return f"{self.code} {super().__str__()}"


class UsageError(SentembError, ValueError):
    """A command line or a configuration that cannot be carried out."""

    code = "E001"
    exit_code = 2


class BadDataError(SentembError, ValueError):
    """Input that cannot be used as it is."""

    code = "E100"
    exit_code = 3


class EmptyCorpusError(BadDataError):
    """No usable document is left after reading."""

    code = "E101"


class EmptyPairsError(BadDataError):
    """Too few documents can give a pair of sentences."""

    code = "E102"


class UnreadableSourceError(BadDataError, OSError):
    """A source is absent, of an unknown format, broken as a whole, or changed until it was read."""

    code = "E103"


class MissingColumnError(BadDataError, LookupError):
    """A named column is not in the corpus."""

    code = "E104"


class DuplicateIdError(BadDataError):
    """Two rows carry one document id and the caller asked for an error."""

    code = "E105"


class BadEmbeddingError(BadDataError, ArithmeticError):
    """A sentence vector is not finite, or zero where a direction is needed.

    A table of token or word vectors may give zero on purpose, for a text without a word that it
    knows: its cosine with anything is 0.

    Attributes:
        sentences: The first of them, by index.
        documents: The same by document, told by `batching.naming_documents`.
        encoder: Whose vectors, and which revision of it; told by the stage or the verb that met
            the error. Arrays know neither.
    """

    code = "E201"
    documents: str = ""
    encoder: str = ""

    def __init__(self, message: str, sentences: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.sentences = sentences

    def __str__(self) -> str:
        documents = f" That is {self.documents}." if self.documents else ""
        encoder = f" The encoder is {self.encoder}." if self.encoder else ""
        return super().__str__() + documents + encoder


class OtherEncoderError(BadDataError):
    """Vectors that another encoder gave than the one asked about."""

    code = "E202"


class NoNegativesError(UsageError):
    """A batch that spans fewer than two documents has nothing to contrast with."""

    code = "E301"


class DivergedError(SentembError, ArithmeticError):
    """Training met a loss or a gradient that is not finite."""

    code = "E302"
    exit_code = 3


class RecipeError(UsageError):
    """Parts of a method that cannot go together."""

    code = "E303"


class MissingEncoderError(UsageError, FileNotFoundError):
    """An encoder that is not on this machine."""

    code = "E401"


class UnsafeModelError(BadDataError):
    """A model folder that holds pickled weights or code of its own."""

    code = "E402"


class UnknownLabelsError(BadDataError, LookupError):
    """Labels that name documents the corpus does not have."""

    code = "E501"


class NoQueriesError(BadDataError):
    """A split of a benchmark in which nobody asks: every query without an answer is left out."""

    code = "E502"


class ConstantScoresError(BadDataError):
    """Gold scores that are all alike: nothing correlates with them."""

    code = "E503"


class CorruptArtifactError(SentembError, OSError):
    """An artifact whose bytes are not those of its digest. It is quarantined and rebuilt."""

    code = "E600"
    exit_code = 5


class StorageError(SentembError, OSError):
    """The store could not write: disk full, no permission, too many open files."""

    code = "E601"
    exit_code = 5


class ServerLostError(SentembError, ConnectionError):
    """The server that watched a run went away before its end. What was finished is kept."""

    code = "E602"
    exit_code = 5


class OutOfMemoryError(SentembError, MemoryError):
    """A batch that does not fit into memory, and cannot be cut any further."""

    code = "E603"
    exit_code = 5


class OtherDeviceError(SentembError, RuntimeError):
    """A device of another kind than results would be filed under."""

    code = "E604"
    exit_code = 5


class GateRefusedError(SentembError):
    """The candidate did not beat the champion; nothing was promoted."""

    code = "E701"
    exit_code = 4


class RegistryError(SentembError, LookupError):
    """A registered model, version or alias that is not there, or cannot be what it is asked for."""

    code = "E702"
    exit_code = 2


class RegistryDownError(RegistryError):
    """A registry that cannot be used: its server or the place of its files does not answer."""

    code = "E703"
    exit_code = 5
