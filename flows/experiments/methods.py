"""Our two experiments: every method at an equal budget, and methods with more and more labels.

Both depend on the start encoder (`--encoder`), the corpora and the methods, so a function builds
them. A block of the table is a corpus: each arm trains on it, starts from an encoder of its own
(random weights and vocabulary of that corpus and seed, or a published encoder), and is compared
with that start encoder.
"""

from collections.abc import Mapping, Sequence

from flows.experiments.parts import BM25, CONTEXT, METHODS, RANDOM, START, arm, has_counterparts
from flows.presets import method_preset
from sentemb_core.config.experiments import (
    SECONDS,
    TITLE,
    Arm,
    Base,
    Budget,
    Claim,
    Column,
    Corpus,
    Experiment,
    Finish,
    Label,
    SelfTrain,
    Step,
    Train,
    unit_temperature,
)
from sentemb_core.config.methods import CONPONO, Condenser, InfoCSEIDCPairs
from sentemb_core.config.presets import preset_of
from sentemb_core.config.run import RANDOM_ENCODERS, AnnotationConfig, EncoderConfig
from sentemb_core.types import Json, Pooling

METHODS_SMALL = "methods-small"
FEW_SHOT = "few-shot"

FIXED = (*(one.model_copy(update={"baseline": START.label}) for one in (RANDOM, BM25)), START)
"""Rows that no method trains; the start encoder is the baseline of all others."""

DEFAULT_CORPORA: tuple[Corpus, ...] = ("blog_usgov", "news_reuters21578", "plain_sentences")
LONG: Corpus = "long_elife"
"""DeCLUTR needs longer documents than the default corpora have; this corpus is added for it."""

STEPS = {"transformer": 1_000, "static": 1_000}
PRETRAINED_STEPS = 200

SELF_TRAINED: Mapping[str, AnnotationConfig] = {
    "infocse_idc": AnnotationConfig(),
    "infocse_idc_kmeans": AnnotationConfig(clustering="kmeans"),
    "infocse_idc_dot": AnnotationConfig(),
}

HICL = ("hicl", "hicl_v2", "hicl_over_esimcse", "hicl_over_sncse")
"""Rows that need documents: few single sentences are longer than a segment."""

OWN_POOLING: Mapping[str, Pooling] = {"sg_opt": "cls_before_pooler"}
"""SG-OPT pulls a vector to the layer means of a frozen copy. The mean of the last layer is such a
mean from the start, so with mean pooling little would be left to learn."""

WITHOUT_TRAINING: Mapping[str, Arm] = {
    one.label: one
    for one in (
        Arm(label="word_vectors", system="word vectors"),
        Arm(label="bm25_rescored", alpha="chosen"),
        Arm(label="bm25_product_thesis", system="thesis BM25"),
        Arm(label="cls_before_pooler", pooling="cls_before_pooler"),
        Arm(label="first_last_mean", pooling="first_last_mean"),
        Arm(label="first_block_last_mean", pooling="first_block_last_mean"),
        arm("whitening", Finish(map="whitening"), pooling="first_block_last_mean"),
        arm("flow", Finish(map="flow"), pooling="last_two_mean"),
    )
}
"""Rows without a gradient. `bm25_product_thesis` is BM25 as the thesis prints it (erratum E25)."""

ROWS = (*WITHOUT_TRAINING, *METHODS)
"""Rows of methods-small; few-shot has those of `METHODS`."""


def methods_small(
    start: str = "transformer",
    corpora: Sequence[Corpus] = DEFAULT_CORPORA,
    rows: Sequence[str] = ROWS,
) -> Experiment:
    """Return every method at an equal budget, from one start encoder."""
    with_long = tuple(corpora) == DEFAULT_CORPORA and "declutr" in rows
    read = (*corpora, LONG) if with_long else tuple(corpora)
    arms = [one.model_copy(update={"only": read}) for one in FIXED]
    for name in rows:
        only = [corpus for corpus in corpora if has_counterparts(corpus) or name not in HICL]
        if name == "declutr" and with_long:
            only.append(LONG)
        own = WITHOUT_TRAINING.get(name) or trained(name, name, steps_of(name, start))
        arms.append(own.model_copy(update={"only": tuple(only), "baseline": START.label}))
    budget = budget_of(start, seeds=(42,))
    return Experiment(
        id=METHODS_SMALL,
        title="Every method at an equal budget (ours)",
        arms=tuple(one for one in arms if one.only),
        columns=tuple(column for corpus in read for column in columns_of(corpus)),
        small=budget,
        paper=budget,
    )


def few_shot(
    start: str = "static",
    corpora: Sequence[Corpus] = ("blog_usgov",),
    rows: Sequence[str] = ("conpono", "infocse_idc"),
    counts: Sequence[int] = (100, 250, 1_000),
) -> Experiment:
    """Return methods that are fine-tuned on several numbers of labels, and their curves."""
    plus = ("infocse_plus",) if "infocse_idc" in rows else ()
    points = [
        *((name, count) for name in ("no method", *plus) for count in counts),
        *((name, count) for name in rows for count in (0, *counts)),
    ]
    arms = [
        trained(label_of(name, count), name, labelled_steps(name, count, start)).model_copy(
            update={"x": count, "curve": name, "baseline": START.label}
        )
        for name, count in points
    ]
    budget = budget_of(start, seeds=(42, 43, 44))
    return Experiment(
        id=FEW_SHOT,
        title="Methods fine-tuned on more and more labels (ours)",
        arms=(*FIXED, *arms),
        columns=tuple(column for corpus in corpora for column in columns_of(corpus)),
        claims=tuple(few_shot_claims(rows, counts)),
        axis="labels",
        labels=True,
        small=budget,
        paper=budget,
    )


