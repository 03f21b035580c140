"""What `reproduce methods-small` asks for: corpora, start encoders, methods, and equal budgets."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field, field_validator

from flows.data_folder import CORPORA, DataTable, Seeds, each_once, looked_for
from flows.presets import labelled_preset, method_preset
from sentemb_core.config.experiments import Corpus, Label, SelfTrain, Step, Train, unit_temperature
from sentemb_core.config.methods import (
    CONPONO,
    METHOD_NAMES,
    Condenser,
    InfoCSEIDCPairs,
    MethodSettings,
)
from sentemb_core.config.presets import PRESETS, preset_of
from sentemb_core.config.run import (
    AnnotationConfig,
    CorpusConfig,
    EncoderConfig,
    TrainingConfig,
    ValidationConfig,
)
from sentemb_core.config.suite import Task, chosen
from sentemb_core.errors import UnreadableSourceError
from sentemb_core.formats import nearest
from sentemb_core.types import Json, Map, Pooling, Similarity
from tasks.checks import entry_of

Start = Literal["transformer", "minilm", "static"]

STS_B_DEV, SICK_R_TEST = chosen(["STS-B-dev", "SICK-R"])
STS: Mapping[str, Task] = {"STS-B dev": STS_B_DEV, "SICK-R test": SICK_R_TEST}
"""Column -> what judges encoders trained on texts that nothing looks for."""

STEPS: Mapping[Start, int] = {"transformer": 1_000, "minilm": 200, "static": 1_000}

CONTEXT = 128
"""Tokens of the texts that methods of contexts read: what a CPU has time for."""

OWN_CORPUS: Mapping[str, Corpus] = {"declutr": "long_elife"}
"""Row that the documents of the default corpora are too short for -> one beside them."""

UNLABELLED = tuple(name for name in METHOD_NAMES if name != "fine_tune")

VARIANTS: Mapping[str, Json] = {
    "infocse_idc_kmeans": {"name": "infocse_idc"},
    "infocse_idc_dot": {"name": "infocse_idc"},
    "hicl_over_esimcse": {"name": "hicl", "longest": CONTEXT, "base": {"name": "esimcse"}},
    "hicl_over_sncse": PRESETS["hicl"]["over_sncse"]["method"]
    | {"name": "hicl", "longest": CONTEXT},
}
"""Another row's method under a setting of its paper."""

METHODS: Mapping[str, Json] = {name: {"name": name} for name in UNLABELLED} | {
    "ict": {"name": "ict", "context_tokens": CONTEXT},
    "cpc": {"name": "cpc", "context_tokens": CONTEXT},
    "declutr": {"name": "declutr", "longest": CONTEXT - 2},
    "hicl": {"name": "hicl", "longest": CONTEXT},
    "simcse+mlm": {"name": "simcse", "mlm": 0.1},
    "hicl_v2": {"name": "hicl", "longest": CONTEXT, "beta": 3e-5},
    "tsdae": {"name": "clm_autoencoder", "noise": 0.6, "tied": True, "per": "target"},
    "simcse+clm_autoencoder": {"name": "clm_autoencoder", "simcse": 1.0, "weight": 0.01},
    "simcse+mlm_autoencoder": {"name": "mlm_autoencoder", "simcse": 1.0, "weight": 0.01},
    "infocse_aux_random_head": {"name": "infocse_aux", "random_head": True},
    "diffcse_random_generator": {"name": "diffcse", "random_head": True},
    **VARIANTS,
}
"""Row of the table -> the method's settings; what is left out has the method's default."""

ANNOTATIONS: Mapping[str, AnnotationConfig] = {
    "infocse_idc_kmeans": AnnotationConfig(clustering="kmeans")
}
"""Rows of self-training whose positives are not found as the others' are."""

SIMILARITIES: Mapping[str, Similarity] = {"infocse_idc_dot": "dot"}
"""Rows that do not compare by the cosine: mutual's literal Eq. 1 and 2."""

POOLINGS: Mapping[str, Pooling] = {"sg_opt": "cls_before_pooler"}
"""Rows that do not pool by the mean. SG-OPT pulls a vector to the means of a frozen copy's layers,
and the mean of its last is there from the start: little would be left to learn."""

OF_OWN_BLOCK = {*SIMILARITIES, *POOLINGS}
"""Rows that share a block's texts and judges, but not how it begins."""


class Unlearnt(NamedTuple):
    """The start encoder under another pooling, behind a map fitted on its own vectors or none."""

    pooling: Pooling
    map: Map | None = None


WORDS = "word_vectors"
"""Row of the means of word vectors that are trained on the corpus."""

