"""Reader of a folder of .txt and .md files: one row a file, with the front matter as columns."""

import logging
from collections.abc import Iterator
from pathlib import Path

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.checks import BadRow
from sentemb_core.corpus.columns import Row, listed
from sentemb_core.corpus.markup import front_matter, heading, plain_text
from sentemb_core.corpus.source import BOM, ROW_BYTES, passed_over, require_encoding, text_files
from sentemb_core.errors import MissingColumnError
from sentemb_core.formats import counted

log = logging.getLogger(__name__)

HEADING = "heading"
"""Column of the first heading of a Markdown file; a key of its front matter wins."""


def folder_rows(config: CorpusConfig) -> Iterator[Row | BadRow]:
    """Yield one row a .txt or .md file; its id is the path inside the folder.

    `id_column` and `counterpart_column` may name a key of the front matter of Markdown, or
    `heading`. Other files are counted in a warning.

    Raises:
        MissingColumnError: E104, a column of texts is named, or no file has a named key.
    """
    require_encoding(config.encoding)
    folder = Path(config.source)
    _require_keys(config, folder)
    for number, path in enumerate(text_files(folder)):
        where = path.relative_to(folder).as_posix()
        if path.stat().st_size > ROW_BYTES:
            yield BadRow(where, number, "over-long", f"{path.stat().st_size} bytes")
            continue
        data = path.read_bytes()
        try:
            text = data.decode(config.encoding).removeprefix(BOM)
        except UnicodeDecodeError as error:
            yield BadRow(f"{where}, byte {error.start}", number, "encoding", data[error.start :])
        else:
            named = config.id_column or config.counterpart_column
            columns = _columns(path, text) if named else {}
            doc_id = columns.get(config.id_column or "", where)
            counterpart = columns.get(config.counterpart_column or "")
            text = plain_text(text) if _is_markdown(path) else text
            yield Row(where, number, doc_id, text, None, counterpart)
    if others := passed_over(folder):
        each = ", ".join(f"{count:,} {ending}" for ending, count in others.most_common(5))
        log.warning(
            "%s of %s not read, since a folder of texts has .txt and .md: %s. Convert them, or "
            "name a table by itself.",
            counted(sum(others.values()), "file"), folder, each,
        )  # fmt: skip


def _is_markdown(path: Path) -> bool:
    return path.suffix.lower() == ".md"


def _columns(path: Path, text: str) -> dict[str, str]:
    """Return the keys of the front matter of a Markdown file, and its first heading."""
    if not _is_markdown(path):
        return {}
    title = heading(text)
    return ({HEADING: title} if title else {}) | front_matter(text)


def _require_keys(config: CorpusConfig, folder: Path) -> None:
    if config.text_column or config.sentences_column:
        raise MissingColumnError(
            f"A folder of text files has no columns of texts; an option names one for {folder}. "
            "Leave the option out (as --text-column; --id-column has keys), or name a table."
        )
    absent = {config.id_column, config.counterpart_column} - {None}
    found: dict[str, None] = {}
    for path in text_files(folder) if absent else ():
        if _is_markdown(path) and path.stat().st_size <= ROW_BYTES:
            found |= dict.fromkeys(
                _columns(path, path.read_bytes().decode(config.encoding, "replace"))
            )
        if not absent - found.keys():
            return
    if absent:
        raise MissingColumnError(
            f"Columns of a folder are keys of the front matter of its .md files, and {HEADING!r}; "
            f"{folder} has {listed(list(found))}, not {min(map(str, absent - found.keys()))!r}. "
            "Leave the option out (--id-column, --counterpart-column), or name a table."
        )
