"""A run as it looks when everything was recorded, made of synthetic numbers."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from sentemb_core.evaluation.diagnostics import BINS, Shape
from sentemb_core.evaluation.round_values import Diagnostics, Pair, Similarities
from sentemb_core.evaluation.validation_scores import DirectionScores, RetrievalScores, Scores
from sentemb_core.report.collect import common_axes
from sentemb_core.report.data import (
    CandidateRow,
    Curve,
    DocumentClusters,
    Evaluation,
    LostQuery,
    Point,
    Projection,
    QuarantineRow,
    Refusals,
    RetrieverReport,
    RoundRow,
    RunReport,
    ServedRow,
)
from sentemb_core.report.run_page import write_drawings, write_report
from sentemb_core.types import StageTiming

SENTENCES = [
    "The new design system gives every agency the same buttons, forms and page layouts.",
    "Teams can copy the components into their own sites in an afternoon.",
    "Accessibility was tested with people who use screen readers every day.",
    "Nine people with disabilities tried the forms and showed us what failed.",
    "We published the research notes together with the code.",
    "The source is open, and so are the interviews behind it.",
    "Next month we will add patterns for long applications.",
    "Write to the team if your agency wants to try them early.",
]
ROUNDS = ["start", "after neighbours", "round 1", "round 2"]
LABELS = [
    [0, 0, 0, 0, 0, 0, 0, 0],
    [0, 0, 1, 1, 1, 2, 2, 2],
    [0, 0, 1, 1, 2, 2, 0, 3],
    [0, 0, 1, 1, 2, 2, 3, 3],
]
TEXTS = {"title": "t", "verdict": "v", "command": "c"}


def bare(**fields: object) -> RunReport:
    return RunReport(**TEXTS, **fields)


def write_whole(report: RunReport, folder: Path) -> Path:
    """The page of a report, after its figures were drawn."""
    with TemporaryDirectory() as drawn:
        write_drawings(report, Path(drawn))
        return write_report(report, folder, Path(drawn))


def scored(**at_5: float | tuple[float, float]) -> Scores:
    """R@5 of each split, forward and backward; one number: of both."""

    def way(value: float) -> DirectionScores:
        at = {1: 0.7 * value, 5: value, 10: min(1, 1.08 * value), 20: min(1, 1.15 * value)}
        recalls = {f"recall_at_{k}": recall for k, recall in at.items()}
        return DirectionScores(mrr_at_10=0.8 * value, queries=323, candidates=1000, **recalls)

    scores: Scores = {}
    for split, both in at_5.items():
        forward, backward = both if isinstance(both, tuple) else (both, both)
        ways = way(forward), way(backward)
        scores[split] = RetrievalScores(
            split=split, document_to_counterpart=ways[0], counterpart_to_document=ways[1]
        )
    return scores


def similarities(rng: np.random.Generator, place: int) -> Similarities:
    return Similarities(
        edges=BINS.tolist(),
        positives=np.histogram(rng.normal(0.3 + 0.12 * place, 0.15, 800), BINS)[0].tolist(),
        negatives=np.histogram(rng.normal(0.25 - 0.07 * place, 0.14, 2000), BINS)[0].tolist(),
        alignment=1.1 - 0.2 * place,
        shape=Shape(
            uniformity=-1.5 - 0.35 * place, effective_rank=31, mean_cosine=0.1, collapsed=False
        ),
    )


def pairs(*ends: tuple[int, int, float]) -> list[Pair]:
    return [
        Pair(left=SENTENCES[i], right=SENTENCES[j], cosine=value, jaccard=0.2)
        for i, j, value in ends
    ]


def diagnostics(rng: np.random.Generator, place: int) -> Diagnostics:
    return Diagnostics(
        churn=None,
        before=similarities(rng, place),
        after=similarities(rng, place + 1),
        cosine=rng.beta(6, 3, 300).tolist(),
        jaccard=rng.beta(1.5, 6, 300).tolist(),
        best=pairs((2, 3, 0.91), (4, 5, 0.88)),
        worst=pairs((0, 7, 0.12)),
    )


def curve(rng: np.random.Generator, place: int) -> Curve:
    step = np.arange(0, 400, 4)
    return Curve(
        step=step.tolist(),
        loss=(4 * np.exp(-step / 120) + 0.6 + 0.1 * rng.random(100) + 0.2 * place).tolist(),
        learning_rate=(2e-3 * (1 - step / 400)).tolist(),
        gradient_norm=(0.3 + rng.random(100)).tolist(),
        pairs=51_200,
    )


def round_rows(rng: np.random.Generator) -> list[RoundRow]:
    """Start, neighbours, two rounds with annotations, and a control."""
    kinds = ["start", "trained", "round", "round", "control"]
    scores = [0.157, 0.781, 0.814, 0.811, 0.801]
    shared = {"giving_share": 0.99, "pairs": 12_345, "lexical_overlap": 0.173}
    numbers = {
        "round 1": {"kept_share": 0.21, "clusters_per_document": 5.4},
        "round 2": {"kept_share": 0.64, "clusters_per_document": 2.2, "churn": 0.71}
        | {"new_share": 0.24, "gone_share": 0.31},
    }
    sizes = {
        "round 1": {2: 2100, 3: 700, 4: 300, 5: 90, 6: 31, 9: 2},
        "round 2": {2: 900, 3: 400, 4: 100, 7: 60, 20: 44},
    }
    rows = []
    systems = zip([*ROUNDS, "control"], kinds, scores, strict=True)
    for place, (label, kind, score) in enumerate(systems):
        row = RoundRow(
            label=label,
            kind=kind,
            best=label == "round 1",
            returned=label == "round 1",
            scores=scored(validation=(score, score + 0.05), test=(score - 0.012, score + 0.03)),
            low=score - 0.03,
            high=score + 0.028,
            seconds=35.0 + place,
            curve=curve(rng, place) if place else None,
        )
        if kind == "round":
            found = numbers[label] | shared
            shape = {"alignment": 1.1 - 0.2 * place, "effective_rank": 31.2 + 9 * place}
            shape["uniformity"] = -1.5 - 0.35 * place
            annotation = {"numbers": found | shape, "cluster_sizes": sizes[label]}
            annotation["diagnostics"] = diagnostics(rng, place)
            row = row.model_copy(update=annotation)
        rows.append(row)
    return rows


def projections(rng: np.random.Generator) -> list[Projection]:
    group = np.repeat(np.arange(12), 15)
    centres = rng.normal(size=(12, 16))
    vectors = [
        (spread * centres[group] + rng.normal(size=(180, 16))).astype(np.float32)
        for spread in (0.1, 1.0, 1.5, 1.7)
    ]
    return [
        Projection(label=label, x=points[:, 0], y=points[:, 1], group=group)
        for label, points in zip(ROUNDS, common_axes(vectors), strict=True)
    ]


def timings() -> list[StageTiming]:
    once = [("read_documents", 4.31, True), ("tokenise", 2.75, True)]
    once += [("draw_validation_pool", 0.4, False)]
    chain = {"encode_sentences": 3.2, "build_graph": 0.8, "prune_graph": 0.1}
    chain |= {"cluster_sentences": 0.2, "export_pairs": 0.3}
    chain |= {"train_encoder": 35.5, "validate_encoder": 2.1}
    rounds = [
        StageTiming(stage=stage, round=label, seconds=seconds, hit=False)
        for label in ROUNDS[2:]
        for stage, seconds in chain.items()
    ]
    return [*(StageTiming(stage=s, seconds=t, hit=hit) for s, t, hit in once), *rounds]


def evaluation() -> Evaluation:
    points = [
        ("Retrieval, times 100", "Cranfield", "this encoder", 0.419, 0.382, 0.457),
        ("Retrieval, times 100", "Cranfield", "BM25", 0.374, 0.339, 0.410),
        ("STS, times 100", "STS12", "this encoder", 0.610, 0.589, 0.631),
    ]
    names = ("panel", "task", "system", "value", "low", "high")
    return Evaluation(
        run="benchmark-20261122-120000-3f9a",
        page="/home/me/.sentemb/benchmarks/benchmark-20261122-120000-3f9a/page.html",
        systems=["this encoder", "BM25"],
        fixed=["BM25"],
        rows=[
            ["Cranfield", "nDCG@10", "41.9 (38.2 to 45.7)", "37.4 (33.9 to 41.0)"],
            ["STS12", "spearman", "61.0 (58.9 to 63.1)", ""],
        ],
        points=[
            Point(fixed="BM25" in values, **dict(zip(names, values, strict=True)))
            for values in points
        ],
    )


def refusals(read: int, counts: dict[str, int], file: str, *rows: tuple[int, str, str]) -> Refusals:
    return Refusals(
        read=read,
        counts=counts,
        file=f"objects/{file}.parquet",
        rows=[
            QuarantineRow(where="blog.jsonl", row=row, reason=reason, excerpt=excerpt)
            for row, reason, excerpt in rows
        ],
    )


@pytest.fixture(scope="session")
def report() -> RunReport:
    rng = np.random.default_rng(7)
    return RunReport(
        title="blog_usgov, from nothing",
        verdict="The best encoder is round 1: 0.814 against 0.157 at the start. Self-annotation "
        "itself is worth 0.013 over the same number of steps on neighbours, within the band.",
        notes=["The run shares its validation split with no training text."],
        command="python -m flows run --config deployments/demo.toml --name from-nothing",
        facts={"Data": "3f9a" * 16, "Model": "77c1" * 16, "torch": "2.13.0"},
        candidates=1000,
        queries={"validation": 323, "test": 409},
        rounds=round_rows(rng),
        fixed=[
            RoundRow(label="BM25", kind="fixed", scores=scored(validation=(0.696, 0.8), test=0.69)),
            RoundRow(label="random", kind="fixed", scores=scored(validation=(0.14, 0.12))),
        ],
        document=DocumentClusters(
            name="18f-2016-09-14",
            counterpart="What we learned while building a design system",
            sentences=SENTENCES,
            clusters=dict(zip(ROUNDS, LABELS, strict=True)),
        ),
        projections=projections(rng),
        evaluation=evaluation(),
        lost_queries=[
            LostQuery(query=SENTENCES[6], wanted="Roadmap", found="Forms that work", rank=812)
        ],
        corpus={"documents": 1000, "sentences": 18_422, "read by the encoder": "5 % cut"},
        quarantine=refusals(
            1004,
            {"empty": 3, "nul": 1},
            "quarantine",
            (17, "empty", ""),
            (91, "nul", "The\x00 team"),
        ),
        labels=refusals(
            400, {"duplicate-label": 3}, "rejected_labels", (5, "duplicate-label", "forms")
        ),
        timings=timings(),
    )


def candidate(label: str, mrr: float, why_not: str = "", *parts: str) -> CandidateRow:
    to_best = mrr - 0.851
    low, high = to_best - 0.012, to_best + 0.012
    return CandidateRow(
        label=label,
        parts=parts or ("vectors",),
        width=384 if label != "words" else 0,
        mrr=mrr,
        to_best=to_best,
        low=low,
        high=high,
        why_not=why_not,
    )


@pytest.fixture(scope="session")
def retrieving(report) -> RunReport:
    """The same run, had it returned a retriever."""
    retriever = RetrieverReport(
        serve=True,
        answer="Serve it: it finds more than word search (BM25).",
        shares="The right answer comes first in 79 % of searches, 72 % with BM25.",
        label="whitened start + words",
        directions=("document \N{RIGHTWARDS ARROW} title", "title \N{RIGHTWARDS ARROW} document"),
        systems=[
            ServedRow(
                name="BM25", to_counterparts=0.764, to_documents=0.789,
                gain=0.061, low=0.043, high=0.079,
            ),
            ServedRow(
                name="start encoder", to_counterparts=0.663, to_documents=0.715,
                gain=0.149, low=0.121, high=0.177,
            ),
            ServedRow(name="returned", to_counterparts=0.825, to_documents=0.851),
        ],
        commands=[
            "python -m flows index posts.parquet posts-index --model models:/posts/1",
            'python -m flows search "some words" posts-index',
        ],
        trust=["Judged on 409 documents and their title, which no choice has seen, among 1,000."],
        queries=323,
        candidates=[
            candidate("whitened start + words + tokens", 0.851, "no better than the chosen one"),
            candidate("whitened start + words", 0.846, "", "vectors", "words"),
            candidate("words", 0.8, "worse than the best"),
            candidate("start", 0.69, "worse than BM25"),
        ],
    )  # fmt: skip
    return report.model_copy(update={"retriever": retriever})
