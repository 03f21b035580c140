"""declutr, DeCLUTR: Deep Contrastive Learning for Unsupervised Textual Representations.

Its documents are web pages of 2,048 tokens and more; ours are articles of eLife. Of the paper's
numbers only the means of Table 1 are at hand; the figures' claims are its text's.
"""

from sentemb_core.config.experiments import (
    POINT,
    SMALL,
    Arm,
    Base,
    Budget,
    Claim,
    Column,
    Experiment,
    Train,
)
from sentemb_core.config.methods import DeCLUTR, SimCSE
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
    differs="Texts and sets are those of the folder, and documents may be shorter than 2,048 "
    "tokens; spans up to 510 tokens, not 512; 31,116 steps, however many documents there are; "
    "bfloat16 where that is faster.",
)
"""One epoch of 497,868 documents (as remembered) by 16, AdamW at 5e-5."""

DOCUMENTS = 16
"""Of a step, as in the paper: with two anchors and two positives each, 96 spans."""

OF_ARTICLES = SMALL.with_difference(
    "Articles of eLife in place of OpenWebText; spans of 16 to 126 tokens in place of 32 to 512; "
    "base of 2 layers, 128 wide, pre-trained by our Condenser stage on open sentences in place of "
    "DistilRoBERTa. DeCLUTR's 300 steps are of 16 documents, as the paper's, so below the usual "
    "300 steps of 64 texts: a document gives several spans (two anchors, two positives each: six)."
)

OF_FIGURES = OF_ARTICLES.with_difference("At a temperature of .05; the figure has .0005 beside it.")


def judged_on(*names: str, optional: bool = False) -> tuple[Column, ...]:
    return tuple(
        Column(label=name, judge=name, corpus="long_elife", optional=optional) for name in names
    )


SENTEVAL = (
    *judged_on(
        *("SICK-E", "SICK-R-regression", "STS-B-regression", "MR", "CR", "SST2", "MRPC", "STS-B")
    ),
    *judged_on("SUBJ", "MPQA", "TREC", *PROBING, optional=True),
)
FOUR = judged_on("SICK-E", "SICK-R-regression", "STS-B-regression", "MR")
"""Of figures: entailment, two regressions, a classification."""


def spans(**settings: Json | float | str) -> Train:
    """DeCLUTR on spans that an encoder can read: its positions less [CLS] and [SEP]."""
    small = DeCLUTR.model_validate({"shortest": 16, "longest": 126} | settings)
    paper = DeCLUTR.model_validate({"longest": 510} | settings)
    return Train(method=small, paper=paper, batch_size=DOCUMENTS)


COLDER = "temperature 5e-4"


def colder(arm: Arm) -> Arm:
    """An arm of Figure 2 at its other temperature, which is under `paper` alone (erratum E33)."""
    (step,) = arm.steps
    assert isinstance(step, Train)
    assert step.paper is not None
    method = step.paper.model_copy(update={"temperature": 5e-4})
    trained = step.model_copy(update={"method": method, "paper": None})
    told = {"label": f"{arm.label}, {COLDER}", "steps": (trained,), "curve": COLDER}
    return arm.model_copy(update=told)


BOTH = spans()
CONTRASTIVE_ONLY = spans(mlm=0.0)

MLM_ONLY = spans(mlm=1e4)
"""Beside it the contrastive loss vanishes, and Adam does not care how large the other is."""

MAIN = Experiment(
    id="declutr.t1",
    title="SentEval",
    arms=(
        Arm(label="word vectors", system="word vectors"),
        Arm(label="all-MiniLM-L6-v2", system="minilm"),
        Arm(label="start encoder"),
        Arm(label="mlm only", steps=(MLM_ONLY,)),
        Arm(label="simcse", steps=(Train(method=SimCSE()),)),
        Arm(label="declutr", steps=(BOTH,)),
    ),
    columns=SENTEVAL,
    claims=(
        Claim(
            text="DeCLUTR gains over the language model that it starts from",
            better="declutr",
            than=("start encoder",),
        ),
        Claim(text="... and over word vectors", better="declutr", than=("word vectors",)),
        Claim(
            text="It closes the gap to a supervised encoder",
            better="declutr",
            than=("all-MiniLM-L6-v2",),
            margin=POINT,
        ),
        Claim(
            text="(ours) DeCLUTR gains over masked language alone, and over SimCSE, on the same "
            "articles",
            better="declutr",
            than=("mlm only", "simcse"),
        ),
    ),
    small=OF_ARTICLES,
    paper=PAPER,
    differs="Seven of the 28 tasks and those whose files are there, and STS-B by the cosine, which "
    "is none of the 28; the five older STS sets are left out, SNLI is apart (declutr.snli), "
    "image captions are left out.",
)

