"""HiCL: Hierarchical Contrastive Learning of Unsupervised Sentence Embeddings (hicl).

The paper's sequences are lines of Wikipedia of up to 512 tokens. Here they are articles of
Reuters-21578, cut at 128 tokens; most have several segments. A base method alone reads single
sentences. Our text of the paper lacks most tables (erratum E36): claims come from its sections.
Most ablations are evaluated on STS-B dev.
"""

from collections.abc import Mapping
from functools import partial

from flows.experiments.parts import CONTEXT, START, arm, curve, published, suite_columns
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
from sentemb_core.types import Precision

TUNED = (
    "Texts and sets are those of the data folder. All rows have one learning rate and one share of "
    "the segments' loss; the paper tuned both. The last step is kept, not the best on STS-B dev. "
    "Gradients clipped at 1, no warm-up and no weight decay are SimCSE's code's."
)


def from_paper(encoder: str, batch_size: int, *, differs: str, dtype: Precision) -> Budget:
    """Return a million sentences once in batches of this size."""
    return published(
        encoder,
        "cls_before_pooler",
        steps=1_000_000 // batch_size,
        batch_size=batch_size,
        learning_rate=3e-5,
        stated={"batch_size": batch_size, "learning_rate": 3e-5, "dtype": dtype},
        dtype=dtype,
        differs=f"{TUNED} {differs}",
    )


ALONE_BASE = "BERT-base is the only encoder."
PAPER = from_paper("bert-base-uncased", 256, differs=ALONE_BASE, dtype="float32")
"""Sections 5.8 and A.3: batch 256 and fp32 for base models.

Learning rates of SimCSE were tuned among 5e-6, 1e-5, 3e-5 and 5e-5; Table 13 with the chosen ones
is missing.
"""

PAPER_64 = from_paper("bert-base-uncased", 64, differs=ALONE_BASE, dtype="float32")
"""For Table 10, whose best number of BERT-base (76.35) has batch 64."""

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

DEV = (Column(label="STS-B dev", corpus=NEWS, judge="STS-B-dev"),)
STS = suite_columns("sts", NEWS)

table = partial(Experiment, columns=DEV, small=OF_NEWS, paper=PAPER)

PROMPTED = SNCSE.model_validate(preset_of("hicl", "over_sncse")["method"]["base"])
"""SNCSE with the prompt that HiCL's paper quotes (erratum E37)."""

QUEUED = ESimCSE(queue=int(2.5 * PAPER.batch_size))
"""ESimCSE at HiCL's batch: its paper has a queue of 2.5 batches."""

Method = HiCL | SimCSE | ESimCSE | SNCSE


def sliced(**settings: object) -> HiCL:
    """Return HiCL with a setting, on sequences of 128 tokens."""
    return HiCL.model_validate({"longest": CONTEXT} | settings)


def training(method: Method, *, batch_size: int | None = None, times: float = 1.0) -> Train:
    """Return a training by a method, with the paper's lengths in the `paper` preset."""
    return Train(method=method, paper=as_in_paper(method), batch_size=batch_size, times=times)


def as_in_paper(method: Method) -> HiCL | ESimCSE | None:
    """Return HiCL with the paper's sequences, the prompt it quotes, and a queue of 2.5 batches."""
    if not isinstance(method, HiCL):
        return QUEUED if method == ESimCSE() else None
    cut = [name for name in ("segment", "longest") if getattr(method, name) == CONTEXT]
    bases = {"sncse": PROMPTED, "esimcse": QUEUED}
    changes = dict.fromkeys(cut, PAPER_LONGEST) | {"base": bases.get(method.base.name, method.base)}
    return method.model_copy(update=changes)


SEGMENTS = ("16", "24", "32", "40")
ALONE = arm("simcse", training(SimCSE()))
ON_SEQUENCES = arm("simcse, whole sequences", training(sliced(segment=CONTEXT)))
HICL = arm("hicl (SimCSE)", training(sliced()))


def longer(budget: Budget, tokens: int) -> Budget:
    """Return the budget with an encoder that reads more tokens of a review than 32."""
    encoder = budget.base.encoder.model_copy(update={"max_length": tokens})
    return budget.model_copy(update={"base": budget.base.model_copy(update={"encoder": encoder})})


def over_all(**variants: Mapping[str, object]) -> tuple[Arm, ...]:
    """Return an arm for each variant of HiCL over SimCSE, ESimCSE and SNCSE."""
    return tuple(
        arm(f"{label}{f' ({name})' if name else ''}", training(sliced(base=base, **settings)))
        for name, base in {"": SimCSE(), "ESimCSE": ESimCSE(), "SNCSE": SNCSE()}.items()
        for label, settings in variants.items()
    )


def timed(label: str, segment: int, longest: int) -> Arm:
    """Return a tenth of the steps: the time of a step is measured."""
    step = Train(method=HiCL(segment=segment, longest=longest), batch_size=16, times=0.1)
    return Arm(label=f"{label} ({longest} tokens)", steps=(step,))


