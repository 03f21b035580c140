"""One self-contained page: no script, no address it loads from, light and dark, wide and narrow."""

from pathlib import Path

from sentemb_core.report.data import RunReport
from sentemb_core.report.markup import Html, join, quoted, tag
from sentemb_core.report.sections import CHAPTERS, Drawings

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
_STYLES = Path(__file__).with_name("styles.css")


def page(report: RunReport, drawings: Drawings) -> Html:
    """The whole HTML document; `drawings` are the report's own (figures.draw)."""
    chapters = [
        tag("section", tag("h2", title, id=anchor), content(report, drawings), class_="chapter")
        for anchor, (title, content) in CHAPTERS.items()
    ]
    body = tag(
        "body",
        tag("a", "To the content", href="#content", class_="skip"),
        tag("header", tag("h1", quoted(report.title)), tag("p", "Run report of sentemb")),
        _contents(),
        tag("main", *chapters, id="content"),
    )
    whole = tag("html", _head(report.title), body, lang="en")
    return join([Html("<!doctype html>\n"), whole, "\n"])


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


def _contents() -> Html:
    links = [
        tag("li", tag("a", title, href=f"#{anchor}")) for anchor, (title, _) in CHAPTERS.items()
    ]
    return tag("nav", tag("ol", *links), aria_label="Contents")
