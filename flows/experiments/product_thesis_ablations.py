"""product_thesis, a thesis on product search: what it asks beside its five experiments."""

from collections.abc import Mapping

from flows.experiments.product_thesis import (
    DEV,
    FIXED,
    HEADLESS,
    OF_TITLES,
    OPEN_SENTENCES,
    PAPER,
    PAPER_ONCE,
    PAPER_SIZES,
    SIMCSE,
    small,
)
from flows.experiments.sets import seven_of
from sentemb_core.config.experiments import (
    BEIR,
    LOSS,
    POINT,
    SMALL,
    TITLE,
    Arm,
    Claim,
    Column,
    Corpus,
    Experiment,
    Train,
)
from sentemb_core.config.methods import BCE, SimCSE

POOLS = (
    Column(label="Web documents", corpus="blog_usgov", judge=TITLE, measure="R@5"),
    Column(label="News", corpus="news_reuters21578", judge=TITLE, measure="R@5"),
)

LOSSES = (Arm(label="bce", steps=(Train(method=BCE()),)), HEADLESS, SIMCSE)
"""Binary cross-entropy has no head, so InfoNCE without one is what it is held against."""


def binary(
    id: str, title: str, columns: tuple[Column, ...], judged: tuple[str, ...] = ()
) -> Experiment:
    """Two losses on the same pairs of views; the claim is of the columns `judged`, or of all."""
    return Experiment(
        id=id,
        title=f"Binary cross-entropy against InfoNCE, {title}",
        arms=LOSSES,
        columns=columns,
        claims=(
            Claim(
                text="InfoNCE teaches more than binary cross-entropy",
                better=HEADLESS.label,
                than=("bce",),
                columns=judged,
            ),
        ),
        small=small("Open sentences in place of a million of OpenWebText"),
        paper=PAPER.model_copy(update={"steps": 15_625}),
        differs="Of the cosine over the temperature, since the loss as printed has no value for a "
        "negative one.",
    )


def in_beir(id: str, title: str, folders: Mapping[str, str]) -> Experiment:
    """By BEIR folders of the user's: the paper's R@100, and nDCG@10, whose single values are kept.

    Args:
        id: Of the experiment.
        title: Of its data.
        folders: Label -> path.
    """
    columns = [
        Column(
            label=f"{label}, {measure}",
            judge=f"{BEIR}{path}",
            measure=measure,
            averaged=measure == "R@100",
        )
        for label, path in folders.items()
        for measure in ("R@100", "nDCG@10")
    ]
    judged = tuple(column.label for column in columns if column.measure == "nDCG@10")
    return binary(id, title, tuple(columns), judged)


FORUMS = (
    "android", "english", "gaming", "gis", "mathematica", "physics",
    "programmers", "stats", "tex", "unix", "webmasters", "wordpress",
)  # fmt: skip
"""CQADupStack's."""

BINARY = (
    binary(
        "product_thesis.bce",
        "similarity",
        seven_of("sts"),
    ),
    binary(
        "product_thesis.bce_titles",
        "documents that look for their titles",
        POOLS,
    ),
    in_beir("product_thesis.bce_quora", "Quora", {"Quora": "quora"}),
    in_beir(
        "product_thesis.bce_cqadupstack",
        "CQADupStack",
        {forum: f"cqadupstack/{forum}" for forum in FORUMS},
    ),
)

BATCHES = (32, 64, 128, 256, 512)

BATCH = Experiment(
    id="product_thesis.batch",
    title="Batch size, at as many texts",
    arms=tuple(
        Arm(
            label=str(size),
            steps=(Train(method=SimCSE(), batch_size=size, times=64 / size),),
            x=size,
        )
        for size in BATCHES
    ),
    columns=DEV,
    claims=(
        Claim(
            text="Batches beyond 64 gain nothing at as many texts",
            better="64",
            than=("128", "256", "512"),
            margin=POINT,
        ),
    ),
    axis="texts of a batch",
    small=OPEN_SENTENCES.with_difference(
        "As many texts for all, so that 128, 256 and 512 a batch take 150, 75 and 38 steps, below "
        "the usual 300 steps of 64."
    ),
    paper=PAPER,
    differs="One learning rate for all; judged by STS-B dev, not by eProduct.",
)