def few_shot_claims(rows: Sequence[str], counts: Sequence[int]) -> list[Claim]:
    """Return a claim for each number of labels: InfoCSE-IDC is the best of the starts."""
    others = [name for name in rows if name not in SELF_TRAINED]
    if "infocse_idc" not in rows:
        return []
    return [
        Claim(
            text=f"(ours) With {count:,} labels, InfoCSE-IDC is the best method to start from",
            better=label_of("infocse_idc", count),
            than=tuple(label_of(name, count) for name in ("no method", *others)),
        )
        for count in counts
    ]


def label_of(name: str, count: int) -> str:
    return f"{name}, {count:,} labels"


def columns_of(corpus: Corpus) -> list[Column]:
    """Return recalls of titles, or two STS sets for a corpus without titles, and the seconds."""
    judges: dict[str, Json] = {
        "STS-B dev": {"judge": "STS-B-dev"},
        "SICK-R test": {"judge": "SICK-R"},
    }
    if has_counterparts(corpus):
        judges = {
            f"R@{k}": {"judge": TITLE, "measure": f"R@{k}", "compared": k == 5} for k in (1, 5, 10)
        }
    judges["seconds"] = {"judge": SECONDS}
    return [
        Column.model_validate(
            {"label": f"{corpus} {name}", "corpus": corpus, "averaged": False} | judge
        )
        for name, judge in judges.items()
    ]


def trained(label: str, name: str, steps: Sequence[Step]) -> Arm:
    """Return an arm of a row, with the row's own pooling and similarity."""
    if name == "infocse_idc_dot":
        return arm(label, *map(unit_temperature, steps), similarity="dot")
    return arm(label, *steps, pooling=OWN_POOLING.get(name))


def steps_of(name: str, start: str) -> tuple[Step, ...]:
    """Return the trainings of a row, as shares of the budget's steps."""
    method = Train.model_validate({"method": METHODS[name]}).method
    if isinstance(method, InfoCSEIDCPairs):
        return self_training(method, SELF_TRAINED[name], start)
    if method.encoder == "condensed":  # with a random head, too: the ablation
        return after_condenser(Train(method=method), start)
    return (Train(method=method),)


def labelled_steps(name: str, count: int, start: str) -> tuple[Step, ...]:
    """Return a training without labels, then fine-tuning on labels; InfoCSE++ has two cycles."""
    labels = (Label(count=count),) if count else ()
    if name == "no method":
        return labels
    if name == "infocse_plus":
        first = map(halved, steps_of("infocse_idc", start))
        return (*first, *labels, SelfTrain(times=0.5), *labels)
    return (*steps_of(name, start), *labels)


def halved(step: Step) -> Step:
    """Return the step with half of the budget's steps; labels and maps stay."""
    if isinstance(step, Label | Finish):
        return step
    return step.model_copy(update={"times": step.times / 2})


def self_training(
    method: InfoCSEIDCPairs, annotation: AnnotationConfig, start: str
) -> tuple[Step, ...]:
    """Return one round; random weights train on neighbours for the first half (mutual)."""
    if start not in RANDOM_ENCODERS:
        return (SelfTrain(method=method, annotation=annotation),)
    return (
        Train(method=CONPONO(), times=0.5),
        SelfTrain(method=method, annotation=annotation, times=0.5),
    )


def after_condenser(own: Train, start: str) -> tuple[Step, ...]:
    """Return a Condenser stage, then the training that continues its head.

    A pretrained encoder spends half of the steps on the stage, at the paper's rate at least: at
    half of that rate, 100 steps predicted masked tokens worse than their frequencies do. Random
    weights take three times the steps, as in the papers: after 500 steps the stage reached 7.21
    nats on the blog and 8.34 on Reuters, where frequencies reach 7.20 and 8.11.
    """
    rates = (
        preset_of("condenser", "paper")["learning_rate"],
        method_preset(start)["training"]["learning_rate"],
    )
    before, after = (3.0, 1.0) if start in RANDOM_ENCODERS else (0.5, 0.5)
    stage = Train(method=Condenser(), times=before, learning_rate=max(rates))
    return stage, own.model_copy(update={"times": after})


def budget_of(start: str, seeds: tuple[int, ...]) -> Budget:
    """Return the budget from one start encoder: presets and pools as of `run`."""
    encoder = EncoderConfig(name=start, positions=CONTEXT)
    if start == "transformer":
        encoder = encoder.model_copy(update={"dim": 128})
    return Budget(
        steps=STEPS.get(start, PRETRAINED_STEPS),
        learning_rate=method_preset(start)["training"]["learning_rate"],
        gate_share=0.3,
        base=Base(encoder=encoder, times=0, per_arm=True),
        seeds=seeds,
        as_run=True,
    )


EXPERIMENTS = (methods_small(), few_shot())
