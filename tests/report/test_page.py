"""A run's page: it runs and loads nothing, escapes every text, and shows the numbers of the run."""

import html
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.corpus.documents import CorpusReport
from sentemb_core.evaluation.label_free import MEASURES
from sentemb_core.report.data import (
    DocumentClusters,
    LostQuery,
    Refusals,
    RoundRow,
    RunReport,
    printable,
)
from sentemb_core.report.legends import COUNTS, DIAGNOSES
from sentemb_core.report.page import macros, quoted
from sentemb_core.report.run_figures import draw
from sentemb_core.report.run_page import CHAPTERS, chapters, run_page
from sentemb_core.report.run_rows import kept_share_warnings
from sentemb_core.types import Positives
from tests.report.conftest import bare, scored, write_whole

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; background: url(//evil.example/x)",
    "</style><style>*{display:none}</style>",
    "</title></head><body onload=alert(1)>",
    "\u202egnp.exe",
    "javascript:alert(1)",
    "$\\frac{1}{",
    "{{ 7 * 7 }}{% raw %}",
    "../../../etc/passwd",
    "&lt;script&gt; &#60;script&#62;",
    "x" * 400,
    "NUL \x00 and escape \x1b[31m",
]
VOID = {"meta", "br", "path", "use", "rect"}
DASH = "\N{EN DASH}"
TABLE_TAGS = ("div", "table", "caption", "span", "thead", "tr", "th", "tbody", "td", "bdi")


class Page(HTMLParser):
    """The tags, attributes and text of a page; a tag that is closed out of turn fails."""

    def __init__(self, source):
        super().__init__()
        self.open, self.seen, self.attributes, self.text = [], [], [], ""
        self.feed(source)
        self.close()

    def handle_starttag(self, name, attributes):
        self.seen.append(name)
        self.attributes += [(name, *pair) for pair in attributes]
        if name not in VOID or name in {"path", "use", "rect"}:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.seen.append(name)
        self.attributes += [(name, *pair) for pair in attributes]

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        self.text += data


def page_of(report: RunReport) -> str:
    return run_page(report, draw(report))