RESCORED = "bm25_rescored"
"""Row of BM25's first documents, rescored by the start encoder's cosines."""

LITERAL_BM25 = "bm25_product_thesis"
"""Row of BM25 as the thesis prints it (erratum E25)."""

OF_TITLES = (RESCORED, LITERAL_BM25)
"""Rows of what titles find, and so of no corpus without them."""


def of_stsb(data: str) -> CorpusConfig:
    """Sentences that no table learns from: the first ones of STS-B's dev pairs."""
    (file,) = STS_B_DEV.files
    return CorpusConfig(source=f"{data}/{file}", text_column="sentence1", splitter="none")


UNLEARNT: Mapping[str, Unlearnt] = {
    "cls_before_pooler": Unlearnt("cls_before_pooler"),
    "first_last_mean": Unlearnt("first_last_mean"),
    "first_block_last_mean": Unlearnt("first_block_last_mean"),
    "whitening": Unlearnt("first_block_last_mean", "whitening"),
    "flow": Unlearnt("last_two_mean", "flow"),
}
"""Rows without a gradient: raw states by pooling, and the maps on their papers' own pooling."""


DEFAULT_CORPORA: tuple[Corpus, ...] = ("blog_usgov", "news_reuters21578", "plain_sentences")


class MethodTable(DataTable):
    """A table of methods in cells of equal budget."""

    title: ClassVar[str] = "methods-small"
    rows: ClassVar[tuple[str, ...]] = (WORDS, *OF_TITLES, *UNLEARNT, *METHODS)

    corpora: tuple[Corpus, ...] = DEFAULT_CORPORA
    encoders: tuple[Start, ...] = ("transformer", "minilm")
    methods: tuple[str, ...] = rows
    seeds: Seeds = Field(default=(42,), min_length=1)
    steps: int | None = Field(default=None, ge=1, description="None: by the start encoder.")
    batch_size: int = Field(default=64, ge=2)
    dim: int = Field(
        default=128,
        ge=8,
        description="Width of the transformer from nothing; at 256, EncoderConfig's, a row of "
        "1,000 steps takes a core twice as long.",
    )
    candidates: int = Field(default=1_000, ge=2, description="Documents in each pool.")

    @field_validator("methods")
    @classmethod
    def _known(cls, methods: tuple[str, ...]) -> tuple[str, ...]:
        for name in methods:
            if name not in cls.rows:
                raise ValueError(f"there is no method {name!r}{nearest(name, cls.rows)}")
        return methods

    @field_validator("corpora", "encoders", "methods")
    @classmethod
    def _once(cls, named: tuple[str, ...]) -> tuple[str, ...]:
        return each_once(named)

    @property
    def pool(self) -> ValidationConfig:
        """Who looks for what."""
        return ValidationConfig(candidates=self.candidates)

    @property
    def marks(self) -> str:
        """What a document calls it: a part of its blocks has a place of its own."""
        whole = type(self)(data=self.data)
        blocks = (*self.corpora, *self.encoders)
        part = () if blocks == (*whole.corpora, *whole.encoders) else blocks
        return " ".join((self.title, *part))

    def blocks(self) -> Iterator[tuple[Corpus, Start, int]]:
        """Corpus, start encoder and seed of each group of rows, in the table's order."""
        return product(self.corpora_read, self.encoders, self.seeds)

    @property
    def corpora_read(self) -> tuple[Corpus, ...]:
        """Those asked for; behind the default ones, what some rows have of their own."""
        if self.corpora != DEFAULT_CORPORA:
            return self.corpora
        own: list[Corpus] = [OWN_CORPUS[row] for row in self.methods if row in OWN_CORPUS]
        return tuple(dict.fromkeys((*self.corpora, *own)))

    def methods_on(self, corpus: Corpus) -> tuple[str, ...]:
        """All, but on a corpus that was not asked for: there those whose own it is.

        HiCL wants whole texts: of single sentences few are longer than a segment, and the others
        would be its base's.
        """
        if corpus not in self.corpora:
            return tuple(row for row in self.methods if OWN_CORPUS.get(row) == corpus)
        whole = looked_for(corpus)
        return tuple(
            row for row in self.methods if whole or METHODS.get(row, {}).get("name") != "hicl"
        )

    def unseen(self, name: Corpus) -> CorpusConfig:
        """Sentences that nothing learns from: a corpus's titles, else STS-B's."""
        if not looked_for(name):
            return of_stsb(self.data)
        titles = CORPORA[name]["counterpart_column"]
        return CorpusConfig(
            source=str(self.file(name)), text_column=titles, splitter="none", max_documents=3_000
        )

    def method_of(self, row: str) -> MethodSettings:
        return Train.model_validate({"method": METHODS[row]}).method

    def steps_of(self, row: str, start: Start, *more: Step) -> tuple[Step, ...]:
        """What makes the row of its start encoder, in shares of the table's steps; then `more`."""
        method = self.method_of(row)
        match method:
            case InfoCSEIDCPairs():
                steps = self_training(method, ANNOTATIONS.get(row, AnnotationConfig()), start)
            case _ if entry_of(method.name).continues:  # under a random head, too: the ablation
                steps = behind_condenser(method, start)
            case _:
                steps = (Train(method=method),)
        steps = (*steps, *more)
        return tuple(map(unit_temperature, steps)) if SIMILARITIES.get(row) == "dot" else steps

    def budget(self, start: Start) -> Json:
        """Of a row: its steps, and their batch."""
        return {"steps": self.steps or STEPS[start], "batch_size": self.batch_size}

    def steps_taken(self, row: str, start: Start) -> int:
        """From the start encoder on, those of a Condenser stage before its own training too."""
        trainings = (one for one in self.steps_of(row, start) if isinstance(one, Train | SelfTrain))
        return sum(self.training_of(one, start, seed=0).steps for one in trainings)

    def training_of(
        self, step: Train | SelfTrain | Label, start: Start, seed: int
    ) -> TrainingConfig:
        """The preset of the start encoder with the step's share of the budget.

        Fine-tuning has a batch of its own, and epochs in place of steps.
        """
        asked: Json = {"method": step.method, "seed": seed}
        if isinstance(step, Label):
            preset = labelled_preset(start, "training")["training"]
            return TrainingConfig.model_validate(preset | asked)
        budget = self.budget(start)
        asked["steps"] = max(1, round(budget["steps"] * step.times))
        if isinstance(step, Train) and step.learning_rate:
            asked["learning_rate"] = step.learning_rate
        return TrainingConfig.model_validate(method_preset(start)["training"] | budget | asked)

    def start(self, name: Start, seed: int, method: str = "") -> EncoderConfig:
        """What the cells of a block start from; a row may pool or compare in a way of its own."""
        start = EncoderConfig(
            name=name,
            seed=seed,
            positions=CONTEXT,
            pooling=POOLINGS.get(method),
            similarity=SIMILARITIES.get(method),
        )
        return start.model_copy(update={"dim": self.dim}) if name == "transformer" else start

    def files_wanted(self) -> list[str]:
        """The corpora, and the STS sets where a corpus has no titles."""
        judges = () if all(map(looked_for, self.corpora)) else STS.values()
        files = [file for task in judges for file in task.files]
        return [*(f"{name}.parquet" for name in self.corpora_read), *files]

    def absent_files(self) -> list[str]:
        """What it would read and the data folder does not have."""
        return self.absent(self.files_wanted())

    def check_files(self) -> None:
        """Before anything runs.

        Raises:
            UnreadableSourceError: E103, a file is not in the folder.
        """
        if absent := self.absent_files():
            raise UnreadableSourceError(
                f"The table wants {', '.join(absent)}, and there is none of it in {self.data}: "
                "name the folder that has it with --data, or leave the corpus out with --corpora."
            )


