"""Run the main job on four corpora under several seeds, for the tables of docs/results/main_job.md.

    python -m benchmarks.main_job --corpora blog sessions --seeds 42 43 44 --write

A run that is in the store costs seconds; another takes minutes. `--write` replaces the tables in
results/main_job.json; `make results` then writes the page.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.results_pages import put
from tasks.report import Outcome
from tasks.results import Pivot, ResultRow, ResultTable, markdown, over_seeds
from tasks.validate import scores_of

TITLED = "--id-column doc_id --sentences-column sentences --counterpart-column title"
CORPORA = {
    "blog": f"data/blog_usgov.parquet {TITLED} --set corpus.min_sentences=5 "
    "--set corpus.max_sentences=40",
    "posts": f"data/blog_usgov.parquet {TITLED} --set corpus.min_sentences=5 "
    "--set corpus.max_sentences=20 --set corpus.max_documents=1000",
    "short": f"data/blog_usgov.parquet {TITLED} --set corpus.min_sentences=5 "
    "--set corpus.max_sentences=8 --set corpus.max_documents=1000",
    "sessions": "$SENTEMB_DATA/session_mixed_titles.parquet --id-column session_id "
    "--sentences-column titles --counterpart-column ad_title",
    "reuters": f"$SENTEMB_DATA/news_reuters21578.parquet {TITLED} --set corpus.min_sentences=5",
    "arxiv": f"$SENTEMB_DATA/sci_arxiv_cs.parquet {TITLED} --set corpus.min_sentences=5",
}
DEPTHS = {"sessions": (5, 20)}
"""Corpus -> depths of recall; 5 for the others."""

RULE = "--rounds 2 --set rounds.patience=2 --set validation.candidates=1000 --return encoder"


def command(corpus: str, seed: str, more: str) -> str:
    """Return the command of one run; without other options, from nothing on clusters."""
    more += "" if "--encoder" in more else " --encoder static"
    more += "" if "--preset" in more else " --preset clusters"
    return f"python -m flows run {CORPORA[corpus]} --name {corpus} {RULE} --seed {seed}{more}"


def outcome_of(command: str) -> Outcome:
    """Run a command and return its outcome; its log goes to stderr."""
    words = os.path.expandvars(command).split()[1:]
    done = subprocess.run([sys.executable, *words, "--json"], stdout=subprocess.PIPE, check=True)
    return Outcome.model_validate(json.loads(done.stdout))


def rows_of(outcome: Outcome, corpus: str, seed: int) -> Iterator[ResultRow]:
    """Yield the recalls of every encoder of a run on the test split, in both directions."""
    run = outcome.training
    scores = {"random encoder": run.random, "BM25": run.bm25}
    scores |= {row.label: row.scores for row in [*run.rows, *run.controls]}
    for label, ref in scores.items():
        if not ref:
            continue
        test = scores_of(ref)["test"]
        directions = {
            "document → counterpart": test.document_to_counterpart,
            "counterpart → document": test.counterpart_to_document,
        }
        for direction, found in directions.items():
            for k in DEPTHS.get(corpus, (5,)):
                yield ResultRow(
                    system=label, task=corpus, split="test", direction=direction, metric=f"R@{k}",
                    value=getattr(found, f"recall_at_{k}"), seeds=(seed,), key=ref.digest,
                )  # fmt: skip


def with_seed_count(row: ResultRow, seeds: int) -> ResultRow:
    """Name the seeds of an encoder that not every run has: a run may stop early."""
    if len(row.seeds) == seeds:
        return row
    return row.model_copy(update={"system": f"{row.system} ({len(row.seeds)} of {seeds} seeds)"})


def table(corpus: str, seeds: list[int], more: str) -> ResultTable:
    """Return means and standard deviations over the seeds, and the command."""
    rows = [
        row
        for seed in seeds
        for row in rows_of(outcome_of(command(corpus, str(seed), more)), corpus, seed)
    ]
    return ResultTable(
        id=f"main-job {corpus}{more}",
        title=f"{corpus}: {f'`{more.strip()}`' if more else 'the defaults'}",
        rows=tuple(with_seed_count(row, len(seeds)) for row in over_seeds(rows)),
        pivot=Pivot(columns=("direction", "metric"), corner="encoder"),
        command=command(corpus, "S", more),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44])
    parser.add_argument("--more", default="", help="Options for every run, as --encoder minilm.")
    parser.add_argument("--write", action="store_true", help="Replace it in results/main_job.json.")
    given = parser.parse_args()
    more = f" {given.more}" if given.more else ""
    for corpus in given.corpora:
        made = table(corpus, given.seeds, more)
        print(f"{made.id}\n{markdown(made)}\n", flush=True)
        if given.write:
            put("main_job", made)


if __name__ == "__main__":
    main()
