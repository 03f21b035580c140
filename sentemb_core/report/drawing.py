"""What all pictures share: palette and signs, their settings, labels that can be drawn.

No pyplot, so no global figure list; colours are the names of PALETTE, which the page replaces by
its own variables so that a figure follows the reader's light or dark mode (svg.py).
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font

INK, MUTED, RULE = "#1c2329", "#5b6670", "#d9dee2"
BLUE, VERMILLION, GREEN, ORANGE = "#0072b2", "#d55e00", "#009e73", "#e69f00"
PURPLE, SKY, OLIVE, ROSE = "#8f5fa8", "#56b4e9", "#7a7a1f", "#cc79a7"
PALETTE = {
    "ink": INK,
    "muted": MUTED,
    "rule": RULE,
    "blue": BLUE,
    "vermillion": VERMILLION,
    "green": GREEN,
    "orange": ORANGE,
    "purple": PURPLE,
    "sky": SKY,
    "olive": OLIVE,
    "rose": ROSE,
}
"""After Okabe and Ito (2008), told apart by the colour-blind; shapes and lines differ as well."""

HUES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, OLIVE, ROSE)
MARKERS = "osD^vPX"
"""One fewer than the hues: beside each other they give 56 looks before one comes again."""

LONGEST_LABEL = 32

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "sentemb",
}


@contextmanager
def house_style() -> Generator[None]:
    """Figures are made and saved under these settings, whatever the machine's matplotlibrc says."""
    with mpl.rc_context(STYLE):
        yield


@dataclass(frozen=True)
class Drawing:
    """A figure with the name of its file and the words for those who do not see it."""

    name: str
    alt: str
    figure: Figure


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())


def lacks_letters(texts: Iterable[str]) -> bool:
    """Whether figures show `?` for letters of these."""
    return any(ord(c) not in _glyphs() for text in texts for c in "".join(text.split()))


def drawable(label: str, longest: int = LONGEST_LABEL) -> str:
    """The label on one short line, `?` for what the figures' font lacks; tables have it whole."""
    line = " ".join(label.split())
    short = line if len(line) <= longest else line[: longest - 3] + "..."
    return "".join(c if ord(c) in _glyphs() else "?" for c in short)
