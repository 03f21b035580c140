"""A validation pool as the two sides of a retriever, read once for each encoder.

Counterparts look for documents, and documents for counterparts. Without counterparts three kinds of
pseudo-queries look for the rest of their own document: the first half, the first sentence, and a
random span.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

import numpy as np
from safetensors.numpy import load_file, save_file

from sentemb_core.corpus.validation_pool import ValidationPool, pool_sentences, unit_hash
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.evaluation.validation_scores import Scorers
from sentemb_core.retriever.scores import Readings, retriever_scorers
from sentemb_core.retriever.spec import RetrieverSpec
from sentemb_core.retriever.tokens import TokenMap, TokenVectors
from sentemb_core.retriever.vectors import Sides

Query = Literal["counterpart", "first half", "first sentence", "span"]

SPAN = (1, 3)
"""Fewest and most sentences of a random span."""

Sentences = list[list[str]]


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
    spans = [_span(each, doc_id) for each, doc_id in zip(whole, pool.query_doc_id, strict=True)]
    halves = [(0, (len(each) + 1) // 2) for each in whole]
    firsts = [(0, 1)] * len(whole)
    cuts: dict[Query, list[tuple[int, int]]] = {
        "first half": halves,
        "first sentence": firsts,
        "span": spans,
    }
    return {
        kind: Pair(
            [each[first:last] for each, (first, last) in zip(whole, cut, strict=True)],
            [each[:first] + each[last:] for each, (first, last) in zip(whole, cut, strict=True)],
        )
        for kind, cut in cuts.items()
    }


def _span(sentences: Sequence[str], doc_id: str) -> tuple[int, int]:
    """Return the bounds of a span that leaves a sentence, drawn by the document's id."""
    rng = Random(unit_hash("span", doc_id))
    length = min(rng.randint(*SPAN), len(sentences) - 1)
    first = rng.randint(0, len(sentences) - length)
    return first, first + length


def write_readings(
    encoder: Encoder,
    token_map: TokenMap | None,
    pairs: Mapping[Query, Pair],
    out: Path,
    *,
    whole_texts: bool = False,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write what an encoder makes of both sides of each pair: vectors, and tokens with a map.

    `whole_texts`: also the vectors of whole texts.
    """
    from sentemb_core.retriever.retriever import Retriever
    from sentemb_core.retriever.spec import Vectors

    spec = RetrieverSpec(
        vectors=(Vectors(folder=""),),
        unit="both" if whole_texts else "sentences",
        tokens=bool(token_map),
    )
    retriever = Retriever(spec, {"": encoder}, token_map)
    for side, items in _sides(pairs).items():
        documents = side == "documents"
        read = retriever.read_sentences(
            list(chain.from_iterable(items)),
            documents=documents,
            progress=progress if documents else None,
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


def read_readings(
    pairs: Mapping[Query, Pair], folders: Mapping[str, Path]
) -> dict[Query, tuple[Readings, Readings]]:
    """Return texts and documents as all encoders read them (`folders` by encoder)."""
    texts, documents = (
        _readings(items, {name: folder / f"{side}.safetensors" for name, folder in folders.items()})
        for side, items in _sides(pairs).items()
    )
    return dict(zip(pairs, zip(texts, documents, strict=True), strict=True))


def _sides(pairs: Mapping[Query, Pair]) -> dict[str, list[Sentences]]:
    """Return the texts of all kinds of query, and their documents."""
    return {
        "texts": [pair.texts for pair in pairs.values()],
        "documents": [pair.documents for pair in pairs.values()],
    }


def _readings(items: list[Sentences], files: Mapping[str, Path]) -> list[Readings]:
    """Return one side of each kind of query; a file has them one after the other."""
    read = {name: load_file(file) for name, file in files.items()}
    bounds = [0, *accumulate(map(len, items))]
    return [
        _reading(of_kind, read, first, end)
        for of_kind, first, end in zip(items, bounds, bounds[1:], strict=False)
    ]


def _reading(
    items: Sentences, read: Mapping[str, Mapping[str, np.ndarray]], first: int, end: int
) -> Readings:
    """Return the texts `first` to `end - 1` of each file."""

    def part(rows: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rows[starts[first] : starts[end]], starts[first : end + 1] - starts[first]

    return Readings(
        [" ".join(sentences) for sentences in items],
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
