"""A thesis on product search (product_thesis): its experiments, figures and ablations.

The thesis trains eBert on titles of eBay, both private, and searches eProduct. Here the
texts are titles of Web shops (WDC), and three open sets retrieve other titles of a product. The
base read the same titles. 112,367 open sentences replace millions of texts, and STS-B dev evaluates
what they teach.
"""

from functools import partial
from typing import Literal

from flows.experiments.parts import (
    BM25,
    FORUMS,
    START,
    WORD_VECTORS,
    arm,
    published,
    row,
    suite_columns,
)
from sentemb_core.config.experiments import (
    BEIR,
    LOSS,
    SMALL,
    TITLE,
    Arm,
    Base,
    Budget,
    Column,
    Corpus,
    Experiment,
    Train,
)
from sentemb_core.config.methods import BCE, CLMAutoencoder, ConSERT, MLMAutoencoder, SimCSE

PAPER = published(
    "bert-base-uncased",
    "mean",
    steps=4_686,
    learning_rate=3e-5,
    seeds=(1, 7, 42),
    stated={"batch_size": 64, "learning_rate": 3e-5},
    differs="Texts and sets are those of the data folder. BERT replaces eBert, which is private. "
    "The last step is kept, not the best by its loss on held-out texts. Warm-up over 5 % of the "
    "steps, weight decay .01, gradients clipped at 1 and bfloat16 where that is faster are ours.",
)
"""Slide 20: batch 64, rate 3e-5, mean pooling; slides 25 to 28: 100,000 texts three times (E26).

BERT replaces eBert; Experiments III and V start from BERT, too.
"""

PAPER_ONCE = PAPER.model_copy(update={"steps": 1_562})
"""For tables whose SimCSE read the 100,000 texts once: 69.1, and 69.6 (erratum E27).

Slides 43 and 45 state no number of epochs, so that of slide 20 applies (erratum E23)."""

PAPER_SIZES = PAPER.model_copy(update={"steps": SMALL.steps})
"""Budget of arms whose steps are multiples of the small preset's."""

TITLES: Corpus = "product_wdc_clusters"
OF_TITLES = Base(corpus=TITLES)
"""A base that read titles, as eBert did."""

BASE = "The base has 2 layers of width 128."


def small(differs: str, base: Base | None = None) -> Budget:
    """Return the small budget with a base encoder and its differences from the thesis."""
    budget = SMALL.model_copy(update={"base": base or SMALL.base})
    return budget.with_difference(f"{differs} {BASE}".strip())


OPEN_TITLES = small(
    "9,530 titles of WDC replace eBay's. Three open product sets replace eProduct; the queries of "
    "WDC's are the same titles.",
    OF_TITLES,
)
SIMILARITY = tuple(
    one.model_copy(update={"averaged": False})
    for one in suite_columns("sts", TITLES)
    if one.label != "SICK-R" and not one.optional
)
"""STS-B, and those of STS12 to STS16, which the thesis averages, that are open files."""

OPEN_SENTENCES = small("Open sentences and STS-B dev replace titles and eProduct.")


def capped(label: str, judge: str, corpus: Corpus) -> Column:
    """Return a column of a product set."""
    return Column(label=label, corpus=corpus, judge=judge, measure="R_cap@10")


SETS = ("WDC", "Amazon-Google", "Abt-Buy")
PRODUCTS = tuple(capped(name, name, TITLES) for name in SETS)
PRECISION = tuple(
    Column(label=f"{name} P@10", corpus=TITLES, judge=name, measure="P@10", averaged=False)
    for name in SETS
)
DEV = (Column(label="STS-B dev", judge="STS-B-dev"),)
POOLS = (
    Column(label="Web documents", corpus="blog_usgov", judge=TITLE, measure="R@5"),
    Column(label="News", corpus="news_reuters21578", judge=TITLE, measure="R@5"),
)

table = partial(Experiment, columns=PRODUCTS, small=OPEN_TITLES, paper=PAPER)

