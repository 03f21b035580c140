"""A matplotlib figure as markup inside the page, in the page's own colours and font."""

import io
import re

from matplotlib.figure import Figure

from sentemb_core.report.drawing import PALETTE, house_style
from sentemb_core.report.markup import Html, escaped

_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}  # no clock, no versions
_LEFT_OUT = re.compile(
    r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>|<defs>\s*</defs>", re.DOTALL
)
_TAG = re.compile(r"<[^>]*>")
_VARIABLES = {colour: f"var(--{name})" for name, colour in PALETTE.items()}


def inline_svg(figure: Figure, name: str, alt: str) -> Html:
    """The figure as an `<svg>` element without width, so that it fills its place.

    Colours become the variables of the style sheet, fonts are inherited, ids start with `name`
    (two figures of one page would share clip paths otherwise), and nothing names another address.
    """
    buffer = io.StringIO()
    with house_style():
        figure.savefig(buffer, format="svg", transparent=True, metadata=_METADATA)
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = _LEFT_OUT.sub("", drawing)
    drawing = _TAG.sub(lambda found: _of_the_page(found[0], name), drawing)
    box = re.search(r'viewBox="[^"]*"', drawing)
    inside = drawing[drawing.index(">") + 1 :]
    return Html(f'<svg {box[0] if box else ""} role="img" aria-label="{escaped(alt)}">{inside}')


def _of_the_page(tag: str, name: str) -> str:
    """One tag with the page's ids, colours and font; the words between tags stay as they are."""
    tag = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-", tag.replace("xlink:", ""))
    tag = re.sub(r"#[0-9a-f]{6}\b", lambda hit: _VARIABLES.get(hit[0], hit[0]), tag)
    return re.sub(r"'DejaVu Sans'[^;\"]*", "var(--font)", tag)


def png(figure: Figure) -> bytes:
    """The figure as a picture on white, 150 dots an inch."""
    buffer = io.BytesIO()
    with house_style():
        figure.savefig(
            buffer, format="png", dpi=150, facecolor="white", metadata={"Software": None}
        )
    return buffer.getvalue()
