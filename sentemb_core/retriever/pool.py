"""A validation pool as the two sides of a retriever, read once for each encoder.

Counterparts look for documents, and documents for counterparts. Without counterparts three kinds of
pseudo-queries look for the rest of their own document: the first half, the first sentence, and a
random span.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

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
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write what an encoder makes of both sides of each pair: vectors, and tokens with a map."""
    from sentemb_core.retriever.retriever import Retriever
    from sentemb_core.retriever.spec import Vectors

    spec = RetrieverSpec(vectors=(Vectors(folder=""),), tokens=bool(token_map))
    retriever = Retriever(spec, {"": encoder}, token_map)
    for kind, pair in pairs.items():
        sides = {
            "texts": retriever.read_sentences(pair.texts, documents=False),
            "documents": retriever.read_sentences(
                pair.documents, documents=True, progress=progress
            ),
        }
        for name, read in sides.items():
            side = read.vectors[""]
            arrays = {"sentences": side.sentences, "vectors": side.vectors, "starts": side.starts}
            for tokens in read.tokens.values():
                arrays |= {"tokens": tokens.rows, "token_starts": tokens.starts}
            save_file(arrays, out / f"{kind.replace(' ', '_')}-{name}.safetensors")


def read_readings(
    pairs: Mapping[Query, Pair], folders: Mapping[str, Path]
) -> dict[Query, tuple[Readings, Readings]]:
    """Return texts and documents as all encoders read them (`folders` by encoder)."""
    found: dict[Query, tuple[Readings, Readings]] = {}
    for kind, pair in pairs.items():
        texts, documents = (
            _readings(items, {
                name: folder / f"{kind.replace(' ', '_')}-{side}.safetensors"
                for name, folder in folders.items()
            })
            for side, items in (("texts", pair.texts), ("documents", pair.documents))
        )  # fmt: skip
        found[kind] = texts, documents
    return found


def _readings(items: Sentences, files: Mapping[str, Path]) -> Readings:
    vectors: dict[str, Sides] = {}
    tokens: dict[str, TokenVectors] = {}
    for name, file in files.items():
        arrays = load_file(file)
        vectors[name] = Sides(arrays["vectors"], arrays["sentences"], arrays["starts"])
        if "tokens" in arrays:
            tokens[name] = TokenVectors(arrays["tokens"], arrays["token_starts"])
    return Readings([" ".join(sentences) for sentences in items], vectors, tokens)


def pool_scorers(spec: RetrieverSpec, texts: Readings, documents: Readings, kind: Query) -> Scorers:
    """Return a retriever's scores of a pool in both directions."""
    scorers = retriever_scorers(spec, documents, texts)
    if kind == "counterpart":
        return scorers
    # the pool's queries are parts of documents, and its candidates the rest of these
    return Scorers(scorers.counterpart_to_document, scorers.document_to_counterpart)
