"""A Mutually Reinforced Framework for Pretrained Sentence Embeddings (mutual): its tables.

The paper's News, Web documents and Browsing are MIND, MS MARCO and a private log. Here they are
Reuters-21578, the blog of Digital.gov and 18F, and sessions that mix titles. A column is a corpus:
arms train on it and are evaluated on it.
"""

from functools import partial

from flows.experiments.parts import BM25, METHODS, MINILM, RANDOM, START, arm, published
from flows.presets import SMALL_EPOCHS, trained_by
from sentemb_core.config.experiments import (
    CASE,
    SMALL,
    TITLE,
    Arm,
    Base,
    Budget,
    Column,
    Experiment,
    Label,
    SelfTrain,
    Step,
    Train,
)
from sentemb_core.config.methods import CONPONO, CPC, ICT, DeCLUTR
from sentemb_core.config.presets import RUN_PRESETS
from sentemb_core.config.run import AnnotationConfig, EncoderConfig, LabelsConfig

PAPER = published(
    "bert-base-uncased",
    steps=200_000,
    batch_size=3_200,
    learning_rate=2e-5,
    candidates=3_000,
    stated=trained_by("infocse_idc", "paper"),
    differs="Texts are those of the data folder. Pools have 3,000 documents, not all. Two rounds "
    "are run; the paper stops when R@5 stops growing. SimCSE, ConSERT, Mirror-BERT and DeCLUTR "
    "keep the pooling, the cosine and the temperature of their own papers. ICT, CPC and CONPONO "
    "have the mean, inner products and no temperature, as InfoCSE-IDC; the paper states no pooling "
    "and no similarity of the others. CONPONO reads one neighbour on each side. Eq. 1 sums over "
    "all n other than the anchor; our batches of pairs contrast an anchor with the other sides of "
    "the pairs alone, not with other anchors. Validation every 2,000 steps, gradients clipped at "
    "1, no warm-up, no weight decay and bfloat16 where that is faster are ours.",
)
"""Appendix C: BERT-base, batch 3,200, Adam at 2e-5, at most 0.2 M steps, seed 42."""

COLUMNS = (
    Column(label="News", corpus="news_reuters21578", judge=TITLE, measure="R@5"),
    Column(label="Web documents", corpus="blog_usgov", judge=TITLE, measure="R@5"),
    Column(label="Browsing", corpus="session_mixed_titles", judge=TITLE, measure="R@20"),
)
DEPTHS = tuple(
    one
    if one.measure == measure
    else one.model_copy(
        update={"label": f"{one.label} {measure}", "measure": measure, "averaged": False}
    )
    for one in COLUMNS
    for measure in ("R@5", "R@10", "R@20")
)
"""Tables 1 and 3 print recall at three depths; the average and the claims are of `COLUMNS`."""

CORPORA = (
    "The corpora are Reuters, the blog of Digital.gov and 18F, and mixed sessions (R@20 there). "
    "Documents are cut to their first 12 sentences."
)

STATIC = Budget(
    steps=600,
    batch_size=128,
    learning_rate=5e-3,
    round_learning_rate=2e-3,
    base=Base(encoder=EncoderConfig(name="static"), times=0),
    dtype="float32",
    differs=f"{CORPORA} The encoder is static, from random vectors, in place of BERT.",
)
"""For all tables but the first: a static encoder from random vectors, with the rates of its preset.

In 300 steps a small transformer finds one title in ten, too few to compare rounds. Static vectors
learn fifty times faster. They have no layers and no dropout, so methods that need those are left
out.
"""

table = partial(Experiment, columns=DEPTHS, small=STATIC, paper=PAPER)
own_table = partial(Experiment, columns=COLUMNS, small=STATIC, paper=PAPER)

WHOLE = {"ict": ICT(), "cpc": CPC(), "declutr": METHODS["declutr"]}
"""Under `paper`: the 288 tokens of ORQA, which BERT reads. DeCLUTR's lengths are not stated."""

