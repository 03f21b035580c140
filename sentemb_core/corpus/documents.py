"""Documents of a corpus: rows checked, split into sentences, sampled, written in source order."""

import hashlib
import heapq
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import Field

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.checks import (
    REASONS,
    BadRow,
    Quarantine,
    RefusedError,
    checked_document,
    usable_id,
)
from sentemb_core.corpus.columns import Row, row_id
from sentemb_core.corpus.dedup import digest, first_seen
from sentemb_core.corpus.readers import places, rows
from sentemb_core.corpus.sentences import Splitter, splitter
from sentemb_core.corpus.source import source_format, text_files
from sentemb_core.corpus.table import (
    BATCH_CHARACTERS,
    BATCH_ROWS,
    Document,
    characters,
    in_pieces,
    read_documents,
    write_rows,
)
from sentemb_core.errors import BadDataError, DuplicateIdError, EmptyCorpusError, EmptyPairsError
from sentemb_core.formats import counted
from sentemb_core.heap import steady_heap
from sentemb_core.types import Value

log = logging.getLogger(__name__)

MANY_TAGS = 0.01
"""Share of rows with HTML tags above which a warning follows: a few pages may be about HTML."""

MANY_TITLES = 0.1
"""Share of counterparts above which a warning follows: in nine open corpora with titles, at most
3.6 % of the documents have their own title of three or more words within a sentence."""

HOPELESS_ROWS, HOPELESS_SHARE = 1_000_000, 0.999
"""After so many rows, and with this share of them refused, the reading stops: a minute of it gave
nothing, and a wrong column or file is the cause."""

HOPELESS_LENGTH = 4
"""Least mean length of the texts of so many rows, in characters: shorter ones are numbers or codes,
in Chinese too."""

PAIRS_SHARE = 0.02  # below it nearly every document is one sentence: a splitter or column mistake

WAYS_OUT = {
    "broken-row": "JSON has an object a line, or one array of objects; a row of a CSV has a cell "
    "for each column, in quotes where it holds a separator",
    "encoding": "Name the encoding by --encoding",
    "nul": "Remove U+0000 from the texts (`tr -d '\\000'`; JSON writes it \\u0000)",
    "not-a-string": "Text and counterpart are strings (--text-column, --counterpart-column), ready "
    "sentences are lists of strings (--sentences-column)",
    "bad-id": "Ids are strings or whole numbers (--id-column; without it row numbers)",
    "empty": "Name the column that has the texts (--text-column)",
    "only-counterpart": "Name another column of texts, or leave --counterpart-column out",
    "over-long": "Split long documents, or raise the limit (--set corpus.max_characters=20000000); "
    "shorten counterparts to 10,000 characters",
}
"""Reason code -> advice if a corpus has no usable row."""


class CorpusReport(Value):
    """Counts of all rows: rows_read = documents + quarantined + left_out + not_drawn.

    documents, sentences and documents_with_* count written data; the others count read data.
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
    rows_with_tags: int = Field(default=0, description="HTML, which is kept.")
    rows_with_title: int = Field(
        default=0, description="Their own counterpart is still within a sentence."
    )
    duplicate_document_ids: list[str] = Field(description="The first five of them.")

    @classmethod
    def read(cls, documents: Path) -> "CorpusReport":
        """Return the report of a folder that `write_documents` wrote."""
        return cls.model_validate_json((documents / "report.json").read_bytes())

    def summary(self) -> str:
        """Return one line for the log."""
        return (
            f"{counted(self.documents, 'document')}, {counted(self.sentences, 'sentence')} from "
            f"{counted(self.rows_read, 'row')}; quarantined: {self._reasons() or 'none'}; dropped "
            f"sentences: {self.duplicate_sentences:,} repeated, {self.counterpart_sentences:,} "
            f"equal to their counterpart; documents left out: {self.left_out:,} too short, "
            f"{self.not_drawn:,} outside the sample; {self.duplicate_documents:,} repeat an "
            "earlier document and stay"
        )

    def refused_summary(self, places: Path | None = None) -> str:
        """Return the number of refused rows, their reasons, and the file with their places."""
        refused = sum(self.quarantined.values())
        rows = counted(self.rows_read, "row")
        found = f"{refused:,} of {rows} refused ({self._reasons()})"
        return f"{found}, with their places: {places}" if places else found

    def require_pairs(self, what: str) -> None:
        """Check that enough documents have two sentences for `what`, the subject of the message.

        Raises:
            EmptyPairsError: E102, fewer than 2 % of the documents have.
        """
        if self.documents_with_pairs >= PAIRS_SHARE * self.documents:
            return
        validation = " Validation then needs counterparts (--counterpart-column or --labels)."
        raise EmptyPairsError(
            f"{what} needs documents of at least two sentences. Found one sentence in "
            f"{self.documents - self.documents_with_pairs} of "
            f"{counted(self.documents, 'document')}. Check the text column and the splitter "
            "(--splitter). Cut texts of one sentence into parts (--splitter words), or take "
            "--splitter none and a method that needs no pairs, such as simcse (`sentemb methods`)."
            f"{'' if self.documents_with_counterpart else validation}"
        )

    def _reasons(self) -> str:
        return ", ".join(f"{count:,} {reason}" for reason, count in self.quarantined.items())


def write_documents(config: CorpusConfig, out: Path, *, pairs: bool = True) -> CorpusReport:
    """Read the source and write documents.parquet, quarantine.parquet and report.json to `out`.

    Rows are streamed, and equal input gives equal bytes. Without `pairs` all documents may have a
    single sentence.

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
            documents = _sampled(documents, config.max_documents, out / "staged.parquet", counts)
        written = write_rows(out / "documents.parquet", documents)
    lists = {"quarantined": dict(quarantine.counts), "duplicate_document_ids": repeated}
    report = CorpusReport.model_validate({**counts, **written, **lists})
    (out / "report.json").write_text(report.model_dump_json(indent=1), encoding="utf-8")
    log.info("%s", report.summary())
    if config.splitter == "words":
        log.info("texts are cut into parts of words, which stand for sentences (--splitter)")
    _warn_of_texts(report)
    _check_report(report, quarantine.path, pairs=pairs and config.splitter != "none")
    return report


