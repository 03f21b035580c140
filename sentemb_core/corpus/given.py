"""Documents that a program has in memory, with the checks and the sentences of a corpus's rows."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import ValidationError

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.checks import REASONS, RefusedError, checked_document
from sentemb_core.corpus.columns import Row, row_id
from sentemb_core.corpus.documents import write_documents
from sentemb_core.corpus.sentences import splitter
from sentemb_core.corpus.table import Document, read_documents
from sentemb_core.errors import UsageError
from sentemb_core.redaction import first_line

log = logging.getLogger(__name__)

Given = Document | str | Sequence[str] | Mapping[str, object]
"""A document as a text, as a list of sentences, or as a mapping with `text` or `sentences`, and
with `id` and `title` where there are some."""

MEMORY = CorpusConfig(source="memory")


def given_documents(items: Iterable[Given]) -> Iterator[Document]:
    """Yield the documents; a text is split into sentences by syntok.

    Unusable documents are left out and counted in a warning, as the rows of a corpus are. A
    document without an id gets that of a row.

    Raises:
        UsageError: an item is no document, or `items` is one text.
    """
    require_several(items)
    split, counts, refused = splitter(MEMORY.splitter), Counter[str](), Counter[str]()
    number = -1
    for number, item in enumerate(items):
        if isinstance(item, Document):
            yield item
            continue
        try:
            yield checked_document(_row(item, number), MEMORY, split, counts)
        except RefusedError as error:
            refused[error.reason] += 1
    if refused:
        reasons = ", ".join(f"{count} {REASONS[reason]}" for reason, count in refused.items())
        log.warning("documents left out: %s, of %d", reasons, number + 1)


def _row(item: object, number: int) -> Row:
    where = f"document {number}"
    if isinstance(item, str):
        return Row(where, number, row_id(number), item, None, None)
    if isinstance(item, Mapping):
        fields: Mapping[Any, Any] = item
        if "text" in fields or "sentences" in fields:
            doc_id = fields.get("id", row_id(number))
            sentences = fields.get("sentences")
            kept = None if sentences is None else list(sentences)
            return Row(where, number, doc_id, fields.get("text"), kept, fields.get("title"))
        found = f"a mapping with {', '.join(map(repr, fields))}"
    elif isinstance(item, Sequence):
        return Row(where, number, row_id(number), None, list(item), None)
    else:
        found = f"a {type(item).__name__}"
    raise UsageError(
        "A document is a text, a list of sentences, or a mapping with `text` or `sentences` (and "
        f"`id`, `title`); {where} is {found}."
    )


def require_several(texts: object) -> None:
    """Refuse one text in place of several, whose characters would be read as texts.

    Raises:
        UsageError: it is a string.
    """
    if isinstance(texts, str):
        raise UsageError(f"Several texts are a list; found one text. Write [{texts[:20]!r}].")


def sentences_of(document: str | Sequence[str]) -> list[str]:
    """Return the distinct sentences of a text or a list; one empty sentence if there is none."""
    found = splitter(MEMORY.splitter)(document) if isinstance(document, str) else document
    return list(dict.fromkeys(found)) or [""]


def read(source: str | Path, **columns: Any) -> list[Document]:
    """Return the documents of a source, as the command line reads it; a warning counts bad rows.

    Args:
        source: A file (JSONL, JSON, CSV, TSV, Parquet), a folder of .txt and .md files, a saved
            `datasets` folder or a `datasets` name.
        columns: Settings of `config.run.CorpusConfig`, such as `id_column`, `text_column` and
            `counterpart_column`.

    Raises:
        UsageError: a setting is unknown or invalid.
        UnreadableSourceError, MissingColumnError, EmptyCorpusError: E103, E104, E101.
    """
    try:
        config = CorpusConfig(source=str(source), **columns)
    except ValidationError as error:
        raise UsageError(f"`read` takes settings of CorpusConfig: {first_line(error)}") from error
    with TemporaryDirectory(prefix="sentemb-") as name:
        report = write_documents(config, Path(name), pairs=False)
        if report.quarantined:
            log.warning("%s: %s", source, report.refused_summary())
        return list(read_documents(Path(name) / "documents.parquet"))
