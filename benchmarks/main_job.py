"""The main job on four corpora, seed by seed: the tables of RESULTS.md, from runs alone.

    python -m benchmarks.main_job --corpora blog sessions --seeds 42 43 44 --write

A run that is in the store costs seconds; the others take minutes each.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sentemb_core.types import ArtifactRef
from tasks.report import Outcome
from tasks.tables.markdown import across, markdown_table, write_between_marks
from tasks.validate import scores_of

RESULTS = Path(__file__).parents[1] / "RESULTS.md"

TITLED = "--id-column doc_id --sentences-column sentences --counterpart-column title"
CORPORA = {
    "blog": f"data/blog_usgov.parquet {TITLED} --set corpus.min_sentences=5 "
    "--set corpus.max_sentences=40",
    "demo": f"data/blog_usgov.parquet {TITLED} --set corpus.min_sentences=5 "
    "--set corpus.max_sentences=20 --set corpus.max_documents=1000",
    "short": f"data/blog_usgov.parquet {TITLED} --set corpus.min_sentences=5 "
    "--set corpus.max_sentences=8 --set corpus.max_documents=1000",
    "sessions": "$SENTEMB_DATA/session_mixed_titles.parquet --id-column session_id "
    "--sentences-column titles --counterpart-column ad_title",
    "reuters": f"$SENTEMB_DATA/news_reuters21578.parquet {TITLED} --set corpus.min_sentences=5",
    "arxiv": f"$SENTEMB_DATA/sci_arxiv_cs.parquet {TITLED} --set corpus.min_sentences=5",
}
DEPTHS = {"sessions": (5, 20)}
"""Sessions are looked at as deep as the prototypes were; all others at five."""

RULE = "--rounds 2 --set rounds.patience=2 --set validation.candidates=1000"


def command(corpus: str, seed: str, more: str) -> str:
    """What a person would type."""
    return f"python -m flows run {CORPORA[corpus]} --name {corpus} {RULE} --seed {seed}{more}"


def outcome_of(typed: str) -> Outcome:
    """Of one run; what it says on the way goes to this program's stderr."""
    words = os.path.expandvars(typed).split()[1:]
    done = subprocess.run([sys.executable, *words, "--json"], stdout=subprocess.PIPE, check=True)
    return Outcome.model_validate(json.loads(done.stdout))


def recalls(outcome: Outcome, depths: Sequence[int]) -> dict[str, list[float]]:
    """Row -> its recalls."""
    run = outcome.training
    refs = {"random encoder": run.random, "BM25": run.bm25}
    refs |= {row.label: row.scores for row in [*run.rows, *run.controls]}
    return {label: recalls_of(ref, depths) for label, ref in refs.items() if ref}


def recalls_of(scores: ArtifactRef, depths: Sequence[int]) -> list[float]:
    """On the test split, at each depth document to counterpart and back."""
    test = scores_of(scores)["test"]
    ways = test.document_to_counterpart, test.counterpart_to_document
    return [getattr(way, f"recall_at_{k}") for k in depths for way in ways]


def table(corpus: str, seeds: list[int], more: str) -> str:
    """Means and standard deviations over the seeds, and the command."""
    depths = DEPTHS.get(corpus, (5,))
    runs = [recalls(outcome_of(command(corpus, str(seed), more)), depths) for seed in seeds]
    ways = "document → counterpart", "counterpart → document"
    head = ["encoder", *(f"{way} R@{k}" for k in depths for way in ways)]
    rows = [row(label, runs) for label in dict.fromkeys(label for run in runs for label in run)]
    said = f"Seeds {', '.join(map(str, seeds))}:"
    told = [markdown_table(head, rows), "", said, "", "```", command(corpus, "S", more), "```"]
    return "\n".join(told)


def row(label: str, runs: Sequence[Mapping[str, list[float]]]) -> list[str]:
    """An encoder over the seeds; how many have it, where a run stopped before it."""
    found = [run[label] for run in runs if label in run]
    told = label if len(found) == len(runs) else f"{label} ({len(found)} of {len(runs)} seeds)"
    return [told, *(across(values) for values in zip(*found, strict=True))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44])
    parser.add_argument("--more", default="", help="Options for every run, as --encoder minilm.")
    parser.add_argument("--write", action="store_true", help="Into RESULTS.md, between its marks.")
    asked = parser.parse_args()
    more = f" {asked.more}" if asked.more else ""
    for corpus in asked.corpora:
        made = table(corpus, asked.seeds, more)
        print(f"{corpus}\n{made}\n", flush=True)
        if asked.write:
            write_between_marks(RESULTS, f"main-job {corpus}{more}", made)


if __name__ == "__main__":
    main()
