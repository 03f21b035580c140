"""What chapters are made of: figures over a line, tables over their legend, an encoder's name."""

from collections.abc import Iterable, Mapping, Sequence

from sentemb_core.report.data import FixedRow, RoundRow, RunReport
from sentemb_core.report.drawing import Drawing
from sentemb_core.report.legends import Legend
from sentemb_core.report.markup import Html, join, legend, quoted, table, tag
from sentemb_core.report.svg import inline_svg

Drawings = Mapping[str, Sequence[Drawing]]


def panel(drawings: Sequence[Drawing], caption: str) -> Html:
    """A grid of figures over one sentence that says how to read them; nothing for no figure."""
    if not drawings:
        return Html("")
    pictures = [inline_svg(drawing.figure, drawing.name, drawing.alt) for drawing in drawings]
    kind = "grid alone" if len(drawings) == 1 else "grid"
    return tag(
        "figure", tag("div", *pictures, class_=kind), tag("figcaption", caption), class_="panel"
    )


def drawn(drawings: Drawings, name: str, caption: str, *, absent: str) -> Html:
    """A chapter that is one panel, or says why there is none."""
    return panel(drawings.get(name, ()), caption) or nothing_to_show(absent)


def explained(
    caption: str, columns: Legend, rows: Iterable[Sequence[str]], *, numeric: bool = True
) -> Html:
    """A table whose columns are those of its legend, and the legend below."""
    return join([table(caption, [*columns], rows, numeric=numeric), legend(columns)])


def footnote(sentence: str) -> Html:
    return tag("p", sentence, class_="caption")


def nothing_to_show(reason: str) -> Html:
    return tag("p", reason, class_="absent")


def pairs_share_a_cluster(report: RunReport) -> bool:
    """Whether every annotation took the pairs of its clusters, not edges alone or others, too."""
    return all(row.positives == "cluster" for row in report.rounds)


def named(row: FixedRow | RoundRow) -> Html:
    return tag("span", quoted(row.label), badge(row))


def badge(row: FixedRow | RoundRow) -> Html:
    best = isinstance(row, RoundRow) and row.best
    return join([" ", tag("span", "best", class_="badge")]) if best else Html("")
