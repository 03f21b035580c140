import html
import re
from html.parser import HTMLParser

import pytest

from sentemb_core.corpus.documents import CorpusReport
from sentemb_core.evaluation.label_free import MEASURES
from sentemb_core.report.chapters import learning
from sentemb_core.report.chapters.clusters import kept_share_warnings
from sentemb_core.report.chapters.index import CHAPTERS
from sentemb_core.report.data import (
    DocumentClusters,
    FixedRow,
    Labelling,
    Refusals,
    RoundRow,
    RunReport,
    SentencePair,
    printable,
)
from sentemb_core.report.figures.index import draw
from sentemb_core.report.legends import COUNTS, DIAGNOSES
from sentemb_core.report.page import page
from sentemb_core.report.write import write_report

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; background: url(//evil.example/x)",
    "</style><style>*{display:none}</style>",
    "</title></head><body onload=alert(1)>",
    "\u202egnp.exe",
    "javascript:alert(1)",
    "$\\frac{1}{",
    "../../../etc/passwd",
    "&lt;script&gt; &#60;script&#62;",
    "x" * 400,
    "NUL \x00 and escape \x1b[31m",
]
VOID = {"meta", "br", "path", "use", "rect"}


class Page(HTMLParser):
    """Collects what a browser would see, and complains about a tag closed out of turn."""

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


def of(report):
    return page(report, draw(report))