def self_training(
    method: InfoCSEIDCPairs, annotation: AnnotationConfig, start: Start
) -> tuple[Step, ...]:
    """One round; random weights learn from neighbours in the first half of the steps (mutual)."""
    if start == "minilm":
        return (SelfTrain(method=method, annotation=annotation),)
    return (
        Train(method=CONPONO(), times=0.5),
        SelfTrain(method=method, annotation=annotation, times=0.5),
    )


def behind_condenser(method: MethodSettings, start: Start) -> tuple[Step, ...]:
    """A Condenser stage, then the training that goes on with its head: halves from MiniLM.

    At MiniLM's own rate, half of the paper's, 100 steps on a blog told masked tokens worse than
    their shares. Random weights take three times the steps, as the papers' experiments do, before
    all of the training's: with half of them, 500, the stage told the blog's masked tokens at 7.21
    nats and Reuters' at 8.34, their shares at 7.20 and 8.11.
    """
    rates = (
        preset_of("condenser", "paper")["learning_rate"],
        method_preset(start)["training"]["learning_rate"],
    )
    before, behind = (0.5, 0.5) if start == "minilm" else (3.0, 1.0)
    stage = Train(method=Condenser(), times=before, learning_rate=max(rates))
    return stage, Train(method=method, times=behind)
