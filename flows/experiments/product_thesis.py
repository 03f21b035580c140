"""A thesis on product search (product_thesis): its experiments, figures and ablations.

The thesis trains eBert on titles of eBay and searches eProduct; all three are private. Here the
texts are titles of Web shops (WDC), and three open sets retrieve other titles of a product. The
base read the same titles. 112,367 open sentences replace millions of texts, and STS-B dev evaluates
what they teach.
"""

from collections.abc import Mapping

from flows.experiments.parts import BM25, START, WORD_VECTORS, claim, row, suite_columns
from sentemb_core.config.experiments import (
    BEIR,
    LOSS,
    POINT,
    SMALL,
    TITLE,
    Arm,
    Base,
    Budget,
    Claim,
    Column,
    Corpus,
    Experiment,
    Train,
)
from sentemb_core.config.methods import BCE, CLMAutoencoder, ConSERT, MLMAutoencoder, SimCSE
from sentemb_core.config.run import EncoderConfig

PAPER = Budget(
    steps=4_686,
    learning_rate=3e-5,
    base=Base(encoder=EncoderConfig(name="bert-base-uncased", pooling="mean"), times=0),
    threads=None,
    seeds=(1, 7, 42),
    presets=("paper",),
    stated={"batch_size": 64, "learning_rate": 3e-5},
    differs="Texts and sets are those of the data folder. BERT replaces eBert, which is private. "
    "The last step is kept, not the best by its loss on held-out texts. Training is in bfloat16 if "
    "that is faster.",
)
"""Slide "Hyperparameters": batch 64, rate 3e-5, mean pooling, 100,000 texts three times (E26).

BERT replaces eBert; Experiments III and V start from BERT, too.
"""

PAPER_ONCE = PAPER.model_copy(update={"steps": 1_562})
"""For tables whose SimCSE read the 100,000 texts once: 69.1, and 69.6 (erratum E27)."""

PAPER_SIZES = PAPER.model_copy(update={"steps": SMALL.steps})
"""For arms that state their steps as multiples of the small preset's."""

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
OPEN_SENTENCES = small("Open sentences and STS-B dev replace titles and eProduct.")

SETS = ("WDC", "Amazon-Google", "Abt-Buy")
PRODUCTS = tuple(Column(label=name, corpus=TITLES, judge=name, measure="R_cap@10") for name in SETS)
DEV = (Column(label="STS-B dev", judge="STS-B-dev"),)
POOLS = (
    Column(label="Web documents", corpus="blog_usgov", judge=TITLE, measure="R@5"),
    Column(label="News", corpus="news_reuters21578", judge=TITLE, measure="R@5"),
)

FIXED = (BM25, START)
SIMCSE = row("simcse")
CONSERTS = ("consert", "consert (embedding dropout)")
DECODERS = ("clm_autoencoder", "mlm_autoencoder")
GRID = (0.1, 0.01, 0.001, 0.0001)

SEARCH = Experiment(
    id="product_thesis.e1",
    title="Experiment I: product search",
    arms=(
        *FIXED,
        WORD_VECTORS,
        row(CONSERTS[0]),
        Arm(
            label=CONSERTS[1],
            steps=(Train(method=ConSERT(first=("shuffle",), second=("dropout",))),),
        ),
        SIMCSE,
    ),
    columns=PRODUCTS,
    claims=(
        claim(
            "Words alone beat every encoder",
            *("BM25", "start encoder", "word vectors", *CONSERTS, "simcse"),
        ),
        claim("Contrastive training gains over the pre-trained encoder", "simcse", "start encoder"),
        claim("... and over word vectors", "simcse", "word vectors"),
        claim("Dropout is enough: SimCSE is as good as ConSERT", "simcse", *CONSERTS, margin=POINT),
    ),
    small=OPEN_TITLES,
    paper=PAPER_ONCE,
)


def for_steps(label: str, steps: int, **settings: object) -> Arm:
    """Return SimCSE trained for a number of steps under the small and the paper's budget."""
    train = Train(method=SimCSE(), times=steps / SMALL.steps)
    return Arm.model_validate({"label": label, "steps": (train,)} | settings)