SHORT = {"declutr": DeCLUTR(shortest=8, longest=24)}
"""A session of 12 titles has about a hundred tokens; DeCLUTR then needs 96 of them."""


def method(name: str, times: float = 1.0) -> Train:
    """Return the training of a row of `METHODS`, with lengths that the corpora allow."""
    small = SHORT.get(name, METHODS[name])
    return Train.model_validate({"method": small, "paper": WHOLE.get(name), "times": times})


def rounds(count: int, **annotation: object) -> tuple[Step, ...]:
    """Return self-training rounds; each starts from the encoder of the round before."""
    return (SelfTrain(annotation=AnnotationConfig.model_validate(annotation)),) * count


CP = Train(method=CONPONO())
IDC = (CP, *rounds(2))
"""The paper's own method: from CONPONO's encoder, best at round 2."""

FIXED = (RANDOM, BM25, START)
OF_STATIC = ("ict", "cpc", "conpono")
OTHERS = ("simcse", "consert", "mirror_bert", "ict", "cpc", "declutr", "conpono")
LONGER_CP = arm("conpono, three times the steps", method("conpono", 3.0))

EPOCHS = (
    f"Labels are read at most {SMALL_EPOCHS.epochs} times, in batches of 64, and training stops "
    f"after {SMALL_EPOCHS.patience} epochs without gain, in place of {LabelsConfig().epochs} and "
    f"{LabelsConfig().patience}."
)
COUNTS = (100, 250, 1_000)
PAPER_COUNTS = (2_000, 5_000)
FEWER_LABELS = (
    "There are 100, 250 and 1,000 labels in place of 1,000, 2,000 and 5,000. An epoch of 100 "
    "labels is one batch; the 36 labels left out differ from epoch to epoch. SimCSE, ConSERT, "
    "Mirror-BERT and DeCLUTR are left out: static vectors have no layers and no dropout."
)
STARTS: dict[str, tuple[Step, ...]] = {
    "start encoder": (),
    **{name: (method(name),) for name in OTHERS},
    "infocse_idc": IDC,
}
STATIC_STARTS = ("start encoder", *OF_STATIC, "infocse_idc")
"""Starts that a static encoder can have."""


def few(name: str, counts: tuple[int, ...]) -> tuple[Arm, ...]:
    """Return an arm for each number of labels after one of `STARTS`."""
    return tuple(
        arm(f"{name}, {count:,} labels", *STARTS[name], Label(count=count)) for count in counts
    )


SOME, ALL = Label(count=1_000), Label(count=None)
CYCLE = (*IDC, SOME)

AUTO = RUN_PRESETS["infocse_idc"]["auto"]["annotation"]
"""Ours: nearest sentences that are not neighbours, and probably related sentences."""

LONGER_ICT = arm("ict, three times the steps", method("ict", 3.0))
NOT_IN_PAPER = "The paper has no such table."

