"""HiCL: Hierarchical Contrastive Learning of Unsupervised Sentence Embeddings (hicl).

The paper's sequences are lines of Wikipedia of up to 512 tokens. Here they are articles of
Reuters-21578, cut at 128 tokens; most have several segments. A base method alone reads single
sentences. Few numbers of the paper's tables are available (erratum E36): claims come from its text,
those of the ablations from its settings. Most ablations are evaluated on STS-B dev.
"""

from functools import partial

from flows.experiments.parts import CONTEXT, START, suite_columns
from sentemb_core.config.experiments import (
    SECONDS,
    SMALL,
    Arm,
    Base,
    Budget,
    Column,
    Corpus,
    Experiment,
    Train,
)
from sentemb_core.config.methods import SNCSE, ESimCSE, HiCL, SimCSE
from sentemb_core.config.presets import preset_of
from sentemb_core.config.run import EncoderConfig

TUNED = (
    "Texts and sets are those of the data folder. All rows have one learning rate and one share of "
    "the segments' loss; the paper tuned both. The last step is kept, not the best on STS-B dev."
)

PAPER = Budget(
    steps=15_625,
    learning_rate=3e-5,
    base=Base(
        encoder=EncoderConfig(name="bert-base-uncased", pooling="cls_before_pooler"), times=0
    ),
    dtype="float32",
    threads=None,
    seeds=(42,),
    presets=("paper",),
    stated={"batch_size": 64, "learning_rate": 3e-5},
    differs=f"{TUNED} BERT-base is the only encoder.",
)
"""A million sentences once at batch 64, as for its best number of BERT-base (76.35), in fp32.

Learning rates were tuned among 5e-6, 1e-5, 3e-5 and 5e-5.
"""

NEWS: Corpus = "news_reuters21578"
PAPER_LONGEST = 512

OF_NEWS = SMALL.with_difference(
    "Articles of Reuters, their first 12 sentences cut at 128 tokens, replace lines of Wikipedia. "
    "The base has 2 layers of width 128 and comes from our Condenser stage."
)

OF_BASE_ALONE = (
    "A base method alone reads single sentences; HiCL reads an article as one sequence, up to its "
    "maximum length."
)
"""For tables with both. A row on whole sequences is the base method on the sequences of HiCL."""

table = partial(Experiment, small=OF_NEWS, paper=PAPER)

STS = suite_columns("sts", NEWS)
DEV = (Column(label="STS-B dev", corpus=NEWS, judge="STS-B-dev"),)

PROMPTED = SNCSE.model_validate(preset_of("hicl", "over_sncse")["method"]["base"])
"""SNCSE with the prompt that HiCL's paper quotes (erratum E37)."""

Method = HiCL | SimCSE | ESimCSE | SNCSE


def sliced(**settings: object) -> HiCL:
    """Return HiCL with a setting, on sequences of 128 tokens."""
    return HiCL.model_validate({"longest": CONTEXT} | settings)


def arm(
    label: str,
    method: Method,
    *,
    x: float | None = None,
    curve: str = "",
    batch_size: int | None = None,
    times: float = 1.0,
) -> Arm:
    """Return an arm with one training from the base encoder."""
    step = Train(method=method, paper=as_in_paper(method), batch_size=batch_size, times=times)
    return Arm(label=label, steps=(step,), x=x, curve=curve)


def as_in_paper(method: Method) -> HiCL | None:
    """Return HiCL with the paper's sequences, and over SNCSE with the paper's prompt."""
    if not isinstance(method, HiCL):
        return None
    cut = [name for name in ("segment", "longest") if getattr(method, name) == CONTEXT]
    longer = method.model_copy(update=dict.fromkeys(cut, PAPER_LONGEST))
    return longer.model_copy(update={"base": PROMPTED}) if method.base == SNCSE() else longer


ALONE = arm("simcse", SimCSE())
ON_SEQUENCES = arm("simcse, whole sequences", sliced(segment=CONTEXT))
HICL = arm("hicl (SimCSE)", sliced())

BASES = {"SimCSE": SimCSE(), "ESimCSE": ESimCSE(), "SNCSE": SNCSE()}


def longer(budget: Budget, tokens: int) -> Budget:
    """Return the budget with an encoder that reads more tokens of a review than 32."""
    encoder = budget.base.encoder.model_copy(update={"max_length": tokens})
    return budget.model_copy(update={"base": budget.base.model_copy(update={"encoder": encoder})})


def timed(label: str, segment: int, longest: int) -> Arm:
    """Return a tenth of the steps: the time of a step is measured."""
    step = Train(method=HiCL(segment=segment, longest=longest), batch_size=16, times=0.1)
    return Arm(label=f"{label} ({longest} tokens)", steps=(step,))


TIMED = (Column(label="seconds", corpus="long_elife", judge=SECONDS),)

ALPHAS = (0.0, 0.01, 0.05, 0.15, 0.5, 1.0)

BETAS = (1e-5, 3e-5, 1e-4, 3e-4)

BATCHES = (16, 64, 256)
BOTH = ("hicl", "simcse")
BATCHED: dict[str, HiCL | SimCSE] = {"simcse": SimCSE(), "hicl": sliced()}


def batched(name: str, size: int) -> Arm:
    """Return an arm that reads equally many texts at every batch size."""
    label = f"{name}, {size} a batch"
    return arm(label, BATCHED[name], batch_size=size, times=64 / size, x=size, curve=name)


