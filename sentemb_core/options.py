"""Options that several verbs of both doors take, each written and explained once."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter, validators

from sentemb_core.types import OnDuplicate, Splitter

CORPUS = Group("Your corpus", sort_key=1)

Source = Annotated[
    str,
    Parameter(
        group=CORPUS,
        help="JSONL, JSON, CSV, TSV, Parquet, a folder of .txt/.md files, a saved `datasets` "
        "folder or a `datasets` name.",
    ),
]
Searched = Annotated[
    str,
    Parameter(
        group=CORPUS,
        help="What `encode` wrote with the same encoder, or documents, which are encoded for this "
        "one query: JSONL, JSON, CSV, ... as of `encode`.",
    ),
]
Json = Annotated[bool, Parameter(name="--json", negative="", help="The result as JSON on stdout.")]


def in_a_folder(_: object, path: Path | None) -> None:
    """Told before the work rather than after it."""
    if path and not path.absolute().parent.is_dir():
        raise ValueError(f"There is no folder {path.parent}.")


def to_be_made(_: object, folder: Path) -> None:
    """A new or empty folder, below folders alone."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        found = "a file" if folder.is_file() else "not empty"
        raise ValueError(f"{folder} is {found}: name a new folder.")
    for above in folder.absolute().parents:
        if above.is_file():
            raise ValueError(f"{folder} cannot be: {above} is a file. Name a new folder.")


NewFolder = Annotated[Path, Parameter(validator=to_be_made, help="The new folder.")]
Out = Annotated[
    Path,
    Parameter(
        validator=(validators.Path(dir_okay=False, ext="parquet"), in_a_folder),
        help="The Parquet file to write.",
    ),
]
Overwrite = Annotated[bool, Parameter(negative="", help="Replace the file that is there.")]
Picture = Annotated[
    Path | None,
    Parameter(
        validator=(validators.Path(dir_okay=False, ext=("png", "svg")), in_a_folder),
        help="A .png or .svg file for the drawing.",
    ),
]
Index = Annotated[Path, Parameter(help="A Parquet file of `encode --by sentence`.")]
Top = Annotated[int, Parameter(validator=validators.Number(gte=1), help="Documents to show.")]
By = Annotated[
    Literal["document", "sentence"],
    Parameter(help="One vector a document (mean of its sentences) or one a sentence."),
]


@Parameter(name="*", group=CORPUS)
@dataclass(frozen=True)
class CorpusOptions:
    """How the source is read; what is left out has the default of `configs.CorpusConfig`."""

    text_column: Annotated[
        str | None, Parameter(help="Column of running text, to be split into sentences.")
    ] = None
    sentences_column: Annotated[str | None, Parameter(help="Column of ready sentence lists.")] = (
        None
    )
    id_column: Annotated[
        str | None, Parameter(help="Column of document ids; without it row numbers.")
    ] = None
    counterpart_column: Annotated[
        str | None,
        Parameter(
            help="Title, headline or query of each document: runs and `evaluate` look for it, and "
            "never train on it; `encode` keeps it, `search` shows it."
        ),
    ] = None
    split: Annotated[str | None, Parameter(help="Split of a `datasets` data set.")] = None
    encoding: Annotated[
        str | None, Parameter(help="Of text files, never guessed. Default: utf-8.")
    ] = None
    splitter: Annotated[
        Splitter | None,
        Parameter(
            help="How text is cut; regex is 30 times faster and cruder; none: every text is one "
            "sentence. Default: syntok."
        ),
    ] = None
    on_duplicate: Annotated[
        OnDuplicate | None,
        Parameter(help="What a repeated document id means. Default: keep-first."),
    ] = None

    def given(self) -> dict[str, str]:
        """The options that were named, by field."""
        return {name: value for name, value in asdict(self).items() if value is not None}


DEFAULTS = CorpusOptions()