def _warn_of_texts(report: CorpusReport) -> None:
    if report.rows_with_tags > MANY_TAGS * report.rows_read:
        log.warning(
            "rows with HTML (tags, or escapes such as &amp;): %d of %d. They are read as words and "
            "hide the ends of sentences. Remove them with --strip-html.",
            report.rows_with_tags, report.rows_read,
        )  # fmt: skip
    if report.rows_with_title > MANY_TITLES * report.documents_with_counterpart:
        log.warning(
            "documents that have their own counterpart within a sentence: %d of %d. Validation "
            "then measures how well a title is found in its own text: any search for words does "
            "that. Remove the titles from the texts, or name another counterpart.",
            report.rows_with_title, report.documents_with_counterpart,
        )  # fmt: skip


def _check_report(report: CorpusReport, quarantine: Path, *, pairs: bool = True) -> None:
    """Raise if no document is usable (E101), or if too few can give `pairs` (E102)."""
    if report.documents == 0:
        bad = [f"{count} {REASONS[reason]}" for reason, count in report.quarantined.items()]
        bad += [f"{report.left_out} with too few sentences"] if report.left_out else []
        where = f" - see {quarantine}" if report.quarantined else ""
        ways = [WAYS_OUT[code] for code in WAYS_OUT if code in report.quarantined]
        ways += ["Lower corpus.min_sentences"] if report.left_out else []
        ways += [] if report.rows_read else ["Name a source that has rows"]
        raise EmptyCorpusError(
            f"The corpus has 0 usable documents ({report.rows_read} rows read"
            f"{': ' if bad else ''}{', '.join(bad)}){where}.{''.join(f' {way}.' for way in ways)}"
        )
    if not pairs:
        return
    report.require_pairs("Training on pairs of sentences")
    if single := report.documents - report.documents_with_pairs:
        log.warning(
            "documents of one sentence: %d of %d. They are encoded and evaluated, but give no pair "
            "and no negative to methods that pair the sentences of a document.",
            single, report.documents,
        )  # fmt: skip


def usable_documents(
    config: CorpusConfig, quarantine: Quarantine, counts: Counter[str], repeated: list[str]
) -> Iterator[Document]:
    """Yield the documents of the source in its order; quarantine or count every other row.

    `repeated` receives the ids of the first documents that repeat an earlier one's sentences.
    """
    checked = _checked(config, splitter(config.splitter), quarantine, counts)
    with first_seen() as first_texts:
        for batch in _first_of_each_id(checked, config, quarantine):
            kept = [each for each in batch if len(each.sentences) >= config.min_sentences]
            counts["left_out"] += len(batch) - len(kept)
            keys = [digest(*document.sentences) for document in kept]
            firsts = first_texts(keys, [document.source_row for document in kept])
            again = [
                document.doc_id
                for document, first in zip(kept, firsts, strict=True)
                if first != document.source_row
            ]
            counts["duplicate_documents"] += len(again)
            repeated += again[: 5 - len(repeated)]
            yield from kept


def source_ids(config: CorpusConfig) -> Iterator[str]:
    """Yield the readable ids of all rows of the source, including refused rows."""
    if source_format(config.source) == "folder" and config.id_column is None:
        folder = Path(config.source)
        yield from (path.relative_to(folder).as_posix() for path in text_files(folder))
        return
    for row in rows(config):
        if not isinstance(row, BadRow):
            with suppress(RefusedError):
                yield usable_id(row.doc_id)
        elif config.id_column is None:
            yield row_id(row.number)


