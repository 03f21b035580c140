"""The report in a real browser, from disk, light and dark, wide and narrow."""

import numpy as np
import pytest

from tests.browser import needs_browser, shown
from tests.report.conftest import write_whole

pytestmark = [needs_browser, pytest.mark.slow]

WIDTHS = {"wide": 1400, "narrow": 420}


@pytest.fixture(scope="module")
def written(report, tmp_path_factory):
    return write_whole(report, tmp_path_factory.mktemp("report"))


def test_a_link_opens_a_folded_chapter(retrieving, tmp_path):
    """Where the chapter is folded, its figures are not drawn."""
    page = write_whole(retrieving, tmp_path / "report").as_uri()
    seen = []
    for anchor in ("", "#training"):
        folder = tmp_path / f"look{anchor[1:]}"
        folder.mkdir()
        seen.append(shown(f"{page}{anchor}", folder, width=420, height=3_000))
    folded, opened = seen
    assert folded.console == opened.console == []
    assert opened.colours > folded.colours


@pytest.fixture(scope="module", params=["light", "dark"])
def theme(request):
    return request.param


@pytest.fixture(scope="module", params=WIDTHS)
def view(request, theme, written, tmp_path_factory):
    size = {"width": WIDTHS[request.param], "height": 3_000}
    return shown(written.as_uri(), tmp_path_factory.mktemp("look"), theme=theme, **size)


def test_the_page_has_the_readers_colours_and_no_errors(view, theme):
    assert view.console == []
    assert view.requests == []
    assert view.colours > 200, "text, badges and figures"
    bright = view.background.mean()
    assert bright > 0.9 if theme == "light" else bright < 0.2
    rows = (view.picture != view.background).any(axis=(1, 2))
    assert rows.mean() > 0.5, "most lines of the page show something"


def test_nothing_overflows_the_right_edge(view):
    assert np.all(view.picture[:, -8:] == view.background)


def test_figures_take_the_colours_of_the_theme(written, tmp_path):
    """The same blue bars, lighter on dark paper: no figure is a picture on white."""
    views = []
    for theme in ("light", "dark"):
        folder = tmp_path / theme
        folder.mkdir()
        views.append(shown(f"{written.as_uri()}#clusters", folder, theme=theme))
    light, dark = (view.picture.reshape(-1, 3) for view in views)
    assert (light > 0.95).all(axis=1).mean() > 0.5
    assert (dark > 0.95).all(axis=1).mean() < 0.01


def test_loads_and_errors_of_a_page_are_noticed(tmp_path):
    """The instruments themselves: what the other tests find absent can be seen."""
    page = tmp_path / "page.html"
    page.write_text(
        '<img src="http://127.0.0.1:9/x.png"><script>console.error("it hurts")</script>'
    )
    found = shown(page.as_uri(), tmp_path, width=300, height=200)
    assert found.requests == ["http://127.0.0.1:9/x.png"]
    assert any("it hurts" in line for line in found.console)


def test_a_blank_page_has_one_colour(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<p></p>")
    assert shown(page.as_uri(), tmp_path, width=300, height=200).colours == 1