def hostile(model):
    """The report with every text replaced by an attack, as the stages might pass it on."""

    def attack(text):
        return HOSTILE[len(text) % len(HOSTILE)]

    def attacked(value, key=""):
        if isinstance(value, dict):
            labels = key in {"facts", "clusters"}
            return {attack(k) if labels else k: attacked(v, k) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [attacked(item, key) for item in value]
        if isinstance(value, str) and key not in {"kind", "positives", "split"}:
            return attack(value)
        return value

    return RunReport.model_validate(attacked(model.model_dump()))


@pytest.fixture(scope="module", params=["an encoder", "a retriever"])
def returning(request, report, retrieving):
    """The report of a run that returned one of both."""
    return {"an encoder": report, "a retriever": retrieving}[request.param]


@pytest.fixture(scope="module")
def full(returning):
    return page_of(returning)


@pytest.fixture(scope="module")
def small(report):
    """Few figures: the start, and one annotated round without its training."""
    rounds = [report.rounds[0], report.rounds[2].model_copy(update={"curve": None})]
    fewer = {"rounds": rounds, "projections": report.projections[:1], "timings": []}
    return report.model_copy(update=fewer)


@pytest.fixture(scope="module", params=["as it is", "attacked"])
def source(request, returning, full):
    return full if request.param == "as it is" else page_of(hostile(returning))


def test_the_page_is_balanced_and_runs_nothing(source):
    read = Page(source)
    assert read.open == []
    assert not {"script", "img", "iframe", "object", "embed", "link", "base", "form"} & set(
        read.seen
    )
    assert read.seen.count("style") == 1
    assert not [name for _, name, _ in read.attributes if name.startswith("on")]


def test_the_page_loads_nothing(source):
    read = Page(source)
    loads = [
        value
        for tag, name, value in read.attributes
        if name in {"src", "srcset", "data", "action", "poster"} or (name == "href" and tag != "a")
    ]
    assert all(value.startswith("#") for value in loads)
    painted = [value for _, name, value in read.attributes if name in {"style", "clip-path"}]
    addresses = [address for value in painted for address in re.findall(r"url\((.*?)\)", value)]
    assert addresses
    assert all(address.startswith("#") for address in addresses)
    sheet = re.search(r"<style>(.*?)</style>", source, re.DOTALL)[1]
    assert "url(" not in sheet
    assert "@import" not in sheet


def test_links_lead_into_the_page_or_to_the_web(source):
    read = Page(source)
    links = [value for tag, name, value in read.attributes if tag == "a" and name == "href"]
    anchors = {value for _, name, value in read.attributes if name == "id"}
    assert all(link[1:] in anchors for link in links if link.startswith("#"))
    assert all(link.startswith(("#", "http://", "https://")) for link in links)


def test_hostile_texts_are_shown_as_text():
    lost = [LostQuery(query=text, wanted=text, found=text, rank=2) for text in HOSTILE]
    shown = Page(page_of(bare(lost_queries=lost))).text
    assert all(printable(text) in shown for text in HOSTILE)
    assert "\u202e" not in shown


@given(st.text(st.characters(exclude_characters="\r\x00", exclude_categories=["Cs"])))
def test_a_cell_comes_back_as_text_and_never_as_a_tag(text):
    table = macros("parts.html").table(text, [text], [[text, quoted(text)]])
    read = Page(str(table))
    assert read.open == []
    assert set(read.seen) <= {*TABLE_TAGS}
    assert read.text.count(text) >= 4
    assert ("div", "aria-label", text) in read.attributes


def test_the_policy_forbids_scripts_and_addresses(full):
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in full
    assert full.index("Content-Security-Policy") < full.index("<title>")


def test_every_chapter_is_in_the_page_and_in_its_contents(full, returning):
    for name, title in CHAPTERS.items():
        anchor = name.replace("_", "-")
        there = name != "choice" or returning.retriever is not None
        assert (f'<a href="#{anchor}">{title}</a>' in full) == there
        assert (f'id="{anchor}"' in full) == there
        assert bool(re.search(rf"<h2[^>]*>{title}</h2>", full)) == there


def test_a_page_unfolds_below_its_verdict(report, retrieving):
    assert page_of(report).count('<details class="chapter">') == len(CHAPTERS) - 3
    page = page_of(retrieving)
    first, *folded = re.split(r'<(?:section|details) class="chapter">', page)[1:]
    assert page.count('<section class="chapter">') == 1
    assert len(folded) == len(CHAPTERS) - 1
    for name, chapter in zip([*CHAPTERS][1:], folded, strict=True):
        summary, content = chapter.split("</summary>", 1)
        anchor = f'id="{name.replace("_", "-")}"'
        assert anchor in content, "a browser opens the details that the target of a link is in"
        assert anchor not in summary
    shown = Page(f"<section>{first}").text
    for text in (
        retrieving.retriever.answer,
        retrieving.retriever.shares,
        *retrieving.retriever.commands,
        *retrieving.retriever.trust,
    ):
        assert text in shown
    assert rows_of(first)[1:] == [
        ["BM25", "+0.061 (+0.043 to +0.079)", "0.764", "0.789"],
        ["start encoder", "+0.149 (+0.121 to +0.177)", "0.663", "0.715"],
        ["returned", DASH, "0.825", "0.851"],
    ]


def test_every_candidate_is_shown_with_the_reason_against_it(retrieving):
    rows = rows_of(chapters(retrieving, {})["choice"])[1:]
    assert [(row[0], row[-1]) for row in rows] == [
        ("whitened start + words + tokens", "no better than the chosen one"),
        ("whitened start + words chosen", DASH),
        ("words", "worse than the best"),
        ("start", "worse than BM25"),
    ]
    assert rows[1][1:4] == ["vectors, words", "384", "0.846"]


def test_scores_of_the_suite_or_the_commands_for_them_are_shown(full, report):
    assert "41.9 (38.2 to 45.7)" in Page(full).text
    assert report.evaluation.page in Page(full).text
    command = "python -m flows benchmark models:/blog/1"
    without = report.model_copy(update={"evaluation": None, "evaluate": [command]})
    shown = Page(chapters(without, {})["evaluation"]).text
    assert command in shown
    assert "41.9" not in shown


def test_ids_are_unique_and_headings_go_down_one_level_at_a_time(full):
    read = Page(full)
    ids = [value for _, name, value in read.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    levels = [int(name[1]) for name in read.seen if re.fullmatch(r"h[1-6]", name)]
    assert levels[:2] == [1, 2]
    assert all(later <= before + 1 for before, later in pairwise(levels))


def test_equal_reports_give_equal_pages(returning, full):
    assert page_of(returning) == full


def test_the_number_of_labels_is_shown_if_none_was_refused():
    assert "1,200" in Page(page_of(bare(labels=Refusals(read=1200)))).text
    assert "1,200" not in Page(page_of(bare())).text


def test_every_figure_has_a_text_and_every_table_a_head(full):
    read = Page(full)
    texts = [value for tag, name, value in read.attributes if (tag, name) == ("svg", "aria-label")]
    assert len(texts) == read.seen.count("svg") > 10
    assert all(texts)
    assert read.seen.count("figcaption") == read.seen.count("figure")
    assert read.seen.count("caption") == read.seen.count("table") == read.seen.count("thead")


SELF_EXPLAINING = {"", "No.", "Sentence", "Count", "Value", "Meaning", "Fact", "Setting"}
"""Columns that need no line."""


def test_every_column_is_explained_in_its_chapter(report, full):
    annotated = {*report.document.clusters}
    for chapter in re.split(r'<(?:section|details) class="chapter">', full)[1:]:
        columns = {html.unescape(one) for one in re.findall(r'<th scope="col">(.*?)</th>', chapter)}
        columns = {re.sub(r"^R@\d+$", "R@k", Page(one).text) for one in columns}
        lines = re.findall(r"<dt>([^<]*)</dt><dd>([^<]+)</dd>", chapter)
        explained = {title for title, _ in lines} | SELF_EXPLAINING | annotated
        explained |= {"Encoder"} if "What moved" in chapter else set()
        explained |= {"Cosine"} if "cosine of the encoder" in chapter else set()
        assert columns <= explained


def test_a_measure_has_one_name_in_figure_and_table(full):
    assert full.count("ARI to last") >= 4, "title of the figure, caption, column, legend"


def test_every_count_of_the_reader_has_a_meaning():
    counts = {name for name, of in CorpusReport.model_fields.items() if of.annotation is int}
    assert {name.replace("_", " ") for name in counts} == {*COUNTS} - {"read by the encoder"}


def test_every_diagnostic_of_a_benchmark_has_a_meaning():
    assert [*DIAGNOSES] == [measure.replace("_", " ") for measure in MEASURES]


def test_numbers_of_the_run_are_on_the_page(full):
    for number in (
        "0.814",
        "+0.657",
        "1,000 candidates",
        "323 queries",
        "409 queries",
        "12,345",
        "\N{MINUS SIGN}2.200",
        "24 %, 31 %",  # new and gone pairs
        "99 % in",
        "of 1,004",
        "of 400",
        "0.8 %",
        "15 stages ran in 1 min 25 s; 2 came from the store, which saved 7.1 s",
    ):
        assert number in full
    assert "objects/quarantine.parquet" in full
    assert "objects/rejected_labels.parquet" in full


def rows_of(chapter: str) -> list[list[str]]:
    lines = chapter.split("<tr")[1:]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in lines]
    return [[Page(cell).text for cell in line] for line in cells]


def test_a_training_has_its_pairs_and_its_speed(report):
    rows = rows_of(chapters(report, {})["training"])
    assert rows[2] == ["round 1", "100", "51,200", "35.5 s", "1,442"]
    assert rows[-1] == ["control", "100", "51,200", DASH, DASH], "no stage of it was timed"


def test_an_empty_report_has_a_reason_for_every_empty_chapter():
    read = Page(page_of(bare()))
    assert read.open == []
    assert "svg" not in read.seen
    absences = [value for _, name, value in read.attributes if (name, value) == ("class", "absent")]
    assert len(absences) == 14


def test_a_score_that_was_not_measured_is_a_dash_and_not_a_zero():
    rounds = [
        RoundRow(label="round 1", numbers={"pairs": 3}),
        RoundRow(label="round 2", scores=scored(validation=0.5)),
    ]
    content = chapters(bare(rounds=rounds), {})
    assert rows_of(content["what_moved"])[2][:4] == ["round 2", "0.350", "0.500", "0.540"]
    (row,) = rows_of(content["clusters"])[1:]
    assert row == ["round 1", DASH, DASH, "3", DASH, DASH, DASH, DASH, DASH]


def test_too_large_a_share_of_pairs_is_warned_about():
    rows = [
        RoundRow(label=f"round {n}", numbers={"kept_share": share})
        for n, share in enumerate((0.6, 0.61))
    ]
    (warning,) = kept_share_warnings(rows)
    assert warning.startswith("round 1: 61 %")
    edges = [row.model_copy(update={"positives": "edge"}) for row in rows]
    assert not kept_share_warnings(edges), "no clusters that could grow"


@pytest.mark.parametrize("positives", ["edge", "related"])
def test_the_drift_of_bfloat16_is_on_the_page(positives: Positives):
    row = RoundRow(label="round 1", numbers={"pairs": 3, "drift": 0.021}, positives=positives)
    assert "2.1 % in round 1" in Page(page_of(bare(rounds=[row]))).text


@pytest.mark.parametrize("positives", ["cluster", "edge", "related"])
def test_only_pairs_of_clusters_share_a_cluster(report: RunReport, positives: Positives):
    rounds = [
        row.model_copy(update={"positives": positives}) if row.kind == "round" else row
        for row in report.rounds
    ]
    content = chapters(report.model_copy(update={"rounds": rounds}), draw(report))
    assert ("share a cluster" in content["examples"]) == (positives == "cluster")
    assert ("inside a cluster" in content["similarities"]) == (positives == "cluster")


def test_a_cluster_can_be_read_without_its_colour():
    document = DocumentClusters(
        name="LEGO",
        sentences=["one", "two", "three"],
        clusters={"start": [0, 1, 0], "round 1": [0, 0, 1]},
    )
    rows = rows_of(chapters(bare(document=document), {})["before_and_after"])[1:]
    assert rows == [
        ["1", "one", "A 3", "A 2 (changed)"],
        ["2", "two", "B alone", "A 1 (changed)"],
        ["3", "three", "A 1", "B alone (changed)"],
    ]


def test_equal_reports_give_equal_files(small, tmp_path):
    first, second = (write_whole(small, tmp_path / name) for name in "ab")
    names = sorted(p.relative_to(first.parent) for p in first.parent.rglob("*") if p.is_file())
    assert len([name for name in names if name.suffix == ".png"]) == 10
    for name in names:
        assert (first.parent / name).read_bytes() == (second.parent / name).read_bytes()


def test_no_text_of_the_data_enters_a_file_name(small, tmp_path):
    page = write_whole(hostile(small), tmp_path)
    assert page == tmp_path / "report.html"
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert all(re.fullmatch(r"[a-z0-9-]+\.(html|json|png)", p.name) for p in files)
    again = RunReport.model_validate_json((tmp_path / "report.json").read_bytes())
    assert again == hostile(small)


def test_unchecked_values_are_checked_before_writing(tmp_path):
    loose = bare().model_copy(update={"title": "evil \u202e name"})
    assert "\u202e" not in write_whole(loose, tmp_path).read_text("utf-8")


@pytest.mark.parametrize(("best", "shown"), [(1, 1), (2, 2), (0, 2)])
def test_a_tile_of_a_control_follows_its_round(best, shown):
    kinds = ["start", "round", "round", "control", "control"]
    labels = ["start", "round 1", "round 2", "control 1", "control 2"]
    scores = scored(validation=0.5, test=0.4)
    rows = [
        RoundRow(label=label, kind=kind, best=place == best, scores=scores)
        for place, (label, kind) in enumerate(zip(labels, kinds, strict=True))
    ]
    verdict = chapters(bare(rounds=rows), {})["verdict"]
    tiles = re.search('class="tiles">(.*?)</dl>', verdict, re.DOTALL)[1]
    assert re.findall(r"(?:control|round) \d", tiles) == [f"round {shown}", f"control {shown}"]
    assert {*re.findall(r"\d\.\d{3}", tiles)} == {"0.400", "0.000"}, "the split of the verdict"


def test_the_verdict_shows_the_registry_and_the_command(small):
    values = {
        "registry": "models:/news/2 is the champion now.",
        "use": "python -m flows search W S",
    }
    verdict = chapters(small.model_copy(update=values), {})["verdict"]
    assert values["registry"] in verdict
    assert f"<code><bdi>{values['use']}</bdi></code>" in verdict
