"""A validation pool as the two sides of a retriever, read once for each encoder.

Counterparts look for documents, and documents for counterparts. Without counterparts three kinds of
pseudo-queries look for the rest of their own document: the first half, the first sentence, and a
random span.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from sentemb_core.annotation.embeddings import Embeddings
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import ValidationPool, pool_sentences, unit_hash
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.evaluation.validation_scores import Scorers
from sentemb_core.retriever.retriever import Retriever
from sentemb_core.retriever.scores import Readings, retriever_scorers
from sentemb_core.retriever.spec import RetrieverSpec, Vectors
from sentemb_core.retriever.tokens import TokenMap, TokenVectors
from sentemb_core.retriever.vectors import Sides, side_of
from sentemb_core.retriever.words import Texts
from sentemb_core.types import Precision

Query = Literal["counterpart", "first half", "first sentence", "span"]

SPAN = (1, 3)
"""Fewest and most sentences of a random span."""

T = TypeVar("T")

Sentences = list[list[str]]

Cuts = list[tuple[int, int]]
"""First and last sentence (exclusive) of each document that make its pseudo-query."""


class Pair(NamedTuple):
    """Texts and documents of a pool, each a list of sentences; text k belongs to document k.

    With counterparts, texts are the pool's candidates. Without, `documents` are its candidates.
    """

    texts: Sentences
    documents: Sentences


def pool_pairs(documents: Path, pool: ValidationPool) -> dict[Query, Pair]:
    """Return the pool's texts and documents, by the kind of query.

    `documents` is a folder that `write_documents` wrote.
    """
    sentences = pool_sentences(documents, pool)
    whole = [sentences[row] for row in pool.query_document.tolist()]
    if pool.kind == "counterpart":
        return {"counterpart": Pair([[text or ""] for text in pool.candidate_text], whole)}
    return {
        kind: Pair(
            [each[first:last] for each, (first, last) in zip(whole, cuts, strict=True)],
            _rests(whole, cuts),
        )
        for kind, cuts in _pseudo_queries(pool, list(map(len, whole))).items()
    }


def stored_documents(
    encoder: Encoder, corpus: TokenCorpus, embeddings: Embeddings, pool: ValidationPool
) -> Sides:
    """Return the documents of `pool_pairs`, all kinds in a row, from stored sentence vectors.

    `embeddings` are those of the encoder, or of the encoder in front of its map.
    """
    firsts, lasts = corpus.spans(pool.query_document)
    documents = [range(*bounds) for bounds in zip(firsts.tolist(), lasts.tolist(), strict=True)]
    items: Sequence[Sequence[int]] = documents
    if pool.kind != "counterpart":
        kinds = _pseudo_queries(pool, list(map(len, documents))).values()
        items = [rest for cuts in kinds for rest in _rests(documents, cuts)]
    rows = np.fromiter(chain.from_iterable(items), np.int64)
    with torch.inference_mode():
        vectors = encoder.mapped(torch.from_numpy(embeddings.rows(rows))).numpy()
    return side_of(vectors, np.cumsum([0, *map(len, items)]))


def _pseudo_queries(pool: ValidationPool, sizes: Sequence[int]) -> dict[Query, Cuts]:
    """Return the pseudo-queries of documents with these numbers of sentences."""
    return {
        "first half": [(0, (size + 1) // 2) for size in sizes],
        "first sentence": [(0, 1)] * len(sizes),
        "span": [_span(size, name) for size, name in zip(sizes, pool.query_doc_id, strict=True)],
    }


def _rests(documents: Sequence[Sequence[T]], cuts: Cuts) -> list[list[T]]:
    """Return the sentences of each document outside its pseudo-query."""
    return [
        [*each[:first], *each[last:]] for each, (first, last) in zip(documents, cuts, strict=True)
    ]


def _span(sentences: int, doc_id: str) -> tuple[int, int]:
    """Return the bounds of a span that leaves a sentence, drawn by the document's id."""
    rng = Random(unit_hash("span", doc_id))
    length = min(rng.randint(*SPAN), sentences - 1)
    first = rng.randint(0, sentences - length)
    return first, first + length


