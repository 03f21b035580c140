"""A run as it looks when everything was recorded, made of synthetic numbers."""

import numpy as np
import pytest

from sentemb_core.report.collect import common_axes
from sentemb_core.report.data import (
    ClusterSizes,
    Curve,
    Directions,
    DocumentClusters,
    Evaluation,
    Fact,
    FixedRow,
    Labelling,
    LostQuery,
    Move,
    PairPoints,
    Place,
    Point,
    Projection,
    QuarantineRow,
    Refusals,
    RoundRow,
    RunReport,
    SentencePair,
    Similarities,
    StageTiming,
)

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


def recalls(at_5: float) -> dict[int, float]:
    return {1: 0.7 * at_5, 5: at_5, 10: min(1, 1.08 * at_5), 20: min(1, 1.15 * at_5)}


def directions(forward: float, backward: float) -> Directions:
    return Directions(forward=recalls(forward), backward=recalls(backward))


def round_rows() -> list[RoundRow]:
    scores = [0.157, 0.781, 0.814, 0.811, 0.801]
    kinds = ["start", "trained", "round", "round", "control"]
    rows = []
    for place, (label, kind, score) in enumerate(
        zip([*ROUNDS, "control"], kinds, scores, strict=True)
    ):
        annotated = kind == "round"
        rows.append(
            RoundRow(
                label=label,
                kind=kind,
                best=label == "round 1",
                validation=directions(score, score + 0.05),
                test=directions(score - 0.012, score + 0.03),
                low=score - 0.03,
                high=score + 0.028,
                kept_share=[None, None, 0.21, 0.64, None][place],
                clusters_per_document=[None, None, 5.4, 2.2, None][place],
                churn=[None, None, None, 0.71, None][place],
                new_share=[None, None, None, 0.24, None][place],
                gone_share=[None, None, None, 0.31, None][place],
                giving_share=0.99 if annotated else None,
                pairs=12_345 if annotated else None,
                lexical_overlap=0.173 if annotated else None,
                alignment=1.1 - 0.2 * place,
                uniformity=-1.5 - 0.35 * place,
                effective_rank=31.2 + 9 * place,
                seconds=35.0 + place,
            )
        )
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


def similarities(rng: np.random.Generator) -> list[Similarities]:
    edges = np.linspace(-1, 1, 41)
    return [
        Similarities(
            label=label,
            edges=edges,
            positives=np.histogram(rng.normal(0.3 + 0.12 * place, 0.15, 800), edges)[0],
            negatives=np.histogram(rng.normal(0.25 - 0.07 * place, 0.14, 2000), edges)[0],
        )
        for place, label in enumerate(ROUNDS)
    ]


def curves(rng: np.random.Generator) -> list[Curve]:
    step = np.arange(0, 400, 4)
    return [
        Curve(
            label=label,
            step=step,
            loss=4 * np.exp(-step / 120) + 0.6 + 0.1 * rng.random(100) + 0.2 * place,
            learning_rate=2e-3 * (1 - step / 400),
            gradient_norm=0.3 + rng.random(100),
            pairs=51_200,
        )
        for place, label in enumerate([*ROUNDS[1:], "control"])
    ]


def timings() -> list[StageTiming]:
    chain = ["encode_sentences", "build_graph", "prune_graph", "cluster_sentences", "export_pairs"]
    once = [("read_documents", 4.31, True), ("tokenise", 2.75, True), ("benchmark", 0.4, False)]
    rounds = [
        StageTiming(stage=stage, round=label, seconds=seconds, hit=False)
        for label in ROUNDS[2:]
        for stage, seconds in [
            *zip(chain, (3.2, 0.8, 0.1, 0.2, 0.3), strict=True),
            ("train_encoder", 35.5),
            ("validate_encoder", 2.1),
        ]
    ]
    return [*(StageTiming(stage=s, seconds=t, hit=hit) for s, t, hit in once), *rounds]


def evaluation() -> Evaluation:
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
            Point(
                panel=panel,
                task=task,
                system=system,
                fixed=system == "BM25",
                value=value,
                low=low,
                high=high,
            )
            for panel, task, system, value, low, high in (
                ("Retrieval, times 100", "Cranfield", "this encoder", 0.419, 0.382, 0.457),
                ("Retrieval, times 100", "Cranfield", "BM25", 0.374, 0.339, 0.410),
                ("STS, times 100", "STS12", "this encoder", 0.610, 0.589, 0.631),
            )
        ],
    )


