"""A table in a document: a cell of several seeds, rows as Markdown, and the marks around them."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev

from sentemb_core.errors import UsageError
from sentemb_core.store.disk import replacing


def across(values: Sequence[float], digits: int = 3) -> str:
    """The mean, and the standard deviation where there are several."""
    if not values:
        return ""
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"


def markdown_table(
    head: Sequence[str], rows: Iterable[Iterable[str]] = (), numbers: Collection[int] = ()
) -> str:
    """The columns of numbers on the right."""
    rule = ["---:" if place in numbers else "---" for place in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def around_marks(file: Path, name: str) -> tuple[str, str]:
    """The text up to `<!-- NAME:begin -->` and the text from `<!-- NAME:end -->` on.

    Raises:
        UsageError: the file or one of the marks is not there.
    """
    begin, end = (f"<!-- {name}:{side} -->" for side in ("begin", "end"))
    old = file.read_text(encoding="utf-8") if file.is_file() else ""
    before, found, rest = old.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise UsageError(
            f"The table goes between the lines {begin} and {end}; {file} does not have them: "
            "write them where it shall stand."
        )
    return before + begin, end + after


def between_marks(file: Path, name: str) -> str:
    """What stands there now.

    Raises:
        UsageError: as `around_marks`.
    """
    before, after = around_marks(file, name)
    return file.read_text(encoding="utf-8")[len(before) : -len(after)]


def write_between_marks(file: Path, name: str, text: str) -> None:
    """Replace what stands between the marks."""
    before, after = around_marks(file, name)
    with replacing(file) as draft:
        draft.write_text(f"{before}\n{text}\n{after}", encoding="utf-8")
