"""What `benchmark` and `compare` ask for: models, tasks, and where their files lie."""

from pathlib import Path

from pydantic import Field, field_validator

from flows.short_names import labelled
from sentemb_core.config.run import CorpusConfig
from sentemb_core.config.suite import (
    POSITIVES,
    SUITE,
    USUAL,
    DocumentVector,
    RetrievalTask,
    Task,
    beir_task,
    chosen,
)
from sentemb_core.errors import UnreadableSourceError, UsageError
from sentemb_core.types import Config


class BenchmarkSettings(Config):
    """Models on the evaluation suite."""

    models: tuple[str, ...] = Field(
        min_length=1,
        description="models:/NAME@ALIAS, a folder, minilm, or a Hugging Face name.",
    )
    data: str | None = Field(default=None, description="Folder of the suite's files.")
    beir: tuple[str, ...] = Field(default=(), description="Folders in BEIR's format.")
    split: str | None = Field(
        default=None,
        min_length=1,
        description="Of the BEIR folders: by qrels/NAME.tsv; none: test, or the only one there is.",
    )
    tasks: tuple[str, ...] = Field(default=USUAL, description="Names of tasks or groups.")
    vectors: DocumentVector = Field(
        default="text",
        description="Of a document: of its text as one, as MTEB does; or the mean of its "
        "sentences', as they are or of length 1 (erratum E3).",
    )
    fusion: bool = Field(
        default=False,
        description="Words and vectors together: BM25's first 1,000 rescored, and rank fusion, on "
        "half of each task's queries; the other half chooses alpha.",
    )
    corpus: CorpusConfig | None = Field(
        default=None, description="What the models were trained on: halves, and overlaps."
    )

    out: str | None = Field(
        default=None, description="Folder of table and figure; none: below the home."
    )

    @field_validator("models")
    @classmethod
    def _each_once(cls, models: tuple[str, ...]) -> tuple[str, ...]:
        for model in models:
            if models.count(model) > 1:
                raise ValueError(
                    f"a table has each model once, and {model} is named {models.count(model)} "
                    "times: name it once, and another one beside it"
                )
        return models

    def places(self) -> list[tuple[Task, Path]]:
        """Tasks and their folders; a BEIR folder is a task beside the chosen ones.

        One that is named among them is there by its folder: alone, if no other is.

        Without a folder of the suite's files BEIR folders stand alone, unless tasks are asked for.

        Raises:
            UsageError: a task that the suite does not have, or that has no folder to lie in.
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
        return [
            *suite,
            *(
                (beir_task(name, split_of(Path(one), self.split)), Path(one))
                for name, one in beir.items()
            ),
        ]

    @property
    def positives(self) -> Path | None:
        """The pairs that diagnostics look at, if they are there."""
        file = Path(self.data) / POSITIVES if self.data else None
        return file if file and file.is_file() else None

    @property
    def has_halves(self) -> bool:
        """Whether the corpus has documents, which plain sentences are not."""
        return self.corpus is not None and self.corpus.splitter != "none"

    def check_files(self) -> None:
        """Before anything runs.

        Raises:
            UsageError: there is no folder to look for tasks in, or none that has splits; or words
                and vectors are to be joined, and no task retrieves.
            UnreadableSourceError: E103, the folder is none, a BEIR folder lacks a file, or no task
                has its files; or as `split_of`.
        """
        if self.split and not self.beir:
            raise UsageError(
                f"--beir-split {self.split} chooses the queries of BEIR folders, and none is "
                "named: name it with --beir FOLDER, or leave --beir-split out."
            )
        places = self.places()
        if self.fusion and not any(isinstance(task, RetrievalTask) for task, _ in places):
            raise UsageError(
                "--fusion joins words and vectors where queries look for documents, and no task of "
                "retrieval is asked for: name one with --tasks, or leave --fusion out."
            )
        if self.data and Path(self.data) in {place for _, place in places}:
            require_folder(self.data)
        lacking = [
            (task, folder, file)
            for task, folder in places
            for file in task.files
            if not (folder / file).is_file()
        ]
        for task, folder, file in lacking:
            if isinstance(task, RetrievalTask) and task.source == "beir":
                found = f"lacks {file}" if folder.is_dir() else "is no folder"
                raise UnreadableSourceError(
                    f"A BEIR folder has {', '.join(task.files)}; {folder} {found}."
                )
        without = {task.name for task, _, _ in lacking}
        if all(task.name in without for task, _ in places):
            names = ", ".join(dict.fromkeys(file for _, _, file in lacking))
            raise UnreadableSourceError(
                f"None of the tasks has its files in {self.data}, which lacks {names}: name the "
                "folder that has them with --data."
            )


def require_folder(data: str) -> None:
    """Of the suite's files; one that lacks some of them is one all the same.

    Raises:
        UnreadableSourceError: E103.
    """
    if not Path(data).is_dir():
        raise UnreadableSourceError(
            f"The suite's files lie in one folder, and {data} is none: name it with --data, or set "
            "$SENTEMB_DATA."
        )


def split_of(folder: Path, asked: str | None = None) -> str:
    """What a BEIR folder is judged by: the split asked for, or test, or else the only one there is.

    Raises:
        UnreadableSourceError: E103, it lacks the one asked for; or there are several, test is none
            of them, and none was asked for.
    """
    splits = sorted(file.stem for file in folder.glob("qrels/*.tsv"))
    if asked:
        if splits and asked not in splits:
            raise UnreadableSourceError(
                f"--beir-split {asked} judges every BEIR folder by qrels/{asked}.tsv; {folder} has "
                f"{', '.join(splits)}: choose among these, or take the folder by itself."
            )
        return asked
    if "test" in splits or not splits:
        return "test"
    if len(splits) > 1:
        raise UnreadableSourceError(
            "A BEIR folder is judged by qrels/test.tsv, or by the only split that it has; "
            f"{folder} has {', '.join(splits)}: choose one with --beir-split "
            f"({' or '.join(splits)})."
        )
    return splits[0]
