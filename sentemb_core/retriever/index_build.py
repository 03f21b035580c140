"""Write the files of an index: encode documents in pieces, copy what is unchanged."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float32, Int64

from sentemb_core.corpus.dedup import digest
from sentemb_core.corpus.given import Given, given_documents
from sentemb_core.corpus.table import Document
from sentemb_core.document_vectors import encoded_at_once
from sentemb_core.encoder.truncation import Cut
from sentemb_core.errors import DuplicateIdError, EmptyCorpusError
from sentemb_core.progress import progress
from sentemb_core.retrieval.bm25 import BM25
from sentemb_core.retriever.index_files import (
    DOCUMENTS,
    FAISS,
    SENTENCE_TYPE,
    SENTENCES,
    TEXT_SCHEMA,
    TEXTS,
    TOKENS,
    Approximate,
    IndexFile,
    RaggedWriter,
    checksums_below,
    document_schema,
    open_ragged,
    sizes_below,
    vector_blocks,
    words_folder,
    write_index_file,
)
from sentemb_core.retriever.nearest import RECALL_QUERIES, write_graph
from sentemb_core.retriever.queries import warn_of_language, warn_of_texts
from sentemb_core.retriever.retriever import Retriever
from sentemb_core.retriever.spec import RetrieverSpec
from sentemb_core.retriever.stored import Stored
from sentemb_core.retriever.words import TERMS

log = logging.getLogger(__name__)


class Written(NamedTuple):
    """A written index: its index.json, and what differs from the earlier index."""

    stated: IndexFile
    encoded: int
    """Documents that were not copied from the earlier index."""
    dropped: int
    """Documents of the earlier index that are gone."""


@dataclass(frozen=True)
class Piece:
    """What an index stores of some documents. Lists have one array for each document."""

    vectors: Float32[np.ndarray, "documents dim"]
    sentences: Sequence[np.ndarray]
    tokens: Sequence[np.ndarray]


def write_index(
    draft: Path,
    retriever: Retriever,
    documents: Iterable[Given],
    earlier: Stored | None,
    settings: Mapping[str, Any],
    *,
    texts: bool,
    total: int,
) -> Written:
    """Write all files of an index into an empty folder.

    Args:
        draft: The folder.
        retriever: Encodes the documents.
        documents: Each has a sentence.
        earlier: An index of this retriever; the parts of its unchanged documents are copied.
        settings: The entries of index.json (`IndexFile`) that do not depend on the documents.
        texts: Whether to store the sentences, which hits then show.
        total: Number of sentences, for the progress.

    Raises:
        EmptyCorpusError: there is no document.
        DuplicateIdError: two documents have one id.
    """
    spec = retriever.spec
    ids, whole = dict[str, None](), list[str]()
    sentences, encoded, cut = 0, 0, Cut()
    with ExitStack() as files, progress("encode sentences", total) as update:
        write = _writers(draft, retriever, files, texts=texts)
        for some in encoded_at_once(given_documents(documents)):
            _require_new(some, ids)
            if spec.vectors and not sentences:
                root = retriever.encoders[spec.vectors[0].folder]
                warn_of_language(root, [" ".join(document.sentences) for document in some])
            digests = [digest(*document.sentences).hex() for document in some]
            known = earlier.unchanged(some, digests) if earlier else np.full(len(some), -1)
            done = sentences
            piece = _piece(
                retriever, some, known, earlier, lambda n, done=done: update(done + n), cut
            )
            write(some, digests, piece)
            if spec.words:
                whole += [" ".join(document.sentences) for document in some]
            encoded += int((known < 0).sum())
            sentences += sum(len(document.sentences) for document in some)
    if not ids:
        raise EmptyCorpusError("An index needs a document; found none. Name another source.")
    if cut.texts:
        log.info("%s", cut.line("texts of new documents"))
    if spec.words:
        warn_of_texts(whole)
        for terms in TERMS[spec.words]:
            BM25(whole, terms=terms).save(words_folder(draft, terms))
    dropped = sum(doc_id not in ids for doc_id in earlier.ids) if earlier else 0
    has_graph = spec.vectors and len(ids) > settings["exact"]
    graph = _write_graph(draft, spec) if has_graph else None
    stated = IndexFile(
        **settings,
        documents=len(ids),
        sentences=sentences,
        approximate=graph,
        bytes=sizes_below(draft),
        checksums=checksums_below(draft),
    )
    write_index_file(draft, stated)
    return Written(stated, encoded, dropped)


Write = Callable[[Sequence[Document], Sequence[str], Piece], None]
"""Appends documents, their digests and their piece to all files."""


def _writers(draft: Path, retriever: Retriever, files: ExitStack, *, texts: bool) -> Write:
    """Open the files of an index; `files` closes them."""
    spec = retriever.spec
    schema = document_schema(retriever.dim)
    options: Any = {"write_page_checksum": True, "use_dictionary": False}
    options["compression"] = {name: "zstd" for name in schema.names if name != "vector"}
    if spec.vectors:
        options["compression"]["vector.list.element"] = "none"
    table = files.enter_context(pq.ParquetWriter(draft / DOCUMENTS, schema, **options))
    stored = None
    if texts:
        stored = files.enter_context(pa.ipc.new_file(str(draft / TEXTS), TEXT_SCHEMA))
    sentences = tokens = None
    if spec.best_sentence:
        sentences = RaggedWriter(draft, SENTENCES, SENTENCE_TYPE, retriever.dim)
        files.enter_context(sentences)
    if token_map := retriever.used_token_map:
        width = token_map.out_features
        tokens = files.enter_context(RaggedWriter(draft, TOKENS, np.dtype(np.int8), width))

    def write(some: Sequence[Document], digests: Sequence[str], piece: Piece) -> None:
        cells = [[each.doc_id for each in some], [each.counterpart for each in some], digests]
        columns = [pa.array(column, pa.string()) for column in cells]
        if spec.vectors:
            flat = pa.array(piece.vectors.reshape(-1))
            columns.append(pa.FixedSizeListArray.from_arrays(flat, retriever.dim))
        table.write_table(pa.Table.from_arrays(columns, schema=schema), row_group_size=len(some))
        if sentences:
            sentences.write(piece.sentences)
        if tokens:
            tokens.write(piece.tokens)
        if stored:
            lists = pa.array([each.sentences for each in some], TEXT_SCHEMA.field(0).type)
            stored.write_batch(pa.record_batch([lists], schema=TEXT_SCHEMA))

    return write


def _require_new(some: Sequence[Document], ids: dict[str, None]) -> None:
    """Add the ids of these documents.

    Raises:
        DuplicateIdError: an id is known.
    """
    for document in some:
        if document.doc_id in ids:
            raise DuplicateIdError(
                f"Documents of an index have different ids; found {document.doc_id!r} twice. Leave "
                "one of them out."
            )
        ids[document.doc_id] = None


def _piece(
    retriever: Retriever,
    some: Sequence[Document],
    known: Int64[np.ndarray, " documents"],
    earlier: Stored | None,
    update: Callable[[int], None],
    cut: Cut,
) -> Piece:
    """Return what is stored of some documents; `known` has their rows in `earlier`, else -1."""
    spec = retriever.spec
    if not spec.vectors:
        return Piece(np.empty((len(some), 0), np.float32), (), ())
    fresh = np.flatnonzero(known < 0)
    vectors = np.empty((len(some), retriever.dim), np.float32)
    sentences = [vectors[:0]] * len(some)
    tokens = [vectors[:0]] * len(some)
    if earlier:
        kept = np.flatnonzero(known >= 0)
        vectors[kept] = earlier.vectors_of(known[kept])
        for place, row in zip(kept.tolist(), known[kept].tolist(), strict=True):
            sentences[place] = earlier.sentences_of(row)
            tokens[place] = earlier.tokens_of(row)
    if len(fresh):
        texts = [some[place].sentences for place in fresh.tolist()]
        read = retriever.read_documents(texts, update, cut)
        side = read.side(spec)
        vectors[fresh] = side.vectors
        for place, rows in zip(fresh.tolist(), _split(side.sentences, side.starts), strict=True):
            sentences[place] = rows
        for states in read.tokens.values():
            for place, rows in zip(fresh.tolist(), _split(states.rows, states.starts), strict=True):
                tokens[place] = rows
    return Piece(vectors, sentences, tokens)


def _split(rows: np.ndarray, starts: Int64[np.ndarray, " bounds"]) -> Iterator[np.ndarray]:
    return iter(np.split(rows, starts[1:-1]))


def _write_graph(draft: Path, spec: RetrieverSpec) -> Approximate:
    """Write the graph of the documents' vectors.

    Drawn sentences are the queries of its recall; drawn documents where none are stored.
    """
    rng = np.random.default_rng(0)
    if spec.best_sentence:
        rows, _ = open_ragged(draft, SENTENCES)
        drawn = rng.choice(len(rows), min(RECALL_QUERIES, len(rows)), replace=False)
        queries = rows[np.sort(drawn)].astype(np.float32)
    else:
        count = pq.read_metadata(draft / DOCUMENTS).num_rows
        drawn = np.sort(rng.choice(count, min(RECALL_QUERIES, count), replace=False))
        queries = np.concatenate([*vector_blocks(draft)])[drawn]
    return write_graph(vector_blocks(draft), queries, draft / FAISS)