def hostile(model):
    """The report with every text replaced by an attack, as the stages might hand it over."""

    def attacked(value, key=""):
        if isinstance(value, dict):
            return {k: attacked(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [attacked(item, key) for item in value]
        if isinstance(value, str) and key not in {"kind", "link", "positives"}:
            return HOSTILE[len(value) % len(HOSTILE)]
        return value

    return RunReport.model_validate(attacked(model.model_dump()))


@pytest.fixture(scope="module")
def full(report):
    return of(report)


@pytest.fixture(scope="module")
def small(report):
    """One picture of each kind at most."""
    few = {"similarities": 1, "overlaps": 1, "projections": 1, "cluster_sizes": 1, "curves": 0}
    fewer = {name: getattr(report, name)[:n] for name, n in few.items()}
    return report.model_copy(update={**fewer, "rounds": report.rounds[:2], "timings": []})


@pytest.fixture(scope="module")
def attacked(report):
    return of(hostile(report))


@pytest.mark.parametrize("kind", ["full", "attacked"])
def test_the_page_is_balanced_and_runs_nothing(kind, request):
    read = Page(request.getfixturevalue(kind))
    assert read.open == []
    assert not {"script", "img", "iframe", "object", "embed", "link", "base", "form"} & set(
        read.seen
    )
    assert read.seen.count("style") == 1
    assert not [name for _, name, _ in read.attributes if name.startswith("on")]


@pytest.mark.parametrize("kind", ["full", "attacked"])
def test_the_page_loads_nothing(kind, request):
    read = Page(request.getfixturevalue(kind))
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
    sheet = re.search(r"<style>(.*?)</style>", request.getfixturevalue(kind), re.DOTALL)[1]
    assert "url(" not in sheet
    assert "@import" not in sheet


@pytest.mark.parametrize("kind", ["full", "attacked"])
def test_links_lead_into_the_page_or_to_the_web(kind, request):
    read = Page(request.getfixturevalue(kind))
    links = [value for tag, name, value in read.attributes if tag == "a" and name == "href"]
    anchors = {value for _, name, value in read.attributes if name == "id"}
    assert all(link[1:] in anchors for link in links if link.startswith("#"))
    assert all(link.startswith(("#", "http://", "https://")) for link in links)


def test_hostile_texts_are_shown_as_what_they_are(report):
    quoted = RunReport(
        title="t",
        verdict="v",
        command="c",
        best_pairs=[SentencePair(left=text, right=text, cosine=0.5) for text in HOSTILE],
    )
    shown = Page(of(quoted)).text
    assert all(printable(text) in shown for text in HOSTILE)
    assert "\u202e" not in shown


def test_the_policy_forbids_scripts_and_addresses(full):
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in full
    assert full.index("Content-Security-Policy") < full.index("<title>")


def test_every_chapter_stands_in_the_page_and_in_its_contents(full):
    for anchor, (title, _) in CHAPTERS.items():
        assert f'<h2 id="{anchor}">{title}</h2>' in full
        assert f'<a href="#{anchor}">{title}</a>' in full


def test_scores_of_the_suite_are_told_or_how_to_have_them(full, report):
    told = Page(full).text
    assert "41.9 (38.2 to 45.7)" in told
    assert report.evaluation.page in told
    typed = "python -m flows benchmark models:/blog/1"
    without = Page(of(report.model_copy(update={"evaluation": None, "evaluate": [typed]}))).text
    assert typed in without
    assert "41.9" not in without


def test_ids_are_unique(full):
    ids = [value for _, name, value in Page(full).attributes if name == "id"]
    drawn_twice = {one for one in ids if ids.count(one) > 1}
    assert drawn_twice == set()


def test_headings_go_down_one_level_at_a_time(full):
    levels = [int(name[1]) for name in Page(full).seen if re.fullmatch(r"h[1-6]", name)]
    assert levels[0] == 1
    assert set(levels[1:]) == {2}


def test_every_figure_has_words_and_every_table_has_heads(full):
    read = Page(full)
    drawn = [value for tag, name, value in read.attributes if (tag, name) == ("svg", "aria-label")]
    assert len(drawn) == read.seen.count("svg") > 10
    assert all(drawn)
    assert read.seen.count("figcaption") == read.seen.count("figure")
    assert read.seen.count("caption") == read.seen.count("table") == read.seen.count("thead")


SELF_EXPLAINING = {"", "No.", "Sentence", "Count", "Value", "Meaning", "Fact", "Setting"}
"""Columns that need no line."""


def test_every_column_is_explained_in_its_chapter(report, full):
    annotated = {labelling.label for labelling in report.document.rounds}
    for chapter in full.split("<section")[1:]:
        columns = {html.unescape(one) for one in re.findall(r'<th scope="col">(.*?)</th>', chapter)}
        columns = {re.sub(r"^R@\d+$", "R@k", Page(one).text) for one in columns}
        lines = re.findall(r"<dt>([^<]*)</dt><dd>([^<]+)</dd>", chapter)
        told = {title for title, _ in lines} | SELF_EXPLAINING | annotated
        told |= {"Encoder"} if "What moved" in chapter else set()
        told |= {"Cosine"} if "with the cosine of the encoder" in chapter else set()
        assert columns <= told, "a column without a line"


def test_a_measure_has_one_name_in_figure_and_table(full):
    assert "Agreement" not in full
    assert full.count("ARI to last") >= 4, "title of the figure, caption, column, legend"


def test_the_rule_of_the_best_is_told_with_its_direction_and_its_pool(full):
    said = Page(full).text
    assert (
        "R@5, document \N{RIGHTWARDS ARROW} title, validation split: the share of the queries that "
        "find their answer among the first 5 of 1,000 candidates."
    ) in said
    assert "of equals the earlier" in said


def test_every_count_of_the_reader_has_a_meaning():
    counts = {name for name, of in CorpusReport.model_fields.items() if of.annotation is int}
    assert {name.replace("_", " ") for name in counts} == {*COUNTS} - {"read by the encoder"}


def test_every_diagnostic_of_a_benchmark_has_a_line():
    assert [*DIAGNOSES] == [measure.replace("_", " ") for measure in MEASURES]


def test_numbers_of_the_run_are_on_the_page(full):
    for words in (
        "0.814",
        "+0.657 against the start",
        "among 1,000 candidates",
        "12,345",
        "\N{MINUS SIGN}2.200",
    ):
        assert words in full
    assert "objects/quarantine.parquet" in full
    assert "refused rows of 1,004 by reason" in full
    assert "refused labels of 400 by reason" in full
    assert "0.8 %" in full
    assert "objects/rejected_labels.parquet" in full
    assert "15 stages ran in 1 min 25 s; 2 came from the store, which saved 7.1 s." in full


def test_a_training_tells_how_many_pairs_it_was_shown_and_how_fast(report):
    lines = learning.training(report, {}).split("<tr")[2:]
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in lines]
    cells = [[Page(cell).text for cell in line] for line in found]
    assert cells[1] == ["round 1", "100", "51,200", "35.5 s", "1,442"]
    dash = "\N{EN DASH}"
    assert cells[-1] == ["control", "100", "51,200", dash, dash], "no stage of it was timed"


def test_an_empty_report_says_why_each_chapter_is_empty():
    read = Page(of(RunReport(title="Nothing yet", verdict="The run stopped.", command="c")))
    assert read.open == []
    assert "svg" not in read.seen
    absences = [value for _, name, value in read.attributes if (name, value) == ("class", "absent")]
    assert len(absences) == 14
    assert "The quarantine is empty" in read.text or "the quarantine is empty" in read.text


def test_a_run_whose_labels_were_all_used_says_so():
    words = {"title": "t", "verdict": "v", "command": "c"}
    said = "None of 1,200 labels was refused"
    assert said in Page(of(RunReport(**words, labels=Refusals(read=1200)))).text
    assert "labels was refused" not in Page(of(RunReport(**words))).text


def test_what_was_not_measured_is_a_dash_and_not_a_zero():
    bare = RunReport(
        title="t",
        verdict="v",
        command="c",
        rounds=[RoundRow(label="round 1", pairs=3, validation={"forward": {5: 0.5}})],
        fixed=[FixedRow(label="BM25", validation={"forward": {1: 0.1}})],
    )
    assert "<td>0.500</td><td>\N{EN DASH}</td>" in of(bare)
    assert "Nothing was measured on the test split." in of(bare)


def test_too_large_a_share_of_pairs_is_warned_about():
    rows = [RoundRow(label=f"round {n}", kept_share=share) for n, share in enumerate((0.6, 0.61))]
    (warning,) = kept_share_warnings(rows)
    assert warning.startswith("round 1: 61 % of all pairs inside documents were kept, above 60 %")
    edges = [row.model_copy(update={"positives": "edge"}) for row in rows]
    assert not kept_share_warnings(edges), "they are no clusters that could grow"


def test_how_many_documents_an_annotation_reached_is_told_beneath_its_table(full):
    told = "Of the documents that teach, those that give a pair: 99 % in round 1, 99 % in round 2."
    assert told in Page(full).text
    assert "24 %, 31 %" in full, "pairs that came, and pairs that went"


def test_drift_says_what_it_leaves_out():
    row = RoundRow(label="round 1", pairs=3, drift=0.02)
    for positives, words in (
        ("edge", "of documents, float32 finds otherwise: 2.0 % in round 1."),
        ("related", "(but for related ones, which are drawn), float32 finds otherwise: 2.0 %"),
    ):
        rows = [row.model_copy(update={"positives": positives})]
        assert words in of(RunReport(title="t", verdict="v", command="c", rounds=rows))


def test_a_cluster_can_be_read_without_its_colour():
    document = DocumentClusters(
        name="LEGO",
        sentences=["one", "two", "three"],
        rounds=[
            Labelling(label="start", clusters=[0, 1, 0]),
            Labelling(label="round 1", clusters=[0, 0, 1]),
        ],
    )
    shown = Page(of(RunReport(title="t", verdict="v", command="c", document=document))).text
    for words in ("1oneA 3A 2 (changed)", "2twoB aloneA 1 (changed)", "3threeA 1B alone (changed)"):
        assert words in shown


def test_equal_reports_give_equal_pages(report, full):
    assert of(report) == full


def test_equal_reports_give_equal_files(small, tmp_path):
    first, second = (write_report(small, tmp_path / name) for name in "ab")
    names = sorted(p.relative_to(first.parent) for p in first.parent.rglob("*") if p.is_file())
    assert len([name for name in names if name.suffix == ".png"]) == 8
    for name in names:
        assert (first.parent / name).read_bytes() == (second.parent / name).read_bytes()


def test_files_are_named_by_us_and_hold_what_was_given(small, tmp_path):
    written = write_report(hostile(small), tmp_path)
    assert written == tmp_path / "report.html"
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert all(re.fullmatch(r"[a-z0-9-]+\.(html|json|png)", p.name) for p in files)
    again = RunReport.model_validate_json((tmp_path / "report.json").read_bytes())
    assert again == hostile(small)


def test_values_that_were_never_checked_are_checked_before_writing(tmp_path):
    plain = RunReport(title="t", verdict="v", command="c")
    loose = plain.model_copy(update={"title": "evil \u202e name"})
    written = write_report(loose, tmp_path).read_text("utf-8")
    assert "\u202e" not in written


@pytest.mark.parametrize(("best", "shown"), [(1, 1), (2, 2), (0, 2)])
def test_the_tile_of_a_control_stands_beside_its_round_the_best_or_the_last(best, shown):
    kinds = ["start", "round", "round", "control", "control"]
    labels = ["start", "round 1", "round 2", "control 1", "control 2"]
    scores = {"validation": {"forward": {5: 0.5}}}
    rows = [
        RoundRow(label=label, kind=kind, best=place == best, **scores)
        for place, (label, kind) in enumerate(zip(labels, kinds, strict=True))
    ]
    found = of(RunReport(title="t", verdict="v", command="c", rounds=rows))
    tiles = re.search('class="tiles">(.*?)</dl>', found, re.DOTALL)[1]
    assert re.findall(r"(?:control|round) \d", tiles) == [f"round {shown}", f"control {shown}"]


def test_after_the_verdict_come_the_registry_and_what_to_type(small):
    told = {"registry": "models:/news/2 is the champion now.", "use": "python -m flows search W S"}
    found = of(small.model_copy(update=told))
    assert told["registry"] in found
    assert f"<code><bdi>{told['use']}</bdi></code>" in found


def test_tables_say_how_many_queries_ask(full):
    assert "Validation split, 323 queries among 1,000 candidates: decides the best round" in full
    assert "Test split, 409 queries among 1,000 candidates: reported, never decided on" in full
