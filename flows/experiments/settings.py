"""Settings of one reproduction: which experiment, under which budget, on which files."""

import re
from collections.abc import Iterable
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field, field_validator, model_validator

from flows.experiments.index import ALIASES, EXPERIMENTS, experiment_id
from flows.experiments.methods import FEW_SHOT, METHODS_SMALL, ROWS, few_shot, methods_small
from flows.experiments.parts import CORPORA, METHODS, has_counterparts
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
from sentemb_core.types import Config, Json
from tasks.checks import check_model
from tasks.registered_encoders import local_name

T = TypeVar("T")

STOPS = {"evaluate_every", "patience"}
"""Settings by which a training keeps its best step, or stops early."""

LONGEST_NAME = 80
"""Characters of a name within a file name, which may have 255 bytes."""


def unique(values: tuple[T, ...]) -> tuple[T, ...]:
    """Drop repeated values: a repeated training lowers the standard deviation."""
    return tuple(dict.fromkeys(values))


Unique = AfterValidator(unique)
Seed = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=2)]


class Reproduction(Config):
    """One experiment under a budget; None means: as the experiment says."""

    experiment: str
    preset: Literal["small", "paper"] = "small"
    data: str = Field(description="Folder of the corpora and of the suite's files.")
    max_documents: int | None = Field(default=None, ge=2, description="A sample of each corpus.")
    encoder: str | None = Field(
        default=None,
        min_length=1,
        description="Start encoder of every arm, pooled as the experiment says, without a "
        "Condenser stage.",
    )
    seeds: Annotated[tuple[Seed, ...], Unique] | None = Field(default=None, min_length=1)
    steps: int | None = Field(default=None, ge=1, description="Steps of a training.")
    candidates: int | None = Field(default=None, ge=2, description="Documents in a pool.")
    batch_size: int | None = Field(default=None, ge=2, description="Of methods-small and few-shot.")
    corpora: Annotated[tuple[Corpus, ...], Unique] | None = Field(default=None, min_length=1)
    methods: Annotated[tuple[str, ...], Unique] | None = Field(default=None, min_length=1)
    counts: Annotated[tuple[Count, ...], Unique] | None = Field(
        default=None, min_length=1, description="Numbers of labels of few-shot, ascending."
    )

    @field_validator("experiment")
    @classmethod
    def _is_known(cls, name: str) -> str:
        id = experiment_id(name)
        if id not in EXPERIMENTS:
            end = nearest(name, [*EXPERIMENTS, *ALIASES])
            if "; known: " in end:  # too many for a line
                end = "; `python -m flows reproduce list` shows all"
            raise ValueError(f"there is no experiment {name!r}{end}")
        return id

    @model_validator(mode="after")
    def _options_fit(self) -> "Reproduction":
        owners = {
            "corpora": (METHODS_SMALL, FEW_SHOT),
            "methods": (METHODS_SMALL, FEW_SHOT),
            "batch_size": (METHODS_SMALL, FEW_SHOT),
            "counts": (FEW_SHOT,),
        }
        for option, ids in owners.items():
            if getattr(self, option) and self.experiment not in ids:
                flag = f"--{option.replace('_', '-')}"
                raise ValueError(f"{flag} is an option of {' and '.join(ids)}: leave it out")
        if self.preset == "paper" and self.experiment in (METHODS_SMALL, FEW_SHOT):
            raise ValueError(f"--preset is an option of papers, not of {self.experiment}")
        rows = METHODS if self.experiment == FEW_SHOT else ROWS
        for name in self.methods or ():
            if name not in rows:
                raise ValueError(f"there is no method {name!r}{nearest(name, rows)}")
        for corpus in (self.corpora or ()) if self.experiment == FEW_SHOT else ():
            if not has_counterparts(corpus):
                titled = ", ".join(filter(has_counterparts, CORPORA))
                raise ValueError(f"labels are titles, and {corpus} has none; these have: {titled}")
        return self

    @cached_property
    def definition(self) -> Experiment:
        """The experiment with all its columns and the arms of both presets."""
        build = {METHODS_SMALL: methods_small, FEW_SHOT: few_shot}.get(self.experiment)
        options = {
            "start": self.start,
            "corpora": self.corpora,
            "rows": self.methods,
            "counts": self.counts,
        }
        given = {name: value for name, value in options.items() if value}
        return build(**given) if build and given else EXPERIMENTS[self.experiment]

    @cached_property
    def what(self) -> Experiment:
        """The experiment with the arms of the preset, and the columns whose files exist."""
        one = self.definition
        arms = one.arms if self.preset == "small" else (*one.arms, *one.paper_arms)
        columns = tuple(column for column in one.columns if column.label not in self.left_out)
        return one.model_copy(update={"arms": arms, "columns": columns})

    @cached_property
    def left_out(self) -> dict[str, list[str]]:
        """Optional columns without their files -> these files."""
        columns = self.definition.columns
        absent = {one.label: self.absent(files_of(one)) for one in columns if one.optional}
        return {label: files for label, files in absent.items() if files}

    @cached_property
    def start(self) -> str:
        """Name or folder of the start encoder; empty: the budget's base.

        Raises:
            RegistryError: there is no such registered model.
        """
        return local_name(self.encoder) if self.encoder else ""

    @property
    def budget(self) -> Budget:
        """The preset's budget with the requested changes, and a precision for this machine."""
        what = self.definition
        base = what.small if self.preset == "small" else what.paper
        changes: Json = {
            "seeds": self.seeds,
            "steps": self.steps,
            "candidates": self.candidates,
            "batch_size": self.batch_size,
            "dtype": base.dtype or FAST,
        }
        if self.encoder and not base.as_run:
            base = base.from_encoder(self.encoder, self.start)
            changes |= rates_from(self.start) if self.preset == "small" else {}
        return base.model_copy(update={k: v for k, v in changes.items() if v is not None})

    @property
    def pool(self) -> ValidationConfig:
        """The pool of titles.

        Nothing is promoted: the papers' pools have no gate split, and ours leave it unused.
        """
        return ValidationConfig(
            candidates=self.budget.candidates,
            gate_share=self.budget.gate_share,
            label_share=0.5 if self.what.labels else 0.0,
        )

    @property
    def corpora_read(self) -> list[Corpus]:
        """Corpora that the base encoder and the arms train on."""
        base = self.budget.base
        corpora: list[Corpus] = [base.corpus] if base.times else []
        for arm in self.what.arms:
            corpora.extend(corpus for corpus, _ in self.what.by_corpus(arm) if arm.steps)
        return list(dict.fromkeys(corpora))

    @property
    def name(self) -> str:
        """Name of its files: the id, and all settings that differ from the small preset."""
        given = self.model_dump(exclude={"experiment", "data", "preset"}, exclude_none=True)
        given |= {"encoder": file_name(self.encoder)} if self.encoder else {}
        parts = [f"{name}-{'-'.join(words(value))}" for name, value in given.items()]
        preset = [self.preset] if self.preset != "small" else []
        name = "-".join([self.experiment, *preset, *parts])
        return name if len(name) <= 2 * LONGEST_NAME else f"{name[:LONGEST_NAME]}-{digest(name)}"

    def file(self, name: Corpus) -> Path:
        return Path(self.data) / f"{name}.parquet"

    def corpus(
        self, name: Corpus, sample: int | None = None, *, distinct: bool = False
    ) -> CorpusConfig:
        """Return how to read a corpus: all of it or a sample; `distinct`: each text once."""
        sizes = [size for size in (sample, self.max_documents) if size]
        settings = {"source": str(self.file(name)), "max_documents": min(sizes, default=None)}
        config = CorpusConfig.model_validate(CORPORA[name] | settings)
        changes = {"max_sentences": None} if self.preset == "paper" else {}
        changes |= {"id_column": config.text_column} if distinct else {}
        return config.model_copy(update=changes)

    def method_of(self, step: Train) -> MethodSettings:
        """Return the step's method, with text lengths that the preset's encoder can read."""
        return step.paper if self.preset == "paper" and step.paper else step.method

    def encoder_of(self, arm: Arm, seed: int | None = None) -> EncoderConfig:
        """Return the settings of an arm's start encoder.

        Under `paper`, pooling and similarity are those of the first method that trains, unless
        the base states them.

        Args:
            arm: The arm.
            seed: Of random weights, if each arm has its own.
        """
        base = self.budget.base
        encoder = base.encoder
        if base.per_arm and seed is not None:
            encoder = encoder.model_copy(update={"seed": seed})
        if arm.similarity:
            encoder = encoder.model_copy(update={"similarity": arm.similarity})
        first = next((step.method.name for step in arm.steps if not isinstance(step, Finish)), None)
        if self.preset == "small" or first is None:
            return encoder
        preset = preset_encoder(first, "paper")
        unset = [name for name in ("pooling", "similarity") if getattr(encoder, name) is None]
        return encoder.model_copy(update={name: preset[name] for name in unset if name in preset})

    def steps_of(self, arm: Arm) -> tuple[Step, ...]:
        """Return the arm's steps, at temperature 1 for inner products."""
        is_dot = self.encoder_of(arm).similarity == "dot"
        return tuple(map(unit_temperature, arm.steps)) if is_dot else arm.steps

    def training_of(self, step: Train | SelfTrain | Label, seed: int) -> TrainingConfig:
        """Return the training of one step."""
        match step:
            case Train():
                own = {"batch_size": step.batch_size, "learning_rate": step.learning_rate}
                return self._training(self.method_of(step), step.times, own, seed)
            case SelfTrain():
                own = {"learning_rate": self.budget.round_learning_rate}
                return self._training(step.method, step.times, own, seed)
            case Label():
                return self._fine_tuning(step, seed)

    def _training(
        self, method: MethodSettings, times: float, own: Json, seed: int
    ) -> TrainingConfig:
        """Settings of the budget, the method's preset, the paper's table, the step: the last wins.

        A preset does not say when a training is validated: an arm keeps its last step, unless the
        paper's table says otherwise.
        """
        budget = self.budget
        if budget.as_run:
            settings = method_preset(budget.base.encoder.name)["training"]
            settings |= {"batch_size": budget.batch_size}
        else:
            names = {"batch_size", "learning_rate", "dtype", "threads"}
            preset = trained_by(method.name, *budget.presets)
            settings = budget.model_dump(include=names)
            settings |= {name: preset[name] for name in preset.keys() - STOPS} | budget.stated
        settings |= {name: value for name, value in own.items() if value is not None}
        steps = max(1, round(budget.steps * times))
        return TrainingConfig.model_validate(
            settings | {"method": method, "steps": steps, "seed": seed}
        )

    def _fine_tuning(self, step: Label, seed: int) -> TrainingConfig:
        """Settings of the base encoder's preset, in its batches; `limits` give the steps."""
        budget = self.budget
        preset = labelled_preset(budget.base.encoder.name, "training")["training"]
        own = {"batch_size": preset["batch_size"], "dtype": budget.dtype, "threads": budget.threads}
        own = {} if budget.as_run else budget.stated | own
        return TrainingConfig.model_validate(preset | own | {"method": step.method, "seed": seed})

    @property
    def limits(self) -> LabelsConfig:
        """When fine-tuning stops."""
        return LabelsConfig() if self.preset == "paper" else SMALL_EPOCHS

    def absent(self, files: Iterable[str]) -> list[str]:
        """Return those of the files that are not in the data folder."""
        return [file for file in dict.fromkeys(files) if not (Path(self.data) / file).is_file()]

    def absent_files(self) -> list[str]:
        """Return the required files that are not in the data folder."""
        return self.absent(files_wanted(self.what, self.budget))

    def check_files(self) -> None:
        """Check all files before anything runs.

        Raises:
            UnreadableSourceError: E103, a corpus or a file of a judge is not in the folder.
            MissingEncoderError, UnsafeModelError: the start encoder does not exist, or is unsafe.
        """
        if absent := dict.fromkeys(folder_or_file(one, self.data) for one in self.absent_files()):
            raise UnreadableSourceError(
                f"{self.experiment} reads {', '.join(absent)}, which {self.data} does not have. "
                "Name the folder with the files by --data."
            )
        if self.start and self.start not in RANDOM_ENCODERS:
            check_model(self.start)