def sized(label: str, size: int, *, epochs: int = 1, curve: str = "") -> Arm:
    """Return SimCSE that reads a sample of the corpus several times, in whole batches (E26)."""
    steps = epochs * (size // PAPER.batch_size)
    return for_steps(label, steps, max_documents=size, x=size, curve=curve)


SIZES = {"10k": 10_000, "20k": 20_000, "50k": 50_000, "100k": 100_000}


def by_size(id: str, epochs: int, title: str, claimed: Claim, fewer_steps: str = "") -> Experiment:
    """Return one of the two curves of Experiment II."""
    return Experiment(
        id=id,
        title=f"Experiment II: {title}",
        arms=tuple(sized(label, size, epochs=epochs) for label, size in SIZES.items()),
        paper_arms=(sized("1M", 1_000_000, epochs=epochs),),
        columns=DEV,
        claims=(claimed,),
        axis="sentences",
        small=small(
            "Open sentences and STS-B dev replace titles and eProduct, and at most 100,000 "
            "sentences replace a million."
        ).with_difference(fewer_steps),
        paper=PAPER_SIZES,
        differs="STS-B dev evaluates, not eProduct.",
    )


ONE_EPOCH = by_size(
    "product_thesis.e2a",
    1,
    "corpus size, one epoch",
    claim("In one epoch 100,000 texts teach more than 10,000", "100k", "10k"),
    "10,000 texts once are 156 steps, below the usual 300 steps of 64.",
)
THREE_EPOCHS = by_size(
    "product_thesis.e2b",
    3,
    "corpus size, three epochs",
    claim("In three epochs 20,000 texts are enough, more do harm", "20k", "50k", "100k"),
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
        claim("(ours) More titles teach more in one epoch", "9.5k, one epoch", "1k, one epoch"),
        claim(
            "(ours) New titles teach more than the same ones again, at about as many steps",
            *("9.5k, one epoch", "1k, ten epochs"),
        ),
    ),
    axis="titles",
    small=OPEN_TITLES.with_difference(
        "Epochs determine the steps: 15 at least, for 1,000 titles once. Only 9,530 titles three "
        "times or more, and 3,000 titles ten times, reach the usual 300 steps of 64."
    ),
    paper=PAPER_SIZES,
)

TEXTS: dict[str, Corpus] = {
    "eBay titles": TITLES,
    "OpenWebText": "plain_sentences",
    "Quora": "blog_usgov",
}
DOMAINS = tuple(
    Column(label=label, corpus=corpus, judge="WDC", measure="R_cap@10")
    for label, corpus in TEXTS.items()
)


def domains(id: str, title: str, base: Base, read: str) -> Experiment:
    """Return three methods on three kinds of texts, from one of two base encoders."""
    return Experiment(
        id=id,
        title=f"Experiment III: texts to train on, {title}",
        arms=(START, SIMCSE, *map(row, DECODERS)),
        columns=DOMAINS,
        claims=(
            *(
                claim(
                    f"On titles, {decoder} teaches more than SimCSE",
                    *(decoder, "simcse"),
                    on=DOMAINS[:1],
                )
                for decoder in DECODERS
            ),
            claim(
                "On other texts, SimCSE teaches more than decoders",
                *("simcse", *DECODERS),
                on=DOMAINS[1:],
            ),
        ),
        small=small(f"The base read {read}.", base),
        paper=PAPER,
        differs="WDC gives the titles, open sentences replace OpenWebText, and the blog of "
        "Digital.gov replaces Quora (cut to 12 sentences in the small preset). All rows are "
        "evaluated on WDC's titles.",
    )


FROM_TITLES = domains("product_thesis.e3a", "from an encoder of titles", OF_TITLES, "WDC's titles")
FROM_SENTENCES = domains(
    "product_thesis.e3b", "from an encoder of sentences", SMALL.base, "open sentences"
)


def joint(decoder: str, weight: float, label: str = "") -> Arm:
    """Return SimCSE with a decoder of this weight."""
    kind = CLMAutoencoder if decoder == "clm_autoencoder" else MLMAutoencoder
    step = Train(method=kind(simcse=1.0, weight=weight))
    return Arm(label=label or f"simcse + {weight:g} {decoder}", steps=(step,))


HEADLESS = Arm(
    label="simcse without its head", steps=(Train(method=CLMAutoencoder(simcse=1.0, weight=0.0)),)
)
"""Baseline of the joint rows: these contrast the vectors that the decoder reads, without a head.

SimCSE alone has a head above its vectors while it trains.
"""

