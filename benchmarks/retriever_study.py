"""Score the parts of a retriever and every leave-one-out, for docs/results/retriever.md.

    python -m benchmarks.retriever_study --corpora blog sessions --seeds 1 2 3 --write

A seed draws a pool of 600 documents and seeds every part. Collections are used whole. A corpus
takes minutes a seed. Fitted parts are kept in the store ($SENTEMB_HOME), so that a repeated run
scores only. `--write` replaces the rows of these retrievers in results/retriever.json.

A: softly whitened MiniLM; C: the same, which also reads whole texts. B: the corpus table, trained
on neighbours and then on its own pairs. N: the same table, trained on neighbours for all its steps.
M: best sentence. L: stems and letters of words. T: late interaction. E = A + M, FX = A + M + L.
"""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from benchmarks.results_pages import load, put
from benchmarks.retriever_corpora import CORPORA, SEARCH, Judged, Way, judged
from flows.pipeline import encoder_from
from flows.retriever import NEIGHBOURS, RELATED, TABLE, corpus_table
from sentemb_core.config.run import EncoderConfig
from sentemb_core.encoder.checkpoint import load_encoder
from sentemb_core.errors import SentembError
from sentemb_core.evaluation.bootstrap import paired_difference
from sentemb_core.evaluation.metrics import PerQuery
from sentemb_core.retriever.folder import TOKEN_MAP
from sentemb_core.retriever.retriever import Retriever
from sentemb_core.retriever.scores import Readings, scores_of_documents
from sentemb_core.retriever.spec import SHARES_WITHOUT_ENCODER, RetrieverSpec, Unit, Vectors, Words
from sentemb_core.retriever.tokens import TokenMap, read_token_map
from sentemb_core.retriever.words import TERMS, Texts
from sentemb_core.types import ArtifactRef
from tasks.artifacts import artifact_path
from tasks.corpus import tokenise_sentences
from tasks.encode import finished_encoder
from tasks.execution import without_prefect
from tasks.results import Pivot, ResultRow, ResultTable, markdown
from tasks.retriever import fit_token_map
from tasks.train import train_encoder

LONGEST = 256
"""Tokens that MiniLM reads: no sentence is cut."""

TABLE_WEIGHT = 0.5
"""Of B beside A (`sentemb_core/retriever/choice.py`)."""

BM25, FX = "BM25", "A + M + L"

CONTROL = "N for B"
"""Baseline of a retriever with B: the same one without self-annotation."""

SPECS = (
    "MiniLM", "A", BM25, "L", "B", "N",
    "A + M", "A + L", FX, "A + M + L + T", "A + M + T", "A + L + T", "MiniLM + M + L",
    "A + M + BM25", "A + B", "A + B + M", "A + N + M", "A + B + M + L", "A + B + M + T",
    "A + B + M + L + T", "B + M", "B + L", "B + M + L", "N + M + L",
    "C", "C + L", "C + M + L", "C + M + L + T",
)  # fmt: skip
"""Retrievers by their parts: for each useful whole, what remains without each part."""

WORD_BYTES = 8
"""Of a term in a document: its place and its weight."""

TIMED = 100
"""Queries whose time is measured."""


def spec_of(name: str) -> RetrieverSpec:
    """Return the retriever of these parts, with the fixed weights."""
    parts = ["A" if part == "C" else part for part in name.split(" + ")]
    encoders = [part for part in parts if part in ("MiniLM", "A", "B", "N")]
    words: dict[str, Words] = {"L": "stems_and_letters", BM25: "bm25"}
    weights = {"B": TABLE_WEIGHT, "N": TABLE_WEIGHT} if "A" in parts else {}
    more = {} if {"MiniLM", "A"} & set(parts) else {"shares": SHARES_WITHOUT_ENCODER}
    return RetrieverSpec(
        vectors=tuple(Vectors(folder=each, weight=weights.get(each, 1.0)) for each in encoders),
        unit="both" if "C" in name.split(" + ") else "sentences",
        best_sentence=0.5 if "M" in parts else 0.0,
        words=next((words[part] for part in parts if part in words), None),
        tokens="T" in parts,
        **more,
    )


def control_of(name: str) -> dict[str, str]:
    """Return the retriever with N in place of B, under the baseline's name, if it is studied."""
    control = " + ".join("N" if part == "B" else part for part in name.split(" + "))
    return {CONTROL: control} if control != name and control in SPECS else {}