SIMCSE = row("simcse")
DECODERS = ("clm_autoencoder", "mlm_autoencoder")


def changed(label: str, **changes: object) -> Arm:
    """Return SimCSE with another label and other fields."""
    return SIMCSE.model_copy(update=changes | {"label": label})


ONCE = changed("simcse, one epoch", steps=(Train(method=SimCSE(), times=1 / 3),))
"""SimCSE for a third of the steps, as in the rows of three epochs with one of one epoch."""

THIRD = "SimCSE for one epoch has 100 steps, a third of the others and below 300 steps of 64."


def for_steps(steps: int) -> tuple[Train, ...]:
    """Return SimCSE trained for a number of steps under the small and the paper's budget."""
    return (Train(method=SimCSE(), times=steps / SMALL.steps),)


def sized(label: str, size: int, *, epochs: int = 1, curve: str = "") -> Arm:
    """Return SimCSE that reads a sample of the corpus several times, in whole batches (E26)."""
    steps = for_steps(epochs * (size // PAPER.batch_size))
    return changed(label, steps=steps, max_documents=size, x=size, curve=curve)


def by_size(id: str, epochs: int, title: str, fewer_steps: str = "") -> Experiment:
    """Return one of the two curves of Experiment II."""
    sizes = {"10k": 10_000, "20k": 20_000, "50k": 50_000, "100k": 100_000}
    return table(
        id=id,
        title=f"Experiment II: {title}",
        arms=tuple(sized(label, size, epochs=epochs) for label, size in sizes.items()),
        paper_arms=(sized("1M", 1_000_000, epochs=epochs),),
        columns=DEV,
        axis="sentences",
        small=small(
            "Open sentences and STS-B dev replace titles and eProduct, and at most 100,000 "
            "sentences replace a million."
        ).with_difference(fewer_steps),
        paper=PAPER_SIZES,
        differs="STS-B dev evaluates, not eProduct.",
    )


KINDS: dict[str, Corpus] = {
    "eBay titles": TITLES,
    "OpenWebText": "plain_sentences",
    "Quora": "blog_usgov",
}
"""The thesis's texts -> what replaces them."""


def domains(id: str, title: str, base: Base, read: str) -> Experiment:
    """Return three methods on three kinds of texts, from one of two base encoders."""
    return table(
        id=id,
        title=f"Experiment III: texts to train on, {title}",
        arms=(START, SIMCSE, *map(row, DECODERS)),
        columns=tuple(
            Column(
                label=label if measure == "R_cap@10" else f"{label} {measure}",
                corpus=corpus,
                judge="WDC",
                measure=measure,
                averaged=measure == "R_cap@10",
            )
            for measure in ("R_cap@10", "P@10")
            for label, corpus in KINDS.items()
        ),
        small=small(f"The base read {read}.", base),
        differs="WDC gives the titles, open sentences replace OpenWebText, and the blog of "
        "Digital.gov replaces Quora (cut to 12 sentences in the small preset). All rows are "
        "evaluated on WDC's titles.",
    )


def joint(decoder: str, weight: float, label: str = "") -> Arm:
    """Return SimCSE with a decoder of this weight."""
    kind = CLMAutoencoder if decoder == "clm_autoencoder" else MLMAutoencoder
    step = Train(method=kind(simcse=1.0, weight=weight))
    return arm(label or f"simcse + {weight:g} {decoder}", step)


WEIGHTS = (0.1, 0.01, 0.001, 0.0001)

HEADLESS = arm("simcse without its head", CLMAutoencoder(simcse=1.0, weight=0.0))
"""Baseline of the joint rows. In both, the loss reads the decoder's vectors, without a head.

SimCSE alone has a head above its vectors while it trains.
"""


def quora(
    id: str, title: str, measures: tuple[str, ...], axis: Literal["k"] | None = None
) -> Experiment:
    """Return questions that retrieve their duplicates, in BEIR's folder of the user."""
    return table(
        id=id,
        title=title,
        arms=(
            *(BM25, START, ONCE, SIMCSE, *map(row, DECODERS)),
            *(joint(decoder, 0.01, f"simcse+{decoder}") for decoder in DECODERS),
        ),
        columns=tuple(
            Column(
                label=measure,
                judge=f"{BEIR}quora",
                measure=measure,
                x=int(measure.removeprefix("R@")) if axis and measure.startswith("R@") else None,
            )
            for measure in measures
        ),
        axis=axis,
        small=small(THIRD),
        differs="Arms train on open sentences, not on Quora's questions. The joint weight is .01, "
        "not the best of a grid on the evaluated set.",
    )


LOSSES = (START, arm("bce", BCE()), HEADLESS, SIMCSE)
"""Binary cross-entropy has no head, so its baseline is InfoNCE without a head."""


def binary(
    id: str, title: str, columns: tuple[Column, ...], *, more: tuple[Arm, ...] = (BM25,)
) -> Experiment:
    """Return two losses on the same pairs of views."""
    return table(
        id=id,
        title=f"Binary cross-entropy against InfoNCE, {title}",
        arms=(*more, *LOSSES),
        columns=columns,
        small=small("Open sentences replace a million of OpenWebText."),
        paper=PAPER.model_copy(update={"steps": 15_625}),
        differs="The loss is of cosine / temperature: the printed loss is undefined for negative "
        "cosines.",
    )


def in_beir(label: str, folder: str) -> tuple[Column, ...]:
    """Return R@100 as in the thesis, and nDCG@10, whose single values a claim needs."""
    judge = f"{BEIR}{folder}"
    return (
        Column(label=f"{label}, R@100", judge=judge, measure="R@100"),
        Column(label=f"{label}, nDCG@10", judge=judge, measure="nDCG@10", averaged=False),
    )


EXPERIMENTS = (
    table(
        id="product_thesis.e1",
        title="Experiment I: product search",
        arms=(
            BM25,
            START,
            WORD_VECTORS,
            row("consert"),
            arm("consert (embedding dropout)", ConSERT(first=("shuffle",), second=("dropout",))),
            SIMCSE,
        ),
        columns=(*PRODUCTS, *PRECISION, *SIMILARITY),
        paper=PAPER_ONCE,
        differs="The thesis's average over STS12 to STS16 has no column of ours.",
    ),
    by_size(
        "product_thesis.e2a",
        1,
        "corpus size, one epoch",
        "10,000 texts once are 156 steps, below the usual 300 steps of 64.",
    ),
    by_size("product_thesis.e2b", 3, "corpus size, three epochs"),
    table(
        id="product_thesis.e2c",
        title="Experiment II as far as open titles go: corpus size by epochs",
        arms=tuple(
            sized(f"{label}, {times}", size, epochs=epochs, curve=times)
            for times, epochs in (("one epoch", 1), ("three epochs", 3), ("ten epochs", 10))
            for label, size in (("1k", 1_000), ("3k", 3_000), ("9.5k", 9_530))
        ),
        axis="titles",
        small=OPEN_TITLES.with_difference(
            "Epochs determine the steps: 15 at least, for 1,000 titles once. Only 9,530 titles "
            "three times or more, and 3,000 titles ten times, reach the usual 300 steps of 64."
        ),
        paper=PAPER_SIZES,
    ),
    domains("product_thesis.e3a", "from an encoder of titles", OF_TITLES, "WDC's titles"),
    domains("product_thesis.e3b", "from an encoder of sentences", SMALL.base, "open sentences"),
    table(
        id="product_thesis.e4",
        title="Experiment IV: decoders beside SimCSE",
        arms=(
            BM25,
            START,
            ONCE,
            SIMCSE,
            HEADLESS,
            *map(row, DECODERS),
            *(joint(decoder, weight) for decoder in DECODERS for weight in WEIGHTS),
        ),
        columns=(*PRODUCTS, *PRECISION),
        small=OPEN_TITLES.with_difference(THIRD),
        differs="Every weight of the grid has a row; the thesis shows the best. Rows of both "
        "losses train without SimCSE's head and are compared with SimCSE without it.",
    ),
    quora(
        "product_thesis.e5",
        "Experiment V: decoders beside SimCSE, on Quora",
        ("R@100", "R@10", "nDCG@10"),
    ),
    quora(
        "product_thesis.quora_k",
        "Recall and precision on Quora by k",
        tuple(f"{kind}@{k}" for kind in "RP" for k in (1, 3, 5, 10, 100, 1000)),
        axis="k",
    ),
    table(
        id="product_thesis.rescore",
        title="BM25's first 1,000, rescored with alpha times the cosine",
        arms=(
            BM25,
            SIMCSE,
            changed("BM25 + simcse", alpha="chosen"),
            *(
                changed(str(alpha), alpha=float(alpha), x=alpha)
                for alpha in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
            ),
        ),
        columns=POOLS,
        axis="alpha",
        small=small("Documents are cut to their first 12 sentences."),
        paper=PAPER_ONCE,
        differs="Titles retrieve their documents in place of eProduct. A pool has at most 1,000 "
        "documents, so all that share a word with the query are rescored. Alpha is chosen on the "
        "validation split; the curve is of the test split.",
    ),
    binary("product_thesis.bce", "similarity", suite_columns("sts"), more=()),
    binary("product_thesis.bce_titles", "documents that look for their titles", POOLS),
    binary("product_thesis.bce_quora", "Quora", in_beir("Quora", "quora")),
    binary(
        "product_thesis.bce_cqadupstack",
        "CQADupStack",
        tuple(column for forum in FORUMS for column in in_beir(forum, f"cqadupstack/{forum}")),
    ),
    table(
        id="product_thesis.batch",
        title="Batch size, at as many texts",
        arms=tuple(
            changed(
                str(size), steps=(Train(method=SimCSE(), batch_size=size, times=64 / size),), x=size
            )
            for size in (32, 64, 96, 128, 256, 512)
        ),
        columns=DEV,
        axis="texts of a batch",
        paper=PAPER_ONCE,
        small=OPEN_SENTENCES.with_difference(
            "All sizes read equally many texts, so batches of 96, 128, 256 and 512 take 200, 150, "
            "75 and 38 steps, below the usual 300 steps of 64."
        ),
        differs="All sizes have one learning rate; STS-B dev evaluates, not eProduct.",
    ),
    table(
        id="product_thesis.curve",
        title="Score and loss as training goes on",
        arms=tuple(
            changed(f"{n:,} steps", steps=for_steps(n), x=n) for n in (30, 90, 300, 900, 3_000)
        ),
        paper_arms=tuple(changed(f"{n:,} steps", steps=for_steps(n), x=n) for n in (9_000, 15_625)),
        columns=(*DEV, Column(label=LOSS, judge=LOSS)),
        axis="steps",
        small=OPEN_SENTENCES.with_difference(
            "The longest training has 3,000 steps; the thesis reads a million texts in 15,625. The "
            "first two points have 30 and 90 steps, below the usual 300 steps of 64."
        ),
        paper=PAPER_SIZES,
        differs="Every point is a training of its own, whose learning rate falls to 0. STS-B dev "
        "evaluates, not eProduct. The loss is the mean training loss of the last tenth of the "
        "steps; slide 44 does not say of which texts its loss is.",
    ),
    table(
        id="product_thesis.dedup",
        title="Titles with and without their duplicates",
        arms=(changed("titles"), changed("unique titles", distinct=True)),
        columns=(
            capped("Amazon-Google", "Amazon-Google", "product_amazon_google"),
            capped("Abt-Buy", "Abt-Buy", "product_abt_buy"),
        ),
        small=small(
            "Each set trains on its left titles: 11,460, of which 1,277 are distinct, and 9,575, "
            "of which 1,068 are distinct.",
            OF_TITLES,
        ),
        paper=PAPER_ONCE,
        differs="Our losses never use an equal text as a negative, so duplicates do not harm here "
        "as in the thesis.",
    ),
)
