"""An experiment of a paper: arms that train, columns that evaluate, claims about the results.

An arm is a row of the paper's table: a list of steps that changes a start encoder. By default all
arms start from one small encoder that the pipeline pre-trains.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sentemb_core.config.methods import FineTune, InfoCSEIDCPairs, MethodSettings
from sentemb_core.config.run import RANDOM_ENCODERS, AnnotationConfig, EncoderConfig
from sentemb_core.types import Config, Json, Map, Pooling, Precision, Similarity

Corpus = Literal[
    "blog_usgov",
    "news_reuters21578",
    "sci_arxiv_cs",
    "session_mixed_titles",
    "long_elife",
    "plain_sentences",
    "product_wdc_clusters",
    "product_amazon_google",
    "product_abt_buy",
    "wikitext_103",
]
"""Files of the data folder."""

TITLE = "title"
"""Judge of a column in which documents retrieve their counterparts."""

CASE = "appendix D"
"""Judge of a column in which an encoder clusters eight titles, as in Appendix D of mutual."""

BEIR = "beir/"
"""Prefix of a judge that is a folder in BEIR's format below the data folder: beir/quora."""

SECONDS = "seconds"
"""Judge of a column with the cost of an arm's training."""

LOSS = "loss"
"""Judge of a column with the final loss of an arm's last training."""

OF_TRAINING = (SECONDS, LOSS)
"""Judges of the training alone; lower is better."""

WITHOUT_FILES = (TITLE, CASE, *OF_TRAINING)
"""Judges that are not tasks of the suite."""


class Train(Config):
    """One training by a method that reads texts alone."""

    kind: Literal["train"] = "train"
    method: MethodSettings
    paper: MethodSettings | None = Field(
        default=None, description="The method under the preset `paper`; None: the same."
    )
    times: float = Field(default=1.0, gt=0, description="Multiplies the budget's steps.")
    batch_size: int | None = Field(default=None, ge=2, description="None: the budget's.")
    learning_rate: float | None = Field(default=None, gt=0, description="None: the budget's.")


class SelfTrain(Config):
    """One round of Algorithm 1 (mutual): annotate, then train on the exported pairs."""

    kind: Literal["self_train"] = "self_train"
    method: InfoCSEIDCPairs = InfoCSEIDCPairs()
    annotation: AnnotationConfig = AnnotationConfig()
    annotator: Literal["current", "minilm"] = "current"
    restart: bool = Field(
        default=False, description="Train the encoder before the first round, not the last one."
    )
    times: float = Field(default=1.0, gt=0, description="Multiplies the budget's steps.")


class Label(Config):
    """Fine-tuning on the first labels by hash; keeps the best epoch."""

    kind: Literal["label"] = "label"
    count: int | None = Field(ge=1, description="None: all.")
    method: FineTune = FineTune()


class Finish(Config):
    """A map that is fitted on the embeddings of the corpus, without gradients."""

    kind: Literal["finish"] = "finish"
    map: Map


Step = Annotated[Train | SelfTrain | Label | Finish, Field(discriminator="kind")]


def unit_temperature(step: Step) -> Step:
    """Return the step at temperature 1, for inner products (mutual, Eq. 1).

    A temperature for cosines would leave inner products without a gradient.
    """
    if isinstance(step, Finish):
        return step
    methods = {"method": step.method, "paper": getattr(step, "paper", None)}
    update = {
        name: method.model_copy(update={"temperature": 1.0})
        for name, method in methods.items()
        if method
    }
    return step.model_copy(update=update)


class Arm(Config):
    """A row of the table: the steps that train its encoder, or a system without a training."""

    label: str
    steps: tuple[Step, ...] = ()
    system: Literal["encoder", "minilm", "word vectors", "BM25", "thesis BM25", "random"] = (
        "encoder"
    )
    corpus: Corpus | None = Field(default=None, description="Trains on it in every column.")
    only: tuple[Corpus, ...] = Field(
        default=(), description="Has results in the columns of these corpora alone; empty: in all."
    )
    max_documents: int | None = Field(default=None, ge=2, description="Size of a training sample.")
    share: float | None = Field(
        default=None, gt=0, le=1, description="Size of a training sample as a share of the corpus."
    )
    distinct: bool = Field(default=False, description="Reads every text once, in texts without id.")
    pooling: Pooling | None = Field(default=None, description="None: the base's.")
    similarity: Similarity | None = Field(default=None, description="None: the base's.")
    alpha: float | Literal["chosen"] | None = Field(
        default=None,
        description="Scores titles by BM25 + alpha x cosine. chosen: by the validation split.",
    )
    x: float | None = Field(default=None, description="Place on the axis of a curve.")
    curve: str = Field(default="", description="Name of the curve, if there are several.")
    baseline: str = Field(
        default="", description="Arm whose score is subtracted in the columns that compare."
    )