EXPERIMENTS = (
    table(
        id="mutual.t1",
        title="Zero-shot retrieval of seven methods and InfoCSE-IDC",
        arms=(
            *FIXED,
            *(arm(name, method(name)) for name in OTHERS),
            LONGER_CP,
            arm("infocse_idc", *IDC),
        ),
        small=SMALL.model_copy(update={"learning_rate": 2e-3}).with_difference(
            f"{CORPORA} The base has 2 layers of width 128 and comes from our Condenser stage. "
            "DeCLUTR's spans have 8 to 24 tokens, because no documents are longer."
        ),
    ),
    own_table(
        id="mutual.t2",
        title="Few-shot retrieval: labels after each method",
        arms=(*FIXED, *(one for name in STATIC_STARTS for one in few(name, COUNTS))),
        paper_arms=tuple(
            one
            for name in STARTS
            for one in few(name, PAPER_COUNTS if name in STATIC_STARTS else (1_000, *PAPER_COUNTS))
        ),
        labels=True,
        small=STATIC.with_difference(f"{EPOCHS} {FEWER_LABELS}"),
    ),
    table(
        id="mutual.t3a",
        title="InfoCSE++ against one pass of fine-tuning",
        arms=(
            *FIXED,
            arm("fine-tuned, 1,000 labels", *CYCLE),
            arm("++, 1,000 labels", *CYCLE, *rounds(1), SOME),
            arm("fine-tuned twice, 1,000 labels", *CYCLE, SOME),
            arm("fine-tuned, all labels", *IDC, ALL),
            arm("++, all labels", *IDC, ALL, *rounds(1), ALL),
        ),
        labels=True,
        small=STATIC.with_difference(EPOCHS),
        differs="The second cycle has one round; the paper's stops when R@5 stops growing.",
    ),
    table(
        id="mutual.t3b",
        title="k-means against partition of the pruned graph",
        arms=(
            *FIXED,
            arm("conpono", CP),
            arm("k-means", CP, *rounds(2, clustering="kmeans")),
            arm("partition", *IDC),
        ),
    ),
    table(
        id="mutual.t3c",
        title="Rounds of self-training",
        arms=(
            *FIXED,
            *(
                arm(f"round {count}" if count else "conpono", CP, *rounds(count), x=count)
                for count in range(4)
            ),
            LONGER_CP,
        ),
        axis="round",
    ),
    table(
        id="mutual.t3d",
        title="Initialisers: CONPONO and ICT",
        arms=(*FIXED, arm("CP", *IDC), arm("ICT", method("ict"), *rounds(2))),
        paper_arms=(arm("SC", method("simcse"), *rounds(2)),),
        small=STATIC.with_difference(
            "SimCSE as initialiser is left out: static vectors have no dropout."
        ),
    ),
    table(
        id="mutual.t3e",
        title="Who annotates in round 1",
        arms=(
            *FIXED,
            MINILM.model_copy(update={"label": "all-MiniLM-L6-v2 itself"}),
            arm("BERT(CP)", *IDC),
            arm("SBERT", CP, SelfTrain(annotator="minilm"), SelfTrain()),
        ),
        differs="SBERT is all-MiniLM-L6-v2.",
    ),
    own_table(
        id="mutual.x",
        title="Our own ablation: neighbours kept a sentence, union or mutual, auto, from ICT",
        arms=(
            *FIXED,
            arm("K = 1", *IDC),
            *(arm(f"K = {k}", CP, *rounds(2, top_k=k)) for k in (2, 3)),
            arm("K = 1, mutual", CP, *rounds(2, mutual=True)),
            arm("auto", CP, *rounds(2, **AUTO)),
            arm("from ICT", method("ict"), *rounds(2)),
            arm("from ICT, auto", method("ict"), *rounds(2, **AUTO)),
            LONGER_ICT,
        ),
        differs=NOT_IN_PAPER,
    ),
    own_table(
        id="mutual.x2",
        title="Our own ablation: a round goes on from the one before, or restarts from the "
        "initialiser",
        arms=(
            *FIXED,
            arm("conpono", CP),
            arm("goes on", *IDC),
            arm("restart", CP, SelfTrain(), SelfTrain(restart=True)),
            arm("restart, twice the steps", CP, SelfTrain(), SelfTrain(restart=True, times=2)),
        ),
        differs=NOT_IN_PAPER,
    ),
    table(
        id="mutual.appD",
        title="Eight titles of four topics, round by round",
        arms=(
            MINILM,
            START,
            arm("conpono", CP),
            *(arm(f"round {count}", CP, *rounds(count)) for count in (1, 2)),
        ),
        columns=(Column(label="pairs of titles", corpus="session_mixed_titles", judge=CASE),),
        differs="The eight titles are the paper's; the browsing corpus is private. A cell is the "
        "share of their 28 pairs that are together or apart as in the paper. Its second round has "
        "1 2 | 3 4 | 5 6 | 7 8. Its first round has 1 2 | 3 4 5 6 | 7 8. Titles of a pair share "
        "words, so random static vectors find the pairs, too.",
    ),
)