def neighbours_table(documents: ArtifactRef, seed: int) -> ArtifactRef:
    """Return the corpus table without self-annotation: the control of `corpus_table`."""
    start = encoder_from(TABLE.model_copy(update={"seed": seed}), documents)
    sentences = tokenise_sentences(documents, None, start)
    steps = NEIGHBOURS.steps + RELATED.steps
    config = NEIGHBOURS.model_copy(update={"seed": seed, "steps": steps})
    trained = train_encoder(start, sentences, config)
    return finished_encoder(trained.model, sentences, "soft_whitening", seed)


def fitted(documents: ArtifactRef, seed: int) -> tuple[dict[str, ArtifactRef], TokenMap, str]:
    """Return the encoders by name, A's token map, and why there is no table, if there is none."""
    start = encoder_from(EncoderConfig(name="minilm", max_length=LONGEST), None)
    sentences = tokenise_sentences(documents, None, start)
    whitened = finished_encoder(start, sentences, "soft_whitening", seed)
    tokens = artifact_path(fit_token_map(whitened, sentences, seed, "float32")) / TOKEN_MAP
    encoders = {"MiniLM": start, "A": whitened}
    refused = ""
    try:
        tables = {
            "B": corpus_table(documents, None, seed),
            "N": neighbours_table(documents, seed),
        }
        encoders |= tables
    except SentembError as error:  # documents of one sentence have no neighbours
        refused = str(error)
    return encoders, read_token_map(tokens), refused


def read(
    encoders: Mapping[str, ArtifactRef], token_map: TokenMap, corpus: Judged
) -> tuple[Readings, Readings, dict[str, float]]:
    """Return both sides as all encoders read them, and the milliseconds of a query by encoder."""
    texts, documents = (
        Readings(Texts([" ".join(sentences) for sentences in side])) for side in corpus.pair
    )
    milliseconds: dict[str, float] = {}
    for name, encoder in encoders.items():
        own = token_map if name == "A" else None
        unit: Unit = "both" if name == "A" else "sentences"
        spec = RetrieverSpec(vectors=(Vectors(folder=name),), unit=unit, tokens=bool(own))
        retriever = Retriever(spec, {name: load_encoder(artifact_path(encoder))}, own)
        began = time.perf_counter()
        of_texts = retriever.read_sentences(corpus.pair.texts, documents=False)
        milliseconds[name] = 1000 * (time.perf_counter() - began) / len(corpus.pair.texts)
        of_documents = retriever.read_documents(corpus.pair.documents)
        texts, documents = joined(texts, of_texts), joined(documents, of_documents)
    return texts, documents, milliseconds


def joined(first: Readings, second: Readings) -> Readings:
    """Return what several encoders make of one side."""
    return Readings(
        first.texts,
        {**first.vectors, **second.vectors},
        {**first.tokens, **second.tokens},
        {**first.whole, **second.whole},
    )


def stored_bytes(spec: RetrieverSpec, documents: Readings) -> float:
    """Return the bytes that an index stores for a document."""
    sides = [documents.vectors[each.folder] for each in spec.vectors]
    sizes = [side.vectors.nbytes for side in sides]
    sizes += [side.sentences.nbytes for side in sides if spec.best_sentence]
    if spec.tokens:
        sizes.append(documents.tokens[spec.vectors[0].folder].rows.nbytes)
    for terms in TERMS[spec.words] if spec.words else ():
        sizes += [WORD_BYTES * len(set(terms(text))) for text in documents.texts.items]
    return sum(sizes) / len(documents.texts.items)


def query_milliseconds(
    spec: RetrieverSpec, texts: Readings, documents: Readings, encoding: Mapping[str, float]
) -> float:
    """Return the time in which a text finds documents, its encoding included."""
    scores = scores_of_documents(spec, texts, documents)
    asked = np.arange(min(TIMED, len(texts.texts.items)))
    began = time.perf_counter()
    scores(asked)
    searching = 1000 * (time.perf_counter() - began) / len(asked)
    return searching + sum(encoding[each.folder] for each in spec.vectors)


Values = dict[str, dict[Way, list[PerQuery]]]
Costs = dict[str, dict[str, list[float]]]


