"""mutual, A Mutually Reinforced Framework for Pretrained Sentence Embeddings: its tables.

News, Web documents and Browsing stand for MIND, MS MARCO and a private log; ours are Reuters-21578,
the blog of Digital.gov and 18F, and sessions that mix titles. A column is a corpus: arms train and
are judged on the same one.
"""

from flows.method_table import METHODS
from flows.presets import SMALL_EPOCHS, trained_by
from sentemb_core.config.experiments import (
    CASE,
    POINT,
    SMALL,
    TITLE,
    Arm,
    Base,
    Budget,
    Claim,
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

PAPER = Budget(
    steps=200_000,
    batch_size=3_200,
    learning_rate=2e-5,
    candidates=3_000,
    base=Base(encoder=EncoderConfig(name="bert-base-uncased"), times=0),
    threads=None,
    seeds=(42,),
    presets=("paper",),
    stated=trained_by("infocse_idc", "paper"),
    differs="Texts are those of the folder; pools of 3,000 documents, not all; two rounds, not "
    "until R@5 stops growing; SimCSE, ConSERT, Mirror-BERT and DeCLUTR have the pooling, the "
    "cosine and the temperature of their own papers, ICT, CPC and CONPONO the mean, inner "
    "products and no temperature of InfoCSE-IDC (the paper states no pooling, nor what the others "
    "compare by); one neighbour on each side for CONPONO; bfloat16 where that is faster; gradients "
    "clipped at 1.",
)
"""Appendix C, for all of a table: BERT-base, batch 3,200, Adam at 2e-5, at most 0.2 M steps, seed
42."""

COLUMNS = (
    Column(label="News", corpus="news_reuters21578", judge=TITLE, measure="R@5"),
    Column(label="Web documents", corpus="blog_usgov", judge=TITLE, measure="R@5"),
    Column(label="Browsing", corpus="session_mixed_titles", judge=TITLE, measure="R@20"),
)

CORPORA = (
    "Corpora (Reuters, Digital.gov's and 18F's blog, mixed sessions: R@20 there), documents cut to "
    "their first 12 sentences"
)

WORDS = Budget(
    steps=600,
    batch_size=128,
    learning_rate=5e-3,
    round_learning_rate=2e-3,
    base=Base(encoder=EncoderConfig(name="static"), times=0),
    dtype="float32",
    differs=f"{CORPORA}, a static encoder from random vectors in place of BERT.",
)
"""For all tables but the first: a static encoder from random vectors (rates of its preset). In 300
steps a small transformer finds one title in ten, too few to tell rounds apart; word vectors learn
fifty times faster. They have no layers and no dropout, so methods that need those are left out.
"""


def rounds(count: int, annotation: AnnotationConfig | None = None) -> tuple[Step, ...]:
    """That many rounds, each from the encoder before it."""
    return (SelfTrain(annotation=annotation or AnnotationConfig()),) * count


CP = Train(method=CONPONO())
IDC = (CP, *rounds(2))
"""The paper's own: from CONPONO's encoder, the best at round 2."""


WHOLE = {"ict": ICT(), "cpc": CPC(), "declutr": METHODS["declutr"]}
"""With ORQA's 288 tokens, which BERT reads. The paper does not give DeCLUTR's lengths."""

SHORT = {"declutr": DeCLUTR(shortest=8, longest=24)}
"""Sessions of 12 titles have a hundred tokens, 96 of which it wants then."""


def method(name: str, times: float = 1.0) -> Train:
    """A row of the table of methods."""
    small = SHORT.get(name, METHODS[name])
    return Train.model_validate({"method": small, "paper": WHOLE.get(name), "times": times})


def alone(name: str) -> Arm:
    return Arm(label=name, steps=(method(name),))


FIXED = (
    Arm(label="random vectors", system="random"),
    Arm(label="BM25", system="BM25"),
    Arm(label="start encoder"),
)

FOR_WORDS = ("ict", "cpc", "conpono")
OTHERS = ("simcse", "consert", "mirror_bert", "ict", "cpc", "declutr", "conpono")

ZERO_SHOT = Experiment(
    id="mutual.t1",
    title="Zero-shot retrieval of seven methods and InfoCSE-IDC",
    arms=(
        *FIXED,
        *map(alone, OTHERS),
        Arm(label="conpono, three times the steps", steps=(method("conpono", 3.0),)),
        Arm(label="infocse_idc", steps=IDC),
    ),
    columns=COLUMNS,
    claims=(
        Claim(
            text="InfoCSE-IDC retrieves better than every other method",
            better="infocse_idc",
            than=OTHERS,
        ),
        Claim(
            text="Context beats two views of one sentence: ICT above SimCSE, ConSERT, Mirror-BERT",
            better="ict",
            than=("simcse", "consert", "mirror_bert"),
        ),
        Claim(
            text="(ours) InfoCSE-IDC is better than its initialiser trained for as many steps",
            better="infocse_idc",
            than=("conpono, three times the steps",),
        ),
    ),
    small=SMALL.model_copy(update={"learning_rate": 2e-3}).with_difference(
        f"{CORPORA}, base (2 layers, 128 wide, pre-trained by our Condenser stage); DeCLUTR's "
        "spans have 8 to 24 tokens, for want of longer documents."
    ),
    paper=PAPER,
)

EPOCHS = (
    f"Labels are read {SMALL_EPOCHS.epochs} times at most, in batches of 64, and no more after "
    f"{SMALL_EPOCHS.patience} times without gain, in place of {LabelsConfig().epochs} and "
    f"{LabelsConfig().patience}."
)

COUNTS = (100, 250, 1_000)
PAPER_COUNTS = (2_000, 5_000)
LABELS = (
    "100, 250 and 1,000 labels in place of 1,000, 2,000 and 5,000: an epoch of 100 is one "
    "batch, whose 36 left out change from epoch to epoch. SimCSE, ConSERT, Mirror-BERT "
    "and DeCLUTR are left out: word vectors have no layers and no dropout."
)


STARTS: dict[str, tuple[Step, ...]] = {
    "start encoder": (),
    **{name: (method(name),) for name in OTHERS},
    "infocse_idc": IDC,
}
WITHOUT_LAYERS = ("start encoder", *FOR_WORDS, "infocse_idc")
"""Those of them that word vectors can be."""


def few(name: str, counts: tuple[int, ...]) -> tuple[Arm, ...]:
    """One arm for each number of labels."""
    return tuple(
        Arm(label=f"{name}, {count:,} labels", steps=(*STARTS[name], Label(count=count)))
        for count in counts
    )


FEW_SHOT = Experiment(
    id="mutual.t2",
    title="Few-shot retrieval: labels after each method",
    arms=(*FIXED, *(arm for name in WITHOUT_LAYERS for arm in few(name, COUNTS))),
    paper_arms=tuple(
        arm
        for name in STARTS
        for arm in few(name, PAPER_COUNTS if name in WITHOUT_LAYERS else (1_000, *PAPER_COUNTS))
    ),
    columns=COLUMNS,
    claims=tuple(
        Claim(
            text=f"With {count:,} labels, InfoCSE-IDC's stay the best word vectors to start from",
            better=f"infocse_idc, {count:,} labels",
            than=tuple(f"{name}, {count:,} labels" for name in ("start encoder", *FOR_WORDS)),
        )
        for count in COUNTS
    ),
    labels=True,
    small=WORDS.with_difference(f"{EPOCHS} {LABELS}"),
    paper=PAPER,
)

CYCLE = (*IDC, Label(count=1_000))
PLUS_PLUS = Experiment(
    id="mutual.t3a",
    title="InfoCSE++ against one pass of fine-tuning",
    arms=(
        *FIXED,
        Arm(label="fine-tuned, 1,000 labels", steps=CYCLE),
        Arm(label="++, 1,000 labels", steps=(*CYCLE, *rounds(1), Label(count=1_000))),
        Arm(
            label="fine-tuned twice, 1,000 labels",
            steps=(*CYCLE, Label(count=1_000)),
        ),
        Arm(label="fine-tuned, all labels", steps=(*IDC, Label(count=None))),
        Arm(
            label="++, all labels",
            steps=(*IDC, Label(count=None), *rounds(1), Label(count=None)),
        ),
    ),
    columns=COLUMNS,
    claims=(
        Claim(
            text="A second cycle of self-training gains over fine-tuning once (1,000 labels)",
            better="++, 1,000 labels",
            than=("fine-tuned, 1,000 labels",),
        ),
        Claim(
            text="(ours) ... and over fine-tuning twice",
            better="++, 1,000 labels",
            than=("fine-tuned twice, 1,000 labels",),
        ),
        Claim(
            text="A second cycle gains with all labels",
            better="++, all labels",
            than=("fine-tuned, all labels",),
        ),
    ),
    labels=True,
    small=WORDS.with_difference(EPOCHS),
    paper=PAPER,
    differs="The second cycle has one round, not rounds until R@5 stops growing.",
)

CLUSTERING = Experiment(
    id="mutual.t3b",
    title="k-means against partition of the pruned graph",
    arms=(
        *FIXED,
        Arm(label="conpono", steps=(CP,)),
        Arm(
            label="k-means",
            steps=(CP, *rounds(2, AnnotationConfig(clustering="kmeans"))),
        ),
        Arm(label="partition", steps=IDC),
    ),
    columns=COLUMNS,
    claims=(
        Claim(
            text="Partition of each document's graph beats one k-means over all sentences",
            better="partition",
            than=("k-means",),
        ),
    ),
    small=WORDS,
    paper=PAPER,
)

CONVERGENCE = Experiment(
    id="mutual.t3c",
    title="Rounds of self-training",
    arms=(
        *FIXED,
        *(
            Arm(label=f"round {count}" if count else "conpono", steps=(CP, *rounds(count)), x=count)
            for count in range(4)
        ),
        Arm(label="conpono, three times the steps", steps=(method("conpono", 3.0),)),
    ),
    columns=COLUMNS,
    claims=(
        Claim(text="A second round gains over the first", better="round 2", than=("round 1",)),
        Claim(
            text="A third round gains nothing more",
            better="round 2",
            than=("round 3",),
            margin=POINT,
        ),
        Claim(
            text="(ours) Two rounds are better than their initialiser trained for as many steps",
            better="round 2",
            than=("conpono, three times the steps",),
        ),
    ),
    axis="round",
    small=WORDS,
    paper=PAPER,
)

INITIALISERS = Experiment(
    id="mutual.t3d",
    title="The encoder that annotates first",
    arms=(
        *FIXED,
        *(
            Arm(label=label, steps=(method(name), *rounds(2)))
            for label, name in (("CP", "conpono"), ("ICT", "ict"))
        ),
    ),
    paper_arms=(Arm(label="SC", steps=(method("simcse"), *rounds(2))),),
    columns=COLUMNS,
    claims=(
        Claim(
            text="On News, CONPONO is a better initialiser than ICT",
            better="CP",
            than=("ICT",),
            columns=("News",),
        ),
        Claim(
            text="On Browsing, ICT is a better initialiser than CONPONO",
            better="ICT",
            than=("CP",),
            columns=("Browsing",),
        ),
    ),
    small=WORDS.with_difference("SimCSE as initialiser is left out: word vectors have no dropout."),
    paper=PAPER,
)

ANNOTATORS = Experiment(
    id="mutual.t3e",
    title="Who annotates in round 1",
    arms=(
        *FIXED,
        Arm(label="all-MiniLM-L6-v2 itself", system="minilm"),
        Arm(label="BERT(CP)", steps=IDC),
        Arm(label="SBERT", steps=(CP, SelfTrain(annotator="minilm"), SelfTrain())),
    ),
    columns=COLUMNS,
    claims=(
        Claim(
            text="A supervised annotator in round 1 makes a better encoder",
            better="SBERT",
            than=("BERT(CP)",),
        ),
    ),
    small=WORDS,
    paper=PAPER,
    differs="SBERT is all-MiniLM-L6-v2.",
)

AUTO = AnnotationConfig.model_validate(RUN_PRESETS["infocse_idc"]["auto"]["annotation"])
"""Ours: nearest sentences that are no neighbours, and probably related ones."""

EXTENSION = Experiment(
    id="mutual.x",
    title="Our own ablation: neighbours kept a sentence, union or mutual, auto, from ICT",
    arms=(
        *FIXED,
        Arm(label="K = 1", steps=IDC),
        *(Arm(label=f"K = {k}", steps=(CP, *rounds(2, AnnotationConfig(top_k=k)))) for k in (2, 3)),
        Arm(label="K = 1, mutual", steps=(CP, *rounds(2, AnnotationConfig(mutual=True)))),
        Arm(label="auto", steps=(CP, *rounds(2, AUTO))),
        Arm(label="from ICT", steps=(method("ict"), *rounds(2))),
        Arm(label="from ICT, auto", steps=(method("ict"), *rounds(2, AUTO))),
        Arm(label="ict, three times the steps", steps=(method("ict", 3.0),)),
    ),
    columns=COLUMNS,
    claims=(
        Claim(
            text="(ours) From ICT, self-training ends higher than from CONPONO",
            better="from ICT",
            than=("K = 1",),
        ),
        Claim(
            text="(ours) ... and higher than ICT trained for as many steps",
            better="from ICT",
            than=("ict, three times the steps",),
        ),
        Claim(
            text="(ours) `--preset auto` gains from ICT, too",
            better="from ICT, auto",
            than=("from ICT",),
        ),
        Claim(
            text="(ours) ... and over ICT trained for as many steps",
            better="from ICT, auto",
            than=("ict, three times the steps",),
        ),
        Claim(
            text="(ours) One neighbour a sentence is better than two or three",
            better="K = 1",
            than=("K = 2", "K = 3"),
        ),
        Claim(
            text="(ours) Neighbours that choose each other are better than the union",
            better="K = 1, mutual",
            than=("K = 1",),
        ),
    ),
    small=WORDS,
    paper=PAPER,
    differs="The paper has no such table.",
)

RESTART = Experiment(
    id="mutual.x2",
    title="Our own ablation: a round goes on from the one before, or anew from the initialiser",
    arms=(
        *FIXED,
        Arm(label="conpono", steps=(CP,)),
        Arm(label="goes on", steps=IDC),
        Arm(label="anew", steps=(CP, SelfTrain(), SelfTrain(anew=True))),
        Arm(label="anew, twice the steps", steps=(CP, SelfTrain(), SelfTrain(anew=True, times=2))),
    ),
    columns=COLUMNS,
    claims=(
        Claim(
            text="(ours) A second round that goes on is better than one that starts anew",
            better="goes on",
            than=("anew",),
        ),
        Claim(
            text="(ours) ... and when that trains for as long",
            better="goes on",
            than=("anew, twice the steps",),
        ),
    ),
    small=WORDS,
    paper=PAPER,
    differs="The paper has no such table.",
)

BY_TOPIC = Experiment(
    id="mutual.appD",
    title="Eight titles of four topics, round by round",
    arms=(
        Arm(label="all-MiniLM-L6-v2", system="minilm"),
        Arm(label="start encoder"),
        Arm(label="conpono", steps=(CP,)),
        *(Arm(label=f"round {count}", steps=(CP, *rounds(count))) for count in (1, 2)),
    ),
    columns=(Column(label="pairs of titles", corpus="session_mixed_titles", judge=CASE),),
    claims=(
        Claim(
            text="The second round's encoder tells topics apart that the first one's does not",
            better="round 2",
            than=("round 1",),
        ),
    ),
    small=WORDS,
    paper=PAPER,
    differs="Eight titles of our own words, the paper's are private; a cell is the share of their "
    "28 pairs that are together, or apart, as after the paper's second round (1 2 | 3 4 | 5 6 | "
    "7 8; after its first 1 2 | 3 4 5 6 | 7 8).",
)

EXPERIMENTS = (
    ZERO_SHOT,
    FEW_SHOT,
    PLUS_PLUS,
    CLUSTERING,
    CONVERGENCE,
    INITIALISERS,
    ANNOTATORS,
    EXTENSION,
    RESTART,
    BY_TOPIC,
)