MULTI_TASK = Experiment(
    id="product_thesis.e4",
    title="Experiment IV: decoders beside SimCSE",
    arms=(
        *FIXED,
        SIMCSE,
        HEADLESS,
        *map(row, DECODERS),
        *(joint(decoder, weight) for decoder in DECODERS for weight in GRID),
    ),
    columns=PRODUCTS,
    claims=(
        *(
            claim(f"{decoder} alone teaches more than SimCSE", decoder, "simcse")
            for decoder in DECODERS
        ),
        claim("Masked words teach more than the next ones", *reversed(DECODERS)),
        *(
            claim(
                f"{weight:g} of {decoder} beside SimCSE gains (the thesis, at the best weight: "
                f"{gain} for 67.9)",
                *(joint(decoder, weight).label, HEADLESS.label),
            )
            for decoder, gain in zip(DECODERS, ("69.7", "68.6"), strict=True)
            for weight in GRID
        ),
    ),
    small=OPEN_TITLES,
    paper=PAPER,
    differs="Every weight of the grid has a row; the thesis shows the best. Rows of both losses "
    "train without SimCSE's head and are compared with SimCSE without it.",
)


def on_quora(measure: str, x: float | None = None) -> Column:
    return Column(label=measure, judge=f"{BEIR}quora", measure=measure, x=x)


def quora(id: str, title: str, columns: tuple[Column, ...], **settings: object) -> Experiment:
    """Return questions that retrieve their duplicates, in BEIR's folder of the user."""
    arms = (
        *(BM25, SIMCSE, *map(row, DECODERS)),
        *(joint(decoder, 0.01, f"simcse+{decoder}") for decoder in DECODERS),
    )
    common = {"id": id, "title": title, "arms": arms, "columns": columns, "paper": PAPER}
    differs = (
        "Arms train on open sentences, not on Quora's questions. The joint weight is .01, not the "
        "best of a grid on the evaluated set."
    )
    return Experiment.model_validate(common | {"small": small(""), "differs": differs} | settings)


