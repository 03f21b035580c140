"""Markup that cannot forget to escape: a plain string is text, only `Html` passes as it is."""

import html
from collections.abc import Iterable, Mapping, Sequence

VOID = frozenset({"br", "meta"})


class Html(str):
    """Markup that is already safe."""

    __slots__ = ()


def escaped(text: str) -> Html:
    """The text as markup."""
    return text if isinstance(text, Html) else Html(html.escape(text))


def join(parts: Iterable[str]) -> Html:
    """All parts in a row, each escaped unless it is markup."""
    return Html("".join(escaped(part) for part in parts))


def tag(name: str, /, *children: str, **attributes: str | int) -> Html:
    """`tag("p", "a < b", class_="note")` as `<p class="note">a &lt; b</p>`."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
    )
    if name in VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(children)}</{name}>")


def quoted(text: str) -> Html:
    """A text of the corpus: its writing direction stays inside."""
    return tag("bdi", text)


def legend(lines: Mapping[str, str]) -> Html:
    """What the titles of columns or rows mean, a line each."""
    told = [tag("div", tag("dt", title), tag("dd", line)) for title, line in lines.items()]
    return tag("dl", *told, class_="legend")


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    groups: Sequence[tuple[str, int]] = (),
    numeric: bool = True,
) -> Html:
    """A table that scrolls inside its own box; the first column names the row.

    Args:
        caption: says what the rows are; also the name of the scrollable region.
        head: one title a column.
        rows: cells as text or markup, as many as `head`.
        groups: titles above the head with the columns each spans, all columns covered.
        numeric: right-align every column but the first.
    """
    above = [
        tag("th", title, scope="colgroup", colspan=span) if title else tag("td", colspan=span)
        for title, span in groups
    ]
    body = [
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:]))
        for row in rows
    ]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", tag("span", caption)),
            tag(
                "thead",
                *([tag("tr", *above)] if above else []),
                tag("tr", *(tag("th", title, scope="col") for title in head)),
            ),
            tag("tbody", *body),
            class_="numeric" if numeric else "texts",
        ),
        class_="scroll",
        role="region",
        tabindex=0,
        aria_label=caption,
    )