class Column(Config):
    """A column: the corpus that its arms train on, its judge, and its measure."""

    label: str
    judge: str = Field(description="A task of the suite, one of `WITHOUT_FILES`, or beir/FOLDER.")
    measure: str | None = Field(default=None, description="None: the main one of the task.")
    corpus: Corpus = "plain_sentences"
    x: float | None = Field(default=None, description="Place on the axis of each arm's curve.")
    averaged: bool = Field(default=True, description="Part of the average over several judges.")
    compared: bool = Field(
        default=False, description="Shows each arm's difference to its baseline, too."
    )
    optional: bool = Field(
        default=False, description="Left out if the data folder lacks the files of its judge."
    )

    @property
    def heading(self) -> str:
        """The label, and the measure if the label does not end with it."""
        measure = self.measure or ""
        return self.label if self.label.endswith(measure) else f"{self.label} {measure}"


class Claim(Config):
    """One arm scores above others, on the mean of some columns: a paper's statement, or ours."""

    text: str = Field(description="What the paper says, in our words; ours begins with (ours).")
    source: str = Field(default="", description="Section and table of the paper; empty: ours.")
    better: str
    than: tuple[str, ...]
    columns: tuple[str, ...] = Field(default=(), description="Empty: the judged columns.")
    margin: float = Field(
        default=0.0,
        ge=0,
        description="How far `better` may fall short, if no gain is claimed: one point (.01), as "
        "at the registry's gate.",
    )

    @model_validator(mode="after")
    def _is_ours_or_has_a_source(self) -> "Claim":
        if self.text.startswith("(ours)") == bool(self.source):
            raise ValueError(f"a claim is ours or names its place in the paper: {self.text}")
        return self


class Base(Config):
    """The encoder that the arms start from, after a Condenser stage.

    It pools by the mean, not by [CLS] as in the papers. Pre-trained on [CLS], an encoder this small
    reached .33 by that token and .51 by the mean (STS-B dev).
    """

    encoder: EncoderConfig = EncoderConfig(name="transformer", dim=128, positions=128)
    corpus: Corpus = "plain_sentences"
    times: float = Field(
        default=10.0, ge=0, description="Multiplies the budget's steps; 0: no Condenser stage."
    )
    learning_rate: float = 5e-4
    per_arm: bool = Field(
        default=False,
        description="Each arm has its own: vocabulary of its corpus, random weights of its seed.",
    )

    @property
    def reads_corpus(self) -> bool:
        """Whether it reads `corpus`, for its vocabulary or for a Condenser stage."""
        learns = self.times > 0 or self.encoder.name in RANDOM_ENCODERS
        return learns and not self.per_arm


class Budget(Config):
    """Cost of every training of an experiment, and the size of its evaluation."""

    steps: int = Field(ge=1)
    batch_size: int = Field(default=64, ge=2)
    learning_rate: float
    round_learning_rate: float | None = Field(
        default=None, description="Of rounds of self-training; None: the same."
    )
    candidates: int = Field(default=1_000, ge=2, description="Documents in a pool of titles.")
    gate_share: float = Field(default=0.0, ge=0, description="Part of a pool that stays unused.")
    base: Base = Base()
    dtype: Precision | None = Field(default=None, description="None: the fastest on this machine.")
    threads: int | None = Field(default=1, description="1: two experiments can run side by side.")
    seeds: tuple[int, ...] = (42, 43, 44)
    presets: tuple[str, ...] = Field(
        default=(),
        description="A training takes the first of these presets that its method has, and the "
        "budget for all other settings.",
    )
    as_run: bool = Field(
        default=False,
        description="A training takes the preset of `run` for its start encoder, and the "
        "budget's steps and batch.",
    )
    stated: Json = Field(default={}, description="The paper's settings of every training.")
    differs: str = Field(
        default="", description="Differences between this budget and the paper, in sentences."
    )

    def with_difference(self, sentences: str) -> "Budget":
        """Return this budget with a further difference from the paper."""
        return self.model_copy(update={"differs": f"{self.differs} {sentences}".strip()})

    def from_encoder(self, name: str, folder: str) -> "Budget":
        """Return this budget with another start encoder, which no Condenser stage pre-trains.

        Args:
            name: The encoder's name for the reader.
            folder: Where the encoder lies, or its name again.
        """
        encoder = self.base.encoder.model_copy(update={"name": folder})
        base = self.base.model_copy(update={"encoder": encoder, "times": 0.0})
        differs = (
            f"Every arm starts from {name} as it is. Statements below about the base, its "
            "pre-training, its pooling and its maximum length do not apply."
        )
        return self.model_copy(
            update={"base": base, "differs": f"{differs} {self.differs}".strip()}
        )

    @property
    def batch(self) -> str:
        """The batch size in words, if each method has its own."""
        is_common = "batch_size" in self.stated or not self.presets
        return "" if is_common else "each method's own batch"


