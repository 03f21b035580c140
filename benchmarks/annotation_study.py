"""Which positives to train on: every variant on every corpus, from the same start encoders.

    python -m benchmarks.annotation_study --results FOLDER --write

Each cell starts from the encoder that the initialiser left (encoders from nothing: plain
neighbours), picks its pairs, and trains as many steps as a round does; more rounds pick anew. All
documents of the pool ask, and all counterparts. A finished cell lies in the folder and is not
computed again.
"""

import argparse
import os
from copy import deepcopy

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import mean

import numpy as np
import pyarrow.parquet as pq
import torch
from jaxtyping import Float32, Float64, Int64

from benchmarks.annotation_variants import (
    ASKED,
    PAPER,
    SCHEDULES,
    VARIANTS,
    Seen,
    method_of,
    order_share,
)
from benchmarks.intervals import told_difference
from benchmarks.main_job import RESULTS
from flows.presets import preset
from sentemb_core.config.run import CorpusConfig, EncoderConfig, TrainingConfig, ValidationConfig
from sentemb_core.corpus.documents import write_documents
from sentemb_core.corpus.table import document_batches
from sentemb_core.corpus.tokenise import write_tokens
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import ValidationPool, write_validation_pool
from sentemb_core.encoder.batching import encode
from sentemb_core.encoder.devices import compute_device
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.start import start_encoder
from sentemb_core.evaluation.bootstrap import paired_difference
from sentemb_core.evaluation.encoder import encoder_scorers
from sentemb_core.evaluation.retrieval import rank_benchmark
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.method import Method
from sentemb_core.pairs.table import PairTable
from sentemb_core.store.disk import replacing
from sentemb_core.store.machine import fast_precision
from sentemb_core.training.batches import PairBatches
from sentemb_core.training.loop import learner_of, train
from sentemb_core.types import Json, Precision
from tasks.tables.markdown import across, markdown_table, write_between_marks

NEIGHBOURS = next(iter(VARIANTS))
LONGER = " times the steps"
"""Ends the name of a row that trains for longer than a round."""

TITLED = {"id_column": "doc_id", "sentences_column": "sentences", "counterpart_column": "title"}
SESSIONS = {"id_column": "session_id", "sentences_column": "titles"}
CORPORA = {
    "blog_usgov": TITLED | {"min_sentences": 5, "max_sentences": 40},
    "session_mixed_titles": SESSIONS | {"counterpart_column": "ad_title"},
    "news_reuters21578": TITLED | {"min_sentences": 5},
    "sci_arxiv_cs": TITLED | {"min_sentences": 5},
    "forum_20newsgroups": TITLED | {"min_sentences": 5, "max_sentences": 40},
    "session_wikispeedia": SESSIONS | {"counterpart_column": "target"},
}
STUDIED = list(CORPORA)[:4]
DEPTH = {"session_mixed_titles": 20, "session_wikispeedia": 20, "sci_arxiv_cs": 1}
"""k of R@k where 5 is too hard or too easy."""


@dataclass(frozen=True)
class Budget:
    """Rounds, and whether a static encoder takes all of its preset's steps, or a third.

    `initialiser`: its steps; none: the preset's.
    """

    rounds: int
    long: bool
    initialiser: int | None = None

    def settings(self, encoder: str) -> Json:
        """The preset of a start encoder, with the steps of this budget."""
        made = preset(encoder)
        if encoder == "static" and not self.long:
            made["initialiser"]["steps"], made["training"]["steps"] = 600, 400
        if self.initialiser:
            made["initialiser"]["steps"] = self.initialiser
        return made

    def __str__(self) -> str:
        """As a part of a file's name; empty for what most tables have."""
        rounds = f"-{self.rounds}-rounds" if self.rounds > 1 else ""
        return rounds + self.start

    @property
    def start(self) -> str:
        """The same of the start, which no round changes."""
        steps = f"-after-{self.initialiser}" if self.initialiser else ""
        return ("-long" if self.long else "") + steps


