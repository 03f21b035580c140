"""Every experiment by its id, and what is asked of one: `python -m flows reproduce ID`."""

import re
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from flows.data_folder import DataTable, Seeds
from flows.experiments import (
    declutr,
    hicl,
    hicl_ablations,
    infocse,
    mutual,
    product_thesis,
    product_thesis_ablations,
)
from flows.experiments.shared_differences import with_shared
from flows.presets import FAST, SMALL_EPOCHS, labelled_preset, method_preset, trained_by
from flows.presets import preset as start_preset
from sentemb_core.config.experiments import (
    BEIR,
    TITLE,
    WITHOUT_FILES,
    Arm,
    Budget,
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
from sentemb_core.config.methods import MethodSettings
from sentemb_core.config.presets import encoder_of as preset_encoder
from sentemb_core.config.run import (
    RANDOM_ENCODERS,
    CorpusConfig,
    EncoderConfig,
    LabelsConfig,
    TrainingConfig,
    ValidationConfig,
)
from sentemb_core.config.suite import Task, beir_task, chosen
from sentemb_core.errors import UnreadableSourceError
from sentemb_core.formats import nearest
from sentemb_core.types import Json
from tasks.checks import check_model
from tasks.registered_encoders import local_name

PAPERS = (
    mutual,
    infocse,
    product_thesis,
    product_thesis_ablations,
    declutr,
    hicl,
    hicl_ablations,
)

EXPERIMENTS: Mapping[str, Experiment] = {
    one.id: with_shared(one) for paper in PAPERS for one in paper.EXPERIMENTS
}

STOPS = {"evaluate_every", "patience"}
"""Settings of a training that keep its best step, or end it before its last."""

ALSO: Mapping[str, str] = {
    "product_thesis.alpha": "product_thesis.rescore",
    "hicl.t14": "hicl.t9",
    "hicl.t15": "hicl.t1",
}
"""Further names of what another experiment holds: the curve of alpha, that of beta, more seeds."""

OURS: Mapping[str, str] = {
    "methods-small": "every method in cells of equal budget (ours)",
    "few-shot": "methods, each fine-tuned on more and more labels (ours)",
}
"""Tables of no paper, of corpora that `--corpora` names."""


LONGEST_NAME = 80
"""Letters of an encoder's name in a file's, which may have 255 bytes."""


class Reproduction(DataTable):
    """One experiment under a budget."""

    experiment: str
    preset: Literal["small", "paper"] = "small"
    encoder: str | None = Field(
        default=None,
        min_length=1,
        description="What every arm starts from, pooled as the table asks and pre-trained no "
        "further; None: the budget's base.",
    )
    seeds: Seeds | None = Field(default=None, min_length=1, description="None: the budget's.")
    steps: int | None = Field(default=None, ge=1, description="Of a training; None: the budget's.")
    candidates: int | None = Field(default=None, ge=2, description="None: the budget's.")

    @field_validator("experiment")
    @classmethod
    def _known(cls, name: str) -> str:
        name = ALSO.get(name, name)
        if name not in EXPERIMENTS:
            known = [*EXPERIMENTS, *ALSO, *OURS]
            raise ValueError(f"there is no experiment {name!r}{nearest(name, known)}")
        return name

    @cached_property
    def what(self) -> Experiment:
        """With the arms of the preset, and the columns that the data folder has files for."""
        one = EXPERIMENTS[self.experiment]
        arms = one.arms if self.preset == "small" else (*one.arms, *one.paper_arms)
        columns = tuple(column for column in one.columns if column.label not in self.left_out)
        return one.model_copy(update={"arms": arms, "columns": columns})

    @cached_property
    def left_out(self) -> dict[str, list[str]]:
        """Optional columns whose files are not there, and which these are."""
        columns = EXPERIMENTS[self.experiment].columns
        lacking = {one.label: self.absent(files_of(one)) for one in columns if one.optional}
        return {label: files for label, files in lacking.items() if files}

    @cached_property
    def start(self) -> str:
        """Where the encoder lies that was asked for; empty: the budget's base.

        Raises:
            RegistryError: there is no such registered model.
        """
        return local_name(self.encoder) if self.encoder else ""

    @property
    def budget(self) -> Budget:
        """The preset's, but for what was asked for, in what this machine multiplies fastest."""
        what = EXPERIMENTS[self.experiment]
        base = what.small if self.preset == "small" else what.paper
        if self.encoder:
            base = base.from_encoder(self.encoder, self.start)
        asked = {
            **(rates_from(self.start) if self.start and self.preset == "small" else {}),
            "seeds": self.seeds,
            "steps": self.steps,
            "candidates": self.candidates,
            "dtype": base.dtype or FAST,
        }
        return base.model_copy(update={k: v for k, v in asked.items() if v is not None})

    @property
    def pool(self) -> ValidationConfig:
        """Who looks for what; nothing is promoted, so no split is kept for a gate."""
        return ValidationConfig(
            candidates=self.budget.candidates,
            gate_share=0.0,
            label_share=0.5 if self.what.labels else 0.0,
        )

    @property
    def corpora_read(self) -> list[Corpus]:
        """What the base encoder and the arms train on."""
        what, base = self.what, self.budget.base
        corpora: list[Corpus] = [base.corpus] if base.times else []
        for arm in what.arms:
            corpora.extend(corpus for corpus, _ in what.groups(arm) if arm.steps)
        return list(dict.fromkeys(corpora))

    @property
    def name(self) -> str:
        """Of its files: the id, and behind it what was asked for and is not the small preset's."""
        asked = self.model_dump(exclude={"experiment", "data", "preset"}, exclude_none=True)
        asked |= {"encoder": file_name(self.encoder)} if self.encoder else {}
        named = [f"{name}-{'-'.join(told(value))}" for name, value in asked.items()]
        budget = [self.preset] if self.preset != "small" else []
        return "-".join([self.experiment, *budget, *named])

    @property
    def marks(self) -> str:
        """What a document calls its table: one of another start has a place of its own."""
        return f"{self.experiment} {file_name(self.encoder)}" if self.encoder else self.experiment

    def corpus(
        self, name: Corpus, sample: int | None = None, *, distinct: bool = False
    ) -> CorpusConfig:
        """The whole of it or a sample; `distinct`: each text once."""
        read = super().corpus(name, sample)
        settings = {"max_sentences": None} if self.preset == "paper" else {}
        settings |= {"id_column": read.text_column} if distinct else {}
        return read.model_copy(update=settings)

    def method_of(self, step: Train) -> MethodSettings:
        """With lengths of text that the preset's encoder can read."""
        return step.paper if self.preset == "paper" and step.paper else step.method

    def encoder_of(self, arm: Arm) -> EncoderConfig:
        """The base's settings; under `paper`, what they leave open is as the arm's method asks.

        That is pooling and similarity, by the preset of the first method that trains.
        """
        base = self.budget.base.encoder
        first = next((one.method.name for one in arm.steps if not isinstance(one, Finish)), None)
        if self.preset == "small" or first is None:
            return base
        asked = preset_encoder(first, "paper")
        left_open = [name for name in ("pooling", "similarity") if getattr(base, name) is None]
        return base.model_copy(update={one: asked[one] for one in left_open if one in asked})

    def steps_of(self, arm: Arm) -> tuple[Step, ...]:
        """The arm's, without a temperature where inner products are compared."""
        dot = self.encoder_of(arm).similarity == "dot"
        return tuple(map(unit_temperature, arm.steps)) if dot else arm.steps

    def training_of(self, step: Train | SelfTrain | Label, seed: int) -> TrainingConfig:
        """How an arm learns in one step, and what that may cost."""
        match step:
            case Train():
                own = {"batch_size": step.batch_size, "learning_rate": step.learning_rate}
                return self.training(self.method_of(step), step.times, own, seed)
            case SelfTrain():
                own = {"learning_rate": self.budget.round_learning_rate}
                return self.training(step.method, step.times, own, seed)
            case Label():
                return self.fine_tuning(step, seed)

    def training(
        self, method: MethodSettings, times: float, own: Json, seed: int
    ) -> TrainingConfig:
        """The budget, the method's preset, the table's and the step's own settings.

        Later ones override earlier ones, but for the method: a preset says how to train it, and
        not when it is judged. An arm ends with its last step, unless the table stops all of its
        trainings.
        """
        budget = self.budget
        told = budget.model_dump(include={"batch_size", "learning_rate", "dtype", "threads"})
        preset = trained_by(method.name, *budget.presets)
        told |= {name: preset[name] for name in preset.keys() - STOPS} | budget.stated
        told |= {name: value for name, value in own.items() if value is not None}
        steps = max(1, round(budget.steps * times))
        return TrainingConfig.model_validate(
            told | {"method": method, "steps": steps, "seed": seed}
        )

    def fine_tuning(self, step: Label, seed: int) -> TrainingConfig:
        """By the preset of the base encoder, in its batches, under the table's settings.

        Its steps follow from `limits`.
        """
        budget = self.budget
        preset = labelled_preset(budget.base.encoder.name, "training")["training"]
        own = {"batch_size": preset["batch_size"], "dtype": budget.dtype, "threads": budget.threads}
        return TrainingConfig.model_validate(
            preset | budget.stated | own | {"method": step.method, "seed": seed}
        )

    @property
    def limits(self) -> LabelsConfig:
        """When fine-tuning stops."""
        return LabelsConfig() if self.preset == "paper" else SMALL_EPOCHS

    def absent_files(self) -> list[str]:
        """What it would read and the data folder does not have."""
        return self.absent(files_wanted(self.what, self.budget))

    def check_files(self) -> None:
        """Before anything runs.

        Raises:
            UnreadableSourceError: E103, a corpus or a file of a judge is not in the folder.
            MissingEncoderError, UnsafeModelError: the encoder that was asked for is not there, or
                not to be read.
        """
        if absent := dict.fromkeys(folder_or_file(one, self.data) for one in self.absent_files()):
            raise UnreadableSourceError(
                f"{self.experiment} reads {', '.join(absent)}, and there is none of it in "
                f"{self.data}: name the folder that has the files with --data."
            )
        if self.start and self.start not in RANDOM_ENCODERS:
            check_model(self.start)


def rates_from(encoder: str) -> dict[str, float]:
    """Of trainings and of rounds that begin with an encoder, as `run` has them."""
    return {
        "learning_rate": method_preset(encoder)["training"]["learning_rate"],
        "round_learning_rate": start_preset(encoder)["training"]["learning_rate"],
    }


def file_name(encoder: str) -> str:
    """An encoder's name as a file's may have it; what that cannot say is told apart by a digest."""
    plain = re.sub(r"[^\w.-]+", "_", encoder, flags=re.ASCII)[-LONGEST_NAME:].strip("_")
    return plain if plain == encoder else f"{plain}-{sha256(encoder.encode()).hexdigest()[:8]}"


def told(value: str | int | tuple[int, ...]) -> list[str]:
    return [str(one) for one in (value if isinstance(value, tuple) else (value,))]


def task_of(column: Column) -> Task:
    """The suite's task that judges a column, or a BEIR folder's."""
    if folder := folder_of(column):
        return beir_task(Path(folder).name)
    return next(task for task in chosen([column.judge]) if task.name == column.judge)


def folder_of(column: Column) -> str:
    """Where below the data folder the files of a column's judge lie."""
    return column.judge if column.judge.startswith(BEIR) else ""


def files_of(column: Column) -> tuple[str, ...]:
    """What a column's judge reads beside the corpus."""
    if column.judge in WITHOUT_FILES:
        return ()
    return tuple(str(Path(folder_of(column), file)) for file in task_of(column).files)


def files_wanted(experiment: Experiment, budget: Budget) -> list[str]:
    """What an experiment under a budget must have of the data folder."""
    base = [f"{budget.base.corpus}.parquet"] if budget.base.reads_corpus else []
    corpora = [
        f"{experiment.trained_on(arm, column)}.parquet"
        for arm in experiment.arms
        for column in experiment.columns
    ]
    pools = [f"{one.corpus}.parquet" for one in experiment.columns if one.judge == TITLE]
    needed = [column for column in experiment.columns if not column.optional]
    judges = [file for column in needed for file in files_of(column)]
    return list(dict.fromkeys([*base, *corpora, *pools, *judges]))


def folder_or_file(wanted: str, data: str | None = None) -> str:
    """What a person has to get: the outermost BEIR folder that is not there, or the file."""
    *above, _ = wanted.split("/")
    for depth in range(2, len(above) + 1):
        folder = "/".join(above[:depth])
        if not data or not (Path(data) / folder).is_dir():
            return f"{folder}/"
    return wanted
