"""Clean documents: rows checked, split into sentences, sampled and written in source order."""

import hashlib
import heapq
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.checks import (
    REASONS,
    BadRow,
    Quarantine,
    RefusedError,
    document,
    usable_id,
)
from sentemb_core.corpus.columns import Row, row_id
from sentemb_core.corpus.dedup import FirstSeen, digest
from sentemb_core.corpus.readers import places, rows
from sentemb_core.corpus.sentences import Splitter, splitter
from sentemb_core.corpus.source import source_format, text_files
from sentemb_core.corpus.table import Document, DocumentWriter, read_documents
from sentemb_core.errors import BadDataError, DuplicateIdError, EmptyCorpusError, EmptyPairsError
from sentemb_core.formats import counted
from sentemb_core.heap import steady_heap
from sentemb_core.types import Value

log = logging.getLogger(__name__)

BATCH_ROWS, BATCH_CHARACTERS = 1_024, 1 << 20  # looked up together; bounds memory
MANY_TAGS = 0.01
"""Share of rows with HTML tags from which on a warning says so: a page may speak of one."""

PAIRS_SHARE = 0.02  # below it nearly every document is one sentence: a splitter or column mistake

WAYS_OUT = {
    "broken-row": "JSON has an object a line, or one array of objects; a row of a CSV has a cell "
    "for each column, in quotes where it holds a separator",
    "encoding": "Name the encoding by --encoding",
    "not-a-string": "Text and counterpart are strings (--text-column, --counterpart-column), ready "
    "sentences are lists of strings (--sentences-column)",
    "bad-id": "Ids are strings or whole numbers (--id-column; without it row numbers)",
}
"""Reason code -> what to look at where it has taken all rows."""


class CorpusReport(Value):
    """What became of every row: rows_read = documents + quarantined + left_out + not_drawn.

    documents, sentences and documents_with_* count what was written; all else, what was read.
    """

    rows_read: int = 0
    documents: int = 0
    sentences: int = 0
    documents_with_pairs: int = Field(default=0, description="Those of at least two sentences.")
    documents_with_counterpart: int = 0
    quarantined: dict[str, int] = Field(description="Rows by reason code.")
    left_out: int = Field(default=0, description="Documents of fewer than min_sentences.")
    not_drawn: int = Field(default=0, description="Documents outside the sample of max_documents.")
    duplicate_sentences: int = Field(
        default=0, description="Dropped: repeated inside their document."
    )
    counterpart_sentences: int = Field(default=0, description="Dropped: equal to the counterpart.")
    duplicate_documents: int = Field(
        default=0, description="Kept: the same sentences as an earlier one."
    )
    rows_with_tags: int = Field(default=0, description="HTML tags, which are kept.")
    duplicate_document_ids: list[str] = Field(description="The first five of them.")

    def summary(self) -> str:
        """One line for the log."""
        read = f"{counted(self.documents, 'document')}, {counted(self.sentences, 'sentence')}"
        bad = self.reasons_summary() or "none"
        again = counted(self.duplicate_documents, "document")
        return (
            f"{read} from {counted(self.rows_read, 'row')}; quarantined: {bad}; dropped: "
            f"{self.duplicate_sentences:,} repeated and "
            f"{counted(self.counterpart_sentences, 'counterpart sentence')}; {self.left_out:,} too "
            f"short, {self.not_drawn:,} not drawn; kept, though equal to an earlier one: {again}"
        )

    def refused_summary(self) -> str:
        """How many rows were refused, for which reasons, before the file that has them."""
        refused = sum(self.quarantined.values())
        rows = counted(self.rows_read, "row")
        return f"{refused:,} of {rows} refused ({self.reasons_summary()}), with their places"

    def reasons_summary(self) -> str:
        """Each reason to refuse a row, behind the number of rows it was found in."""
        return ", ".join(f"{count:,} {reason}" for reason, count in self.quarantined.items())


def write_documents(config: CorpusConfig, out: Path, *, pairs: bool = True) -> CorpusReport:
    """Read the source and write documents.parquet, quarantine.parquet and report.json under `out`.

    Streams; equal input gives equal bytes. Where no `pairs` are wanted of them, documents may have
    one sentence each.

    Raises:
        UnreadableSourceError, MissingColumnError: E103, E104, from the reader.
        DuplicateIdError: E105, ids repeat and on_duplicate is `error`.
        EmptyCorpusError: E101, no usable document; quarantine.parquet is complete.
        EmptyPairsError: E102, fewer than 2 % of the documents have two sentences.
    """
    counts: Counter[str] = Counter()
    repeated: list[str] = []
    with steady_heap(), Quarantine(out / "quarantine.parquet") as quarantine:
        documents = usable_documents(config, quarantine, counts, repeated)
        if config.max_documents is not None:
            documents = drawn(documents, config.max_documents, out / "staged.parquet", counts)
        with DocumentWriter(out / "documents.parquet") as writer:
            for found in documents:
                writer.write(found)
    lists = {"quarantined": dict(quarantine.counts), "duplicate_document_ids": repeated}
    report = CorpusReport.model_validate({**counts, **writer.counts, **lists})
    (out / "report.json").write_text(report.model_dump_json(indent=1), encoding="utf-8")
    log.info("%s", report.summary())
    if report.rows_with_tags > MANY_TAGS * report.rows_read:
        log.warning(
            "%d of %d rows hold HTML tags, which are read as words and hide where a sentence ends: "
            "strip them first.", report.rows_with_tags, report.rows_read,
        )  # fmt: skip
    check_report(report, quarantine.path, pairs=pairs and config.splitter != "none")
    return report


