"""What a run reads from outside the store, named by the SHA-256 of its bytes."""

import hashlib
from pathlib import Path

from sentemb_core.configs import CorpusConfig, EncoderConfig, LabelsConfig
from sentemb_core.store.objects import file_digest, list_files


def digest_of_corpus(config: CorpusConfig) -> str:
    """Computed at every run: an edited file is another corpus."""
    from sentemb_core.corpus.source import source_digest

    return source_digest(config)


def digest_of_labels(config: LabelsConfig) -> str:
    """Of the file of labels, as of a corpus."""
    assert config.source is not None, "a file of labels is named"
    return digest_of_corpus(CorpusConfig(source=config.source, encoding=config.encoding))


def digest_of_encoder(config: EncoderConfig) -> str:
    """Of a given folder's files, or of one file; empty for an encoder that a name describes."""
    folder = Path(config.name)
    if folder.is_file():
        return file_digest(folder)
    if not folder.is_dir():
        return ""
    names = list_files(folder)
    listing = "\n".join(f"{name} {file_digest(folder / name)}" for name in names)
    return hashlib.sha256(listing.encode()).hexdigest()
