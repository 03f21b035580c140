"""The pruned graph and the clusters of one document, as a figure and as a terminal table."""

from collections.abc import Sequence
from colorsys import hsv_to_rgb
from itertools import cycle
from pathlib import Path
from textwrap import shorten
from typing import Any, TypeAlias

import networkx as nx
import numpy as np
from jaxtyping import Float32
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from rich.table import Table

from sentemb_core.annotation.graph import comparisons
from sentemb_core.annotation.pruning import Edges, clusters, pruned_edges
from sentemb_core.config.run import AnnotationConfig
from sentemb_core.console import plain
from sentemb_core.formats import counted
from sentemb_core.report.drawing import HUES, INK, MUTED, drawable, house_style

Graph: TypeAlias = "nx.Graph[int]"

LEGEND_WIDTH = 72
LINE = 0.19
"""Height of a line of the legend in inches."""

LEGEND_LINES = 150
"""Most lines of the legend; the graph of a longer document is still drawn whole."""

MOST_DRAWN = 2_000
"""Most sentences of a picture: the circles of more would lie on each other."""

MOST_LISTED = 200
"""Most lines of a listing."""

MOST_ENDS = 10
"""Most sentences of a line that one is joined to."""

SEED = 42
"""Of the layout, so that equal documents give equal figures."""


def annotated_document(
    vectors: Float32[np.ndarray, "sentences dim"], top_k: int, *, mutual: bool
) -> tuple[Graph, list[int]]:
    """Return the pruned graph of one document and the cluster of every sentence.

    Memory grows linearly: all pairs of ten thousand sentences would need 33 GB.
    """
    offsets = np.array([0, len(vectors)])
    config = AnnotationConfig(top_k=top_k, mutual=mutual)
    with comparisons([offsets]) as compared:
        edges = pruned_edges(vectors, offsets, config, compared)
    return kept_graph(edges, len(vectors)), clusters(edges, offsets).tolist()


def kept_graph(edges: Edges, sentences: int) -> Graph:
    """The kept edges of one document as a graph; it never has all n * n edges."""
    graph: Graph = nx.Graph()
    graph.add_nodes_from(range(sentences))
    ends = zip(edges.i.tolist(), edges.j.tolist(), edges.weight.tolist(), strict=True)
    graph.add_weighted_edges_from(ends)
    return graph


def draw_document(
    graph: Graph, clusters: Sequence[int], sentences: Sequence[str], out: Path
) -> None:
    """Draw a pruned graph beside its sentences; `out` ends in .png or .svg.

    One colour per cluster, edges as wide as their weight; sentences are numbered from 1.
    """
    height = max(4.0, LINE * (min(len(sentences), LEGEND_LINES) + 2))
    with house_style():
        figure = Figure((12, height), layout="constrained")
        network, legend = figure.subplots(1, 2, width_ratios=(1, 1))
        _draw_network(network, graph, clusters)
        _write_legend(legend, clusters, sentences)
        metadata = {"Date": None} if out.suffix == ".svg" else None
        figure.savefig(out, dpi=120, facecolor="white", metadata=metadata)


def cluster_table(
    graph: Graph, clusters: Sequence[int], sentences: Sequence[str], most: int
) -> Table:
    """One row per sentence, cluster by cluster, with its edges and their weights.

    It ends after the cluster in which it has `most` rows.
    """
    table = Table("cluster", "no.", "joined to", "sentence")
    for cluster, members in enumerate(members_of(clusters)):
        for i in members[: most - table.row_count]:
            table.add_row(str(cluster + 1), str(i + 1), ends_text(graph, i), plain(sentences[i]))
        table.add_section()
        if table.row_count == most:
            break
    return table


def ends_text(graph: Graph, sentence: int) -> str:
    """The sentences that one is joined to, the nearest first."""
    joined = sorted(graph[sentence].items(), key=lambda edge: -edge[1]["weight"])
    ends = [f"{j + 1} ({data['weight']:.2f})" for j, data in joined[:MOST_ENDS]]
    if len(joined) > MOST_ENDS:
        ends.append(f"and {len(joined) - MOST_ENDS:,} more")
    return ", ".join(ends) or "-"


def members_of(clusters: Sequence[int]) -> list[list[int]]:
    """The sentences of every cluster."""
    members: list[list[int]] = [[] for _ in range(max(clusters, default=-1) + 1)]
    for sentence, cluster in enumerate(clusters):
        members[cluster].append(sentence)
    return members


def _draw_network(axes: Any, graph: Graph, clusters: Sequence[int]) -> None:
    place = _places(graph, clusters)
    weights = [data["weight"] for *_, data in graph.edges(data=True)]
    strongest = max(map(abs, weights), default=1.0) or 1.0
    widths = [0.5 + 4 * max(weight, 0) / strongest for weight in weights]
    nx.draw_networkx_edges(graph, place, ax=axes, width=widths, edge_color=MUTED)
    nodes = nx.draw_networkx_nodes(
        graph, place, ax=axes, node_color=_colours(clusters), node_size=260, edgecolors="white"
    )
    nodes.set_clip_on(False)  # do not cut circles at the border
    numbers = {i: str(i + 1) for i in graph}
    nx.draw_networkx_labels(
        graph, place, numbers, ax=axes, font_size=8, font_color="white", clip_on=False
    )
    axes.set_aspect("equal")
    axes.set_axis_off()


def _places(graph: Graph, clusters: Sequence[int]) -> dict[int, Any]:
    """A spring layout of each cluster by itself, the largest first, in rows that do not overlap."""
    members = sorted(members_of(clusters), key=len, reverse=True)
    row = 1.3 * len(graph) ** 0.5
    place: dict[int, Any] = {}
    left = top = high = 0.0
    for group in members:
        wide = len(group) ** 0.5 + 0.6
        if left and left + wide > row:
            left, top, high = 0.0, top + high, 0.0
        centre, radius = (left + wide / 2, -top - wide / 2), wide / 2 - 0.35
        part = graph.subgraph(group)
        place |= nx.spring_layout(part, seed=SEED, center=centre, scale=radius)
        left, high = left + wide, max(high, wide)
    return place


def _write_legend(axes: Any, clusters: Sequence[int], sentences: Sequence[str]) -> None:
    """Every sentence once, cluster by cluster, after a dot in the colour of its cluster."""
    colours = _colours(clusters)
    order = sorted(range(len(sentences)), key=lambda i: (clusters[i], i))
    shown = order[:LEGEND_LINES]
    axes.set(xlim=(0, 1), ylim=(len(shown) + 1, -1))
    for line, i in enumerate(shown):
        axes.plot(0.015, line, marker="o", color=colours[i], markersize=7)
        start = shorten(sentences[i], LEGEND_WIDTH, placeholder=" …")
        text = f"{i + 1}  {drawable(start, LEGEND_WIDTH)}"
        axes.text(0.04, line, text, fontsize=8, color=INK, va="center")
    if len(order) > len(shown):
        rest = f"and {counted(len(order) - len(shown), 'sentence')} more"
        axes.text(0.04, len(shown), rest, fontsize=8, color=MUTED, va="center")
    axes.set_axis_off()


def _colours(clusters: Sequence[int]) -> list[str]:
    """The colours of the palette; for more clusters, colours around the wheel."""
    count = max(clusters, default=0) + 1
    if count <= len(HUES):
        return [HUES[cluster] for cluster in clusters]
    shades = [
        to_hex(hsv_to_rgb(k / count, 0.85, shade))
        for k, shade in zip(range(count), cycle((0.55, 0.8)), strict=False)
    ]
    return [shades[cluster] for cluster in clusters]