def studied(
    corpus: str, seeds: Sequence[int], count: int, names: Sequence[str]
) -> tuple[Values, Costs, str]:
    """Return the values of the retrievers' queries and their costs, one item a seed."""
    needed = {each.folder for name in names for each in spec_of(name).vectors}
    values: Values = {}
    costs: Costs = {}
    refused = ""
    for seed in seeds:
        found = judged(corpus, seed, count)
        encoders, token_map, refused = fitted(found.documents, seed)
        encoders = {name: encoder for name, encoder in encoders.items() if name in needed}
        texts, documents, encoding = read(encoders, token_map, found)
        for name in names:
            spec = spec_of(name)
            if any(each.folder not in encoders for each in spec.vectors):
                continue
            for way, per_query in found.values(spec, texts, documents).items():
                values.setdefault(name, {}).setdefault(way, []).append(per_query)
            own = {
                "parts": float(spec.parts),
                "bytes a document": stored_bytes(spec, documents),
                "ms a query": query_milliseconds(spec, texts, documents, encoding),
            }
            for metric, cost in own.items():
                costs.setdefault(name, {}).setdefault(metric, []).append(cost)
    return values, costs, refused


def paired(way: Way, of_seeds: Sequence[PerQuery]) -> PerQuery:
    """Return one value a query: pools of several seeds differ, a collection's queries do not."""
    return np.mean(of_seeds, axis=0) if way[0] == SEARCH else np.concatenate(of_seeds)


def rows_of(
    corpus: str,
    seeds: Sequence[int],
    values: Values,
    costs: Costs,
    refused: str,
    names: Sequence[str] = SPECS,
) -> Iterator[ResultRow]:
    """Yield mean and spread over seeds, the differences to both baselines, and the costs."""
    common = {"task": corpus, "seeds": tuple(seeds)}
    for name in names:
        if name not in values:
            yield ResultRow(system=name, metric="parts", note=refused, **common)
            continue
        others = {"": name, BM25: BM25, FX: FX} | control_of(name)
        for way, (baseline, other) in product(values[name], others.items()):
            own = values[name][way]
            means = [float(each.mean()) for each in own]
            row = ResultRow(
                system=name, metric=way[1], direction=way[0], value=float(np.mean(means)),
                spread=float(np.std(means, ddof=1)) if len(seeds) > 1 else None,
                units=len(paired(way, own)), **common,
            )  # fmt: skip
            if baseline and other != name:
                gain = paired_difference(paired(way, own), paired(way, values[other][way]), seed=0)
                found = {"value": gain.mean, "low": gain.low, "high": gain.high, "spread": None}
                yield row.model_copy(update=found | {"baseline": baseline})
            elif not baseline:
                yield row
        for metric, found in costs[name].items():
            yield ResultRow(system=name, metric=metric, value=float(np.mean(found)), **common)


def tables(
    corpus: str, seeds: Sequence[int], count: int, names: Sequence[str]
) -> list[ResultTable]:
    """Return values and costs, and differences; one line for each retriever."""
    both = list(dict.fromkeys((*names, BM25, FX)))  # baselines
    both += [control for name in names for control in control_of(name).values()]
    with without_prefect():
        found = studied(corpus, seeds, count, list(dict.fromkeys(both)))
        rows = list(rows_of(corpus, seeds, *found, names))
    listed = " ".join(map(str, seeds))
    command = (
        f"python -m benchmarks.retriever_study --corpora {corpus} --seeds {listed} "
        f"--documents {count}"
    )
    pivot = Pivot(
        columns=("direction", "metric"),
        corner="retriever",
        digits={"parts": 0, "bytes a document": 0, "ms a query": 1},
    )
    return [
        ResultTable(
            id=f"retriever {corpus}",
            title=corpus,
            rows=tuple(row for row in rows if not row.baseline),
            pivot=pivot,
            command=command,
            caveats=("retriever setup",),
        ),
        ResultTable(
            id=f"retriever {corpus}, differences",
            title=f"{corpus}: differences",
            rows=tuple(row for row in rows if row.baseline),
            pivot=pivot,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--documents", type=int, default=600, help="Size of a pool with titles.")
    parser.add_argument("--retrievers", nargs="+", choices=SPECS, default=list(SPECS))
    parser.add_argument("--write", action="store_true", help="Replace the stored rows.")
    given = parser.parse_args()
    for corpus in given.corpora:
        for made in tables(corpus, given.seeds, given.documents, given.retrievers):
            print(f"{made.id}\n{markdown(made)}\n", flush=True)
            if given.write:
                put("retriever", with_stored_rows(made))


def with_stored_rows(made: ResultTable) -> ResultTable:
    """Return the table with the stored rows of the other retrievers, in the order of all."""
    stored = next((each.rows for each in load("retriever") if each.id == made.id), ())
    new = {row.system for row in made.rows}
    rows = (*(row for row in stored if row.system not in new), *made.rows)
    ordered = sorted(rows, key=lambda row: SPECS.index(row.system))
    return made.model_copy(update={"rows": tuple(ordered)})


if __name__ == "__main__":
    main()
