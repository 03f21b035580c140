"""Which learning rate the presets take, and what the others reach: 1,000 short posts, one round.

    python -m benchmarks.learning_rates --write

Each row trains at one rate and all else as preset, but for a static encoder's steps, a third of
the preset's; validation chooses, the test split is told.
"""

import argparse
from collections.abc import Sequence

from benchmarks.main_job import CORPORA, RESULTS, outcome_of
from tasks.tables.markdown import across, markdown_table, write_between_marks
from tasks.validate import scores_of

SHORT = " --set initialiser.steps=600 --steps 400"

SWEEPS: dict[str, tuple[str, str, str, tuple[float, ...]]] = {
    "static, neighbours": (
        SHORT, "initialiser.learning_rate", "after conpono",
        (5e-4, 2e-3, 5e-3, 2e-2, 5e-2, 1e-1, 2e-1),
    ),
    "static, round 1": (
        SHORT, "training.learning_rate", "round 1", (2e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2),
    ),
    "MiniLM, round 1": (
        " --encoder minilm --set training.batch_size=32", "training.learning_rate", "round 1",
        (1e-5, 2e-5, 5e-5, 1e-4, 2e-4),
    ),
}  # fmt: skip
"""What trains: options, the rate's setting, the row that is read, and the rates."""

RULE = "--rounds 1 --set validation.candidates=1000 --set control=false --name rates"


def recalls(name: str, rate: float, seed: int) -> list[float]:
    """R@5 of documents for their titles on the validation and the test split."""
    more, setting, label, _ = SWEEPS[name]
    own = f"{RULE}{more} --set {setting}={rate} --seed {seed}"
    typed = f"python -m flows run {CORPORA['short']} {own}"
    rows = {row.label: row for row in outcome_of(typed).training.rows}
    scores = scores_of(rows[label].scores)
    return [scores[s].document_to_counterpart.recall_at_5 for s in ("validation", "test")]


def table(seeds: Sequence[int], names: Sequence[str]) -> str:
    """A row for each rate of each sweep."""
    rows = [
        [name, f"{rate:g}", *(across(of_split) for of_split in zip(*found, strict=True))]
        for name in names
        for rate in SWEEPS[name][-1]
        for found in [[recalls(name, rate, seed) for seed in seeds]]
    ]
    head = ["what trains", "learning rate", "validation R@5", "test R@5"]
    return markdown_table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43])
    parser.add_argument("--sweeps", nargs="+", choices=SWEEPS, default=list(SWEEPS))
    parser.add_argument("--write", action="store_true", help="Into RESULTS.md, between its marks.")
    asked = parser.parse_args()
    made = table(asked.seeds, asked.sweeps)
    made += f"\n\nSeeds {', '.join(map(str, asked.seeds))}."
    print(made)
    if asked.write:
        write_between_marks(RESULTS, "learning rates", made)


if __name__ == "__main__":
    main()
