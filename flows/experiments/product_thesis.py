"""product_thesis, a thesis on product search: its experiments and figures.

It trains on titles of eBay's and searches eProduct, both private, from eBert, which read titles.
Ours are titles of Web shops (WDC) and three sets that look for a product's other titles, from a
base that read the same titles. Its millions of texts are 112,367 open sentences here, and what
they teach is judged on STS-B's dev set.
"""

from flows.method_table import METHODS
from sentemb_core.config.experiments import (
    BEIR,
    POINT,
    SMALL,
    Arm,
    Base,
    Budget,
    Claim,
    Column,
    Corpus,
    Experiment,
    Train,
)
from sentemb_core.config.methods import CLMAutoencoder, ConSERT, MLMAutoencoder, SimCSE
from sentemb_core.config.run import EncoderConfig

PAPER = Budget(
    steps=4_686,
    learning_rate=3e-5,
    base=Base(encoder=EncoderConfig(name="bert-base-uncased", pooling="mean"), times=0),
    threads=None,
    seeds=(1, 7, 42),
    presets=("paper",),
    stated={"batch_size": 64, "learning_rate": 3e-5},
    differs="Texts and sets are those of the folder; BERT in place of eBert, which is private; "
    "the last step, not the best by its loss on held-out texts; bfloat16 where that is faster.",
)
"""Slide "Hyperparameters": batch 64, 3e-5, mean pooling; 100,000 texts three times (erratum E26).
eBert is private: BERT is in its place, which Experiments III and V start from."""

PAPER_ONCE = PAPER.model_copy(update={"steps": 1_562})
"""Of the tables whose SimCSE read the 100,000 texts once: 69.1, and 69.6 (erratum E27)."""

PAPER_SIZES = PAPER.model_copy(update={"steps": SMALL.steps})
"""Arms say themselves how many steps they take, as multiples of the small preset's."""

BASE = "base of 2 layers and 128 dimensions."

TITLES: Corpus = "product_wdc_clusters"


def small(differs: str, base: Base | None = None) -> Budget:
    """The small preset's, from a base encoder of its own, and what sets it apart."""
    return SMALL.model_copy(update={"base": base or SMALL.base}).with_difference(
        f"{differs}; {BASE}"
    )


OF_TITLES = Base(corpus=TITLES)
"""An encoder that read titles, as eBert did."""

OPEN_TITLES = small(
    "9,530 titles of WDC and three open product sets (WDC's queries are those titles) in place of "
    "eBay's and eProduct",
    OF_TITLES,
)
OPEN_SENTENCES = small("Open sentences and STS-B dev in place of titles and eProduct")

SETS = ("WDC", "Amazon-Google", "Abt-Buy")
PRODUCTS = tuple(Column(label=name, corpus=TITLES, judge=name, measure="R_cap@10") for name in SETS)
DEV = (Column(label="STS-B dev", judge="STS-B-dev"),)


def alone(name: str) -> Arm:
    """A row of the table of methods."""
    return Arm(label=name, steps=(Train.model_validate({"method": METHODS[name]}),))


FIXED = (Arm(label="BM25", system="BM25"), Arm(label="start encoder"))
SIMCSE = alone("simcse")
CONSERTS = ("consert", "consert (embedding dropout)")
DECODERS = ("clm_autoencoder", "mlm_autoencoder")
GRID = (0.1, 0.01, 0.001, 0.0001)

SEARCH = Experiment(
    id="product_thesis.e1",
    title="Experiment I: product search",
    arms=(
        *FIXED,
        Arm(label="word vectors", system="word vectors"),
        alone(CONSERTS[0]),
        Arm(
            label=CONSERTS[1],
            steps=(Train(method=ConSERT(first=("shuffle",), second=("dropout",))),),
        ),
        SIMCSE,
    ),
    columns=PRODUCTS,
    claims=(
        Claim(
            text="Words alone beat every encoder",
            better="BM25",
            than=("start encoder", "word vectors", *CONSERTS, "simcse"),
        ),
        Claim(
            text="Contrastive training gains over the pre-trained encoder",
            better="simcse",
            than=("start encoder",),
        ),
        Claim(text="... and over word vectors", better="simcse", than=("word vectors",)),
        Claim(
            text="Dropout is enough: SimCSE is as good as ConSERT",
            better="simcse",
            than=CONSERTS,
            margin=POINT,
        ),
    ),
    small=OPEN_TITLES,
    paper=PAPER_ONCE,
)


