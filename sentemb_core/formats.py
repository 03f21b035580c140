"""Numbers as text, a dash for a missing value; and similar names."""

from collections.abc import Iterable
from difflib import get_close_matches

ABSENT = "\N{EN DASH}"


def decimal(value: float | None, places: int = 3) -> str:
    """0.8137 as 0.814."""
    return ABSENT if value is None else f"{value:.{places}f}".replace("-", "\N{MINUS SIGN}")


def percent(value: float | None) -> str:
    """0.2134 as 21 %, small shares with one decimal."""
    if value is None:
        return ABSENT
    return f"{100 * value:.{1 if 0 < value < 0.1 else 0}f} %"


def count(value: int | None) -> str:
    """12345 as 12,345."""
    return ABSENT if value is None else f"{value:,}"


def in_words(name: str) -> str:
    """soft_whitening as soft whitening."""
    return name.replace("_", " ")


def counted(number: int, noun: str) -> str:
    """1 vector, 2,000 vectors, 3 queries."""
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else many}"


def size(bytes_: float | int) -> str:
    """Bytes as 12 bytes, 1.5 kB, 13.8 MB or 43.3 GB."""
    value, unit, units = bytes_, "bytes", iter(("kB", "MB", "GB"))
    while value >= 999.95 and unit != "GB":
        value, unit = value / 1000, next(units)
    return f"{value:,.0f} bytes" if unit == "bytes" else f"{value:,.1f} {unit}"


def are(number: int) -> str:
    """The verb for a number of things."""
    return "is" if number == 1 else "are"


def duration(seconds: float | None) -> str:
    """Seconds as 0.42 s, 12.3 s, 3 min 20 s or 2 h 05 min."""
    if seconds is None:
        return ABSENT
    if seconds < 59.95:
        return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"
    if seconds < 3599.5:
        return "{} min {:02d} s".format(*divmod(round(seconds), 60))
    return "{} h {:02d} min".format(*divmod(round(seconds / 60), 60))


def change(value: float) -> str:
    """A signed difference: +0.057."""
    return ("+" if value >= 0 else "") + decimal(value)


def with_interval(low: float, mean: float, high: float) -> str:
    """A difference and its 95 % interval."""
    return f"{change(mean)} ({change(low)} to {change(high)} with 95 % confidence)"


def letters(index: int) -> str:
    """0 as A, 25 as Z, 26 as AA: the name of a cluster."""
    first, last = divmod(index, 26)
    return (letters(first - 1) if first else "") + chr(ord("A") + last)


def nearest(name: str, known: Iterable[str]) -> str:
    """End of a message about an unknown name: the most similar known name, or all of them."""
    own = {other.lower(): other for other in known}
    close = get_close_matches(name.lower(), own, n=1)
    return f"; {did_you_mean(own[close[0]])}" if close else f"; known: {', '.join(own.values())}"


def did_you_mean(*names: str) -> str:
    """A question with the quoted names."""
    return f"did you mean {' or '.join(map(repr, names))}?"
