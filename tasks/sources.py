"""What a run reads from outside the store, named by the SHA-256 of its bytes."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from sentemb_core.config.run import BUILT_IN_ENCODERS, CorpusConfig, EncoderConfig, LabelsConfig
from sentemb_core.errors import UnreadableSourceError
from sentemb_core.store.objects import file_digest


def digest_of_corpus(config: CorpusConfig) -> str:
    """Computed at every run: an edited file is another corpus."""
    from sentemb_core.corpus.source import source_digest

    return source_digest(config)


def digest_of_labels(config: LabelsConfig) -> str:
    """Of the file of labels, as of a corpus."""
    assert config.source is not None, "a file of labels is named"
    return digest_of_corpus(CorpusConfig(source=config.source, encoding=config.encoding))


def require_unchanged(place: str, config: CorpusConfig | LabelsConfig) -> None:
    """Once a source is read: that its bytes are those of the digest that `config.source` is.

    Files that nobody wrote to are not read again. A data set of the hub is named by its builder.

    Raises:
        UnreadableSourceError: it has become another.
    """
    from sentemb_core.corpus.source import source_format

    if source_format(place) == "hub":
        return
    if digest_of_corpus(CorpusConfig(source=place)) != config.source:
        raise _changed(place)


def require_same_bytes(places: Iterable[str | Path], digests: Iterable[str]) -> None:
    """`require_unchanged`, of files and folders under the digests that they had."""
    for place, digest in zip(places, digests, strict=True):
        if digest_of_encoder(str(place)) != digest:
            raise _changed(place)


def require_same_encoder(place: str, config: EncoderConfig, revision: str) -> None:
    """`require_unchanged`, of an encoder: its bytes, or the revision of a published one."""
    named = by_bytes(config.model_copy(update={"name": place}))
    if (named, revision_of(place)) != (config, revision):
        raise _changed(place)


def _changed(place: str | Path) -> UnreadableSourceError:
    return UnreadableSourceError(
        f"A source stays as it is from the beginning of a run until it is read; {place} changed, "
        "so what was read is not kept under its name. Run again when nobody writes to it, or read "
        "a copy."
    )


def by_bytes(config: EncoderConfig) -> EncoderConfig:
    """A given folder or file called by the digest of its bytes; any other name as it is."""
    digest = "" if config.name in BUILT_IN_ENCODERS else digest_of_encoder(config.name)
    return config.model_copy(update={"name": digest or config.name})


def revision_of(name: str) -> str:
    """The commit of a published model that is read here by its name; empty for all else.

    Raises:
        MissingEncoderError: it is not on this machine.
    """
    if name in BUILT_IN_ENCODERS or Path(name).exists():
        return ""
    from sentemb_core.encoder.start import encoder_folder

    snapshot = encoder_folder(name)
    return snapshot.name if snapshot else ""


def digest_of_encoder(name: str) -> str:
    """Of a given folder's files, or of one file; empty for an encoder that a name describes.

    Of a folder as a model hub leaves it hidden files do not count, and links are followed.
    """
    folder = Path(name)
    if folder.is_file():
        return file_digest(folder)
    if not folder.is_dir():
        return ""
    files = [file.relative_to(folder) for file in folder.rglob("*") if file.is_file()]
    visible = (file for file in files if not any(part.startswith(".") for part in file.parts))
    names = sorted(file.as_posix() for file in visible)
    listing = "\n".join(f"{name} {file_digest(folder / name)}" for name in names)
    return hashlib.sha256(listing.encode()).hexdigest()
