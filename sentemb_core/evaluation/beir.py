"""The files of a BEIR folder (Thakur et al. 2021): corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv.

One bad row refuses the folder: a quarantine would change the pool, and with it every number.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sentemb_core.errors import BadDataError, UnreadableSourceError
from sentemb_core.evaluation.judgements import LARGEST_GRADE, Judgement


class Text(NamedTuple):
    """A document or a query; a query's title is empty."""

    key: str
    title: str
    text: str


def beir_texts(folder: Path, name: str) -> Iterator[Text]:
    """Documents (`corpus.jsonl`) or queries (`queries.jsonl`): _id, text and perhaps title.

    Raises:
        UnreadableSourceError: E103, the file is not there.
        BadDataError: E100, a row that is none, with its line.
    """
    for where, line in _lines(folder, name):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _bad_row(where, "a JSON object", line) from error
        if not isinstance(row, dict):
            raise _bad_row(where, "a JSON object", line)
        yield _text(where, row)


def beir_judgements(folder: Path, split: str) -> Iterator[Judgement]:
    """Rows of qrels/SPLIT.tsv: query id, document id, grade.

    A first line that does not end in a number is a header, and left out.

    Raises:
        UnreadableSourceError: E103, the file is not there.
        BadDataError: E100, a row that is none, with its line.
    """
    for number, (where, line) in enumerate(_lines(folder, f"qrels/{split}.tsv")):
        cells = line.split("\t")
        if number == 0 and not _is_read_by(float, cells[-1]):
            continue
        if len(cells) != 3 or not _is_grade(cells[2]):
            told = "query id, document id and a whole grade (of 32 bits) between tabs"
            raise _bad_row(where, told, line)
        yield Judgement(cells[0], cells[1], int(cells[2]))


def _lines(folder: Path, name: str) -> Iterator[tuple[str, str]]:
    """Place and text of every line that is not blank."""
    path = folder / name
    if not path.is_file():
        splits = sorted(found.stem for found in folder.glob("qrels/*.tsv"))
        raise UnreadableSourceError(
            "A BEIR folder has corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv; there is no "
            f"{path}. Splits found: {', '.join(splits) or 'none'}."
        )
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            where = f"{path}, line {number}"
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise _bad_row(where, "UTF-8", repr(line)) from error
            if text.strip():
                yield where, text


def _text(where: str, row: dict[str, Any]) -> Text:
    key, title, text = row.get("_id"), row.get("title") or "", row.get("text")
    if isinstance(key, bool) or not isinstance(key, str | int) or key == "":
        raise _bad_row(where, "an _id that is text or a whole number", str(row))
    if not isinstance(title, str) or not isinstance(text, str):
        raise _bad_row(where, "a text, and a title that is text where there is one", str(row))
    try:
        f"{key}{title}{text}".encode()
    except UnicodeEncodeError as error:
        raise _bad_row(where, "text without lone surrogates", ascii(row)) from error
    return Text(str(key), title, text)


def _is_grade(cell: str) -> bool:
    return _is_read_by(int, cell) and abs(int(cell)) <= LARGEST_GRADE


def _is_read_by(number: type[int] | type[float], cell: str) -> bool:
    try:
        number(cell)
    except ValueError:
        return False
    return True


def _bad_row(where: str, expected: str, found: str) -> BadDataError:
    return BadDataError(
        f"A row holds {expected}; {where} has {found[:80]!r}. Repair the row, or fetch the file "
        "again."
    )