@dataclass(frozen=True)
class Ground:
    """A corpus, who asks in it, and the topic of every sentence where that is known."""

    name: str
    folder: Path
    encoder: str
    budget: "Budget"

    @property
    def drawn(self) -> bool:
        """Whether each seed has a start of its own; a pretrained encoder is the same for all."""
        return "initialiser" in self.budget.settings(self.encoder)

    @cached_property
    def corpus(self) -> TokenCorpus:
        return TokenCorpus.open(self.folder / "tokens")

    @cached_property
    def benchmark(self) -> ValidationPool:
        """All queries in one split."""
        found = ValidationPool.open(self.folder / "benchmark")
        return replace(found, query_split=np.full(len(found.query_split), "test"))

    @cached_property
    def counterpart(self) -> Int64[np.ndarray, " documents"]:
        """Of each document that asks, in the order of the ranks of both directions."""
        return np.unique(self.benchmark.query_candidate, return_inverse=True)[1]

    def topics(self) -> Int64[np.ndarray, " sentences"] | None:
        if self.name != "session_mixed_titles":
            return None
        table = pq.read_table(source(self.name), columns=["session_id", "topics"]).to_pydict()
        known = dict(zip(table["session_id"], table["topics"], strict=True))
        named = [topic for doc_id in self.corpus.doc_ids for topic in known[doc_id]]
        return np.unique(named, return_inverse=True)[1]

    @cached_property
    def random_start(self) -> Encoder:
        """With the vocabulary of the corpus, which no seed changes."""
        config = EncoderConfig(name=self.encoder)
        documents = self.folder / "documents" / "documents.parquet"
        return start_encoder(config, sentences(documents)).to(compute_device())


def source(name: str) -> str:
    return str(Path(os.environ["SENTEMB_DATA"]) / f"{name}.parquet")


def sentences(documents: Path) -> Iterator[str]:
    for batch in document_batches(documents, ["sentences"]):
        yield from batch.column("sentences").flatten().to_pylist()


