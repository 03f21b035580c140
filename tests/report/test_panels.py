"""Pages of panels: what benchmarks and experiments show in a browser."""

from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from sentemb_core.report.drawing import Drawing
from sentemb_core.report.page import Panel, write_panels

TABLE = Panel("Numbers", ["One note."], head=["", "a"], rows=[["x", "1"]], caption="All of them")


def written(folder: Path, *panels: Panel) -> str:
    return write_panels("A <title>", "A page", panels, folder).read_text(encoding="utf-8")


def test_every_panel_is_a_chapter_that_the_contents_link_to(tmp_path: Path):
    page = written(tmp_path, TABLE, Panel("Words", ["Two", "notes"]))
    for number, title in ((1, "Numbers"), (2, "Words")):
        assert f'<a href="#panel-{number}">{title}</a>' in page
        assert f'<h2 id="panel-{number}">{title}</h2>' in page
    assert page.count("<table") == 1


def test_text_is_never_markup(tmp_path: Path):
    page = written(tmp_path, Panel("<b>", ["<script>alert(1)</script>"], head=["<i>"]))
    assert "<script" not in page
    assert "<b>" not in page
    assert "A &lt;title&gt;" in page


def test_a_figure_is_inside_the_page_with_its_caption_and_its_size(tmp_path: Path):
    figure = Figure(figsize=(5, 2))
    figure.subplots().plot([1, 2])
    drawing = Drawing("curve", "It rises", figure)
    page = written(tmp_path, Panel("Curve", drawing=drawing, reading="A dot is a <seed>."))
    assert 'aria-label="It rises"' in page
    assert "<img" not in page
    assert "<figcaption>A dot is a &lt;seed&gt;.</figcaption>" in page
    assert "max-width: 5in; min-width: 3in" in page
    assert "<figcaption>" not in written(tmp_path, Panel("Curve", drawing=drawing))


def test_a_legend_explains_the_titles(tmp_path: Path):
    page = written(tmp_path, replace(TABLE, legend={"x": "how many < all"}))
    assert "<dt>x</dt><dd>how many &lt; all</dd>" in page
    assert "<dl" not in written(tmp_path, TABLE)


def test_a_command_is_shown_as_code(tmp_path: Path):
    page = written(tmp_path, Panel("Again", command="python -m flows reproduce mutual.t1"))
    code = "<code>python -m flows reproduce mutual.t1</code>"
    assert f'<pre class="scroll" tabindex="0">{code}</pre>' in page


def test_equal_panels_give_equal_bytes(tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert written(tmp_path / "one", TABLE) == written(tmp_path / "two", TABLE)