def _first_of_each_id(
    checked: Iterable[tuple[Row | BadRow, Document]], config: CorpusConfig, quarantine: Quarantine
) -> Iterator[list[Document]]:
    """Yield batches of documents with new ids. Repeated ids raise if `on_duplicate` is `error`."""
    repeated: list[tuple[str, int, str]] = []  # an id, its first row, the place of its repetition
    limits = (BATCH_ROWS, BATCH_CHARACTERS)
    batches = in_pieces(checked, limits, lambda pair: (1, characters(pair[1])))
    if config.id_column is None:  # the numbers of rows, or paths: none repeats
        yield from ([document for _, document in batch] for batch in batches)
        return
    with first_seen() as first_ids:
        for batch in batches:
            keys = [digest(document.doc_id) for _, document in batch]
            firsts = first_ids(keys, [row.number for row, _ in batch])
            fresh: list[Document] = []
            for (row, document), first in zip(batch, firsts, strict=True):
                if first == row.number:
                    fresh.append(document)
                    continue
                quarantine.add(row, "duplicate-id", document.doc_id)
                if len(repeated) < 3:
                    repeated.append((document.doc_id, first, row.where))
            yield fresh
            if config.on_duplicate == "error" and len(repeated) == 3:
                break
    if repeated and config.on_duplicate == "error":
        # the places of first rows are not held in memory: the source is read again
        place = places(config, {first for _, first, _ in repeated})
        each = "; ".join(
            f"{doc_id!r} in {place.get(first, f'row {first}')} and in {where}"
            for doc_id, first, where in repeated
        )
        raise DuplicateIdError(
            f"Document ids must be unique. Found {each}. Lines are counted from 1; rows, elements "
            "and bytes from 0. Repair the ids, or use --on-duplicate keep-first."
        )


def _checked(
    config: CorpusConfig, split: Splitter, quarantine: Quarantine, counts: Counter[str]
) -> Iterator[tuple[Row | BadRow, Document]]:
    letters = 0
    for row in rows(config):
        counts["rows_read"] += 1
        try:
            document = checked_document(row, config, split, counts)
        except RefusedError as error:
            quarantine.add(row, error.reason, error.text)
            if counts["rows_read"] >= HOPELESS_ROWS:
                _require_usable(counts["rows_read"], quarantine)
        else:
            letters += characters(document)
            yield row, document
        if counts["rows_read"] == HOPELESS_ROWS:
            _require_texts(letters, HOPELESS_ROWS - sum(quarantine.counts.values()))


def _require_usable(read: int, quarantine: Quarantine) -> None:
    """Stop the reading of a source whose rows are nearly all refused.

    Raises:
        EmptyCorpusError: E101.
    """
    refused = sum(quarantine.counts.values())
    if refused < HOPELESS_SHARE * read:
        return
    reasons = ", ".join(f"{count:,} {REASONS[code]}" for code, count in quarantine.counts.items())
    ways = "".join(f" {WAYS_OUT[code]}." for code in WAYS_OUT if code in quarantine.counts)
    raise EmptyCorpusError(
        f"More than one in {round(1 / (1 - HOPELESS_SHARE)):,} rows must be usable; of the first "
        f"{read:,} rows, {refused:,} are not: {reasons}.{ways}"
    )


def _require_texts(letters: int, documents: int) -> None:
    """Stop the reading of a source whose documents have so many characters in all, if too few.

    Raises:
        EmptyCorpusError: E101.
    """
    if letters < HOPELESS_LENGTH * documents:
        raise EmptyCorpusError(
            f"Texts of a corpus have at least {HOPELESS_LENGTH} characters on average; those of "
            f"the first {HOPELESS_ROWS:,} rows have {letters / documents:.1f}. "
            f"{WAYS_OUT['empty']}."
        )


def _sampled(
    documents: Iterable[Document], size: int, staged: Path, counts: Counter[str]
) -> Iterator[Document]:
    """Yield the `size` documents with the lowest hashes of their ids, in source order.

    The first pass writes a document to the staging file if it is among the lowest so far. The
    second pass drops the documents that later ones pushed out. Memory holds `size` hashes.
    """
    lowest: list[int] = []  # a heap of negated hashes: its root is the highest of the lowest

    def candidates() -> Iterator[Document]:
        for document in documents:
            counts["not_drawn"] += 1
            rank = -_rank(document.doc_id)
            if len(lowest) < size:
                heapq.heappush(lowest, rank)
            elif rank > lowest[0]:
                heapq.heapreplace(lowest, rank)
            else:
                continue
            yield document

    try:
        write_rows(staged, candidates())
        counts["not_drawn"] -= len(lowest)
        for document in read_documents(staged):
            if -_rank(document.doc_id) >= lowest[0]:
                yield document
    finally:
        staged.unlink(missing_ok=True)


def _rank(doc_id: str) -> int:
    return int.from_bytes(hashlib.sha256(doc_id.encode()).digest())


def sentences_of(config: CorpusConfig, doc_id: str) -> list[str]:
    """Return the sentences of the first usable row with this id. No other row is split.

    Raises:
        BadDataError: no usable row has it.
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
            return checked_document(row, config, splitter(config.splitter), Counter()).sentences
        except RefusedError as error:
            refused = f" ({row.where} has it and is {REASONS[error.reason]})"
    raise BadDataError(f"No document has the id {doc_id!r}{refused}. The first ids are {known}.")
