"""What all figures share: palette, matplotlib settings, labels, and a figure as SVG and as PNG.

There is no pyplot, so no global list of figures. Matplotlib is imported when something is drawn.
Colours are those of PALETTE. Inside a page they become the page's own variables, so that a figure
follows the reader's light or dark mode.
"""

import io
import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from markupsafe import Markup, escape

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
"""After Okabe and Ito (2008): colour-blind readers can distinguish them, and shapes differ too."""

HUES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, OLIVE, ROSE)
MARKERS = "osD^vPX"
"""One fewer than the hues: hue and marker together give 56 looks before one is repeated."""

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

_SVG_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}  # equal bytes
_LEFT_OUT = re.compile(
    r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>|<defs>\s*</defs>", re.DOTALL
)
_TAG = re.compile(r"<[^>]*>")
_VARIABLES = {colour: f"var(--{name})" for name, colour in PALETTE.items()}


@contextmanager
def house_style() -> Generator[None]:
    """Make and save figures with these settings, independent of the machine's matplotlibrc."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        yield


@dataclass(frozen=True)
class Drawing:
    """A figure of matplotlib, the name of its file, and the text for readers who do not see it."""

    name: str
    alt: str
    figure: Any


@dataclass(frozen=True)
class StoredDrawing:
    """A drawing that was made earlier, as the element of a page."""

    name: str
    alt: str
    svg: Markup


@cache
def _glyphs() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())


def lacks_letters(texts: Iterable[str]) -> bool:
    """Whether the figures' font lacks a letter of these texts; figures then show `?`."""
    return any(ord(c) not in _glyphs() for text in texts for c in "".join(text.split()))


def drawable(label: str, longest: int = LONGEST_LABEL) -> str:
    """The label on one short line, with `?` for letters that the figures' font lacks."""
    line = " ".join(label.split())
    short = line if len(line) <= longest else line[: longest - 3] + "..."
    return "".join(c if ord(c) in _glyphs() else "?" for c in short)


def inline_svg(drawing: Drawing | StoredDrawing) -> Markup:
    """The figure as an `<svg>` element without a width, so that it fills its place in a page.

    Colours become variables of the style sheet and fonts are inherited. Ids begin with the
    drawing's name, because two figures of a page must not share clip paths. No address is named.
    """
    if isinstance(drawing, StoredDrawing):
        return drawing.svg
    buffer = io.StringIO()
    with house_style():
        _lay_out(drawing.figure)
        drawing.figure.savefig(buffer, format="svg", transparent=True, metadata=_SVG_METADATA)
    svg = buffer.getvalue()
    svg = _LEFT_OUT.sub("", svg[svg.index("<svg") :])
    svg = _TAG.sub(lambda tag: _restyled(tag[0], drawing.name), svg)
    box = re.search(r'viewBox="[^"]*"', svg)
    inside = svg[svg.index(">") + 1 :]
    alt = escape(drawing.alt)
    return Markup(f'<svg {box[0] if box else ""} role="img" aria-label="{alt}">{inside}')


def _lay_out(figure: Any) -> None:
    """Place the parts of a figure once: each `savefig` would draw it another time for that."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def _restyled(tag: str, name: str) -> str:
    """One tag with the page's ids, colours and font; text between tags is never changed."""
    tag = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-", tag.replace("xlink:", ""))
    tag = re.sub(r"#[0-9a-f]{6}\b", lambda colour: _VARIABLES.get(colour[0], colour[0]), tag)
    return re.sub(r"'DejaVu Sans'[^;\"]*", "var(--font)", tag)


def png(figure: Any) -> bytes:
    """The figure as a PNG on white, 150 dots an inch."""
    buffer = io.BytesIO()
    with house_style():
        _lay_out(figure)
        figure.savefig(
            buffer, format="png", dpi=150, facecolor="white", metadata={"Software": None}
        )
    return buffer.getvalue()
