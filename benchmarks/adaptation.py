"""Which way to adapt MiniLM to a domain, at equal wall-clock: the tables of RESULTS.md, from runs.

    taskset -c 0 python -m benchmarks.adaptation --corpora blog sessions reuters arxiv --write

Every way starts from all-MiniLM-L6-v2 and may take so many seconds from there to its encoder,
annotation and judging included, on the cores that this program may use, which should do nothing
else; a map takes what it takes. A short trial tells what a step costs; a run that misses the limit
by more than a tenth tells it better, and is made again. What each took stands beside its scores.
Half of the documents judge (at most 1,000 candidates), the other half's counterparts are the
labels.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

import numpy as np
from jaxtyping import Float64

from benchmarks.intervals import told_difference
from benchmarks.main_job import CORPORA, RESULTS, outcome_of, recalls_of
from sentemb_core.evaluation.bootstrap import paired_difference
from sentemb_core.evaluation.validation_scores import read_ranks
from sentemb_core.types import ArtifactRef
from tasks.artifact_files import artifact_path
from tasks.report import Outcome
from tasks.run_result import EncoderResult
from tasks.tables.markdown import across, markdown_table, write_between_marks

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
        told: The amount in words; labels are read so many times at most.
        row: What it makes of MiniLM without any training; empty: the best of what it trained.
    """

    options: str
    trial: int = 12
    told: str = "{n} steps"
    row: str = ""

    def typed(self, n: int) -> str:
        """The options for an amount."""
        return self.options.format(n=n, steps=n * EPOCH)

    def amount(self, n: int) -> str:
        """The amount in words."""
        return self.told.format(n=n, steps=n * EPOCH)


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
        told="a map alone",
        row="soft whitening of start",
    ),
    "SimCSE": Way("--method simcse --steps {n}"),
    "TSDAE": Way(
        "--method clm_autoencoder --preset tsdae --set encoder.pooling=mean --steps {n}",
        trial=60,
        told="{n} steps of 8",
    ),
    "neighbours": Way("--method conpono --steps {n}"),
    "infocse-idc": Way(ROUNDS, told="2 rounds of {n} steps"),
    "infocse-idc auto": Way(f"--preset auto {ROUNDS}", told="2 rounds of {n} steps"),
    "labels alone": Way(
        f"--method fine_tune {FINE_TUNED} --set training.method.sentences=3",
        trial=1,
        told="{n}x the labels",
    ),
    "InfoCSE++, one cycle": Way(
        f"--cycles 1 --rounds 1 --steps {{steps}} {FINE_TUNED} "
        "--set fine_tuning.method.sentences=3 --set control=false",
        trial=1,
        told="{steps} steps, {n}x the labels",
    ),
}


def common(corpus: str, seed: object) -> str:
    """What every way's command begins with."""
    return f"python -m flows run {CORPORA[corpus]} {RULE} --name {corpus} --seed {seed}"


def made_by(corpus: str, way: str, n: int, seed: int) -> Outcome:
    """What a person would get who typed it."""
    return outcome_of(f"{common(corpus, seed)} {WAYS[way].typed(n)}")


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


def table(corpus: str, limit: float, seeds: Sequence[int]) -> str:
    """BM25 and MiniLM, then every way: mean and standard deviation over the seeds."""
    k = depth_of(corpus)
    rows: dict[str, list[str]] = {}
    shown = [f'RUN="{common(corpus, "S")}"  # in zsh: setopt shwordsplit']
    for way in WAYS:
        n = fitting(limit, corpus, way, seeds[0])
        runs = [made_by(corpus, way, n, seed) for seed in seeds]
        start = runs[0].training.rows[0].scores
        fixed = {"BM25": runs[0].training.bm25, "MiniLM as it is": start}
        rows |= {
            label: [label, "", *cells([recalls_of(row, [k])]), "", ""]
            for label, row in fixed.items()
        }
        rows[way] = [way, WAYS[way].amount(n), *judged(runs, way, k)]
        shown.append(f"$RUN {WAYS[way].typed(n)}")
    ways = "document → counterpart", "counterpart → document"
    scored = [f"{way} R@{k}" for way in ways]
    head = ["way", "trained", *scored, f"{ways[0]}, minus MiniLM as it is (95 %)", "seconds"]
    said = f"Seeds {', '.join(map(str, seeds))}:"
    return "\n".join([markdown_table(head, rows.values()), "", said, "", "```", *shown, "```"])


def depth_of(corpus: str) -> int:
    return 20 if corpus == "sessions" else 5


def judged(runs: Sequence[Outcome], way: str, k: int) -> list[str]:
    """Recalls there and back over the seeds, what that gains, and the seconds."""
    made = [row_of(run, way).scores for run in runs]
    scores = cells([recalls_of(one, [k]) for one in made])
    seconds = mean(sum(spent(run, way)) for run in runs)
    return [*scores, gain(made, runs[0].training.rows[0].scores, k), f"{seconds:.0f}"]


def gain(made: Sequence[ArtifactRef], start: ArtifactRef, k: int) -> str:
    """In documents' Recall@k, each with itself, the mean of the seeds; bold where it is sure."""
    found = np.mean([hits(one, k) for one in made], axis=0)
    return told_difference(paired_difference(found, hits(start, k), 0))


def hits(scores: ArtifactRef, k: int) -> Float64[np.ndarray, " documents"]:
    """Whether each document of the test split finds its counterpart among the first k."""
    return (read_ranks(artifact_path(scores), "test") <= k).astype(np.float64)


def cells(scores: Sequence[list[float]]) -> list[str]:
    """There and back, each over the seeds."""
    return [across(values) for values in zip(*scores, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=WHOLE)
    parser.add_argument("--seeds", nargs="+", type=int, default=[42])
    parser.add_argument("--seconds", type=float, default=120.0, help="What each way may take.")
    parser.add_argument("--write", action="store_true", help="Into RESULTS.md, between its marks.")
    asked = parser.parse_args()
    for corpus in asked.corpora:
        made = table(corpus, asked.seconds, asked.seeds)
        print(f"{corpus}\n{made}\n", flush=True)
        if asked.write:
            write_between_marks(RESULTS, f"adaptation {corpus}", made)


if __name__ == "__main__":
    main()