def trained_for(steps: int) -> Arm:
    """A point of the curve: a training of its own length."""
    step = Train(method=SimCSE(), times=steps / SMALL.steps)
    return Arm(label=f"{steps:,} steps", steps=(step,), x=steps)


CURVE = Experiment(
    id="product_thesis.curve",
    title="Score and loss as training goes on",
    arms=tuple(map(trained_for, (30, 90, 300, 900, 3_000))),
    paper_arms=tuple(map(trained_for, (9_000, 15_625))),
    columns=(*DEV, Column(label=LOSS, judge=LOSS)),
    claims=(
        Claim(
            text="(ours) The loss falls on after 900 steps",
            better="3,000 steps",
            than=("900 steps",),
            columns=(LOSS,),
        ),
        Claim(
            text="... and says little of quality: similarity gains nothing more",
            better="900 steps",
            than=("3,000 steps",),
            columns=("STS-B dev",),
            margin=POINT,
        ),
    ),
    axis="steps",
    small=OPEN_SENTENCES.with_difference(
        "The longest of 3,000 steps, where the thesis reads a million texts in 15,625. The first "
        "two points, 30 and 90 steps, are below the usual 300 steps of 64: a curve has to begin "
        "somewhere."
    ),
    paper=PAPER_SIZES,
    differs="Every point is a training of its own length, its learning rate falling to 0; "
    "judged by STS-B dev, not by eProduct; the loss is of training, over the last tenth of the "
    "steps, where the thesis speaks of held-out texts.",
)

ALPHAS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)

RESCORING = Experiment(
    id="product_thesis.rescore",
    title="BM25's first 1,000, rescored with alpha times the cosine",
    arms=(
        FIXED[0],
        SIMCSE,
        SIMCSE.model_copy(update={"label": "BM25 + simcse", "alpha": "chosen"}),
        *(
            SIMCSE.model_copy(update={"label": str(alpha), "alpha": float(alpha), "x": alpha})
            for alpha in ALPHAS
        ),
    ),
    columns=POOLS,
    claims=(
        Claim(
            text="Rescored, words find more than alone (alpha chosen on validation)",
            better="BM25 + simcse",
            than=("BM25",),
        ),
        Claim(
            text="... and more than vectors alone",
            better="BM25 + simcse",
            than=("simcse",),
        ),
    ),
    axis="alpha",
    small=small("Documents cut to their first 12 sentences"),
    paper=PAPER_ONCE,
    differs="Documents that look for their titles in place of eProduct, of which a pool has 1,000 "
    "at most, so that all which share a word with what is asked are rescored; alpha is chosen on "
    "the validation split, not on the test split that judges, and whose curve this is.",
)


RECURRING: dict[str, Corpus] = {
    "Amazon-Google": "product_amazon_google",
    "Abt-Buy": "product_abt_buy",
}

DUPLICATES = Experiment(
    id="product_thesis.dedup",
    title="Titles with and without their duplicates",
    arms=(
        SIMCSE.model_copy(update={"label": "titles"}),
        SIMCSE.model_copy(update={"label": "unique titles", "distinct": True}),
    ),
    columns=tuple(
        Column(label=label, corpus=corpus, judge=label, measure="R_cap@10")
        for label, corpus in RECURRING.items()
    ),
    claims=(
        Claim(
            text="Unique titles teach more (the thesis: 62.4 against 60.1)",
            better="unique titles",
            than=("titles",),
        ),
    ),
    small=small(
        "Each set trains on its left titles, 11,460 of which 1,277 differ and 9,575 of which "
        "1,068 do",
        OF_TITLES,
    ),
    paper=PAPER,
    differs="Our losses never take an equal text for a negative, so the harm that the thesis "
    "removes is not there.",
)

EXPERIMENTS = (RESCORING, *BINARY, BATCH, CURVE, DUPLICATES)