def facts() -> list[Fact]:
    return [
        Fact(label="Data", value="3f9a" * 16),
        Fact(label="Model", value="77c1" * 16),
        Fact(label="Tracking", value="run 12", link="http://127.0.0.1:5000/#/runs/12"),
        Fact(label="torch", value="2.13.0"),
    ]


def fixed_rows() -> list[FixedRow]:
    return [
        FixedRow(label="BM25", validation=directions(0.696, 0.8), test=directions(0.69, 0.79)),
        FixedRow(label="start encoder", validation=directions(0.157, 0.2)),
        FixedRow(label="random encoder", validation=directions(0.14, 0.12)),
    ]


def document() -> DocumentClusters:
    return DocumentClusters(
        name="18f-2016-09-14",
        counterpart="What we learned while building a design system",
        sentences=SENTENCES,
        rounds=[
            Labelling(label=label, clusters=clusters)
            for label, clusters in zip(ROUNDS, LABELS, strict=True)
        ],
    )


def cluster_sizes() -> list[ClusterSizes]:
    return [
        ClusterSizes(label="round 1", sizes=[2, 3, 4, 5, 6, 9], counts=[2100, 700, 300, 90, 31, 2]),
        ClusterSizes(label="round 2", sizes=[2, 3, 4, 7, 20], counts=[900, 400, 100, 60, 44]),
    ]


def moves() -> list[Move]:
    return [
        Move(
            label=label,
            before=Place(alignment=1.1 - 0.2 * place, uniformity=-1.5 - 0.35 * place),
            after=Place(alignment=0.8 - 0.2 * place, uniformity=-1.9 - 0.35 * place),
        )
        for place, label in enumerate(ROUNDS[2:])
    ]


def overlaps(rng: np.random.Generator) -> list[PairPoints]:
    return [
        PairPoints(label=label, jaccard=rng.beta(1.5, 6, 300), cosine=rng.beta(6, 3, 300))
        for label in ROUNDS[2:]
    ]


def refused_documents() -> Refusals:
    return Refusals(
        read=1004,
        counts={"empty": 3, "nul": 1},
        file="objects/quarantine.parquet",
        rows=[
            QuarantineRow(where="blog.jsonl", row=17, reason="empty", excerpt=""),
            QuarantineRow(where="blog.jsonl", row=91, reason="nul", excerpt="The\x00 team"),
        ],
    )


def refused_labels() -> Refusals:
    return Refusals(
        read=400,
        counts={"duplicate-label": 3},
        file="objects/rejected_labels.parquet",
        rows=[QuarantineRow(where="l.csv", row=5, reason="duplicate-label", excerpt="forms")],
    )


def pairs(*ends: tuple[int, int, float]) -> list[SentencePair]:
    return [
        SentencePair(left=SENTENCES[i], right=SENTENCES[j], cosine=value) for i, j, value in ends
    ]


@pytest.fixture(scope="session")
def report() -> RunReport:
    rng = np.random.default_rng(7)
    return RunReport(
        title="blog_usgov, from nothing",
        verdict="The best encoder is round 1: 0.814 against 0.157 at the start. Self-annotation "
        "itself is worth 0.013 over the same number of steps on neighbours, within the band.",
        notes=["The run shares its validation split with no training text."],
        command="python -m flows run --config deployments/demo.toml --name from-nothing",
        facts=facts(),
        candidates=1000,
        queries={"validation": 323, "test": 409},
        rounds=round_rows(),
        fixed=fixed_rows(),
        document=document(),
        cluster_sizes=cluster_sizes(),
        similarities=similarities(rng),
        moves=moves(),
        overlaps=overlaps(rng),
        projections=projections(rng),
        curves=curves(rng),
        evaluation=evaluation(),
        best_pairs=pairs((2, 3, 0.91), (4, 5, 0.88)),
        worst_pairs=pairs((0, 7, 0.12)),
        lost_queries=[
            LostQuery(query=SENTENCES[6], wanted="Roadmap", found="Forms that work", rank=812)
        ],
        corpus={"documents": 1000, "sentences": 18_422, "mean_sentences": 18.422},
        quarantine=refused_documents(),
        labels=refused_labels(),
        timings=timings(),
    )
