"""Options that several commands of both command lines share."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter, validators

from sentemb_core.types import OnDuplicate, Splitter

CORPUS = Group("Your corpus", sort_key=1)
AtLeastOne = validators.Number(gte=1)
NotNegative = validators.Number(gte=0)

Source = Annotated[
    str,
    Parameter(
        group=CORPUS,
        help="JSONL, JSON, CSV, TSV, Parquet, a folder of .txt/.md files, a saved `datasets` "
        "folder or a `datasets` name.",
    ),
]
Searched = Annotated[
    str | None,
    Parameter(
        group=CORPUS,
        help="An index that `index` or `encode` wrote with the same model; or documents (as in "
        "`encode`), which are encoded for this call.",
    ),
]
Query = Annotated[str, Parameter(help="Text to search for. Left out with --queries.")]
Queries = Annotated[Path | None, Parameter(help="File with a query in each line.")]
Among = Annotated[
    Path | None,
    Parameter(help="File with a document id in each line: the only documents to search."),
]
Parts = Annotated[
    Literal["hybrid", "dense", "words"],
    Parameter(
        name="--by",
        help="Parts of the retriever that score: all, all without words, or words alone.",
    ),
]
IndexFolder = Annotated[
    Path, Parameter(help="Folder of the index: new, or with --update one that exists.")
]
Update = Annotated[
    bool,
    Parameter(
        help="Encode new and changed documents alone, and drop those that SOURCE no longer has."
    ),
]
NoTexts = Annotated[bool, Parameter(help="Store no text of the documents: hits show no sentence.")]
Json = Annotated[bool, Parameter(name="--json", help="Print the result as JSON.")]


def in_a_folder(_: object, path: Path | None) -> None:
    """Refuse a path whose folder does not exist."""
    if path and not path.absolute().parent.is_dir():
        raise ValueError(
            f"There is no folder {path.parent}. Make it first, or name a path in another folder."
        )


def is_new(_: object, folder: Path) -> None:
    """Refuse a path that cannot become a folder, or a folder that is not empty."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        found = "a file" if folder.is_file() else "not empty"
        raise ValueError(f"{folder} is {found}. Name a new folder.")
    for above in folder.absolute().parents:
        if above.is_file():
            raise ValueError(f"{above} is a file. Name a new folder.")


NewFolder = Annotated[Path, Parameter(validator=is_new, help="New folder.")]
Out = Annotated[
    Path,
    Parameter(
        validator=(validators.Path(dir_okay=False, ext="parquet"), in_a_folder),
        help="Parquet file to write.",
    ),
]
Overwrite = Annotated[bool, Parameter(help="Replace an existing file.")]
Picture = Annotated[
    Path | None,
    Parameter(
        validator=(validators.Path(dir_okay=False, ext=("png", "svg")), in_a_folder),
        help="File for the drawing (.png or .svg).",
    ),
]
Index = Annotated[Path, Parameter(help="Parquet file of `encode --by sentence`.")]
Top = Annotated[int, Parameter(validator=AtLeastOne, help="Number of documents to show.")]
Candidates = Annotated[
    int, Parameter(validator=validators.Number(gte=2), help="Documents in the validation pool.")
]
By = Annotated[
    Literal["document", "sentence"],
    Parameter(help="One vector per document (mean of its sentences), or per sentence."),
]


@Parameter(name="*", group=CORPUS)
@dataclass(frozen=True)
class CorpusOptions:
    """How to read the source. Defaults: `config.run.CorpusConfig`."""

    text_column: str | None = None
    """Column of text, to be split into sentences."""
    sentences_column: str | None = None
    """Column of lists of sentences."""
    id_column: str | None = None
    """Column of document ids. Default: row numbers."""
    counterpart_column: str | None = None
    """Column with the title, headline or query of each document: the text that validation
    retrieves. Never trained on. `encode` stores it, `search` shows it."""
    split: str | None = None
    """Split of a `datasets` data set."""
    encoding: str | None = None
    """Encoding of text files; never guessed. Default: utf-8."""
    strip_html: bool | None = None
    """Remove HTML from texts and counterparts: tags, scripts, comments, and escapes."""
    splitter: Splitter | None = None
    """Sentence splitter. regex: 30 times faster, less accurate. none: every text is one sentence.
    words: parts of at most 8 words. Default: syntok; a run in rounds on texts of one sentence
    takes words."""
    on_duplicate: OnDuplicate | None = None
    """What to do with a repeated document id. Default: keep-first."""

    def given(self) -> dict[str, str | bool]:
        """Given options, by field."""
        return {name: value for name, value in asdict(self).items() if value is not None}


DEFAULTS = CorpusOptions()