def sized(label: str, size: int, *, epochs: int = 1, curve: str = "") -> Arm:
    """SimCSE that reads a sample of the corpus so many times, whole batches alone (erratum E26)."""
    steps = epochs * (size // PAPER.batch_size)
    step = Train(method=SimCSE(), times=steps / SMALL.steps)
    return Arm(label=label, steps=(step,), max_documents=size, x=size, curve=curve)


SIZES = {"10k": 10_000, "20k": 20_000, "50k": 50_000, "100k": 100_000}


def by_size(id: str, epochs: int, title: str, claim: Claim, *, below: str = "") -> Experiment:
    """One of the two curves of Experiment II; `below`: which points take fewer steps than usual."""
    return Experiment(
        id=id,
        title=f"Experiment II: {title}",
        arms=tuple(sized(label, size, epochs=epochs) for label, size in SIZES.items()),
        paper_arms=(sized("1M", 1_000_000, epochs=epochs),),
        columns=DEV,
        claims=(claim,),
        axis="sentences",
        small=small(
            "Open sentences and STS-B dev in place of titles and eProduct, 100,000 in place of a "
            "million at most"
        ).with_difference(below),
        paper=PAPER_SIZES,
        differs="Judged by STS-B dev, not by eProduct.",
    )


ONE_EPOCH = by_size(
    "product_thesis.e2a",
    1,
    "corpus size, one epoch",
    Claim(text="In one epoch 100,000 texts teach more than 10,000", better="100k", than=("10k",)),
    below="10,000 texts once are 156 steps, below the usual 300 steps of 64.",
)
THREE_EPOCHS = by_size(
    "product_thesis.e2b",
    3,
    "corpus size, three epochs",
    Claim(
        text="In three epochs 20,000 texts are enough, more do harm",
        better="20k",
        than=("50k", "100k"),
    ),
)

TITLE_SIZES = {"1k": 1_000, "3k": 3_000, "9.5k": 9_530}

FEW_TITLES = Experiment(
    id="product_thesis.e2c",
    title="Experiment II as far as open titles go: corpus size by epochs",
    arms=tuple(
        sized(f"{label}, {times}", size, epochs=epochs, curve=times)
        for times, epochs in (("one epoch", 1), ("three epochs", 3), ("ten epochs", 10))
        for label, size in TITLE_SIZES.items()
    ),
    columns=PRODUCTS,
    claims=(
        Claim(
            text="(ours) More titles teach more in one epoch",
            better="9.5k, one epoch",
            than=("1k, one epoch",),
        ),
        Claim(
            text="(ours) New titles teach more than the same ones again, at about as many steps",
            better="9.5k, one epoch",
            than=("1k, ten epochs",),
        ),
    ),
    axis="titles",
    small=OPEN_TITLES.with_difference(
        "Epochs set the steps: from 15, of 1,000 titles once; all points but 9,530 titles three "
        "times and more, and 3,000 ten times, are below the usual 300 steps of 64."
    ),
    paper=PAPER_SIZES,
)

TEXTS: dict[str, Corpus] = {
    "eBay titles": TITLES,
    "OpenWebText": "plain_sentences",
    "Quora": "blog_usgov",
}


def domains(id: str, title: str, base: Base, read: str) -> Experiment:
    """Three methods on three texts, from one of two encoders."""
    return Experiment(
        id=id,
        title=f"Experiment III: texts to train on, {title}",
        arms=(Arm(label="start encoder"), SIMCSE, *map(alone, DECODERS)),
        columns=tuple(
            Column(label=label, corpus=corpus, judge="WDC", measure="R_cap@10")
            for label, corpus in TEXTS.items()
        ),
        claims=(
            *(
                Claim(
                    text=f"On titles, {decoder} teaches more than SimCSE",
                    better=decoder,
                    than=("simcse",),
                    columns=("eBay titles",),
                )
                for decoder in DECODERS
            ),
            Claim(
                text="On other texts, SimCSE teaches more than decoders",
                better="simcse",
                than=DECODERS,
                columns=("OpenWebText", "Quora"),
            ),
        ),
        small=small(f"The base read {read}", base),
        paper=PAPER,
        differs="Titles are WDC's, OpenWebText is open sentences, Quora is Digital.gov's blog, "
        "whose posts are cut to 12 sentences in the small preset; all are judged on WDC's titles.",
    )


FROM_TITLES = domains("product_thesis.e3a", "from an encoder of titles", OF_TITLES, "WDC's titles")
FROM_SENTENCES = domains(
    "product_thesis.e3b", "from an encoder of sentences", SMALL.base, "open sentences"
)


def joint(decoder: str, weight: float) -> Arm:
    """A decoder of this weight beside SimCSE."""
    kind = CLMAutoencoder if decoder == "clm_autoencoder" else MLMAutoencoder
    step = Train(method=kind(simcse=1.0, weight=weight))
    return Arm(label=joint_label(decoder, weight), steps=(step,))


def joint_label(decoder: str, weight: float) -> str:
    return f"simcse + {weight:g} {decoder}"


HEADLESS = Arm(
    label="simcse without its head", steps=(Train(method=CLMAutoencoder(simcse=1.0, weight=0.0)),)
)
"""What joint rows are held against: they contrast the vectors that the decoder writes from, as the
thesis has one loss beside the other; SimCSE alone has a head above them while it trains."""

MULTI_TASK = Experiment(
    id="product_thesis.e4",
    title="Experiment IV: decoders beside SimCSE",
    arms=(
        *FIXED,
        SIMCSE,
        HEADLESS,
        *map(alone, DECODERS),
        *(joint(decoder, weight) for decoder in DECODERS for weight in GRID),
    ),
    columns=PRODUCTS,
    claims=(
        *(
            Claim(
                text=f"{decoder} alone teaches more than SimCSE",
                better=decoder,
                than=("simcse",),
            )
            for decoder in DECODERS
        ),
        Claim(
            text="Masked words teach more than the next ones",
            better="mlm_autoencoder",
            than=("clm_autoencoder",),
        ),
        *(
            Claim(
                text=f"{weight:g} of {decoder} beside SimCSE gains (the thesis, at the best "
                f"weight: {gain} for 67.9)",
                better=joint_label(decoder, weight),
                than=(HEADLESS.label,),
            )
            for decoder, gain in zip(DECODERS, ("69.7", "68.6"), strict=True)
            for weight in GRID
        ),
    ),
    small=OPEN_TITLES,
    paper=PAPER,
    differs="Every weight of the grid has its row; the thesis shows the best. Rows of both losses "
    "train without SimCSE's head, and stand against SimCSE without it.",
)


def on_quora(measure: str, x: float | None = None) -> Column:
    return Column(label=measure, judge=f"{BEIR}quora", measure=measure, x=x)


def quora(
    id: str,
    title: str,
    columns: tuple[Column, ...],
    claims: tuple[Claim, ...] = (),
    axis: str | None = None,
) -> Experiment:
    """Questions that look for their duplicates, where a user has BEIR's folder of them."""
    return Experiment(
        id=id,
        title=title,
        arms=(
            FIXED[0],
            SIMCSE,
            *map(alone, DECODERS),
            *(
                joint(decoder, 0.01).model_copy(update={"label": f"simcse+{decoder}"})
                for decoder in DECODERS
            ),
        ),
        columns=columns,
        claims=claims,
        axis=axis,
        small=SMALL.with_difference(BASE.capitalize()),
        paper=PAPER,
        differs="Trained on open sentences, not on Quora's questions; joint weight .01, not the "
        "best of a grid on the set judged.",
    )


QUORA = quora(
    "product_thesis.e5",
    "Experiment V: decoders beside SimCSE, on Quora",
    tuple(map(on_quora, ("R@100", "R@10", "nDCG@10"))),
    tuple(
        Claim(
            text="A decoder beside SimCSE gains, by nDCG@10",
            better=f"simcse+{decoder}",
            than=("simcse", decoder),
            columns=("nDCG@10",),
        )
        for decoder in DECODERS
    ),
)
QUORA_BY_K = quora(
    "product_thesis.quora_k",
    "Recall on Quora by k",
    tuple(on_quora(f"R@{k}", k) for k in (1, 5, 10, 20, 100)),
    axis="k",
)

EXPERIMENTS = (
    SEARCH,
    ONE_EPOCH,
    THREE_EPOCHS,
    FEW_TITLES,
    FROM_TITLES,
    FROM_SENTENCES,
    MULTI_TASK,
    QUORA,
    QUORA_BY_K,
)
