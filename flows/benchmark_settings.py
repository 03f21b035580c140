"""Settings of `benchmark` and `compare`: models, tasks, and the folders of their files."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import Field, field_validator

from sentemb_core.config.run import CorpusConfig
from sentemb_core.config.suite import (
    FIXED,
    POSITIVES,
    SUITE,
    USUAL,
    DocumentVector,
    Fixed,
    RetrievalTask,
    Task,
    beir_task,
    chosen,
)
from sentemb_core.errors import UnreadableSourceError, UsageError
from sentemb_core.types import Config

ARTIFACT = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}(/data)?/?$")
"""The end of an artifact's folder."""


def labelled(models: Sequence[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return name in the table -> model: the shortest unique end of each model or folder.

    Args:
        models: The models as they were asked for, each once.
        taken: Names that others have in the table.
    """
    counts = Counter([*taken, *(end for model in models for end in ends(model))])
    return {next((end for end in ends(one) if counts[end] == 1), one): one for one in models}


def ends(model: str) -> list[str]:
    """Return NAME@ALIAS, or the last part of a folder or name, the last two parts, and so on.

    The folder of an artifact is shortened to the first digits of its digest.
    """
    if model.startswith("models:/"):
        return [model.removeprefix("models:/"), model]
    parts = Path(ARTIFACT.sub(r"\1", model)).parts
    return [str(Path(*parts[-n:])) for n in range(1, len(parts) + 1)]


def fixed_row(model: str) -> Fixed | None:
    """Return the baseline of that name, in any case."""
    return next((name for name in FIXED if name.lower() == model.lower()), None)


class BenchmarkSettings(Config):
    """Models on the evaluation suite."""

    models: tuple[str, ...] = Field(
        min_length=1, description="models:/NAME@ALIAS, a folder, minilm, or a Hugging Face name."
    )
    data: str | None = Field(default=None, description="Folder of the suite's files.")
    beir: tuple[str, ...] = Field(default=(), description="Folders in BEIR's format.")
    split: str | None = Field(
        default=None,
        min_length=1,
        description="Split of the BEIR folders (qrels/NAME.tsv); None: test, or the only one.",
    )
    tasks: tuple[str, ...] = Field(default=USUAL, description="Names of tasks or groups.")
    vectors: DocumentVector = Field(
        default="text",
        description="Vector of a document: of its text as a whole, as in MTEB; or the mean of "
        "its sentences' vectors, as they are or of length 1 (erratum E3).",
    )
    fusion: bool = Field(
        default=False,
        description="BM25 and vectors together: BM25's first 1,000 rescored, and rank fusion, on "
        "half of each task's queries; the other half chooses alpha.",
    )
    corpus: CorpusConfig | None = Field(
        default=None, description="Training corpus: for diagnostics and contamination."
    )

    out: str | None = Field(
        default=None, description="Folder of table and figure; None: below the home."
    )

    @field_validator("models")
    @classmethod
    def _each_once(cls, models: tuple[str, ...]) -> tuple[str, ...]:
        for model in models:
            if models.count(model) > 1:
                raise ValueError(
                    f"each model may occur once: found {model} {models.count(model)} times"
                )
        return models

    def places(self) -> list[tuple[Task, Path]]:
        """Return tasks and their folders; every BEIR folder is a task beside the chosen ones.

        Without a folder of the suite's files there are only BEIR folders, unless tasks are named.

        Raises:
            UsageError: the suite does not have a task, or its folder is not named.
            UnreadableSourceError: E103, as `split_of`.
        """
        folders = list(dict.fromkeys(str(Path(one).resolve()) for one in self.beir))
        beir = labelled(folders, taken=[task.name for task in SUITE])
        own = {name.lower() for name in beir}
        suites = {task.name for task in SUITE} - beir.keys()
        named = [name for name in self.tasks if name in suites or name.lower() not in own]
        tasks = chosen(named, beside=beir)
        if tasks and not self.data and not (beir and self.tasks == USUAL):
            raise UsageError("Name the folder of the tasks: --data FOLDER, or set $SENTEMB_DATA.")
        suite = [(task, Path(self.data)) for task in tasks] if self.data else []
        return suite + [
            (beir_task(name, split_of(Path(one), self.split)), Path(one))
            for name, one in beir.items()
        ]

    @property
    def positives(self) -> Path | None:
        """The pairs for diagnostics, if their file exists."""
        file = Path(self.data) / POSITIVES if self.data else None
        return file if file and file.is_file() else None

    @property
    def has_halves(self) -> bool:
        """Whether the corpus has documents; plain sentences have no halves."""
        return self.corpus is not None and self.corpus.splitter != "none"

    def check_files(self) -> None:
        """Check the files before anything runs.

        Raises:
            UsageError: no folder is named for tasks or splits; or a fusion has no retrieval task.
            UnreadableSourceError: E103, the folder is missing, a BEIR folder lacks a file, or no
                task has its files; or as `split_of`.
        """
        if self.split and not self.beir:
            raise UsageError(
                f"--beir-split {self.split} needs a BEIR folder: name one (--beir FOLDER), or "
                "leave --beir-split out."
            )
        places = self.places()
        if self.fusion and not any(isinstance(task, RetrievalTask) for task, _ in places):
            raise UsageError(
                "--fusion needs a retrieval task: name one (--tasks), or leave --fusion out."
            )
        data = Path(self.data) if self.data else None
        if data and data in {folder for _, folder in places} and not data.is_dir():
            raise UnreadableSourceError(
                f"{data} is not a folder: name the folder of the suite's files (--data), or set "
                "$SENTEMB_DATA."
            )
        lacking = [
            (task, folder, file)
            for task, folder in places
            for file in task.files
            if not (folder / file).is_file()
        ]
        for task, folder, file in lacking:
            if isinstance(task, RetrievalTask) and task.source == "beir":
                found = f"lacks {file}" if folder.is_dir() else "is not a folder"
                raise UnreadableSourceError(
                    f"A BEIR folder must have {', '.join(task.files)}: {folder} {found}."
                )
        without = {task.name for task, _, _ in lacking}
        if all(task.name in without for task, _ in places):
            names = ", ".join(dict.fromkeys(file for _, _, file in lacking))
            raise UnreadableSourceError(
                f"No task has its files in {self.data}: missing are {names}. Name their folder "
                "(--data)."
            )


def split_of(folder: Path, asked: str | None = None) -> str:
    """Return the split of a BEIR folder: the one asked for, else test, else the only one.

    Raises:
        UnreadableSourceError: E103, the folder lacks the split asked for; or it has several splits
            without test, and no split was asked for.
    """
    splits = sorted(file.stem for file in folder.glob("qrels/*.tsv"))
    if asked:
        if splits and asked not in splits:
            raise UnreadableSourceError(
                f"{folder} has no qrels/{asked}.tsv (--beir-split): found {', '.join(splits)}. "
                "Choose one of these, or benchmark the folder alone."
            )
        return asked
    if "test" in splits or not splits:
        return "test"
    if len(splits) > 1:
        raise UnreadableSourceError(
            f"{folder} has several splits without test: {', '.join(splits)}. Choose one "
            "(--beir-split)."
        )
    return splits[0]