def check_report(report: CorpusReport, quarantine: Path, *, pairs: bool = True) -> None:
    """Raise when no document is usable (E101), or almost none can give `pairs` (E102)."""
    if report.documents == 0:
        bad = [f"{count} {REASONS[reason]}" for reason, count in report.quarantined.items()]
        bad += [f"{report.left_out} with too few sentences"] if report.left_out else []
        where = f" - see {quarantine}" if report.quarantined else ""
        raise EmptyCorpusError(
            f"corpus has 0 usable documents ({report.rows_read} read"
            f"{': ' if bad else ''}{', '.join(bad)}){where}{_ways_out(report)}"
        )
    if not pairs:
        return
    alone = report.documents - report.documents_with_pairs
    if report.documents_with_pairs < PAIRS_SHARE * report.documents:
        raise EmptyPairsError(
            f"A pair needs a document of at least two sentences: {alone} of "
            f"{counted(report.documents, 'document')} {'has' if alone == 1 else 'have'} one. Check "
            "the text column and the splitter; texts that are one sentence each are read by "
            f"--splitter none, and want {_wanted_alone(report.documents_with_counterpart)}."
        )
    if alone:
        log.warning(
            "%d of %d documents of one sentence: methods that pair two sentences of a document "
            "learn nothing from them and take no negative from them. They are encoded and "
            "evaluated like any other.", alone, report.documents,
        )  # fmt: skip


def require_pairs(
    documents: int, with_pairs: int, with_counterpart: int, method: str, positives: str
) -> None:
    """Refuse (E102) sentences that stand alone where a method pairs those of one document.

    `write_documents` lets them pass where no splitter looked for more.
    """
    if with_pairs < PAIRS_SHARE * documents:
        raise EmptyPairsError(
            f"{method} learns from documents of at least two sentences ({positives}): "
            f"{documents - with_pairs} of {documents} have one. Give it longer documents, "
            f"check the splitter (--splitter), or take {_wanted_alone(with_counterpart)}."
        )


def _wanted_alone(counterparts: int) -> str:
    """What learns from single sentences and, where they have no counterparts, what judges it."""
    method = "a method that learns from sentences alone, as simcse (`sentemb methods`)"
    judges = "counterparts that judge it (--counterpart-column, or --labels)"
    return method if counterparts else f"{method}, and {judges}"


def _ways_out(report: CorpusReport) -> str:
    """What to do about the reasons that a whole column may have."""
    return "".join(f". {way}" for reason, way in WAYS_OUT.items() if reason in report.quarantined)


def usable_documents(
    config: CorpusConfig, quarantine: Quarantine, counts: Counter[str], repeated: list[str]
) -> Iterator[Document]:
    """Documents of the source in its order; every other row is quarantined or counted.

    `repeated` receives the ids of the first documents that repeat an earlier one's sentences.
    """
    checked = _checked(config, splitter(config.splitter), quarantine, counts)
    with FirstSeen() as texts:
        for batch in _first_of_each_id(checked, config, quarantine):
            kept = [found for found in batch if len(found.sentences) >= config.min_sentences]
            counts["left_out"] += len(batch) - len(kept)
            _count_repeats(texts, kept, counts, repeated)
            yield from kept


def source_ids(config: CorpusConfig) -> Iterator[str]:
    """Ids of the source's rows, of refused ones, too; none of a row whose id cannot be read."""
    if source_format(config.source) == "folder":
        folder = Path(config.source)
        yield from (path.relative_to(folder).as_posix() for path in text_files(folder))
        return
    for row in rows(config):
        if not isinstance(row, BadRow):
            with suppress(RefusedError):
                yield usable_id(row.doc_id)
        elif config.id_column is None:
            yield row_id(row.row)


