"""DeCLUTR: Deep Contrastive Learning for Unsupervised Textual Representations (declutr).

The paper's documents are web pages of at least 2,048 tokens; here they are articles of eLife. Its
Table 1 prints means over tasks, and its figures no numbers: their claims come from its text.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from flows.experiments.parts import MINILM, START, WORD_VECTORS, arm, published, row
from sentemb_core.config.experiments import SMALL, Arm, Column, Experiment, Train
from sentemb_core.config.methods import DeCLUTR
from sentemb_core.config.suite import PROBING

PAPER = published(
    "distilroberta-base",
    steps=495_243 // 16,
    batch_size=16,
    learning_rate=5e-5,
    differs="Texts and sets are those of the data folder, and documents may be shorter than 2,048 "
    "tokens. Spans have at most 510 tokens, not 512. There are 30,952 steps for any number of "
    "documents. bfloat16 where that is faster is ours.",
)
"""Section 4.1: one epoch of 495,243 documents by 16, AdamW at 5e-5, weight decay .1, a slanted
triangle that rises over a tenth of the steps, gradients clipped at 1."""

OF_ARTICLES = SMALL.with_difference(
    "Articles of eLife replace OpenWebText. Spans have 16 to 126 tokens in place of 32 to 512. The "
    "base has 2 layers of width 128, pre-trained by our Condenser stage on open sentences, in "
    "place of DistilRoBERTa. DeCLUTR's 300 steps are of 16 documents, as in the paper, so they are "
    "below the usual 300 steps of 64 texts; a document gives six spans."
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


def spans(documents: int = 16, **settings: Any) -> Train:
    """Return DeCLUTR with spans that the encoder can read: its positions minus [CLS] and [SEP].

    A step has 16 documents, as in the paper: 96 spans with two anchors and two positives each.
    """
    small = DeCLUTR.model_validate({"shortest": 16, "longest": 126} | settings)
    paper = DeCLUTR.model_validate({"longest": 510} | settings)
    return Train(method=small, paper=paper, batch_size=documents)


MLM_ONLY = spans(mlm=1e4)
"""The contrastive loss vanishes beside this weight; Adam is invariant to the scale of the loss."""

OBJECTIVES = {"both": spans(), "contrastive only": spans(mlm=0.0), "mlm only": MLM_ONLY}
SHARES = {10: 0.1, 40: 0.4, 100: None}
"""Percentage -> share of the corpus; None: all of it."""


def figure(
    id: str, title: str, points: Mapping[str, Train], *, more: tuple[Arm, ...] = (), axis: str = ""
) -> Experiment:
    """Return a part of Figure 2; under `paper` also at the other temperature (erratum E33)."""
    places = {label: float(label) if axis else None for label in points}
    curve = "temperature 5e-4"
    return table(
        id=id,
        title=title,
        arms=(*(arm(label, step, x=places[label]) for label, step in points.items()), *more),
        paper_arms=tuple(
            arm(f"{label}, {curve}", colder(step), x=places[label], curve=curve)
            for label, step in points.items()
        ),
        columns=FOUR,
        axis=axis or None,
        small=OF_ARTICLES.with_difference(
            "The temperature is .05; the figure shows distributions over a grid that also has "
            ".0005."
        ),
    )


def colder(step: Train) -> Train:
    """Return the paper's training at the other temperature."""
    assert step.paper is not None
    method = step.paper.model_copy(update={"temperature": 5e-4})
    return step.model_copy(update={"method": method, "paper": None})


MAIN = table(
    id="declutr.t1",
    title="SentEval",
    arms=(
        WORD_VECTORS,
        MINILM,
        START,
        arm("mlm only", MLM_ONLY),
        row("simcse"),
        arm("declutr", spans()),
    ),
    columns=SENTEVAL,
    differs="Columns are seven of the 28 tasks, further tasks whose files exist, and STS-B by the "
    "cosine, which is not one of the 28. The five older STS sets and image captions are left out; "
    "SNLI has its own experiment (declutr.snli). InferSent, USE, Sentence Transformers, GloVe and "
    "fastText, whose weights we do not have, are quoted alone.",
)

EXPERIMENTS = (
    MAIN,
    table(id="declutr.snli", title="SentEval's SNLI", arms=MAIN.arms, columns=judged_on("SNLI")),
    figure(
        "declutr.f2a",
        "Anchors of a document",
        {str(count): spans(anchors=count) for count in (1, 2)},
        more=(arm("1, twice the documents", spans(documents=32, anchors=1)),),
        axis="anchors of a document",
    ),
    figure(
        "declutr.f2b",
        "Positives of an anchor",
        {str(count): spans(positives=count) for count in (1, 2, 4)},
        axis="positives of an anchor",
    ),
    figure(
        "declutr.f2c",
        "How positives lie to their anchor",
        {
            "adjacent": spans(strategy="adjacent"),
            "subsuming": spans(strategy="subsuming"),
            "both": spans(strategy="any"),
        },
    ),
    table(
        id="declutr.f3",
        title="Objective and share of the documents",
        arms=tuple(
            arm(f"{name}, {percent} %", step, share=share, x=percent, curve=name)
            for name, step in OBJECTIVES.items()
            for percent, share in SHARES.items()
        ),
        columns=FOUR,
        axis="per cent of the documents",
        differs="All shares have equally many steps. There is one size of encoder, not two.",
    ),
)
