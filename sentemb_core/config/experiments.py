"""What an experiment of a paper is made of: arms that train, columns that judge, claims about them.

An arm is what a row of the paper's table did to BERT, as a list of steps; here every arm starts
from one base encoder that the pipeline pre-trained itself, since nothing else is at hand.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sentemb_core.config.methods import FineTune, InfoCSEIDCPairs, MethodSettings
from sentemb_core.config.run import RANDOM_ENCODERS, AnnotationConfig, EncoderConfig
from sentemb_core.types import Config, Json, Map, Pooling, Precision

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
"""The judge of a column whose documents look for their own counterparts."""

CASE = "appendix D"
"""The judge of a column whose encoders group eight titles as mutual does there."""

BEIR = "beir/"
"""Begins a judge that is a folder in BEIR's format, as it lies in the data folder: beir/quora."""

SECONDS = "seconds"
"""The judge of a column that tells what an arm's training took."""

LOSS = "loss"
"""The judge of a column that tells where the loss of an arm's last training ended."""

OF_TRAINING = (SECONDS, LOSS)
"""Judges that never see the encoder; less is better."""

WITHOUT_FILES = (TITLE, CASE, *OF_TRAINING)
"""Judges that are no tasks of the suite."""


class Train(Config):
    """One training by a method that reads texts alone."""

    kind: Literal["train"] = "train"
    method: MethodSettings
    paper: MethodSettings | None = Field(
        default=None, description="The method under the preset `paper`; None: the same."
    )
    times: float = Field(default=1.0, gt=0, description="Of the budget's steps.")
    batch_size: int | None = Field(default=None, ge=2, description="None: the budget's.")
    learning_rate: float | None = Field(default=None, gt=0, description="None: the budget's.")


class SelfTrain(Config):
    """One round of Algorithm 1 (mutual): annotate, then learn from what was found."""

    kind: Literal["self_train"] = "self_train"
    method: InfoCSEIDCPairs = InfoCSEIDCPairs()
    annotation: AnnotationConfig = AnnotationConfig()
    annotator: Literal["current", "minilm"] = "current"
    anew: bool = Field(
        default=False, description="Train what the first round began with, not the last encoder."
    )
    times: float = Field(default=1.0, gt=0, description="Of the budget's steps.")


class Label(Config):
    """Fine-tuning on the first labels by hash, the best of its epochs kept."""

    kind: Literal["label"] = "label"
    count: int | None = Field(ge=1, description="None: all.")
    method: FineTune = FineTune()


class Finish(Config):
    """A map fitted on the corpus's own vectors, without any gradient."""

    kind: Literal["finish"] = "finish"
    map: Map


Step = Annotated[Train | SelfTrain | Label | Finish, Field(discriminator="kind")]


def unit_temperature(step: Step) -> Step:
    """At a temperature of 1, as inner products are compared (mutual, Eq. 1).

    One for cosines would leave them no gradient.
    """
    if isinstance(step, Finish):
        return step
    methods = {"method": step.method, "paper": getattr(step, "paper", None)}
    plain = {
        name: method.model_copy(update={"temperature": 1.0})
        for name, method in methods.items()
        if method
    }
    return step.model_copy(update=plain)


class Arm(Config):
    """A row of the table: how its encoder is made, or what no encoder is needed for.

    `x` is where it stands on the axis of a curve; `curve` names the curve where there are several.
    """

    label: str
    steps: tuple[Step, ...] = ()
    system: Literal["encoder", "minilm", "word vectors", "BM25", "random"] = "encoder"
    corpus: Corpus | None = Field(default=None, description="Trains on it, whatever the column's.")
    max_documents: int | None = Field(default=None, ge=2, description="A sample to train on.")
    share: float | None = Field(
        default=None, gt=0, le=1, description="The same, as a share of the corpus's documents."
    )
    distinct: bool = Field(default=False, description="Every text once: of texts without ids.")
    pooling: Pooling | None = Field(default=None, description="None: the base's.")
    alpha: float | Literal["chosen"] | None = Field(
        default=None,
        description="In a pool of titles: judged by BM25 + alpha x cosine. chosen: by the "
        "validation split.",
    )
    x: float | None = None
    curve: str = ""
    baseline: str = Field(
        default="", description="Arm whose score is subtracted in the columns that compare."
    )