def _first_of_each_id(
    checked: Iterable[tuple[Row, Document]], config: CorpusConfig, quarantine: Quarantine
) -> Iterator[list[Document]]:
    """Batches of documents without those whose id came before; DuplicateIdError if asked for."""
    clashes: list[Clash] = []
    with FirstSeen() as ids:
        for batch in _batches(checked):
            keys = [digest(found.doc_id) for _, found in batch]
            firsts = ids.first_rows(keys, [row.number for row, _ in batch])
            fresh: list[Document] = []
            for (row, found), first in zip(batch, firsts, strict=True):
                if first == row.number:
                    fresh.append(found)
                    continue
                quarantine.add(BadRow(row.where, row.number, "duplicate-id", found.doc_id))
                if len(clashes) < 3:
                    clashes.append(Clash(found.doc_id, first, row.where))
            yield fresh
            if config.on_duplicate == "error" and len(clashes) == 3:
                break
    if clashes and config.on_duplicate == "error":
        raise DuplicateIdError(
            f"A document id occurs once: found again {_told(clashes, config)}. Lines are counted "
            "from 1, rows, elements and bytes from 0. Repair the ids, or take --on-duplicate "
            "keep-first."
        )


class Clash(NamedTuple):
    """An id that was met again: the row that had it first, and where it stands again."""

    doc_id: str
    first: int
    again: str


def _told(clashes: list[Clash], config: CorpusConfig) -> str:
    """Both places of each. That of the first row is looked up now: none is held in memory."""
    where = places(config, {clash.first for clash in clashes})
    return "; ".join(
        f"{clash.doc_id!r} in {where.get(clash.first, f'row {clash.first}')} and in {clash.again}"
        for clash in clashes
    )


def _checked(
    config: CorpusConfig, split: Splitter, quarantine: Quarantine, counts: Counter[str]
) -> Iterator[tuple[Row, Document]]:
    for row in rows(config):
        counts["rows_read"] += 1
        if isinstance(row, BadRow):
            quarantine.add(row)
            continue
        try:
            yield row, document(row, config, split, counts)
        except RefusedError as error:
            quarantine.add(BadRow(row.where, row.number, error.reason, error.text))


def _batches(checked: Iterable[tuple[Row, Document]]) -> Iterator[list[tuple[Row, Document]]]:
    """Runs of documents small enough to hold, large enough to make disk look-ups cheap."""
    batch: list[tuple[Row, Document]] = []
    characters = 0
    for row, found in checked:
        batch.append((row, found))
        characters += sum(map(len, found.sentences))
        if len(batch) >= BATCH_ROWS or characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _count_repeats(
    texts: FirstSeen, documents: list[Document], counts: Counter[str], repeated: list[str]
) -> None:
    keys = [digest(*found.sentences) for found in documents]
    numbers = [found.source_row for found in documents]
    firsts = texts.first_rows(keys, numbers)
    again = [found.doc_id for found, first in zip(documents, firsts, strict=True)
             if first != found.source_row]  # fmt: skip
    counts["duplicate_documents"] += len(again)
    repeated += again[: 5 - len(repeated)]


def drawn(
    documents: Iterable[Document], size: int, staged: Path, counts: Counter[str]
) -> Iterator[Document]:
    """The `size` documents whose ids hash lowest, in the order they came.

    A document goes to the staging file only if it is among the lowest so far; those that later
    ones push out are dropped in the second pass. Memory holds `size` hashes.
    """
    lowest: list[int] = []  # a heap of negated hashes: its root is the highest of the lowest
    try:
        with DocumentWriter(staged) as writer:
            for found in documents:
                counts["not_drawn"] += 1
                rank = -_rank(found.doc_id)
                if len(lowest) < size:
                    heapq.heappush(lowest, rank)
                elif rank > lowest[0]:
                    heapq.heapreplace(lowest, rank)
                else:
                    continue
                writer.write(found)
        counts["not_drawn"] -= len(lowest)
        for found in read_documents(staged):
            if -_rank(found.doc_id) >= lowest[0]:
                yield found
    finally:
        staged.unlink(missing_ok=True)


def _rank(doc_id: str) -> int:
    return int.from_bytes(hashlib.sha256(doc_id.encode()).digest())


def sentences_of(config: CorpusConfig, doc_id: str) -> list[str]:
    """The sentences of the first usable row with this id.

    Raises:
        BadDataError: there is none.
        UnreadableSourceError, MissingColumnError: E103, E104, from the reader.
    """
    known: list[str] = []
    refused = ""
    for row in rows(config):
        if isinstance(row, BadRow):
            continue
        known = [*known, str(row.doc_id)][:3]
        if str(row.doc_id) != doc_id:
            continue
        try:
            return document(row, config, splitter(config.splitter), Counter()).sentences
        except RefusedError as error:
            refused = f"; {row.where} has it, and is {REASONS[error.reason]}"
    raise BadDataError(f"No document has the id {doc_id!r}{refused}; the first ids are {known}.")
