"""The picture and the table of one document's clusters."""

import io
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from sentemb_core.annotation.pruning import Edges
from sentemb_core.report import graph as report_graph
from sentemb_core.report.graph import annotated_document, cluster_table, draw_document
from tests.networks import document_graph, graph_clusters, pruned

SENTENCES = ["The cat sat.", "A cat is [bold] here.", "Rates rose & fell <i>.", "$5 % of rates_x^2"]


def document(count: int = 4):
    vectors = np.random.default_rng(1).standard_normal((count, 6)).astype(np.float32)
    vectors[1], vectors[3] = vectors[0], vectors[2]
    graph = pruned(document_graph(vectors), 1)
    return graph, graph_clusters(graph)


@pytest.mark.parametrize("mutual", [False, True])
@pytest.mark.parametrize("count", [1, 2, 9, 40])
def test_the_graph_equals_the_networkx_definition(count: int, mutual: bool):
    vectors = np.random.default_rng(count).standard_normal((count, 6)).astype(np.float32)
    for top_k in (1, 3, 20):
        graph, labels = annotated_document(vectors, top_k, mutual=mutual)
        literal = pruned(document_graph(vectors), top_k, mutual=mutual)
        assert [*graph.nodes] == [*literal.nodes]
        assert [*graph.edges] == [*literal.edges]
        for i, j, weight in literal.edges(data="weight"):
            assert graph.edges[i, j]["weight"] == pytest.approx(weight, abs=1e-5)
        assert labels == graph_clusters(literal)


def test_a_long_document_needs_memory_for_its_edges_only():
    vectors = np.random.default_rng(0).standard_normal((3_000, 4)).astype(np.float32)
    tracemalloc.start()
    graph, _ = annotated_document(vectors, 1, mutual=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert graph.number_of_edges() < 3_000
    assert peak < 100 << 20, "all 4.5 million pairs take gigabytes"


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_equal_documents_give_equal_figures(tmp_path: Path, suffix: str):
    one, other = tmp_path / f"one{suffix}", tmp_path / f"other{suffix}"
    draw_document(*document(), SENTENCES, one)
    draw_document(*document(), SENTENCES, other)
    assert one.read_bytes() == other.read_bytes()


def test_the_figure_names_every_sentence_in_its_colour(tmp_path: Path):
    draw_document(*document(), SENTENCES, tmp_path / "picture.svg")
    svg = (tmp_path / "picture.svg").read_text("utf-8")
    assert "The cat sat." in svg
    assert "Rates rose &amp; fell &lt;i&gt;." in svg
    assert {colour for colour in report_graph.HUES if colour in svg} == {*report_graph.HUES[:2]}


def test_a_long_sentence_is_cut_to_the_width_of_the_legend(tmp_path: Path):
    long = "The cat that sat on the mat saw how rates rose and fell and rose again by noon."
    draw_document(*document(), [long, *SENTENCES[1:]], tmp_path / "picture.svg")
    start = "The cat that sat on the mat saw how rates rose and fell and rose again …"
    assert len(start) <= report_graph.LEGEND_WIDTH
    assert f"1  {start}" in (tmp_path / "picture.svg").read_text("utf-8")


def test_circles_at_the_border_are_not_cut():
    axes = Figure().add_subplot()
    report_graph._draw_network(axes, *document())
    assert not any(shown.get_clip_on() for shown in (axes.collections[-1], *axes.texts))


def test_a_long_document_is_listed_in_part(tmp_path: Path):
    draw_document(*document(200), [f"number {i}" for i in range(200)], tmp_path / "long.svg")
    assert "and 50 sentences more" in (tmp_path / "long.svg").read_text("utf-8")


def test_every_cluster_has_its_own_colour():
    assert len({*report_graph._colours(range(60))}) == 60


def test_lone_sentences_and_strange_letters_can_be_drawn(tmp_path: Path):
    graph = pruned(document_graph(np.ones((1, 2), np.float32)), 1)
    draw_document(graph, [0], ["全て \U0001f600 " * 40], tmp_path / "alone.png")
    assert (tmp_path / "alone.png").stat().st_size > 1_000


def test_clusters_keep_their_distance_in_the_picture():
    graph, clusters = document(40)
    place = report_graph._places(graph, clusters)
    apart = [
        np.linalg.norm(place[i] - place[j])
        for i in graph
        for j in graph
        if clusters[i] != clusters[j]
    ]
    assert min(apart) > 0.3


def test_the_table_shows_edges_and_escapes_markup():
    shown = io.StringIO()
    Console(file=shown, width=100).print(cluster_table(*document(), SENTENCES, 9))
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in shown.getvalue().splitlines()
        if "│" in line
    ]
    assert [row[:2] for row in rows] == [["1", "1"], ["1", "2"], ["2", "3"], ["2", "4"]]
    assert rows[1][3] == "A cat is [bold] here."
    assert rows[0][2].startswith("2 (")


def test_a_long_listing_ends_and_a_hub_names_its_nearest():
    graph = report_graph.kept_graph(
        Edges(np.zeros(30, int), np.arange(1, 31), np.linspace(1, 0.5, 30, dtype=np.float32)), 90
    )
    labels = [0] * 31 + list(range(1, 60))
    table = cluster_table(graph, labels, [str(i) for i in range(90)], 40)
    numbers, ends = (list(table.columns[k].cells) for k in (1, 2))
    assert numbers == [str(i + 1) for i in range(40)]
    assert ends[0].startswith("2 (1.00), 3 (")
    assert ends[0].endswith("and 20 more")


def test_control_characters_do_not_reach_the_terminal():
    shown = io.StringIO()
    Console(file=shown, width=100).print(
        cluster_table(*document(), ["\x1b[2J\u202ea", *SENTENCES[1:]], 9)
    )
    assert "␛[2J�a" in shown.getvalue()
