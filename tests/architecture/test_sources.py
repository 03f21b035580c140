"""Cited errata exist."""

import re

from tests.repository import ROOT, repository_texts


def test_every_cited_erratum_has_a_row():
    page = (ROOT / "docs/errata.md").read_text("utf-8")
    rows = re.findall(r"^\| (E\d+) \|", page, re.MULTILINE)
    cited = {
        match[1]
        for text in repository_texts()
        for match in re.finditer(r"\b[Ee]rratum[\s\"'#]+(E\d+)", text)
    }
    assert len(rows) == len(set(rows))
    assert len(cited) > 5
    assert cited <= set(rows)
    files = set(re.findall(r"`([\w/]+\.py)`", page))
    assert [name for name in files if not (ROOT / name).is_file()] == []