QUORA_COLUMNS = tuple(map(on_quora, ("R@100", "R@10", "nDCG@10")))
QUORA = quora(
    "product_thesis.e5",
    "Experiment V: decoders beside SimCSE, on Quora",
    QUORA_COLUMNS,
    claims=tuple(
        claim(
            "A decoder beside SimCSE gains, by nDCG@10",
            *(f"simcse+{decoder}", "simcse", decoder),
            on=QUORA_COLUMNS[2:],
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

ALPHAS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)

RESCORING = Experiment(
    id="product_thesis.rescore",
    title="BM25's first 1,000, rescored with alpha times the cosine",
    arms=(
        BM25,
        SIMCSE,
        SIMCSE.model_copy(update={"label": "BM25 + simcse", "alpha": "chosen"}),
        *(
            SIMCSE.model_copy(update={"label": str(alpha), "alpha": float(alpha), "x": alpha})
            for alpha in ALPHAS
        ),
    ),
    columns=POOLS,
    claims=(
        claim(
            "Rescored, words find more than alone (alpha chosen on validation)",
            *("BM25 + simcse", "BM25"),
        ),
        claim("... and more than vectors alone", "BM25 + simcse", "simcse"),
    ),
    axis="alpha",
    small=small("Documents are cut to their first 12 sentences."),
    paper=PAPER_ONCE,
    differs="Titles retrieve their documents in place of eProduct. A pool has at most 1,000 "
    "documents, so all that share a word with the query are rescored. Alpha is chosen on the "
    "validation split; the curve is of the test split.",
)

LOSSES = (Arm(label="bce", steps=(Train(method=BCE()),)), HEADLESS, SIMCSE)
"""Binary cross-entropy has no head, so its baseline is InfoNCE without a head."""


def binary(
    id: str, title: str, columns: tuple[Column, ...], on: tuple[Column, ...] = ()
) -> Experiment:
    """Return two losses on the same pairs of views; the claim is about the columns `on`, or all."""
    return Experiment(
        id=id,
        title=f"Binary cross-entropy against InfoNCE, {title}",
        arms=LOSSES,
        columns=columns,
        claims=(
            claim("InfoNCE teaches more than binary cross-entropy", HEADLESS.label, "bce", on=on),
        ),
        small=small("Open sentences replace a million of OpenWebText."),
        paper=PAPER.model_copy(update={"steps": 15_625}),
        differs="The loss is of cosine / temperature: the printed loss is undefined for negative "
        "cosines.",
    )


def in_beir(id: str, title: str, folders: Mapping[str, str]) -> Experiment:
    """Return the losses on BEIR folders: R@100 as in the thesis, and nDCG@10.

    Only nDCG@10 keeps the single values that a claim needs.

    Args:
        id: Of the experiment.
        title: Of its data.
        folders: Label -> path.
    """
    columns = tuple(
        Column(
            label=f"{label}, {measure}",
            judge=f"{BEIR}{path}",
            measure=measure,
            averaged=measure == "R@100",
        )
        for label, path in folders.items()
        for measure in ("R@100", "nDCG@10")
    )
    return binary(id, title, columns, columns[1::2])


FORUMS = (
    "android", "english", "gaming", "gis", "mathematica", "physics",
    "programmers", "stats", "tex", "unix", "webmasters", "wordpress",
)  # fmt: skip
"""The forums of CQADupStack."""

BINARY = (
    binary("product_thesis.bce", "similarity", suite_columns("sts")),
    binary("product_thesis.bce_titles", "documents that look for their titles", POOLS),
    in_beir("product_thesis.bce_quora", "Quora", {"Quora": "quora"}),
    in_beir(
        "product_thesis.bce_cqadupstack",
        "CQADupStack",
        {forum: f"cqadupstack/{forum}" for forum in FORUMS},
    ),
)

BATCH = Experiment(
    id="product_thesis.batch",
    title="Batch size, at as many texts",
    arms=tuple(
        Arm(
            label=str(size),
            steps=(Train(method=SimCSE(), batch_size=size, times=64 / size),),
            x=size,
        )
        for size in (32, 64, 128, 256, 512)
    ),
    columns=DEV,
    claims=(
        claim(
            "Batches beyond 64 gain nothing at as many texts",
            *("64", "128", "256", "512"),
            margin=POINT,
        ),
    ),
    axis="texts of a batch",
    small=OPEN_SENTENCES.with_difference(
        "All sizes read equally many texts, so batches of 128, 256 and 512 take 150, 75 and 38 "
        "steps, below the usual 300 steps of 64."
    ),
    paper=PAPER,
    differs="All sizes have one learning rate; STS-B dev evaluates, not eProduct.",
)

LOSS_COLUMN = Column(label=LOSS, judge=LOSS)

CURVE = Experiment(
    id="product_thesis.curve",
    title="Score and loss as training goes on",
    arms=tuple(for_steps(f"{n:,} steps", n, x=n) for n in (30, 90, 300, 900, 3_000)),
    paper_arms=tuple(for_steps(f"{n:,} steps", n, x=n) for n in (9_000, 15_625)),
    columns=(*DEV, LOSS_COLUMN),
    claims=(
        claim(
            "(ours) The loss falls on after 900 steps",
            *("3,000 steps", "900 steps"),
            on=(LOSS_COLUMN,),
        ),
        claim(
            "... and says little of quality: similarity gains nothing more",
            *("900 steps", "3,000 steps"),
            on=DEV,
            margin=POINT,
        ),
    ),
    axis="steps",
    small=OPEN_SENTENCES.with_difference(
        "The longest training has 3,000 steps; the thesis reads a million texts in 15,625. The "
        "first two points have 30 and 90 steps, below the usual 300 steps of 64."
    ),
    paper=PAPER_SIZES,
    differs="Every point is a training of its own, whose learning rate falls to 0. STS-B dev "
    "evaluates, not eProduct. The loss is the mean training loss of the last tenth of the steps; "
    "the thesis shows held-out texts.",
)

RECURRING: dict[str, Corpus] = {
    "Amazon-Google": "product_amazon_google",
    "Abt-Buy": "product_abt_buy",
}

DUPLICATES = Experiment(
    id="product_thesis.dedup",
    title="Titles with and without their duplicates",
    arms=(
        SIMCSE.model_copy(update={"label": "titles"}),
        SIMCSE.model_copy(update={"label": "unique titles", "distinct": True}),
    ),
    columns=tuple(
        Column(label=label, corpus=corpus, judge=label, measure="R_cap@10")
        for label, corpus in RECURRING.items()
    ),
    claims=(
        claim(
            "Unique titles teach more (the thesis: 62.4 against 60.1)", "unique titles", "titles"
        ),
    ),
    small=small(
        "Each set trains on its left titles: 11,460, of which 1,277 are distinct, and 9,575, of "
        "which 1,068 are distinct.",
        OF_TITLES,
    ),
    paper=PAPER,
    differs="Our losses never use an equal text as a negative, so duplicates do not harm here as "
    "in the thesis.",
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
    RESCORING,
    *BINARY,
    BATCH,
    CURVE,
    DUPLICATES,
)
