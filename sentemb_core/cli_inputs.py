"""What a verb of `sentemb` opens: an encoder by its name, and documents for as long as it runs."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentemb_core import console
from sentemb_core.errors import UsageError
from sentemb_core.options import CorpusOptions

if TYPE_CHECKING:
    from sentemb_core.config.run import CorpusConfig


@contextmanager
def opened_encoder(model: str, max_length: int | None = None) -> Generator[Any, None, None]:
    """The encoder; a bad vector in this block is told with its name and its revision."""
    from sentemb_core.encoder.checkpoint import weights_digest
    from sentemb_core.errors import BadEmbeddingError

    encoder = loaded(model, max_length)
    try:
        yield encoder
    except BadEmbeddingError as error:
        error.encoder = f"{model} (its weights have SHA-256 {weights_digest(encoder)})"
        raise


def loaded(model: str, max_length: int | None = None) -> Any:
    from sentemb_core.cli_arguments import is_folder
    from sentemb_core.config.run import EncoderConfig
    from sentemb_core.encoder.checkpoint import load_encoder
    from sentemb_core.encoder.devices import compute_device
    from sentemb_core.encoder.modules import written_by_us
    from sentemb_core.encoder.start import start_encoder

    console.log_to_stderr()
    own = is_folder(model) and written_by_us(Path(model))
    if own and max_length is None:
        return load_encoder(Path(model))
    config = EncoderConfig(name=model, max_length=max_length)
    return start_encoder(config, None).to(compute_device())


def checked_source(source: str, corpus: CorpusOptions) -> "CorpusConfig":
    """How to read the source, whose columns are looked for first: an encoder takes seconds.

    Raises:
        UsageError: it is an index.
    """
    from sentemb_core.config.run import CorpusConfig
    from sentemb_core.corpus.readers import check_source
    from sentemb_core.vector_index import is_index

    if is_index(source):
        raise UsageError(
            f"{source} is an index, which holds vectors: `search` reads it. Name the documents "
            "that it was made of."
        )
    config = CorpusConfig.model_validate({"source": source} | corpus.given())
    check_source(config)
    return config


@contextmanager
def documents_of(
    source: "CorpusConfig", refused: Path | None = None
) -> Generator[Path, None, None]:
    """The corpus as a folder with documents.parquet, gone when the block ends.

    Rows that cannot be used are told; they stay in the file `refused`, where one is named, in place
    of those of an earlier call. What an empty corpus leaves stays: its error names the quarantine.
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
            getLogger(__name__).warning("%s: %s", report.refused_summary(), refused)
