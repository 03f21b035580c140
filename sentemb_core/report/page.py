"""One self-contained page: no script, no address it loads from, light and dark, wide and narrow."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sentemb_core.report.chapters.index import CHAPTERS
from sentemb_core.report.chapters.parts import Drawings
from sentemb_core.report.data import RunReport
from sentemb_core.report.markup import Html, join, quoted, tag

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
_STYLES = Path(__file__).with_name("styles.css")


class Chapter(NamedTuple):
    """A part of a page, which the contents link to by its anchor."""

    anchor: str
    title: str
    content: Html


def page(report: RunReport, drawings: Drawings) -> Html:
    """A run's page; `drawings` are the report's own (`figures.index.draw`)."""
    chapters = [
        Chapter(anchor, title, content(report, drawings))
        for anchor, (title, content) in CHAPTERS.items()
    ]
    return document(report.title, "Run report of sentemb", chapters)


def document(title: str, kind: str, chapters: Sequence[Chapter]) -> Html:
    """The whole HTML document: its title, what kind of page it is, and its chapters in order."""
    body = tag(
        "body",
        tag("a", "To the content", href="#content", class_="skip"),
        tag("header", tag("h1", quoted(title)), tag("p", kind)),
        _contents(chapters),
        tag("main", *map(_section, chapters), id="content"),
    )
    whole = tag("html", _head(title), body, lang="en")
    return join([Html("<!doctype html>\n"), whole, "\n"])


def _section(chapter: Chapter) -> Html:
    heading = tag("h2", chapter.title, id=chapter.anchor)
    return tag("section", heading, chapter.content, class_="chapter")


def _head(title: str) -> Html:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(_STYLES.read_text(encoding="utf-8"))),
    )


def _contents(chapters: Sequence[Chapter]) -> Html:
    links = [tag("li", tag("a", one.title, href=f"#{one.anchor}")) for one in chapters]
    return tag("nav", tag("ol", *links), aria_label="Contents")