def batched(size: int) -> tuple[Arm, ...]:
    """Return both methods, which read equally many texts at every batch size."""
    methods: dict[str, Method] = {"simcse": SimCSE(), "hicl": sliced()}
    return tuple(
        arm(
            f"{name}, {size} a batch",
            training(method, batch_size=size, times=64 / size),
            x=size,
            curve=name,
        )
        for name, method in methods.items()
    )


EXPERIMENTS = (
    table(
        id="hicl.t1",
        title="HiCL on three methods, and each alone",
        arms=(
            START,
            ALONE,
            HICL,
            arm("esimcse", training(ESimCSE())),
            arm("hicl (ESimCSE)", training(sliced(base=ESimCSE()))),
            arm("sncse", training(SNCSE())),
            arm("hicl (SNCSE)", training(sliced(base=SNCSE()))),
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
            Column(label="books", corpus=NEWS, judge="Blitzer-books"),
            Column(label="kitchen", corpus=NEWS, judge="Blitzer-kitchen"),
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
        arms=(
            timed("whole sequences", 128, 128),
            timed("hicl", 32, 128),
            timed("whole sequences", 512, 512),
            timed("hicl", 32, 512),
        ),
        columns=(Column(label="seconds", corpus="long_elife", judge=SECONDS),),
        small=SMALL.model_copy(
            update={
                "base": Base(encoder=Base().encoder.model_copy(update={"positions": 512}), times=0)
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
        arms=(START, arm("baseline", training(SimCSE())), arm("hicl", training(sliced()))),
        columns=suite_columns("sts", "wikitext_103"),
        small=SMALL.with_difference(
            "Texts are paragraphs, their first 12 sentences cut at 128 tokens. The base has 2 "
            "layers of width 128 and comes from our Condenser stage, in place of RoBERTa-large."
        ),
        paper=from_paper(
            "roberta-large",
            64,
            differs="There are 15,625 steps, not an epoch; bfloat16 replaces fp16.",
            dtype="bfloat16",
        ),
        differs=OF_BASE_ALONE,
    ),
    table(
        id="hicl.t3",
        title="Segments added up by their length, or all alike",
        arms=over_all(weighted={"pooling": "weighted"}, unweighted={"pooling": "plain"}),
        columns=STS,
    ),
    table(
        id="hicl.t4",
        title="What segments of one sequence are to each other",
        arms=over_all(
            ignored={"siblings": "ignored"},
            negatives={"siblings": "negative"},
            positives={"siblings": "positive"},
        ),
    ),
    table(
        id="hicl.f2",
        title="Tokens of a segment",
        arms=(
            ALONE,
            *curve(lambda segment: training(sliced(segment=segment)), *SEGMENTS),
            arm("whole sequences", training(sliced(segment=CONTEXT))),
            *(
                arm(
                    f"{segment} ({name})",
                    training(sliced(base=base, segment=int(segment))),
                    x=int(segment),
                    curve=f"over {name}",
                )
                for name, base in {"ESimCSE": ESimCSE(), "SNCSE": SNCSE()}.items()
                for segment in SEGMENTS
            ),
        ),
        axis="tokens of a segment",
        differs=OF_BASE_ALONE,
    ),
    table(
        id="hicl.t6",
        title="Is it slicing alone? The base method on slices as texts of their own",
        arms=(
            arm("simcse, first 32 tokens", training(sliced(longest=32))),
            ON_SEQUENCES,
            arm("simcse, pre-sliced", training(SimCSE())),
            arm("simcse, pre-sliced, 256 a batch", training(SimCSE(), batch_size=256)),
            HICL,
        ),
        columns=STS,
        differs="Pre-sliced texts are sentences, not slices of 32 tokens. Under `paper` both rows "
        "of them have 256 a batch.",
    ),
    table(
        id="hicl.t7",
        title="The share of the segments' loss",
        arms=(
            ALONE,
            *curve(
                lambda alpha: training(sliced(alpha=alpha)), "0", "0.01", "0.05", "0.15", "0.5", "1"
            ),
        ),
        axis="alpha",
        differs=OF_BASE_ALONE,
    ),
    table(
        id="hicl.t9",
        title="HiCLv2: segments that choose their own sequence",
        arms=(
            HICL,
            *curve(lambda beta: training(sliced(beta=beta)), "1e-05", "3e-05", "0.0001", "0.0003"),
        ),
        axis="beta",
    ),
    table(
        id="hicl.t10",
        title="Batch size, at as many texts",
        arms=(*batched(16), *batched(64), *batched(256)),
        paper_arms=batched(1_024),
        axis="texts of a batch",
        paper=PAPER_64,
        small=OF_NEWS.with_difference(
            "Batches are 16, 64 and 256; the paper quotes 64 and 256. All read equally many texts, "
            "so a batch of 256 takes 75 steps, below the usual 300 steps of 64."
        ),
        differs=OF_BASE_ALONE,
    ),
    table(
        id="hicl.t16",
        title="Segments of other sequences as negatives: each for itself, or their mean",
        arms=over_all(summation={"denominator": "sum"}, averaging={"denominator": "average"}),
    ),
)
