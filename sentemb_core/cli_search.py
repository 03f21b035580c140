"""What `index` and `search` do, for both command lines."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, cast

from sentemb_core import console
from sentemb_core.cli_inputs import (
    checked_source,
    is_retriever,
    open_documents,
    open_encoder,
    open_retriever,
)
from sentemb_core.encoder.names import is_encoder_folder, is_word_file
from sentemb_core.errors import MissingColumnError, UnreadableSourceError, UsageError
from sentemb_core.formats import counted, size
from sentemb_core.options import CorpusOptions, is_new
from sentemb_core.types import Json

if TYPE_CHECKING:
    from sentemb_core.config.run import CorpusConfig
    from sentemb_core.corpus.documents import CorpusReport
    from sentemb_core.document_vectors import Hit
    from sentemb_core.retriever.index import Index

MOST_BYTES = 64 << 20
"""Bytes read of a file of queries or ids, which may be a pipe; a device never ends."""

TEXTS = frozenset({"text_column", "sentences_column"})
"""Options of which one names the texts."""

By = Literal["hybrid", "dense", "words"]


def index_command(
    model: str,
    source: str,
    folder: Path,
    *,
    update: bool,
    texts: bool,
    corpus: CorpusOptions,
    name: str,
    json: bool,
) -> int:
    """Write or update the index of a corpus, and print its size by part.

    Args:
        model: The retriever.
        source: The corpus.
        folder: The index.
        update: Whether it exists; only new and changed documents are then encoded.
        texts: Whether to store the sentences.
        corpus: How to read the corpus. An update takes the options left out from the index.
        name: Name under which `search` finds the retriever later.
        json: Whether to print JSON.
    """
    if update and not texts:
        raise UsageError(
            "An update keeps the texts, or their absence, as they are. Leave --no-texts out, or "
            "write a new index."
        )
    if update:
        checked, corpus = _updating_source(source, folder, corpus)
    else:
        _require_new(folder)
        checked = checked_source(source, corpus)
    from sentemb_core.corpus.documents import CorpusReport
    from sentemb_core.corpus.table import read_documents, sentence_count
    from sentemb_core.retriever.index import Index

    retriever = open_retriever(model)
    index = Index.open(folder, retriever) if update else None
    refused = folder.with_name(f"{folder.name}.quarantine.parquet")
    with open_documents(checked, refused) as documents:
        table = documents / "documents.parquet"
        report = CorpusReport.read(documents)
        total = sentence_count(table)
        if index:
            written = index.update(read_documents(table), total=total, corpus=corpus.given())
            encoded, dropped = written.encoded, written.dropped
        else:
            index = Index.build(
                retriever,
                read_documents(table),
                folder,
                texts=texts,
                model=_lasting(name),
                total=total,
                corpus=corpus.given(),
            )
            encoded, dropped = len(index), 0
    return _print_index(index, encoded, dropped, report, refused, json=json)


def _updating_source(
    source: str, folder: Path, given: CorpusOptions
) -> "tuple[CorpusConfig, CorpusOptions]":
    """Return the settings of a corpus for an update, and its options: given ones, then stored.

    Raises:
        UnreadableSourceError: as `read_index_file`.
        MissingColumnError, UsageError: as `checked_source`.
    """
    from sentemb_core.retriever.index_files import read_index_file

    stated, stored = given.given(), read_index_file(folder).corpus
    for name in stated.keys() & stored.keys():
        if stated[name] != stored[name]:
            option = f"--{name.replace('_', '-')}"
            console.remark(f"note {option} is {stated[name]}; the index had {stored[name]}.")
    if stated.keys() & TEXTS:
        stored = {name: value for name, value in stored.items() if name not in TEXTS}
    options = CorpusOptions(**cast("dict[str, Any]", stored | stated))
    try:
        return checked_source(source, options), options
    except MissingColumnError:
        if given.counterpart_column or not options.counterpart_column:
            raise
        options = replace(options, counterpart_column=None)  # `update` warns that titles are gone
        return checked_source(source, options), options


def _require_new(folder: Path) -> None:
    try:
        is_new(None, folder)
    except ValueError as error:
        raise UsageError(f"{error} An index that exists is updated with --update.") from error


def _lasting(name: str) -> str:
    """Return the absolute path of a folder or a file; every other name unchanged."""
    found = is_encoder_folder(name) or is_word_file(name)
    return str(Path(name).absolute()) if found else name


def _print_index(
    index: "Index",
    encoded: int,
    dropped: int,
    report: "CorpusReport",
    refused: Path,
    *,
    json: bool,
) -> int:
    stated = index.stated
    parts = stated.bytes_by_part
    whole = sum(parts.values())
    rows = [(part, f"{size:,.0f}") for part, size in parts.items()]
    table = console.terminal_table(("part", "bytes a document"), [*rows, ("all", f"{whole:,.0f}")])
    counts = f"{counted(len(index), 'document')}, {encoded:,} encoded, {dropped:,} dropped"
    lines = [f"{counts}: {index.folder} ({size(whole * len(index))})"]
    value: Json = {
        "folder": str(index.folder),
        "documents": len(index),
        "sentences": stated.sentences,
        "encoded": encoded,
        "dropped": dropped,
        "bytes_per_document": parts,
        "refused": report.quarantined,
    }
    if report.quarantined:
        lines.append(f"Not in the index: {report.refused_summary(refused)}")
    if graph := stated.approximate:
        lines.append(
            f"Above {stated.exact:,} documents, a graph finds the first ones by vectors: "
            f"{100 * graph.recall:.1f} % of the exact first 100."
        )
        value["recall"] = graph.recall
    return console.print_result(value, table, *lines, as_json=json)


def search_command(
    model: str,
    query: str,
    source: str | None,
    *,
    queries: Path | None,
    by: By,
    among: Path | None,
    top: int,
    corpus: CorpusOptions,
    json: bool,
) -> int:
    """Search an index or a corpus, and print the hits of each query."""
    texts, source = asked(query, source, queries)
    ids = None if among is None else filled_lines(among)
    hits = _hits(model, texts, source, by, ids, top, corpus)
    from sentemb_core.report.terminal import hits_table

    column = corpus.counterpart_column or "counterpart"
    tables = [hits_table(text, found, column) for text, found in zip(texts, hits, strict=True)]
    lists = [[hit.__dict__ for hit in found] for found in hits]
    value = lists[0]
    if queries:
        value = [{"query": text, "hits": found} for text, found in zip(texts, lists, strict=True)]
    return console.print_result(value, *tables, as_json=json)


def asked(query: str, source: str | None, queries: Path | None) -> tuple[list[str], str]:
    """Return the queries and what is searched; with a file of queries QUERY is left out.

    Raises:
        UsageError: SOURCE is missing, or QUERY and a file of queries are both given.
    """
    if queries is None:
        if source is None:
            raise UsageError(
                "`search` needs QUERY and SOURCE, an index or documents; found one of them. Name "
                "both, or a file of queries with --queries."
            )
        return [query], source
    if source is not None:
        raise UsageError(
            f"--queries takes the place of QUERY; found QUERY {query!r} as well. Leave it out."
        )
    texts = filled_lines(queries)
    if not texts:
        raise UsageError(f"{queries} has a query in each line; found none.")
    return texts, query


def filled_lines(file: Path) -> list[str]:
    """Return the lines of a file in UTF-8. One warning counts the blank lines, which are left out.

    Raises:
        UnreadableSourceError: it is absent, or has another encoding.
    """
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_BYTES).decode()
    except (OSError, ValueError) as error:
        raise UnreadableSourceError(
            f"{file} must be a file with a text in each line, in UTF-8: {error}. Name another file."
        ) from error
    if "\0" in text:
        raise UnreadableSourceError(
            f"{file} must be a file with a text in each line; found U+0000. Name another file."
        )
    from sentemb_core.corpus.sentences import is_blank

    lines = text.splitlines()
    filled = [line for line in lines if not is_blank(line)]
    if blank := len(lines) - len(filled):
        console.remark(f"warning {counted(blank, 'blank line')} of {file} left out.")
    return filled


def searching_model(source: str) -> str:
    """Return the name of the retriever that wrote the index `source`.

    Raises:
        UsageError: `source` is no folder that `index` wrote.
        UnreadableSourceError, MissingEncoderError: as `index_files.stated_model`.
    """
    from sentemb_core.retriever.index_files import is_index_folder, stated_model

    if not is_index_folder(source):
        raise UsageError(
            "Without --model, `search` needs a folder that `python -m flows index` wrote; "
            f"{source!r} {'has no index' if Path(source).exists() else 'does not exist'}. Name the "
            "folder behind the query, or the model with --model."
        )
    return stated_model(Path(source))


def updating_model(folder: Path, *, update: bool) -> str:
    """Return the name of the retriever that wrote the index in `folder`, for its update.

    Raises:
        UsageError: the index is new, so its retriever must be named.
        UnreadableSourceError, MissingEncoderError: as `index_files.stated_model`.
    """
    if not update:
        raise UsageError(
            f"A new index needs a model; found none for {folder}. Name it with --model (MODEL of "
            "`sentemb`), or update an index that exists with --update."
        )
    from sentemb_core.retriever.index_files import stated_model

    return stated_model(folder)


def _hits(
    model: str,
    queries: Sequence[str],
    source: str,
    by: By,
    among: list[str] | None,
    top: int,
    corpus: CorpusOptions,
) -> "list[list[Hit]]":
    from sentemb_core.retriever.index_files import is_index_folder
    from sentemb_core.vector_index import is_index

    if is_index_folder(source):
        _refuse(source, corpus)
        from sentemb_core.retriever.index import Index

        return Index.open(Path(source), open_retriever(model)).search_all(queries, top, by, among)
    if is_index(source):
        _refuse(source, corpus)
        if len(queries) > 1 or by != "hybrid" or among is not None:
            raise UsageError(
                f"{source} has vectors alone: --queries, --by and --among need an index that "
                "`python -m flows index` wrote."
            )
        return [_in_vectors(model, queries[0], Path(source), top)]
    checked = checked_source(source, corpus)
    if is_retriever(model) or len(queries) > 1 or by != "hybrid" or among is not None:
        from sentemb_core.corpus.table import read_documents, sentence_count
        from sentemb_core.retriever.index import Index

        retriever = open_retriever(model)
        with open_documents(checked) as folder, TemporaryDirectory(prefix="sentemb-") as name:
            table = folder / "documents.parquet"
            total = sentence_count(table)
            index = Index.build(retriever, read_documents(table), Path(name) / "i", total=total)
            return index.search_all(queries, top, by, among)
    from sentemb_core.document_vectors import encoded, nearest_documents, query_vector

    with open_encoder(model) as encoder, open_documents(checked) as documents:
        wanted = query_vector(encoder, queries[0])
        return [nearest_documents(wanted, encoded(encoder, documents), top)]


def _in_vectors(model: str, query: str, index: Path, top: int) -> "list[Hit]":
    """Return the hits in a file that `encode` wrote."""
    from sentemb_core.document_vectors import indexed, nearest_documents, query_vector
    from sentemb_core.encoder.checkpoint import encoder_digest
    from sentemb_core.vector_index import require_writer

    with open_encoder(model) as encoder:
        require_writer(index, encoder_digest(encoder))
        return nearest_documents(query_vector(encoder, query), indexed(encoder, index), top)


def _refuse(source: str, corpus: CorpusOptions) -> None:
    """Refuse options of a corpus beside an index.

    Raises:
        UsageError: with their names.
    """
    if options := [f"--{name.replace('_', '-')}" for name in corpus.given()]:
        raise UsageError(
            f"{source} is an index, and {', '.join(options)} are options of a corpus: leave them "
            "out. `--counterpart-column` of `index` and `encode` stores counterparts."
        )
