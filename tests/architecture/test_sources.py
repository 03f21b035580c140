"""Sources are papers, codes and pages of this repository: what a reader of it can look up."""

import re
from collections.abc import Iterator

from tests.repository import ROOT, repository_files

ERRATA = ROOT / "docs" / "errata.md"
ELSEWHERE = re.compile(
    r"\b[Cc]ards? \d+\.\d+"
    r"|\b(?:METHODS|EVALUATION|PERFORMANCE|RELIABILITY|OPERATIONS|HOUSE|DESIGN|USERS)"
    r"(?:\.md\b| [A-Z]?\.?\d)"
)
"""The specification that the first code was written from; it is not in the repository."""


def texts() -> Iterator[tuple[str, str]]:
    """Every text of the repository, by its path; line breaks, quotes and hashes are blanks."""
    for name in repository_files():
        try:
            text = (ROOT / name).read_text("utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        yield name.as_posix(), re.sub(r"[\s\"'#]+", " ", text)


def test_no_text_cites_what_its_reader_does_not_have():
    cited = [(name, found[0]) for name, text in texts() for found in ELSEWHERE.finditer(text)]
    assert cited == []


def test_every_erratum_that_is_cited_has_its_row():
    rows = re.findall(r"^\| (E\d+) \|", ERRATA.read_text("utf-8"), flags=re.MULTILINE)
    assert len(rows) == len(set(rows))
    cited = {found[1] for _, text in texts() for found in re.finditer(r"\b[Ee]rratum (E\d+)", text)}
    assert len(cited) > 5
    assert cited - set(rows) == set()


def test_the_errata_name_files_there_are():
    named = set(re.findall(r"`([\w/]+\.py)`", ERRATA.read_text("utf-8")))
    assert [name for name in named if not (ROOT / name).is_file()] == []