def ground_of(name: str, encoder: str, documents: int, folder: Path, budget: Budget) -> Ground:
    """The corpus as tokens, a sample of it where it is large; made once."""
    ground = Ground(name, folder, encoder, budget)
    if (folder / "tokens" / "meta.json").exists():
        return ground
    for part in ("documents", "benchmark", "tokens"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    config = CorpusConfig(source=source(name), max_documents=documents, **CORPORA[name])
    write_documents(config, folder / "documents")
    table = folder / "documents" / "documents.parquet"
    write_validation_pool(table, ValidationConfig(candidates=1_000), folder / "benchmark")
    start = ground.random_start
    start.tokenizer.save(str(folder / "tokenizer.json"))
    write_tokens(
        table,
        folder / "benchmark",
        folder / "tokenizer.json",
        start.max_length,
        folder / "tokens",
        add_special_tokens=start.add_special_tokens,
        unknown=start.unknown_id,
    )
    return ground


def initialised(ground: Ground, seed: int) -> Encoder:
    """Random weights of this seed after the initialiser; a pretrained encoder as it is."""
    file = ground.folder / f"start-{seed}{ground.budget.start}.npz"
    settings = ground.budget.settings(ground.encoder)
    if not ground.drawn:
        return deepcopy(ground.random_start)
    if file.exists():
        encoder, stored = deepcopy(ground.random_start), np.load(file)
        encoder.load_state_dict({name: torch.from_numpy(stored[name]) for name in stored})
        return encoder
    documents = ground.folder / "documents" / "documents.parquet"
    named = EncoderConfig(name=ground.encoder, seed=seed)
    encoder = start_encoder(named, sentences(documents)).to(compute_device())
    config = TrainingConfig(**settings["initialiser"] | {"seed": seed})
    method = method_for(config.method, encoder)
    learn(encoder, method, method.pairs(ground.corpus, None), config, ground)
    np.savez(file, **{name: value.cpu().numpy() for name, value in encoder.state_dict().items()})
    return encoder


def learn(
    encoder: Encoder, method: Method, pairs: PairTable, config: TrainingConfig, ground: Ground
) -> None:
    sampler = PairBatches(method, ground.corpus, pairs, config.batch_size, config.seed)
    with tempfile.TemporaryDirectory() as work:
        learner = learner_of(method, encoder, config.seed)
        train(learner, method, sampler, config, Path(work))


def cell(ground: Ground, variant: str | None, seed: int) -> dict[str, object]:
    """Ranks of all queries both ways, and how pure the pairs of its rounds were; none: the start.

    `seconds` are of the processor, from the start encoder on: annotation and training. None where
    another device computes.
    """
    corpus, topics = ground.corpus, ground.topics()
    encoder, picked = initialised(ground, seed), list[PairTable]()
    vectors, spent = start_vectors(ground, encoder)
    rng, began = np.random.default_rng(seed), time.process_time()
    for part, name in enumerate(parts_of(variant, ground.budget.rounds)):
        training = ground.budget.settings(ground.encoder)["training"]
        config = TrainingConfig(**training | {"seed": 100 + seed + part})
        way, longer = way_of(name)
        steps = round(config.steps * longer) // parts_a_round(way)
        config = config.model_copy(update={"steps": steps})
        if way != NEIGHBOURS and part == 0:
            began -= spent
        elif way != NEIGHBOURS:
            vectors = vectors_of(encoder, corpus)
        seen = Seen(corpus, vectors, config.steps * config.batch_size, rng)
        picked.append((VARIANTS | ASKED)[way](seen))
        learn(encoder, method_of(name, encoder, seen), picked[-1], config, ground)
    seconds = time.process_time() - began
    dtype = precision(encoder)
    scorers = encoder_scorers(encoder, corpus, ground.benchmark, dtype=dtype)
    ranks = rank_benchmark(ground.benchmark, scorers, "test")
    told: dict[str, object] = {
        "there": ranks.document_to_counterpart.rank.tolist(),
        "back": ranks.counterpart_to_document.best.tolist(),
        "seconds": seconds if encoder.device.type == "cpu" else None,
    }
    if variant is None:
        after = Seen(corpus, vectors, 0, rng)
        told |= {"related": after.relatedness.share, "order": order_share(after)}
    told["adjacent"] = [float((np.abs(pairs.i - pairs.j) == 1).mean()) for pairs in picked]
    if topics is not None:
        again = VARIANTS[PAPER](Seen(corpus, vectors_of(encoder, corpus), 0, rng))
        told["purity_after"] = purity(again, topics)
        told["purity"] = [purity(pairs, topics) for pairs in picked]
    return told


def parts_of(variant: str | None, rounds: int) -> list[str]:
    """What picks the pairs, annotation by annotation."""
    if variant is None:
        return []
    schedule = SCHEDULES.get(variant, (variant,))
    return [
        name
        for place in range(rounds)
        for name in [schedule[min(place, len(schedule) - 1)]]
        for _ in range(parts_a_round(name))
    ]


def way_of(variant: str) -> tuple[str, float]:
    """How it picks its pairs, and how many times a round's steps it trains."""
    way, _, times = variant.removesuffix(LONGER).rpartition(", ")
    return (way, float(times)) if variant.endswith(LONGER) else (variant, 1.0)


def parts_a_round(variant: str) -> int:
    return 4 if "every" in variant else 1


def start_vectors(
    ground: Ground, encoder: Encoder
) -> tuple[Float32[np.ndarray, "sentences dim"], float]:
    """What a cell's first annotation sees, and the CPU-seconds that it took (neighbours need none).

    A pretrained encoder is the same start for every seed and variant, and encodes once.
    """
    file = ground.folder / "start-vectors.npz"
    if file.exists():
        stored = np.load(file)
        return stored["vectors"], float(stored["seconds"])
    began = time.process_time()
    vectors = vectors_of(encoder, ground.corpus)
    seconds = time.process_time() - began
    if not ground.drawn:
        np.savez(file, vectors=vectors, seconds=seconds)
    return vectors, seconds


def vectors_of(encoder: Encoder, corpus: TokenCorpus) -> Float32[np.ndarray, "sentences dim"]:
    return encode(encoder, corpus.tokens(np.arange(len(corpus))), dtype=precision(encoder))


def precision(encoder: Encoder) -> Precision:
    """In which a run annotates and judges."""
    return fast_precision() if encoder.kind == "transformer" else "float32"


def purity(pairs: PairTable, topics: Int64[np.ndarray, " sentences"]) -> float:
    """Share of pairs of one topic."""
    return float((topics[pairs.i] == topics[pairs.j]).mean())


def computed(folder: Path, ground: Ground, variant: str | None, seed: int) -> dict[str, object]:
    """The cell, from its file if it is there."""
    name = f"{variant or 'start'}{ground.budget}-{seed}.json"
    file = folder / name.replace(" ", "_").replace("/", "_")
    if not file.exists():
        began = time.monotonic()
        made = cell(ground, variant, seed)
        with replacing(file) as draft:
            draft.write_text(json.dumps(made))
        print(f"{ground.name}: {variant or 'start'}, seed {seed}: {time.monotonic() - began:.0f} s",
              flush=True)  # fmt: skip
    return json.loads(file.read_text())


Cells = dict[str | None, list[dict]]
"""Variant -> its cells, seed by seed; None is the start."""


def hits(
    cells: list[dict], k: int, counterpart: Int64[np.ndarray, " documents"]
) -> Float64[np.ndarray, "seeds counterparts"]:
    """Hit among the first k, the mean of both directions, counterpart by counterpart.

    A document and its counterpart look for each other, and equal titles are one counterpart: one
    draw takes a counterpart with all its documents. Each direction's mean stays its Recall@k.
    """
    there, back = (np.array([cell[way] for cell in cells]) <= k for way in ("there", "back"))
    weight = back.shape[1] / there.shape[1]
    found = [np.bincount(counterpart, seed) * weight for seed in there]
    return (np.array(found) + back) / 2


def table(ground: Ground, cells: Cells) -> str:
    """One row a variant; differences to the better of the two baselines."""
    k = DEPTH.get(ground.name, 5)
    found = {variant: hits(told, k, ground.counterpart) for variant, told in cells.items()}
    better = max((NEIGHBOURS, PAPER), key=lambda variant: found[variant].mean())
    pure = "purity" in cells[None][0]
    timed = all(cell["seconds"] is not None for told in cells.values() for cell in told)
    head = [
        "positives", f"document → counterpart R@{k}", f"counterpart → document R@{k}",
        f"both, minus “{better}” (95 %)", "better in", *(["CPU-s"] if timed else []),
        "neighbours among the pairs",
        *(["purity of the pairs", "of cluster pairs afterwards"] if pure else []),
    ]  # fmt: skip
    lines: list[list[str]] = []
    for variant, told in cells.items():
        row = [variant or "(start)"]
        row += [across([share(cell[way], k) for cell in told]) for way in ("there", "back")]
        same = variant == better
        row += ["", ""] if same else compared(found[variant], found[better])
        if timed:
            row += [f"{mean(cell['seconds'] for cell in told):.0f}" if variant else ""]
        row += [", ".join(f"{mean(shares):.2f}" for shares in by_annotation(told, "adjacent"))]
        if pure:
            row += [", ".join(across(shares) for shares in by_annotation(told, "purity"))]
            row += [across([cell["purity_after"] for cell in told])]
        lines.append(row)
    return markdown_table(head, lines)


def by_annotation(cells: list[dict], share: str) -> list[tuple[float, ...]]:
    """What the annotations have, first to last, each a number for every seed."""
    return list(zip(*(cell[share] for cell in cells), strict=True))


def share(ranks: list[int], k: int) -> float:
    return float((np.array(ranks) <= k).mean())


def compared(
    one: Float64[np.ndarray, "seeds counterparts"], other: Float64[np.ndarray, "seeds counterparts"]
) -> list[str]:
    """Mean difference with its interval over counterparts, and in how many seeds it is above zero.

    Bold where the interval does not hold zero.
    """
    found = paired_difference(one.mean(axis=0), other.mean(axis=0), 0)
    wins = int((one.mean(axis=1) > other.mean(axis=1)).sum())
    return [told_difference(found), f"{wins} of {len(one)}"]


def told_of_start(cells: Cells) -> str:
    start = cells[None]
    related, order = (mean(cell[key] for cell in start) for key in ("related", "order"))
    return (
        f"Estimated without labels: {related:.2f} of the pairs inside documents are related; "
        f"order explains {order:.2f} of the neighbours' likeness in words."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="Folder of finished cells.")
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=STUDIED)
    known = [*VARIANTS, *ASKED, *SCHEDULES]
    parser.add_argument("--variants", nargs="+", choices=known, help="Default: all rows.")
    parser.add_argument("--longer", type=float, help="Neighbours for so many times the steps, too.")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--long", action="store_true", help="Static: all steps of its preset.")
    parser.add_argument("--initialiser", type=int, help="Its steps; none: those of the preset.")
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44])
    parser.add_argument("--encoder", default="static")
    parser.add_argument("--documents", type=int, default=4_000)
    parser.add_argument("--write", action="store_true", help="Into RESULTS.md, between its marks.")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    longer = [f"{NEIGHBOURS}, {asked.longer:g}{LONGER}"] if asked.longer else []
    if asked.initialiser and "initialiser" not in preset(asked.encoder):
        parser.error(f"{asked.encoder} has learnt already: it has no --initialiser")
    budget = Budget(asked.rounds, asked.long, asked.initialiser)
    steps = budget.settings(asked.encoder)["training"]["steps"]
    short = steps < 400  # no room for four annotations, 100 steps each
    ways = asked.variants or [way for way in VARIANTS if not short or parts_a_round(way) == 1]
    variants = list(dict.fromkeys([NEIGHBOURS, *longer, PAPER, *ways]))
    for name in asked.corpora:
        folder = asked.results / f"{name}-{asked.encoder}-{asked.documents}"
        ground = ground_of(name, asked.encoder, asked.documents, folder, budget)
        starts = asked.seeds if ground.drawn else asked.seeds[:1] * len(asked.seeds)
        cells: Cells = {None: [computed(folder, ground, None, seed) for seed in starts]}
        for variant in variants:
            cells[variant] = [computed(folder, ground, variant, seed) for seed in asked.seeds]
        made = f"{table(ground, cells)}\n\n{told_of_start(cells)}"
        print(f"{name}\n{made}\n", flush=True)
        if asked.write:
            marks = f"annotation {name} {asked.encoder}{budget}, {len(asked.seeds)} seeds"
            write_between_marks(RESULTS, marks, made)


if __name__ == "__main__":
    main()