class Column(Config):
    """A column: what an arm trains on unless it says itself, who judges it, and by what measure.

    `judge` is a task of the evaluation suite, or one of `WITHOUT_FILES`, or begins with `beir/`.
    """

    label: str
    judge: str
    measure: str | None = Field(default=None, description="None: the task's main one.")
    corpus: Corpus = "plain_sentences"
    x: float | None = Field(default=None, description="On the axis of a curve that an arm draws.")
    averaged: bool = Field(default=True, description="Part of the average of several judges.")
    compared: bool = Field(
        default=False, description="Shows each arm's difference to its baseline, too."
    )
    optional: bool = Field(
        default=False, description="Left out where the data folder lacks its judge's files."
    )

    @property
    def heading(self) -> str:
        """The label, and the measure where it is told and not the label itself."""
        return self.label if self.measure in (None, self.label) else f"{self.label} {self.measure}"


POINT = 0.01
"""By how much an arm may fall short where a paper says that another gains nothing: one point, as
much as the registry's gate asks a new champion to gain."""


class Claim(Config):
    """What a paper says of its table: one arm above others, on the mean of some columns.

    Where it says that nothing more is gained, an arm may fall short by a `margin`.
    """

    text: str
    better: str
    than: tuple[str, ...]
    columns: tuple[str, ...] = Field(default=(), description="None named: all that hold scores.")
    margin: float = Field(default=0.0, ge=0)


class Base(Config):
    """The encoder that all arms start from, which a Condenser stage pre-trains first.

    Mean pooling, not the papers' [CLS]: of an encoder as small as ours, pre-trained on [CLS], that
    token carried .33 on STS-B's dev set where the mean carried .51.
    """

    encoder: EncoderConfig = EncoderConfig(name="transformer", dim=128, positions=128)
    corpus: Corpus = "plain_sentences"
    times: float = Field(
        default=10.0, ge=0, description="Of the budget's steps; 0: the encoder as it is."
    )
    learning_rate: float = 5e-4

    @property
    def reads_corpus(self) -> bool:
        """Whether it learns a vocabulary or is pre-trained: a published one as it is reads none."""
        return self.times > 0 or self.encoder.name in RANDOM_ENCODERS


class Budget(Config):
    """What every training of an experiment may cost, and how many texts judge it."""

    steps: int = Field(ge=1)
    batch_size: int = Field(default=64, ge=2)
    learning_rate: float
    round_learning_rate: float | None = Field(
        default=None, description="Of rounds of self-training; None: the same."
    )
    candidates: int = Field(default=1_000, ge=2, description="Documents in a pool of titles.")
    base: Base = Base()
    dtype: Precision | None = Field(
        default=None, description="None: what the machine multiplies fastest."
    )
    threads: int | None = Field(default=1, description="Two experiments side by side: one each.")
    seeds: tuple[int, ...] = (42, 43, 44)
    presets: tuple[str, ...] = Field(
        default=(),
        description="A training starts from the first of these presets that its method has; what "
        "that does not say is the budget's.",
    )
    stated: Json = Field(
        default={}, description="Of every training: what the paper says of its whole table."
    )
    differs: str = Field(
        default="", description="What sets a run under it apart from the paper's, in sentences."
    )

    def with_difference(self, told: str) -> "Budget":
        """This budget, and what else sets a run under it apart from the paper's."""
        return self.model_copy(update={"differs": f"{self.differs} {told}".strip()})

    def from_encoder(self, name: str, place: str) -> "Budget":
        """This budget with arms that start from another encoder, which no stage pre-trains.

        It is told by its name; its place is where it lies, or the name again.
        """
        encoder = self.base.encoder.model_copy(update={"name": place})
        told = (
            f"Every arm starts from {name} as it is. What is said here of another base, of what "
            "it learnt before, of its pooling and of the tokens that it reads does not hold."
        )
        return self.model_copy(
            update={
                "base": self.base.model_copy(update={"encoder": encoder, "times": 0.0}),
                "differs": f"{told} {self.differs}".strip(),
            }
        )

    @property
    def batch(self) -> str:
        """What a step reads, in words, where methods read what their presets say."""
        alike = "batch_size" in self.stated or not self.presets
        return "" if alike else "each method's own batch"