EXPERIMENTS = (
    table(
        id="hicl.t1",
        title="HiCL on three methods, and each alone",
        arms=(
            START,
            *(
                one
                for name, base in BASES.items()
                for one in (arm(name.lower(), base), arm(f"hicl ({name})", sliced(base=base)))
            ),
        ),
        columns=STS,
        differs=OF_BASE_ALONE,
    ),
    table(
        id="hicl.t8",
        title="Long texts: reviews",
        arms=(START, ALONE, ON_SEQUENCES, HICL),
        columns=(
            Column(label="IMDB", corpus=NEWS, judge="IMDB"),
            *(
                Column(label=label, corpus=NEWS, judge=f"Blitzer-{label}")
                for label in ("books", "kitchen")
            ),
        ),
        small=longer(
            OF_NEWS.with_difference(
                "A sample of IMDB; an encoder reads the first 128 tokens of a review. Pre-training "
                "of the base hardly reached positions beyond 32."
            ),
            CONTEXT,
        ),
        paper=longer(PAPER, PAPER_LONGEST),
        differs=f"Reviews of books and kitchenware replace Yelp. {OF_BASE_ALONE}",
    ),
    table(
        id="hicl.t11",
        title="Transfer",
        arms=(START, ALONE, HICL),
        columns=suite_columns("transfer", NEWS),
        differs=OF_BASE_ALONE,
    ),
    table(
        id="hicl.time",
        title="Time to train, by the length of sequences",
        arms=tuple(
            timed(label, segment or longest, longest)
            for longest in (128, 512)
            for label, segment in (("whole sequences", None), ("hicl", 32))
        ),
        columns=TIMED,
        small=SMALL.model_copy(
            update={
                "base": Base(
                    encoder=Base().encoder.model_copy(update={"positions": 512}),
                    times=0,
                ),
            }
        ).with_difference(
            "Seconds are of one CPU thread, 2 layers of width 128 from random weights. There are "
            "30 steps of 16, below the usual 300 steps of 64, because whole sequences of 512 "
            "tokens are slow and only the time of a step matters."
        ),
        differs="Seconds are for a tenth of the steps, with 16 articles of eLife a step. The "
        "paper's numbers are minutes of an A40 for a whole training.",
    ),
    table(
        id="hicl.t5",
        title="Trained on WikiText-103 and a million sentences",
        arms=(START, arm("baseline", SimCSE()), arm("hicl", sliced())),
        columns=suite_columns("sts", "wikitext_103"),
        small=SMALL.with_difference(
            "Texts are paragraphs, their first 12 sentences cut at 128 tokens. The base has 2 "
            "layers of width 128 and comes from our Condenser stage, in place of RoBERTa-large."
        ),
        paper=PAPER.model_copy(
            update={
                "base": Base(
                    encoder=EncoderConfig(name="roberta-large", pooling="cls_before_pooler"),
                    times=0,
                ),
                "dtype": "bfloat16",
                "differs": f"{TUNED} There are 15,625 steps, not an epoch; bfloat16 replaces fp16.",
            }
        ),
        differs=f"The baseline is SimCSE; the paper's baseline is not known. {OF_BASE_ALONE}",
    ),
    table(
        id="hicl.t3",
        title="Segments added up by their length, or all alike",
        arms=(
            arm("weighted", sliced(pooling="weighted")),
            arm("unweighted", sliced(pooling="plain")),
        ),
        columns=STS,
    ),
    table(
        id="hicl.t4",
        title="What segments of one sequence are to each other",
        arms=(
            arm("ignored", sliced(siblings="ignored")),
            arm("negatives", sliced(siblings="negative")),
            arm("positives", sliced(siblings="positive")),
        ),
        columns=DEV,
    ),
    table(
        id="hicl.f2",
        title="Tokens of a segment",
        arms=(
            ALONE,
            *(arm(str(length), sliced(segment=length), x=length) for length in (16, 24, 32, 40)),
            arm("whole sequences", sliced(segment=CONTEXT)),
        ),
        columns=DEV,
        axis="tokens of a segment",
        differs=OF_BASE_ALONE,
    ),
    table(
        id="hicl.t6",
        title="Is it slicing alone? The base method on slices as texts of their own",
        arms=(
            arm("simcse, first 32 tokens", sliced(longest=32)),
            ON_SEQUENCES,
            arm("simcse, pre-sliced", SimCSE()),
            arm("simcse, pre-sliced, 256 a batch", SimCSE(), batch_size=256),
            HICL,
        ),
        columns=STS,
        differs="Pre-sliced texts are sentences, not slices of 32 tokens.",
    ),
    table(
        id="hicl.t7",
        title="The share of the segments' loss",
        arms=(ALONE, *(arm(f"{share:g}", sliced(alpha=share), x=share) for share in ALPHAS)),
        columns=DEV,
        axis="alpha",
        differs=OF_BASE_ALONE,
    ),
    table(
        id="hicl.t9",
        title="HiCLv2: segments that choose their own sequence",
        arms=(HICL, *(arm(f"{share:g}", sliced(beta=share), x=share) for share in BETAS)),
        columns=DEV,
        axis="beta",
    ),
    table(
        id="hicl.t10",
        title="Batch size, at as many texts",
        arms=tuple(batched(name, size) for size in BATCHES for name in BATCHED),
        paper_arms=tuple(batched(name, 1_024) for name in BATCHED),
        columns=DEV,
        axis="texts of a batch",
        small=OF_NEWS.with_difference(
            "Batches are 16, 64 and 256 in place of 64, 256 and 1,024. All read equally many "
            "texts, so a batch of 256 takes 75 steps, below the usual 300 steps of 64."
        ),
        differs=OF_BASE_ALONE,
    ),
    table(
        id="hicl.t16",
        title="Segments of other sequences as negatives: each for itself, or their mean",
        arms=(
            arm("summation", sliced(denominator="sum")),
            arm("averaging", sliced(denominator="average")),
        ),
        columns=DEV,
    ),
)
