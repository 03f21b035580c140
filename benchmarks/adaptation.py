"""Adapt MiniLM to a domain in equal time, for the tables of docs/results/adaptation.md.

    taskset -c 0 python -m benchmarks.adaptation --corpora blog sessions reuters arxiv --write

Every way starts from all-MiniLM-L6-v2 and has the same number of seconds, annotation and evaluation
included, on the cores of this process; nothing else should run on them. A map has no limit. A short
trial measures the cost of a step. A run that misses the limit by more than a tenth is repeated with
the cost that it measured. Half of the documents evaluate (at most 1,000 candidates); the
counterparts of the other half are the labels.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from benchmarks.main_job import CORPORA, DIRECTIONS, outcome_of, recalls
from benchmarks.results_pages import put
from sentemb_core.evaluation.bootstrap import paired_difference
from sentemb_core.evaluation.validation_scores import read_ranks
from sentemb_core.types import ArtifactRef
from tasks.artifacts import EncoderResult, artifact_path
from tasks.report import Outcome
from tasks.results import Pivot, ResultRow, ResultTable, markdown, over_seeds

BASELINE = "MiniLM as it is"
DEPTHS = {"sessions": 20}
"""Corpus -> depth of recall; 5 for the others."""

WHOLE = ["blog", "sessions", "reuters", "arxiv"]

RULE = (
    "--encoder minilm --set corpus.max_documents=2000 --set corpus.max_sentences=8 "
    "--set validation.candidates=1000 --set validation.label_share=0.5 --set register_model=false"
)


@dataclass(frozen=True)
class Way:
    """Options with `{n}`, the amount of training, and `{steps}`, as many steps as `n` epochs have.

    Attributes:
        options: After the corpus.
        trial: The amount of its trial.
        amount: The amount in words.
        row: Label of the encoder that needs no training; empty: the best of the trained ones.
    """

    options: str
    trial: int = 12
    amount: str = "{n} steps"
    row: str = ""

    def options_for(self, n: int) -> str:
        return self.options.format(n=n, steps=n * EPOCH)

    def amount_of(self, n: int) -> str:
        return self.amount.format(n=n, steps=n * EPOCH)


LABELS = 1_000
EPOCH = -(-LABELS // 64)
"""Steps of 64 in a pass over the labels."""
MISSED = 0.1
"""Share of the limit."""

ROUNDS = "--rounds 2 --steps {n} --set rounds.patience=2 --set control=false"
FINE_TUNED = f"--label-count {LABELS} --set labels.epochs={{n}}"
WAYS = {
    "soft whitening": Way(
        "--method conpono --steps 1 --postprocess soft_whitening",
        amount="a map alone",
        row="soft whitening of start",
    ),
    "SimCSE": Way("--method simcse --steps {n}"),
    "TSDAE": Way(
        "--method clm_autoencoder --preset tsdae --set encoder.pooling=mean --steps {n}",
        trial=60,
        amount="{n} steps of 8",
    ),
    "neighbours": Way("--method conpono --steps {n}"),
    "infocse-idc": Way(ROUNDS, amount="2 rounds of {n} steps"),
    "infocse-idc auto": Way(f"--preset auto {ROUNDS}", amount="2 rounds of {n} steps"),
    "labels alone": Way(
        f"--method fine_tune {FINE_TUNED} --set training.method.sentences=3",
        trial=1,
        amount="{n}x the labels",
    ),
    "InfoCSE++, one cycle": Way(
        f"--cycles 1 --rounds 1 --steps {{steps}} {FINE_TUNED} "
        "--set fine_tuning.method.sentences=3 --set control=false",
        trial=1,
        amount="{steps} steps, {n}x the labels",
    ),
}


def common(corpus: str, seed: object) -> str:
    """What every way's command begins with."""
    return f"python -m flows run {CORPORA[corpus]} {RULE} --name {corpus} --seed {seed}"


def made_by(corpus: str, way: str, n: int, seed: int) -> Outcome:
    """What a person would get who typed it."""
    return outcome_of(f"{common(corpus, seed)} {WAYS[way].options_for(n)}")


def row_of(outcome: Outcome, way: str) -> EncoderResult:
    """What the way made: the best of its encoders, and the last where none beats the start."""
    made = outcome.training.rows[1:]
    if label := WAYS[way].row:
        return next(row for row in made if row.label == label)
    best = outcome.training.rows[outcome.training.best]
    return best if best in made else made[-1]


