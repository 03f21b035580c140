"""Which way to adapt MiniLM to a domain, at equal steps: the tables of RESULTS.md, from runs.

    python -m benchmarks.adaptation --corpora blog sessions reuters arxiv --write

Every way starts from all-MiniLM-L6-v2 and trains 60 steps of 64, or two epochs of its labels; the
seconds that its run took stand beside its scores. Half of the documents judge (at most 1,000
candidates), the other half's counterparts are the labels.
"""

import argparse

from benchmarks.main_job import CORPORA, RESULTS, outcome_of
from sentemb_core.types import ArtifactRef
from tasks.cells import across, write_between_marks
from tasks.publish import Outcome
from tasks.rows import Row
from tasks.tables import seconds
from tasks.validate import scores_of

RULE = (
    "--encoder minilm --set corpus.max_documents=2000 --set corpus.max_sentences=8 "
    "--set validation.candidates=1000 --set validation.label_share=0.5 --set register_model=false"
)
WAYS = {
    "SimCSE": "--method simcse --steps 60",
    "TSDAE": "--method clm_autoencoder --steps 60 --set training.method.noise=0.6 "
    "--set training.method.tied=true --set training.method.per=target",
    "neighbours": "--method conpono --steps 60",
    "infocse-idc": "--rounds 2 --steps 30 --set rounds.patience=2 --set control=false",
    "infocse-idc auto": "--preset auto --rounds 2 --steps 30 --set rounds.patience=2 "
    "--set control=false",
    "labels alone": "--method fine_tune --label-count 1000 --set labels.epochs=2 "
    "--set training.method.sentences=3",
    "InfoCSE++": "--cycles 1 --rounds 1 --steps 30 --label-count 1000 --set labels.epochs=2 "
    "--set fine_tuning.method.sentences=3 --set control=false",
}


def command(corpus: str, way: str, seed: str) -> str:
    """What a person would type."""
    return f"python -m flows run {CORPORA[corpus]} {RULE} --name {corpus} {WAYS[way]} --seed {seed}"


def row_of(outcome: Outcome) -> Row:
    """What the way made: the best of its encoders, and the last where none beats the start."""
    made = outcome.training.rows[1:]
    best = outcome.training.rows[outcome.training.best]
    return best if best in made else made[-1]


def table(corpus: str, seeds: list[int]) -> str:
    """Fixed rows, then the ways: mean and standard deviation over the seeds, and what they took."""
    k = 20 if corpus == "sessions" else 5
    told: dict[str, list[tuple[float, float, float]]] = {}
    for seed in seeds:
        for way in WAYS:
            made = outcome_of(command(corpus, way, str(seed)))
            row, run = row_of(made), made.training
            after = sum(seconds(made.timings, one.label) for one in run.rows[1:])
            told.setdefault(way, []).append((*recalls(row.scores, k), after))
            if way == next(iter(WAYS)):
                told.setdefault("BM25", []).append((*recalls(run.bm25, k), 0.0))
                told.setdefault("MiniLM as it is", []).append(
                    (*recalls(run.rows[0].scores, k), 0.0)
                )
    lines = [
        f"| way | document → counterpart R@{k} | counterpart → document R@{k} | seconds |",
        "|---|---|---|---|",
    ]
    for way in ("BM25", "MiniLM as it is", *WAYS):
        there, back, cost = (list(values) for values in zip(*told[way], strict=True))
        spent = f"{sum(cost) / len(cost):.0f}" if any(cost) else ""
        lines.append(f"| {way} | {across(there)} | {across(back)} | {spent} |")
    shown = [command(corpus, way, "S") for way in WAYS]
    return "\n".join([*lines, "", f"Seeds {', '.join(map(str, seeds))}:", "", "```", *shown, "```"])


def recalls(scores: ArtifactRef, k: int) -> tuple[float, float]:
    """On the test split, document to counterpart and back."""
    test = scores_of(scores)["test"]
    return (
        getattr(test.document_to_counterpart, f"recall_at_{k}"),
        getattr(test.counterpart_to_document, f"recall_at_{k}"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--seeds", nargs="+", type=int, default=[42])
    parser.add_argument("--write", action="store_true", help="Into RESULTS.md, between its marks.")
    asked = parser.parse_args()
    for corpus in asked.corpora:
        made = table(corpus, asked.seeds)
        print(f"{corpus}\n{made}\n", flush=True)
        if asked.write:
            write_between_marks(RESULTS, f"adaptation {corpus}", made)


if __name__ == "__main__":
    main()
