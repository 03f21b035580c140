"""What a command of `sentemb` reads: arguments, an encoder, documents in a temporary folder."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentemb_core import console
from sentemb_core.encoder.names import has_encoder, is_encoder_folder, locate_encoder
from sentemb_core.errors import UsageError
from sentemb_core.options import CorpusOptions

if TYPE_CHECKING:
    from sentemb_core.config.run import CorpusConfig
    from sentemb_core.retriever.retriever import Retriever


def require_arguments(order: str, model: str, *others: str) -> None:
    """Check the order of the arguments, and that the encoder may exist.

    Raises:
        UsageError, MissingEncoderError: as `require_order` and `locate_encoder`.
    """
    require_order(order, model, *others)
    locate_encoder(model)


def require_order(order: str, *given: str) -> None:
    """Check that documents or an index are the last argument, and no other argument.

    Args:
        order: Names of the arguments, separated by blanks.
        given: Their values.

    Raises:
        UsageError: a path of data in another place.
    """
    *others, (name, last) = zip(order.split(), given, strict=True)
    for place, value in others:
        if _is_data(value) and not _is_data(last):
            raise UsageError(
                f"The order is {order}. Found data ({value!r}) as {place}, and {last!r} as {name}: "
                "swap them."
            )


def _is_data(value: str) -> bool:
    """Whether a path exists that may be a corpus or an index."""
    try:
        return Path(value).exists() and not has_encoder(value)
    except OSError:  # longer than a path can be
        return False


def require_free(source: str, out: Path, *, overwrite: bool) -> None:
    """Check that vectors overwrite a file only on request, and never their own documents.

    Raises:
        UsageError: the file exists, or holds the documents.
    """
    if not out.exists():
        return
    if Path(source).exists() and out.samefile(source):
        raise UsageError(f"{out} holds the documents. Name another file for their vectors.")
    if not overwrite:
        raise UsageError(f"{out} exists. Name another file, or replace it with --overwrite.")


@contextmanager
def open_encoder(model: str, **settings: Any) -> Generator[Any, None, None]:
    """The encoder of this name and these settings (`EncoderConfig`), on the compute device.

    Raises:
        BadEmbeddingError: in the block; it names the encoder and its revision.
    """
    from sentemb_core.config.run import EncoderConfig
    from sentemb_core.encoder.checkpoint import weights_digest
    from sentemb_core.encoder.devices import compute_device
    from sentemb_core.encoder.start import start_encoder
    from sentemb_core.errors import BadEmbeddingError

    console.log_to_stderr()
    config = EncoderConfig(name=model, **settings)
    encoder = start_encoder(config).to(compute_device())
    try:
        yield encoder
    except BadEmbeddingError as error:
        error.encoder = f"{model} (SHA-256 of its weights: {weights_digest(encoder)})"
        raise


def is_retriever(model: str) -> bool:
    """Whether a folder of this name states the parts of a retriever."""
    from sentemb_core.retriever.folder import RETRIEVER

    return is_encoder_folder(model) and (Path(model) / RETRIEVER).is_file()


def open_retriever(model: str) -> "Retriever":
    """The retriever of this name (`retriever.start`), on the compute device.

    Raises:
        BadDataError: a part is missing, or has other bytes than retriever.json states.
    """
    from sentemb_core.retriever.start import start_retriever

    console.log_to_stderr()
    return start_retriever(model)


def checked_source(source: str, corpus: CorpusOptions) -> "CorpusConfig":
    """Settings of the corpus; its columns exist.

    Raises:
        UsageError: the source is an index.
    """
    from sentemb_core.config.run import CorpusConfig
    from sentemb_core.corpus.readers import check_source
    from sentemb_core.retriever.index_files import is_index_folder
    from sentemb_core.vector_index import is_index

    if is_index(source) or is_index_folder(source):
        raise UsageError(
            f"{source} is an index, which only `search` and `canary` read. Name the documents that "
            "it was made from."
        )
    config = CorpusConfig.model_validate({"source": source} | corpus.given())
    check_source(config)
    return config


@contextmanager
def open_documents(
    source: "CorpusConfig", refused: Path | None = None
) -> Generator[Path, None, None]:
    """A temporary folder with documents.parquet.

    Refused rows are logged, and copied to the file `refused`; a file of an earlier call is replaced
    or removed. The folder of an empty corpus stays: its error names the quarantine.
    """
    from logging import getLogger
    from shutil import copyfile, rmtree
    from tempfile import mkdtemp

    from sentemb_core.corpus.documents import write_documents
    from sentemb_core.errors import EmptyCorpusError
    from sentemb_core.store.disk import replacing

    folder = Path(mkdtemp(prefix="sentemb-"))
    with ExitStack() as at_the_end:
        at_the_end.callback(rmtree, folder)
        try:
            report = write_documents(source, folder, pairs=False)
        except EmptyCorpusError:
            at_the_end.pop_all()
            raise
        yield folder
        if refused and not report.quarantined:
            refused.unlink(missing_ok=True)
        elif refused:
            with replacing(refused) as draft:
                copyfile(folder / "quarantine.parquet", draft)
            getLogger(__name__).warning("%s", report.refused_summary(refused))