def spent(outcome: Outcome, way: str) -> tuple[float, float]:
    """Seconds of training, and of all else between the start encoder and the last one.

    Of a map also those that its vectors took, which are the start encoder's.
    """
    rows, label = outcome.training.rows, WAYS[way].row
    made = {rows[0].label, label} if label else {row.label for row in rows[1:]}
    took = [timing for timing in outcome.timings if timing.round in made]
    training = sum(timing.seconds for timing in took if timing.stage == "train_encoder")
    return training, sum(timing.seconds for timing in took) - training


def fitting(limit: float, corpus: str, way: str, seed: int) -> int:
    """What the way can train in so many seconds; the trial's own amount at least.

    By its trial, or by a run of what that promised, where this misses the limit. A map has no
    amount.
    """
    if WAYS[way].row:
        return 0
    trial = WAYS[way].trial
    promised = amount_within(limit, way, trial, made_by(corpus, way, trial, seed))
    run = made_by(corpus, way, promised, seed)
    missed = abs(sum(spent(run, way)) - limit) > MISSED * limit
    return amount_within(limit, way, promised, run) if missed else promised


def amount_within(limit: float, way: str, amount: int, run: Outcome) -> int:
    """From what a run of an amount took."""
    training, other = spent(run, way)
    return max(WAYS[way].trial, int((limit - other) / training * amount))


def table(corpus: str, limit: float, seeds: Sequence[int]) -> ResultTable:
    """Return BM25 and MiniLM, then every way: recall, difference to MiniLM, seconds."""
    k = DEPTHS.get(corpus, 5)
    rows: list[ResultRow] = []
    shown = [f'RUN="{common(corpus, "S")}"  # in zsh: setopt shwordsplit']
    for way in WAYS:
        n = fitting(limit, corpus, way, seeds[0])
        runs = {seed: made_by(corpus, way, n, seed) for seed in seeds}
        first = next(iter(runs.values())).training
        fixed = {"BM25": first.bm25, BASELINE: first.rows[0].scores}
        if not rows:
            for label, scores in fixed.items():
                rows += recalls(scores, [k], system=label, task=corpus, seed=seeds[0])
        amount = WAYS[way].amount_of(n)
        rows.append(ResultRow(system=way, task=corpus, metric="trained", note=amount))
        rows += rows_of_way(runs, way, corpus, k)
        shown.append(f"$RUN {WAYS[way].options_for(n)}")
    return ResultTable(
        id=f"adaptation {corpus}",
        title=f"adaptation: {corpus}",
        rows=tuple(over_seeds(rows)),
        pivot=Pivot(columns=("direction", "metric"), corner="way"),
        command="\n".join(shown),
    )


def rows_of_way(runs: Mapping[int, Outcome], way: str, corpus: str, k: int) -> Iterator[ResultRow]:
    """Yield a way's recalls and seconds under every seed, and its difference to MiniLM."""
    for seed, run in runs.items():
        scores = row_of(run, way).scores
        yield from recalls(scores, [k], system=way, task=corpus, seed=seed)
        seconds = sum(spent(run, way))
        yield ResultRow(system=way, task=corpus, metric="seconds", value=seconds, seeds=(seed,))
    start = next(iter(runs.values())).training.rows[0].scores
    found = np.mean([hits(row_of(run, way).scores, k) for run in runs.values()], axis=0)
    gain = paired_difference(found, hits(start, k), 0)
    yield ResultRow(
        system=way, task=corpus, split="test", direction=DIRECTIONS[0], metric=f"R@{k}",
        baseline=BASELINE, value=gain.mean, low=gain.low, high=gain.high, seeds=tuple(runs),
    )  # fmt: skip


def hits(scores: ArtifactRef, k: int) -> Float64[np.ndarray, " documents"]:
    """Return whether each document of the test split finds its counterpart among the first k."""
    return (read_ranks(artifact_path(scores), "test") <= k).astype(np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=WHOLE)
    parser.add_argument("--seeds", nargs="+", type=int, default=[42])
    parser.add_argument("--seconds", type=float, default=120.0, help="Time of each way.")
    parser.add_argument("--write", action="store_true", help="Replace it in results/.")
    given = parser.parse_args()
    for corpus in given.corpora:
        made = table(corpus, given.seconds, given.seeds)
        print(f"{made.id}\n{markdown(made)}\n", flush=True)
        if given.write:
            put("adaptation", made)


if __name__ == "__main__":
    main()
