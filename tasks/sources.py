"""Corpora, labels and encoders from outside the store, each named by the SHA-256 of its bytes."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from sentemb_core.config.run import BUILT_IN_ENCODERS, CorpusConfig, EncoderConfig, LabelsConfig
from sentemb_core.errors import UnreadableSourceError
from sentemb_core.store.objects import file_digest


def digest_of_corpus(config: CorpusConfig) -> str:
    """The digest of a corpus's bytes, computed at every run: an edited file is another corpus."""
    from sentemb_core.corpus.source import source_digest

    return source_digest(config)


def require_unchanged(place: str, config: CorpusConfig | LabelsConfig) -> None:
    """Check (E103), after a source was read, that its bytes still have the digest `config.source`.

    Unchanged files are not hashed again. A data set of the hub is named by its builder.
    """
    from sentemb_core.corpus.source import source_format

    if source_format(place) == "hub":
        return
    if digest_of_corpus(CorpusConfig(source=place)) != config.source:
        raise _changed(place)


def require_same_bytes(places: Iterable[str | Path], digests: Iterable[str]) -> None:
    """`require_unchanged` for files and folders with their digests."""
    for place, digest in zip(places, digests, strict=True):
        if digest_of_encoder(str(place)) != digest:
            raise _changed(place)


def require_same_encoder(place: str, config: EncoderConfig, revision: str) -> None:
    """`require_unchanged` for an encoder: its bytes, or the revision of a published model."""
    if (by_bytes(config, place), revision_of(place)) != (config, revision):
        raise _changed(place)


def _changed(place: str | Path) -> UnreadableSourceError:
    return UnreadableSourceError(
        f"A source must not change between the start of a run and its reading; {place} changed, "
        "and nothing of it is stored. Run again when it is no longer written to, or read a copy."
    )


def by_bytes(config: EncoderConfig, place: str) -> EncoderConfig:
    """The settings with the digest of the folder or file at `place` as name; else the place."""
    digest = "" if place in BUILT_IN_ENCODERS else digest_of_encoder(place)
    return config.model_copy(update={"name": digest or place})


def revision_of(name: str) -> str:
    """The commit of a published model; empty for every other encoder.

    E401 if the model is not on this machine.
    """
    if name in BUILT_IN_ENCODERS or Path(name).exists():
        return ""
    from sentemb_core.encoder.start import encoder_folder

    snapshot = encoder_folder(name)
    return snapshot.name if snapshot else ""


def digest_of_encoder(name: str) -> str:
    """The digest of a folder's files, or of one file; empty for any other name.

    Hidden files, which a model hub leaves, do not count; links are followed.
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
