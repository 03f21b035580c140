"""DeCLUTR: Deep Contrastive Learning for Unsupervised Textual Representations (declutr).

The paper's documents are web pages of at least 2,048 tokens; here they are articles of eLife. Only
the means of its Table 1 are available, so claims about figures come from its text.
"""

from functools import partial

from flows.experiments.parts import MINILM, START, WORD_VECTORS, row
from sentemb_core.config.experiments import (
    SMALL,
    Arm,
    Base,
    Budget,
    Column,
    Experiment,
    Train,
)
from sentemb_core.config.methods import DeCLUTR
from sentemb_core.config.run import EncoderConfig
from sentemb_core.config.suite import PROBING
from sentemb_core.types import Json

PAPER = Budget(
    steps=31_116,
    batch_size=16,
    learning_rate=5e-5,
    base=Base(encoder=EncoderConfig(name="distilroberta-base"), times=0),
    threads=None,
    seeds=(42,),
    presets=("paper",),
    differs="Texts and sets are those of the data folder, and documents may be shorter than 2,048 "
    "tokens. Spans have at most 510 tokens, not 512. There are 31,116 steps for any number of "
    "documents. Training is in bfloat16 if that is faster.",
)
"""One epoch of 497,868 documents (recalled, not verified) by 16, AdamW at 5e-5."""

DOCUMENTS = 16
"""Documents of a step, as in the paper: 96 spans with two anchors and two positives each."""

OF_ARTICLES = SMALL.with_difference(
    "Articles of eLife replace OpenWebText. Spans have 16 to 126 tokens in place of 32 to 512. The "
    "base has 2 layers of width 128, pre-trained by our Condenser stage on open sentences, in "
    "place of DistilRoBERTa. DeCLUTR's 300 steps are of 16 documents, as in the paper, so they are "
    "below the usual 300 steps of 64 texts; a document gives six spans."
)

OF_FIGURES = OF_ARTICLES.with_difference(
    "The temperature is .05; the figure also has a curve at .0005."
)

table = partial(Experiment, paper=PAPER, small=OF_ARTICLES)


def judged_on(*names: str, optional: bool = False) -> tuple[Column, ...]:
    return tuple(
        Column(label=name, judge=name, corpus="long_elife", optional=optional) for name in names
    )


SENTEVAL = (
    *judged_on("SICK-E", "SICK-R-regression", "STS-B-regression", "MR", "CR", "SST2", "MRPC"),
    *judged_on("STS-B"),
    *judged_on("SUBJ", "MPQA", "TREC", *PROBING, optional=True),
)
FOUR = judged_on("SICK-E", "SICK-R-regression", "STS-B-regression", "MR")
"""For the figures: entailment, two regressions, a classification."""


def spans(**settings: Json | float | str) -> Train:
    """Return DeCLUTR with spans that the encoder can read: its positions minus [CLS] and [SEP]."""
    small = DeCLUTR.model_validate({"shortest": 16, "longest": 126} | settings)
    paper = DeCLUTR.model_validate({"longest": 510} | settings)
    return Train(method=small, paper=paper, batch_size=DOCUMENTS)


def point(label: object, x: float | None = None, **settings: float | str) -> Arm:
    """Return DeCLUTR with one setting of a figure."""
    return Arm(label=str(label), steps=(spans(**settings),), x=x)


COLDER = "temperature 5e-4"


def colder(arm: Arm) -> Arm:
    """Return an arm of Figure 2 at the other temperature, under `paper` alone (erratum E33)."""
    (step,) = arm.steps
    assert isinstance(step, Train)
    assert step.paper is not None
    method = step.paper.model_copy(update={"temperature": 5e-4})
    trained = step.model_copy(update={"method": method, "paper": None})
    update = {"label": f"{arm.label}, {COLDER}", "steps": (trained,), "curve": COLDER}
    return arm.model_copy(update=update)


BOTH = spans()
CONTRASTIVE_ONLY = spans(mlm=0.0)
MLM_ONLY = spans(mlm=1e4)
"""The contrastive loss vanishes beside this weight; Adam is invariant to the scale of the loss."""

MAIN = table(
    id="declutr.t1",
    title="SentEval",
    arms=(
        WORD_VECTORS,
        MINILM,
        START,
        Arm(label="mlm only", steps=(MLM_ONLY,)),
        row("simcse"),
        Arm(label="declutr", steps=(BOTH,)),
    ),
    columns=SENTEVAL,
    differs="Columns are seven of the 28 tasks, further tasks whose files exist, and STS-B by the "
    "cosine, which is not one of the 28. The five older STS sets and image captions are left out; "
    "SNLI has its own experiment (declutr.snli).",
)

BY_ANCHORS = tuple(point(count, count, anchors=count) for count in (1, 2))
BY_POSITIVES = tuple(point(count, count, positives=count) for count in (1, 2, 4))
BY_STRATEGY = (
    point("adjacent", strategy="adjacent"),
    point("subsuming", strategy="subsuming"),
    point("both", strategy="any"),
)

OBJECTIVES = {"both": BOTH, "contrastive only": CONTRASTIVE_ONLY, "mlm only": MLM_ONLY}
SHARES = {10: 0.1, 40: 0.4, 100: None}
"""Percentage -> share of the corpus; None: all of it."""

EXPERIMENTS = (
    MAIN,
    table(
        id="declutr.snli",
        title="SentEval's SNLI",
        arms=MAIN.arms,
        columns=judged_on("SNLI"),
    ),
    table(
        id="declutr.f2a",
        title="Anchors of a document",
        arms=(
            *BY_ANCHORS,
            Arm(
                label="1, twice the documents",
                steps=(spans(anchors=1).model_copy(update={"batch_size": 2 * DOCUMENTS}),),
            ),
        ),
        paper_arms=tuple(map(colder, BY_ANCHORS)),
        columns=FOUR,
        axis="anchors of a document",
        small=OF_FIGURES,
    ),
    table(
        id="declutr.f2b",
        title="Positives of an anchor",
        arms=BY_POSITIVES,
        paper_arms=tuple(map(colder, BY_POSITIVES)),
        columns=FOUR,
        axis="positives of an anchor",
        small=OF_FIGURES,
    ),
    table(
        id="declutr.f2c",
        title="How positives lie to their anchor",
        arms=BY_STRATEGY,
        paper_arms=tuple(map(colder, BY_STRATEGY)),
        columns=FOUR,
        small=OF_FIGURES,
    ),
    table(
        id="declutr.f3",
        title="Objective and share of the documents",
        arms=tuple(
            Arm(label=f"{name}, {percent} %", steps=(step,), share=share, x=percent, curve=name)
            for name, step in OBJECTIVES.items()
            for percent, share in SHARES.items()
        ),
        columns=FOUR,
        axis="per cent of the documents",
        differs="All shares have equally many steps. There is one size of encoder, not two.",
    ),
)