SMALL = Budget(steps=300, learning_rate=2e-4)
"""For two CPU cores and open corpora: a base of 2 layers and 128 dimensions."""


class Experiment(Config):
    """A table or a figure of a paper, as this pipeline reproduces it."""

    id: str = Field(
        description="Paper and place: mutual.t3c is a part of Table 3 of mutual. f is a figure, e "
        "an experiment of the thesis, app an appendix, x an ablation of ours."
    )
    title: str
    arms: tuple[Arm, ...]
    paper_arms: tuple[Arm, ...] = Field(
        default=(), description="Further arms under `paper`, which need its encoder or its data."
    )
    columns: tuple[Column, ...]
    claims: tuple[Claim, ...] = ()
    axis: str | None = Field(default=None, description="Meaning of `x` in arms or columns.")
    labels: bool = Field(
        default=False, description="Half of the documents give their counterparts as labels."
    )
    small: Budget = SMALL
    paper: Budget = Field(description="The paper's own settings, for users with its data.")
    differs: str = Field(
        default="", description="Differences from the paper under either budget, in sentences."
    )

    @model_validator(mode="after")
    def _claims_name_arms_and_columns(self) -> "Experiment":
        arms = {arm.label for arm in (*self.arms, *self.paper_arms)}
        columns = {column.label for column in self.columns}
        for claim in self.claims:
            unknown = ({claim.better, *claim.than} - arms) | (set(claim.columns) - columns)
            if unknown:
                raise ValueError(f"{self.id} has no arm or column {sorted(unknown)}: {claim.text}")
        return self

    @model_validator(mode="after")
    def _labels_are_outside_the_pool(self) -> "Experiment":
        titles = any(column.judge == TITLE for column in self.columns)
        for arm in (*self.arms, *self.paper_arms):
            labelled = any(isinstance(step, Label) for step in arm.steps)
            if titles and labelled and (arm.max_documents or arm.share):
                raise ValueError(
                    f"{self.id}: {arm.label!r} takes labels from a sample, whose pool differs from "
                    "the evaluation's. Leave max_documents and share out."
                )
        return self

    @property
    def scored(self) -> list[Column]:
        """Columns that hold scores, not seconds or losses."""
        return [column for column in self.columns if column.judge not in OF_TRAINING]

    @property
    def averaged(self) -> list[Column]:
        """Columns of the average: several judges with one measure, at any depth; else empty."""
        columns = [column for column in self.scored if column.averaged]
        judges = {(column.judge, column.corpus) for column in columns}
        measures = {(column.measure or "").partition("@")[0] for column in columns}
        return columns if len(judges) > 1 and len(measures) == 1 else []

    @property
    def judged(self) -> list[Column]:
        """Columns of the average, else all columns with scores."""
        return self.averaged or self.scored

    def corpus_of(self, arm: Arm, column: Column) -> Corpus:
        """Return the corpus that an arm trains on for a column."""
        return arm.corpus or column.corpus

    def by_corpus(self, arm: Arm) -> Iterator[tuple[Corpus, list[Column]]]:
        """Yield each training corpus of an arm, and the columns that this training serves."""
        columns = [one for one in self.columns if not arm.only or one.corpus in arm.only]
        corpora: list[Corpus] = [self.corpus_of(arm, column) for column in columns]
        for corpus in dict.fromkeys(corpora):
            yield corpus, [one for one in columns if self.corpus_of(arm, one) == corpus]