def rates_from(encoder: str) -> dict[str, float]:
    """Return the learning rates of trainings and rounds from an encoder, as in `run`."""
    return {
        "learning_rate": method_preset(encoder)["training"]["learning_rate"],
        "round_learning_rate": start_preset(encoder)["training"]["learning_rate"],
    }


def file_name(name: str) -> str:
    """Return an encoder's name for a file; a digest distinguishes names that would be equal."""
    plain = re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII)[-LONGEST_NAME:].strip("_")
    return plain if plain == name else f"{plain}-{digest(name)}"


def digest(name: str) -> str:
    return sha256(name.encode()).hexdigest()[:8]


def words(value: str | int | tuple[int | str, ...]) -> list[str]:
    return [str(one) for one in (value if isinstance(value, tuple) else (value,))]


def task_of(column: Column) -> Task:
    """Return the suite's task that judges a column, or the task of a BEIR folder."""
    if folder := folder_of(column):
        return beir_task(Path(folder).name)
    return next(task for task in chosen([column.judge]) if task.name == column.judge)


def folder_of(column: Column) -> str:
    """Return the folder of a judge's files, relative to the data folder."""
    return column.judge if column.judge.startswith(BEIR) else ""


def files_of(column: Column) -> tuple[str, ...]:
    """Return the files that a column's judge reads beside the corpus."""
    if column.judge in WITHOUT_FILES:
        return ()
    return tuple(str(Path(folder_of(column), file)) for file in task_of(column).files)


def files_wanted(experiment: Experiment, budget: Budget) -> list[str]:
    """Return the files of the data folder that an experiment needs."""
    base = [f"{budget.base.corpus}.parquet"] if budget.base.reads_corpus else []
    corpora = [
        f"{experiment.corpus_of(arm, column)}.parquet"
        for arm in experiment.arms
        for column in experiment.columns
    ]
    pools = [f"{one.corpus}.parquet" for one in experiment.columns if one.judge == TITLE]
    required = [column for column in experiment.columns if not column.optional]
    judges = [file for column in required for file in files_of(column)]
    return list(dict.fromkeys([*base, *corpora, *pools, *judges]))


def folder_or_file(wanted: str, data: str | None = None) -> str:
    """Return what a user has to add: the outermost absent BEIR folder, or the file."""
    *parents, _ = wanted.split("/")
    for depth in range(2, len(parents) + 1):
        folder = "/".join(parents[:depth])
        if not data or not (Path(data) / folder).is_dir():
            return f"{folder}/"
    return wanted