SNLI = Experiment(
    id="declutr.snli",
    title="SentEval's SNLI",
    arms=MAIN.arms,
    columns=judged_on("SNLI"),
    claims=MAIN.claims,
    small=OF_ARTICLES,
    paper=PAPER,
)

BY_ANCHORS = tuple(
    Arm(label=f"{count}", steps=(spans(anchors=count),), x=count) for count in (1, 2)
)
BY_POSITIVES = tuple(
    Arm(label=f"{count}", steps=(spans(positives=count),), x=count) for count in (1, 2, 4)
)
BY_STRATEGY = (
    Arm(label="adjacent", steps=(spans(strategy="adjacent"),)),
    Arm(label="subsuming", steps=(spans(strategy="subsuming"),)),
    Arm(label="both", steps=(spans(strategy="any"),)),
)

ANCHORS = Experiment(
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
    claims=(
        Claim(text="Two anchors are better than one", better="2", than=("1",)),
        Claim(
            text="(ours) ... and than one from each of twice the documents",
            better="2",
            than=("1, twice the documents",),
        ),
    ),
    axis="anchors of a document",
    small=OF_FIGURES,
    paper=PAPER,
)

POSITIVES = Experiment(
    id="declutr.f2b",
    title="Positives of an anchor",
    arms=BY_POSITIVES,
    paper_arms=tuple(map(colder, BY_POSITIVES)),
    columns=FOUR,
    claims=(
        Claim(
            text="Positives are about equal: two or four gain nothing over one",
            better="1",
            than=("2", "4"),
            margin=POINT,
        ),
        Claim(text="... two cost nothing", better="2", than=("1",), margin=POINT),
        Claim(text="... nor do four", better="4", than=("1",), margin=POINT),
        Claim(text="(ours) Four positives are better than one", better="4", than=("1",)),
    ),
    axis="positives of an anchor",
    small=OF_FIGURES,
    paper=PAPER,
)

STRATEGIES = Experiment(
    id="declutr.f2c",
    title="How positives lie to their anchor",
    arms=BY_STRATEGY,
    paper_arms=tuple(map(colder, BY_STRATEGY)),
    columns=FOUR,
    claims=(
        Claim(
            text="Adjacent and subsumed positives together are better than either",
            better="both",
            than=("adjacent", "subsuming"),
        ),
    ),
    small=OF_FIGURES,
    paper=PAPER,
)

OBJECTIVES = {"both": BOTH, "contrastive only": CONTRASTIVE_ONLY, "mlm only": MLM_ONLY}
SHARES = {10: 0.1, 40: 0.4, 100: None}
"""Per cent -> what an arm asks of its corpus; none: all of it."""

OBJECTIVE = Experiment(
    id="declutr.f3",
    title="Objective and share of the documents",
    arms=tuple(
        Arm(label=f"{name}, {percent} %", steps=(step,), share=share, x=percent, curve=name)
        for name, step in OBJECTIVES.items()
        for percent, share in SHARES.items()
    ),
    columns=FOUR,
    claims=(
        Claim(
            text="Both objectives together are better than either",
            better="both, 100 %",
            than=("contrastive only, 100 %", "mlm only, 100 %"),
        ),
        Claim(
            text="With both, more documents are better",
            better="both, 100 %",
            than=("both, 10 %", "both, 40 %"),
        ),
        Claim(
            text="The contrastive objective alone is best at 40 % of the documents",
            better="contrastive only, 40 %",
            than=("contrastive only, 10 %", "contrastive only, 100 %"),
        ),
    ),
    axis="per cent of the documents",
    small=OF_ARTICLES,
    paper=PAPER,
    differs="As many steps whatever the share; one size of encoder, not two.",
)

EXPERIMENTS = (MAIN, SNLI, ANCHORS, POSITIVES, STRATEGIES, OBJECTIVE)