SMALL = Budget(steps=300, learning_rate=2e-4)
"""For two CPU cores and the open corpora: a base of 2 layers and 128 dimensions."""


class Experiment(Config):
    """A table or a figure of a paper, as this pipeline makes it."""

    id: str = Field(
        description="Paper and place: mutual.t3c is a part of mutual's Table 3; f is a figure, e "
        "an experiment of the thesis, app an appendix, x ours; else a word says what it is about."
    )
    title: str
    arms: tuple[Arm, ...]
    paper_arms: tuple[Arm, ...] = Field(
        default=(), description="More of them under `paper`: what its encoder or its data allow."
    )
    columns: tuple[Column, ...]
    claims: tuple[Claim, ...] = ()
    axis: str | None = Field(
        default=None, description="What `x` means, of the arms or of the columns."
    )
    labels: bool = Field(
        default=False, description="Counterparts of half of the documents are learnt from."
    )
    small: Budget = SMALL
    paper: Budget = Field(description="The paper's own settings, for whoever has its data.")
    differs: str = Field(
        default="",
        description="What sets our run apart from the paper's under either budget, in sentences.",
    )

    @model_validator(mode="after")
    def _claims_name_arms_and_columns(self) -> "Experiment":
        arms = {one.label for one in (*self.arms, *self.paper_arms)}
        columns = {one.label for one in self.columns}
        if missing := {one.baseline for one in self.arms if one.baseline} - arms:
            raise ValueError(f"{self.id} has no arm {sorted(missing)}, the baseline of another")
        for claim in self.claims:
            unknown = ({claim.better, *claim.than} - arms) | (set(claim.columns) - columns)
            if unknown:
                raise ValueError(f"{self.id} has no arm or column {sorted(unknown)}: {claim.text}")
        return self

    @model_validator(mode="after")
    def _samples_teach_no_title_of_the_pool(self) -> "Experiment":
        titles = any(column.judge == TITLE for column in self.columns)
        for arm in (*self.arms, *self.paper_arms):
            labelled = any(isinstance(step, Label) for step in arm.steps)
            if titles and labelled and (arm.max_documents or arm.share):
                raise ValueError(
                    f"{self.id}: {arm.label!r} learns labels of a sample, whose pool is not the "
                    "one that judges it: leave max_documents and share out"
                )
        return self

    @property
    def scored(self) -> list[Column]:
        """Columns that hold scores, not seconds or losses."""
        return [one for one in self.columns if one.judge not in OF_TRAINING]

    @property
    def averaged(self) -> list[Column]:
        """Columns of the average, if there is one: several judges, by one measure at any depth."""
        found = [one for one in self.scored if one.averaged]
        judges = {(one.judge, one.corpus) for one in found}
        measures = {(one.measure or "").partition("@")[0] for one in found}
        return found if len(judges) > 1 and len(measures) == 1 else []

    def trained_on(self, arm: Arm, column: Column) -> Corpus:
        """The arm's own corpus, else the column's."""
        return arm.corpus or column.corpus

    def groups(self, arm: Arm) -> Iterator[tuple[Corpus, list[Column]]]:
        """Columns that one training of the arm serves."""
        corpora: list[Corpus] = [self.trained_on(arm, column) for column in self.columns]
        for corpus in dict.fromkeys(corpora):
            yield corpus, [one for one in self.columns if self.trained_on(arm, one) == corpus]
