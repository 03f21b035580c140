"""hicl, HiCL: its ablations, most of them on STS-B's dev set.

Their tables are lost: what they claim is read from the settings that the paper keeps.
"""

from flows.experiments.hicl import (
    ALONE,
    HICL,
    LONGEST,
    NEWS,
    OF_BASE_ALONE,
    OF_NEWS,
    PAPER,
    STS,
    arm,
    sliced,
)
from sentemb_core.config.experiments import Arm, Claim, Column, Experiment
from sentemb_core.config.methods import HiCL, SimCSE

DEV = (Column(label="STS-B dev", corpus=NEWS, judge="STS-B-dev"),)

POOLING = Experiment(
    id="hicl.t3",
    title="Segments added up by their length, or all alike",
    arms=(
        arm("weighted", sliced(pooling="weighted")),
        arm("unweighted", sliced(pooling="plain")),
    ),
    columns=STS,
    claims=(
        Claim(
            text="Weights by length make better sequences",
            better="weighted",
            than=("unweighted",),
        ),
    ),
    small=OF_NEWS,
    paper=PAPER,
)

RELATION = Experiment(
    id="hicl.t4",
    title="What segments of one sequence are to each other",
    arms=(
        arm("ignored", sliced(siblings="ignored")),
        arm("negatives", sliced(siblings="negative")),
        arm("positives", sliced(siblings="positive")),
    ),
    columns=DEV,
    claims=(
        Claim(
            text="Segments of one sequence are best left out",
            better="ignored",
            than=("negatives", "positives"),
        ),
    ),
    small=OF_NEWS,
    paper=PAPER,
)

LENGTHS = (16, 24, 32, 40)

SLICING = Experiment(
    id="hicl.f2",
    title="Tokens of a segment",
    arms=(
        ALONE,
        *(arm(str(length), sliced(segment=length), x=length) for length in LENGTHS),
        arm("whole sequences", sliced(segment=LONGEST)),
    ),
    columns=DEV,
    claims=(
        Claim(text="Segments of 32 tokens are best", better="32", than=("16", "24", "40")),
        Claim(
            text="Segments beat whole sequences",
            better="32",
            than=("whole sequences",),
        ),
    ),
    axis="tokens of a segment",
    small=OF_NEWS,
    paper=PAPER,
    differs=OF_BASE_ALONE,
)

PRE_SLICED = Experiment(
    id="hicl.t6",
    title="Is it slicing alone? The base method on slices as texts of their own",
    arms=(
        arm("simcse, first 32 tokens", sliced(longest=32)),
        arm("simcse, whole sequences", sliced(segment=LONGEST)),
        arm("simcse, pre-sliced", SimCSE()),
        arm("simcse, pre-sliced, 256 a batch", SimCSE(), batch_size=256),
        HICL,
    ),
    columns=STS,
    claims=(
        Claim(
            text="HiCL is better than its base method on pre-sliced texts",
            better=HICL.label,
            than=("simcse, pre-sliced",),
        ),
        Claim(
            text="(ours) ... and when that reads as many segments a step",
            better=HICL.label,
            than=("simcse, pre-sliced, 256 a batch",),
        ),
        Claim(
            text="HiCL is better than its base method on sequences cut at 32 tokens",
            better=HICL.label,
            than=("simcse, first 32 tokens",),
        ),
    ),
    small=OF_NEWS,
    paper=PAPER,
    differs="Pre-sliced texts are sentences, not slices of 32 tokens.",
)

ALPHAS = (0.0, 0.01, 0.05, 0.15, 0.5, 1.0)

ALPHA = Experiment(
    id="hicl.t7",
    title="The share of the segments' loss",
    arms=(ALONE, *(arm(f"{share:g}", sliced(alpha=share), x=share) for share in ALPHAS)),
    columns=DEV,
    claims=(
        Claim(text="A small share is better than none", better="0.05", than=("0",)),
        Claim(text="A small share is better than segments alone", better="0.05", than=("1",)),
    ),
    axis="alpha",
    small=OF_NEWS,
    paper=PAPER,
    differs=OF_BASE_ALONE,
)

DENOMINATOR = Experiment(
    id="hicl.t16",
    title="Segments of other sequences as negatives: each for itself, or their mean",
    arms=(
        arm("summation", sliced(denominator="sum")),
        arm("averaging", sliced(denominator="average")),
    ),
    columns=DEV,
    claims=(
        Claim(
            text="Each segment as a negative of its own is better than their mean",
            better="summation",
            than=("averaging",),
        ),
    ),
    small=OF_NEWS,
    paper=PAPER,
)


BETAS = (1e-5, 3e-5, 1e-4, 3e-4)

SECOND_VERSION = Experiment(
    id="hicl.t9",
    title="HiCLv2: segments that choose their own sequence",
    arms=(HICL, *(arm(f"{share:g}", sliced(beta=share), x=share) for share in BETAS)),
    columns=DEV,
    claims=(
        Claim(
            text="Segments against sequences gain over HiCL",
            better="3e-05",
            than=(HICL.label,),
        ),
    ),
    axis="beta",
    small=OF_NEWS,
    paper=PAPER,
)

BATCHES = (16, 64, 256)


BATCHED: dict[str, HiCL | SimCSE] = {"simcse": SimCSE(), "hicl": sliced()}


def batched(label: str, size: int) -> Arm:
    """As many texts as every other size, in more or in fewer steps."""
    of_size = f"{label}, {size} a batch"
    made = arm(of_size, BATCHED[label], batch_size=size, times=64 / size, x=size)
    return made.model_copy(update={"curve": label})


BATCH = Experiment(
    id="hicl.t10",
    title="Batch size, at as many texts",
    arms=tuple(batched(label, size) for size in BATCHES for label in BATCHED),
    paper_arms=tuple(batched(label, 1_024) for label in BATCHED),
    columns=DEV,
    claims=(
        *(
            Claim(
                text=f"HiCL gains at {size} a batch",
                better=f"hicl, {size} a batch",
                than=(f"simcse, {size} a batch",),
            )
            for size in BATCHES
        ),
        Claim(
            text="HiCL needs no large batch: at 64 it is above SimCSE at 256",
            better="hicl, 64 a batch",
            than=("simcse, 256 a batch",),
        ),
    ),
    axis="texts of a batch",
    small=OF_NEWS.with_difference(
        "16, 64 and 256 a batch in place of 64, 256 and 1,024; as many texts for all, so that 256 "
        "a batch take 75 steps, below the usual 300 steps of 64."
    ),
    paper=PAPER,
    differs=OF_BASE_ALONE,
)


EXPERIMENTS = (
    POOLING,
    RELATION,
    SLICING,
    PRE_SLICED,
    ALPHA,
    SECOND_VERSION,
    BATCH,
    DENOMINATOR,
)