def write_readings(
    encoder: Encoder,
    token_map: TokenMap | None,
    pairs: Mapping[Query, Pair],
    out: Path,
    *,
    dtype: Precision = "float32",
    whole_texts: bool = False,
    documents: Sides | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write what an encoder makes of both sides of each pair: vectors, and tokens with a map.

    Args:
        encoder: The encoder.
        token_map: Its map of token states.
        pairs: What it reads.
        out: The folder to write into.
        dtype: Precision of reading.
        whole_texts: Whether it reads whole texts, too.
        documents: The documents if they are known (`stored_documents`), and not to be read.
        progress: Called with the number of sentences of the longer side that are read.
    """
    spec = RetrieverSpec(
        vectors=(Vectors(folder=""),),
        unit="both" if whole_texts else "sentences",
        tokens=bool(token_map),
    )
    retriever = Retriever(spec, {"": encoder}, token_map, dtype)
    for side, items in _sides(pairs).items():
        if documents and side == "documents":
            read = Readings(Texts([]), {"": documents})
        else:
            read = retriever.read_sentences(
                list(chain.from_iterable(items)),
                documents=side == "documents",
                progress=progress if documents or side == "documents" else None,
            )
        vectors = read.vectors[""]
        arrays = {
            "sentences": vectors.sentences, "vectors": vectors.vectors, "starts": vectors.starts,
        }  # fmt: skip
        for tokens in read.tokens.values():
            arrays |= {"tokens": tokens.rows, "token_starts": tokens.starts}
        for whole in read.whole.values():
            arrays["whole"] = whole
        save_file(arrays, out / f"{side}.safetensors")


PoolTexts = Mapping[str, list[Texts]]
"""Texts and documents of a pool for each kind of query; their words are counted once."""


def pool_texts(pairs: Mapping[Query, Pair]) -> PoolTexts:
    """Return both sides of `pool_pairs` as whole texts."""
    return {
        side: [Texts([" ".join(sentences) for sentences in texts]) for texts in items]
        for side, items in _sides(pairs).items()
    }


def read_readings(
    kinds: Iterable[Query], words: PoolTexts, folders: Mapping[str, Path]
) -> dict[Query, tuple[Readings, Readings]]:
    """Return texts and documents as all encoders read them (`folders` by encoder)."""
    texts, documents = (
        _readings(items, {name: folder / f"{side}.safetensors" for name, folder in folders.items()})
        for side, items in words.items()
    )
    return dict(zip(kinds, zip(texts, documents, strict=True), strict=True))


def _sides(pairs: Mapping[Query, Pair]) -> dict[str, list[Sentences]]:
    """Return the texts of all kinds of query, and their documents."""
    return {
        "texts": [pair.texts for pair in pairs.values()],
        "documents": [pair.documents for pair in pairs.values()],
    }


def _readings(items: list[Texts], files: Mapping[str, Path]) -> list[Readings]:
    """Return one side of each kind of query; a file has them one after the other."""
    read = {name: load_file(file) for name, file in files.items()}
    bounds = [0, *accumulate(len(each.items) for each in items)]
    return [
        _reading(of_kind, read, first, end)
        for of_kind, first, end in zip(items, bounds, bounds[1:], strict=False)
    ]


def _reading(
    texts: Texts, read: Mapping[str, Mapping[str, np.ndarray]], first: int, end: int
) -> Readings:
    """Return the texts `first` to `end - 1` of each file."""

    def part(rows: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rows[starts[first] : starts[end]], starts[first : end + 1] - starts[first]

    return Readings(
        texts,
        {
            name: Sides(file["vectors"][first:end], *part(file["sentences"], file["starts"]))
            for name, file in read.items()
        },
        {
            name: TokenVectors(*part(file["tokens"], file["token_starts"]))
            for name, file in read.items()
            if "tokens" in file
        },
        {name: file["whole"][first:end] for name, file in read.items() if "whole" in file},
    )


def pool_scorers(spec: RetrieverSpec, texts: Readings, documents: Readings, kind: Query) -> Scorers:
    """Return a retriever's scores of a pool in both directions."""
    scorers = retriever_scorers(spec, documents, texts)
    if kind == "counterpart":
        return scorers
    # the pool's queries are parts of documents, and its candidates the rest of these
    return Scorers(scorers.counterpart_to_document, scorers.document_to_counterpart)
