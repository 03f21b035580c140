"""A table as text: a cell of several seeds, and rows for the terminal and for a document."""

from collections.abc import Collection, Iterable, Sequence
from statistics import mean, stdev
from typing import TYPE_CHECKING

from sentemb_core.console import plain

if TYPE_CHECKING:
    from rich.table import Table


def across(values: Sequence[float], digits: int = 3) -> str:
    """The mean, and the standard deviation where there are several."""
    if not values:
        return ""
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"


def terminal_table(
    head: Iterable[str],
    rows: Iterable[Iterable[str]] = (),
    numbers: Collection[int] = (),
    *,
    folded: bool = False,
    title: str = "",
    caption: str = "",
) -> "Table":
    """The columns of numbers on the right; a bracket in a text is no markup.

    `folded`: a word that is too long for its column goes on below, for a person may copy it;
    else it is cut.
    """
    from rich.table import Table

    overflow = "fold" if folded else "ellipsis"
    table = Table(box=None, title=plain(title), caption=plain(caption), caption_justify="left")
    for place, name in enumerate(head):
        justify = "right" if place in numbers else "left"
        table.add_column(plain(name), justify=justify, overflow=overflow)
    for row in rows:
        table.add_row(*map(plain, row))
    return table


def markdown_table(
    head: Sequence[str], rows: Iterable[Iterable[str]] = (), numbers: Collection[int] = ()
) -> str:
    """The columns of numbers on the right."""
    rule = ["---:" if place in numbers else "---" for place in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))
