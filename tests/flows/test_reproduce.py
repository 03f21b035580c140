"""The table of methods: cells that fail say why, cells that are there are not made again."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from httpx import ConnectError

from benchmarks.results_pages import load
from flows import few_shot as shots
from flows import method_cells, row_steps
from flows.cli.reproduce import table_settings
from flows.cli.settings import checked_as
from flows.data_folder import looked_for
from flows.experiments.index import Reproduction
from flows.few_shot import NOTHING, PLUS, FewShotTable, few_shot
from flows.method_cells import methods_small
from flows.method_table import (
    LITERAL_BM25,
    METHODS,
    OF_TITLES,
    VARIANTS,
    MethodTable,
    Start,
)
from flows.presets import method_preset
from sentemb_core import console
from sentemb_core.config.experiments import Corpus, Label
from sentemb_core.config.methods import METHOD_NAMES
from sentemb_core.config.run import CorpusConfig
from sentemb_core.errors import EmptyCorpusError, StorageError, UnreadableSourceError, UsageError
from sentemb_core.evaluation.masked_language import MaskedLanguage
from sentemb_core.evaluation.task_result import TaskResult
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs, recording
from sentemb_core.types import ArtifactRef, Json
from tasks.artifact_files import save_json
from tasks.benchmark import largest_overlaps
from tasks.execution import dry_run, without_prefect
from tasks.run_monitor import resuming
from tasks.stage import STAGES
from tasks.tables.cells import (
    MethodCell,
    cells_json,
    cells_markdown,
    cells_table,
    header,
    leads,
    lines,
    notes,
    numbers_of,
    told_leads,
)
from tasks.tables.curves import write_curves
from tasks.tables.markdown import write_between_marks
from tests.flows.corpora import write_data_folder

REF = ArtifactRef(kind="scores", digest="0" * 64, size=1)

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Tiny files under the names that the table wants."""
    folder = tmp_path_factory.mktemp("data")
    write_data_folder(folder, documents=30)
    return str(folder)


def table(data: str, **changes: object) -> MethodTable:
    settings = {
        "data": data,
        "corpora": ["blog_usgov", "plain_sentences"],
        "encoders": ["transformer"],
        "methods": ["conpono", "infocse_idc", "simcse", "infocse_aux"],
        "steps": 2,
        "batch_size": 8,
    }
    return checked_as(MethodTable, settings | changes)


def made(config: MethodTable) -> list[MethodCell]:
    with without_prefect(Store.default()):
        return methods_small.fn(config).cells


SELF_ANNOTATED = {"infocse_idc", "infocse_idc_kmeans", "infocse_idc_dot"}
OF_DOCUMENTS = {"ict", "cpc", "conpono", "declutr", *SELF_ANNOTATED}


def test_steps_of_a_row_are_all_from_the_start_encoder_on():
    table = MethodTable(data="")
    rows = {"simcse": 1_000, "infocse_idc": 1_000, "condenser": 1_000, "infocse_aux": 4_000}
    assert {row: table.steps_taken(row, "transformer") for row in rows} == rows
    assert {table.steps_taken(row, "minilm") for row in rows} == {200}


@pytest.mark.parametrize(
    ("corpus", "start", "refused"),
    [
        ("blog_usgov", "transformer", {"declutr"}),
        ("news_reuters21578", "transformer", {"declutr"}),
        ("plain_sentences", "transformer", OF_DOCUMENTS),
        ("blog_usgov", "minilm", {"declutr"}),
        ("news_reuters21578", "minilm", {"declutr"}),
        ("plain_sentences", "minilm", OF_DOCUMENTS),
    ],
)
def test_every_method_has_its_row_in_the_results(corpus: Corpus, start: Start, refused: set[str]):
    [stored] = [one for one in load("methods") if one.id == f"methods-small {corpus} {start}"]
    rows = {line[2]: line[3] for line in stored.lines()}
    titles = set() if looked_for(corpus) else set(OF_TITLES)
    assert rows.keys() >= set(MethodTable(data="").methods_on(corpus)) - titles
    assert {name for name, told in rows.items() if not told.startswith("0.")} == refused


def test_every_cell_has_numbers_or_a_code_and_a_second_run_runs_no_body(data: str):
    cells = made(table(data))
    assert [(cell.corpus, cell.method) for cell in cells] == [
        *(("blog_usgov", fixed) for fixed in ("random vectors", "BM25", "start encoder")),
        *(("blog_usgov", method) for method in ("conpono", "infocse_idc", "simcse", "infocse_aux")),
        *(("plain_sentences", fixed) for fixed in ("random vectors", "BM25", "start encoder")),
        *(
            ("plain_sentences", method)
            for method in ("conpono", "infocse_idc", "simcse", "infocse_aux")
        ),
    ]
    early = "learns from documents of at least two sentences"  # before a sentence is encoded
    assert {cell.method: cell.error.partition(early)[0] for cell in cells if cell.error} == {
        "conpono": "E102 conpono ",
        "infocse_idc": "E102 infocse_idc ",
    }
    told = [set(numbers_of(cell)) for cell in cells if not cell.error]
    assert told == [{"R@1", "R@5", "R@10"}] * 7 + [{"STS-B dev", "SICK-R test"}] * 5
    assert all(cell.seconds > 0 for cell in cells if cell.steps and not cell.error)

    assert made(table(data)) == cells
    assert [used.stage for used in last_runs(Store.default())[0].stages if not used.hit] == []


def test_rows_that_share_a_training_are_both_charged_for_it(data: str):
    """They go on from one Condenser stage: alone, each would have to train it."""
    asked = table(data, corpora=["blog_usgov"], methods=["infocse_aux", "rtd_mlm"])
    *_, both, last = made(asked)
    *_, alone = made(asked.model_copy(update={"methods": ("rtd_mlm",)}))
    assert last.seconds == alone.seconds
    assert both.seconds > 0


def test_rows_without_a_gradient_are_judged_and_take_no_step(data: str):
    rows = list(set(MethodTable(data="").methods) - set(METHODS))
    cells = made(table(data, methods=rows))
    refused = {(cell.corpus, cell.method): cell.error[:4] for cell in cells if cell.error}
    assert refused == {("plain_sentences", row): "E502" for row in OF_TITLES}
    assert {(cell.steps, cell.seconds) for cell in cells} == {(0, 0.0)}
    for judge in ("R@5", "STS-B dev"):
        told = [numbers_of(cell) for cell in cells if cell.method in rows]
        assert len({one[judge] for one in told if judge in one}) > len(rows) / 2


def test_variants_are_trained_as_their_settings_say(data: str):
    asked = table(data, corpora=["blog_usgov"], methods=["infocse_idc", *VARIANTS])
    cells = {cell.method: cell for cell in made(asked)}
    assert {cell.error for cell in cells.values()} == {""}
    scores = [cells[row].scores for row in ("infocse_idc", *VARIANTS)]
    assert len(set(scores)) == len(scores)
    used = [one.stage for one in last_runs(Store.default())[0].stages]
    assert {"cluster_by_kmeans", "cluster_sentences"} < set(used)
    dot = "infocse_idc_dot"
    assert asked.start("transformer", 42, dot).similarity == "dot"
    steps = asked.steps_of(dot, "transformer")
    assert [asked.training_of(step, "transformer", 42).method.temperature for step in steps] == [
        1,
        1,
    ]


def test_sg_opt_does_not_start_where_its_copy_already_is():
    """By the mean its anchor is one of its own positives (`POOLINGS`)."""
    asked = MethodTable(data="")
    assert asked.start("minilm", 42, "sg_opt").pooling == "cls_before_pooler"
    assert asked.start("minilm", 42, "simcse") == asked.start("minilm", 42)


@pytest.mark.parametrize("row", OF_TITLES)
def test_a_row_of_titles_wants_titles(data: str, row: str):
    cells = made(table(data, methods=[row]))
    blog, plain = (cell for cell in cells if cell.method == row)
    assert set(numbers_of(blog)) == {"R@1", "R@5", "R@10"}
    assert (blog.steps, plain.error[:4]) == (0, "E502")


def test_the_thesis_has_a_bm25_of_its_own(data: str):
    _, words, _, literal = made(table(data, corpora=["blog_usgov"], methods=[LITERAL_BM25]))
    assert words.scores != literal.scores


def test_rows_behind_a_condenser_stage_differ_by_its_head_alone_and_tell_what_it_learnt(data: str):
    rows = ["infocse_aux", "infocse_aux_random_head", "simcse"]
    first, ablated, plain = made(table(data, corpora=["blog_usgov"], methods=rows))[-3:]
    assert first.language == ablated.language
    assert plain.language is None
    trained = {
        one.key for one in last_runs(Store.default())[0].stages if one.stage == "train_encoder"
    }
    assert len(trained) == 4, "one stage for both, and one training for each row"
    told = cells_json([first])[0]["language"]
    assert told["unigram"] < told["condensed"], "two steps teach nothing"
    said = f"of unseen texts at {told['late']:.2f} nats, its head at {told['condensed']:.2f}"
    assert said in cells_markdown([first])
    assert "its head learnt less than word counts know" in cells_markdown([first])
    assert cells_json([plain])[0].get("language") is None


def test_titles_have_columns_where_they_or_nothing_judges():
    of_pairs = MethodCell(corpus="c", start="s", method="m", seed=1, sts={"STS-B dev": REF})
    of_titles = MethodCell(corpus="d", start="s", method="m", seed=1, scores=REF)
    refused = MethodCell(corpus="d", start="s", method="m", seed=1, error="E102 too short")
    recalls = ["R@1", "R@5", "R@10"]
    assert header([of_pairs, refused])[3:-3] == ["STS-B dev"]
    assert header([of_pairs, of_titles])[3:-3] == [*recalls, "STS-B dev"]
    assert header([refused])[3:-3] == recalls


@pytest.mark.parametrize(
    ("late", "condensed", "told"),
    [
        (6.9, 6.8, ""),
        (7.0, 6.8, ": it learnt less than word counts know"),
        (6.9, 7.1, ": its head learnt less than word counts know"),
        (7.2, 7.1, ": it and its head learnt less than word counts know"),
    ],
)
def test_a_condenser_stage_that_knows_no_more_than_word_counts_is_told_as_such(
    late: float, condensed: float, told: str
):
    found = MaskedLanguage(late=late, condensed=condensed, unigram=7.0, tokens=9)
    language = save_json("language", found.model_dump())
    cell = MethodCell(corpus="c", start="s", method="diffcse", seed=1, language=language)
    (line,) = notes([cell])
    assert line.partition("by the tokens' shares alone 7.00")[2] == told


@pytest.mark.parametrize(
    ("start", "rate", "stage_steps", "own_steps"),
    [("minilm", 1e-4, 100, 100), ("transformer", 5e-4, 3_000, 1_000)],
)
def test_a_condenser_stage_learns_no_slower_than_its_paper_and_long_enough(
    start: Start, rate: float, stage_steps: int, own_steps: int
):
    asked = MethodTable(data="")
    stage, own = (asked.training_of(step, start, 1) for step in asked.steps_of("diffcse", start))
    assert (stage.method.name, stage.learning_rate) == ("condenser", rate)
    assert (own.method.name, own.learning_rate) == (
        "diffcse",
        method_preset(start)["training"]["learning_rate"],
    )
    assert (stage.steps, own.steps) == (stage_steps, own_steps)


def test_a_condenser_of_single_sentences_is_asked_for_others(data: str):
    *_, cell = made(table(data, corpora=["plain_sentences"], methods=["rtd_mlm"]))
    assert cell.error == ""
    assert cells_json([cell])[0]["language"]["tokens"] > 0


def test_hicl_does_not_train_on_single_sentences():
    """Of which few have two segments; it would be its base."""
    default = MethodTable(data="")
    hicl = {"hicl", "hicl_v2", "hicl_over_esimcse", "hicl_over_sncse"}
    assert hicl < set(default.methods_on("blog_usgov"))
    assert set(default.methods) - set(default.methods_on("plain_sentences")) == hicl


def test_declutr_alone_has_a_corpus_of_long_documents_beside_the_default_ones():
    default = MethodTable(data="")
    assert [corpus for corpus, start, _ in default.blocks() if start == "minilm"] == [
        *default.corpora,
        "long_elife",
    ]
    assert default.methods_on("long_elife") == ("declutr",)
    assert default.methods_on("blog_usgov") == default.methods
    assert "long_elife.parquet" in default.files_wanted()
    for other in ({"methods": ("simcse",)}, {"corpora": ("blog_usgov",)}):
        asked = checked_as(MethodTable, {"data": "", **other})
        assert asked.corpora_read == asked.corpora
    long = checked_as(MethodTable, {"data": "", "corpora": ["long_elife"]})
    assert long.methods_on("long_elife") == long.methods


def test_a_static_encoder_has_no_first_token(data: str):
    *_, cell = made(
        table(data, corpora=["blog_usgov"], encoders=["static"], methods=["cls_before_pooler"])
    )
    assert cell.error.startswith("E001 A static encoder knows pooling 'mean' alone")


def test_hicl_says_how_many_texts_have_segments(data: str):
    *_, simcse, cell = made(table(data, corpora=["blog_usgov"], methods=["simcse", "hicl"]))
    assert (simcse.segmented, simcse.error, cell.error) == (None, "", "")
    assert 0 < cell.segmented <= 1
    assert f"hicl on blog_usgov from transformer: {cell.segmented:.1%}" in cells_markdown([cell])


def test_a_resumed_table_is_one_record_and_counts_the_seconds_of_before(data: str):
    config = table(data, corpora=["blog_usgov"], methods=["simcse"])
    cells = made(config)
    (before,) = last_runs(Store.default())
    with resuming(before.id):
        again = made(config)
    (after,) = last_runs(Store.default())
    assert (again, after.id, after.stages) == (cells, before.id, before.stages)


def test_seconds_are_of_training_and_annotation_alone(data: str):
    assert STAGES.keys() >= method_cells.TRAINING
    (cell,) = (
        one for one in made(table(data, corpora=["blog_usgov"], methods=["conpono"])) if one.steps
    )
    (run, *_) = last_runs(Store.default())
    (training,) = (used.seconds for used in run.stages if used.stage == "train_encoder")
    assert cell.seconds == training
    assert cell.seconds < sum(used.seconds for used in run.stages)


def test_a_plan_tells_of_every_cell(data: str):
    with dry_run(Store.default()) as plan:
        cells = list(method_cells.cells(table(data)))
    assert (len(cells), plan.incomplete) == (14, False)


def test_a_cell_that_nobody_foresaw_failing_leaves_the_others(data: str, monkeypatch):
    after_step = row_steps.after_step

    def fails_for_simcse(step, *rest):
        if step.method.name == "simcse":
            raise ZeroDivisionError("of nothing")
        return after_step(step, *rest)

    monkeypatch.setattr(row_steps, "after_step", fails_for_simcse)
    *_, before, failed = made(table(data, corpora=["blog_usgov"], methods=["conpono", "simcse"]))
    assert (before.error, failed.error) == ("", "E000 ZeroDivisionError: of nothing")
    assert lines([failed])[0][2:4] == ["simcse", "E000"]


def test_a_corpus_that_is_refused_is_the_error_of_its_own_cells(data: str, monkeypatch):
    documents_of = method_cells.documents_of

    def refused(config: CorpusConfig) -> ArtifactRef:
        if "blog_usgov" in config.source:
            raise EmptyCorpusError("no text")
        return documents_of(config)

    monkeypatch.setattr(method_cells, "documents_of", refused)
    cells = made(table(data, methods=["simcse"]))
    assert [(cell.corpus, cell.error) for cell in cells] == [
        *[("blog_usgov", "E101 no text")] * 4,
        *[("plain_sentences", "")] * 4,
    ]
    found = shot(few(data, methods=["conpono"]))
    assert {cell.error for cell in found} == {"E101 no text"}
    assert {cell.labels for cell in found if cell.method == "conpono"} == {0, 4, 8}


@pytest.mark.parametrize(
    "error",
    [StorageError("write failed: no space left."), ConnectError("no answer")],
    ids=["disk", "server"],
)
def test_a_full_disk_and_a_lost_server_end_the_table_not_a_cell(data: str, monkeypatch, error):
    """Every later cell would meet them too; `resume` goes on with a run that failed."""

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(row_steps, "after_step", fails)
    with pytest.raises(type(error)):
        made(table(data, corpora=["blog_usgov"], methods=["conpono", "simcse"]))
    assert last_runs(Store.default())[0].state == "failed"


def test_an_absent_file_is_named_before_anything_runs(tmp_path: Path):
    with pytest.raises(UnreadableSourceError, match=r"wants blog_usgov\.parquet.*--data"):
        table(str(tmp_path)).check_files()


@pytest.mark.parametrize("name", ["methods-small", "few-shot", "mutual.t1"])
def test_a_record_names_its_folder_from_anywhere(data: str, name: str, monkeypatch):
    monkeypatch.chdir(Path(data).parent)
    assert table_settings(name, {"data": Path(data).name}).data == data


def test_a_part_of_the_table_has_a_place_of_its_own():
    blog = MethodTable(data="d", corpora=("blog_usgov",), encoders=("minilm", "static"))
    assert (MethodTable(data="d").marks, FewShotTable(data="d").marks) == (
        "methods-small",
        "few-shot",
    )
    assert blog.marks == "methods-small blog_usgov minilm static"


def test_a_row_is_any_method_or_a_variant_of_one():
    assert set(METHOD_NAMES) - {"fine_tune"} < set(METHODS) < set(MethodTable.rows)
    config = MethodTable(data="")
    for start in config.encoders:
        for row in METHODS:
            assert config.steps_of(row, start)[-1].method.name == METHODS[row]["name"]


def test_an_unknown_method_is_a_mistake_with_a_way_out(data: str):
    with pytest.raises(UsageError, match="did you mean 'simcse'"):
        table(data, methods=["simcsee"])


@pytest.mark.parametrize("model", [MethodTable, FewShotTable, Reproduction])
def test_what_is_named_twice_is_one(model):
    """Else one training is two of a mean, and the deviation too small."""
    named = {"experiment": "mutual.t1"} if model is Reproduction else {}
    asked = checked_as(model, {"data": "data", "seeds": [43, 42, 43]} | named)
    assert asked.seeds == (43, 42)


@pytest.mark.parametrize("model", [MethodTable, FewShotTable])
def test_rows_that_are_asked_for_twice_are_one(model):
    once = {"corpora": ("blog_usgov",), "encoders": ("static",), "methods": ("simcse",)}
    asked = checked_as(model, {"data": "data"} | {name: 2 * v for name, v in once.items()})
    assert asked.model_dump(include=set(once)) == once


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        (MethodTable, {"seeds": [-1]}, r"seeds\.0.*greater than or equal to 0, found -1"),
        (MethodTable, {"seeds": []}, "seeds.*at least 1 item"),
        (FewShotTable, {"seeds": [1, -1]}, r"seeds\.1.*greater than or equal to 0, found -1"),
        (FewShotTable, {"counts": [-5]}, r"counts\.0.*greater than or equal to 2, found -5"),
        (FewShotTable, {"corpora": ["plain_sentences"]}, "labels are titles, and plain_sent.*elif"),
        (Reproduction, {"seeds": [-1]}, r"seeds\.0.*greater than or equal to 0, found -1"),
    ],
)
def test_what_a_table_cannot_be_made_of_is_told_by_its_name(model, changes: Json, words: str):
    named = {"experiment": "mutual.t1"} if model is Reproduction else {}
    with pytest.raises(UsageError, match=words):
        checked_as(model, {"data": "data"} | named | changes)


def test_products_are_judged_as_plain_sentences_are(tmp_path: Path):
    """Nothing looks for them: they have no titles."""
    products = {"title1": write_data_folder(tmp_path, documents=30)}
    pq.write_table(pa.table(products), tmp_path / "product_abt_buy.parquet")
    asked = table(str(tmp_path), corpora=["product_abt_buy"], methods=["simcse"])
    asked.check_files()
    assert [set(numbers_of(cell)) for cell in made(asked)] == [{"STS-B dev", "SICK-R test"}] * 4
    (tmp_path / "stsb_dev.parquet").unlink()
    with pytest.raises(UnreadableSourceError, match=r"wants stsb_dev\.parquet"):
        asked.check_files()


def measured(method: str, seed: int, **changes: object) -> MethodCell:
    cell = MethodCell(corpus="c", start="s", method=method, seed=seed, steps=1_000, batch_size=64)
    return cell.model_copy(update=changes)


def test_seeds_are_one_row_with_mean_and_spread(monkeypatch):
    values = {1: 0.25, 2: 0.5, 3: 0.75}
    monkeypatch.setattr("tasks.tables.cells.numbers_of", lambda cell: {"R@1": values[cell.seed]})
    told = [measured(method, seed, seconds=float(seed)) for seed in values for method in "ab"]
    assert lines(told) == [
        ["c", "s", method, "0.500 ± 0.250", "", "", "1,000", "64", "2"] for method in "ab"
    ]


def test_where_one_seed_failed_its_code_stands_beside_the_mean(monkeypatch):
    monkeypatch.setattr("tasks.tables.cells.numbers_of", lambda cell: {"R@1": 0.5})
    told = [measured("a", 1), measured("a", 2, error="E302 Training met a loss of nan.")]
    assert lines(told)[0][3] == "0.500 E302"


def test_a_seed_that_failed_took_no_seconds_of_a_training(monkeypatch):
    monkeypatch.setattr("tasks.tables.cells.numbers_of", lambda cell: {"R@1": 0.5})
    failed = measured("a", 2, seconds=1.0, error="E302 Training met a loss of nan.")
    assert lines([measured("a", 1, seconds=99.0), failed])[0][-1] == "99"
    assert lines([failed])[0][-3:] == ["1,000", "64", ""]


def test_what_learns_from_labels_alone_tells_its_seconds(monkeypatch):
    monkeypatch.setattr("tasks.tables.cells.numbers_of", lambda cell: {"R@1": 0.5})
    cell = measured("no method", 1, steps=0, batch_size=0, labels=100, seconds=7.0)
    assert lines([cell])[0][-3:] == ["", "", "7"]
    assert lines([cell.model_copy(update={"labels": 0})])[0][-3:] == ["", "", ""]


def test_the_document_keeps_everything_outside_the_marks(tmp_path: Path):
    file = tmp_path / "RESULTS.md"
    file.write_text("a\n<!-- t:begin -->\nold\n<!-- t:end -->\nz\n", encoding="utf-8")
    cells = [measured("conpono", 1, error="E102 no pairs.")]
    for _ in range(2):
        write_between_marks(file, "t", cells_markdown(cells))
        text = file.read_text(encoding="utf-8")
        assert text.startswith("a\n<!-- t:begin -->\n| corpus | start | method | R@1")
        assert text.endswith("- conpono on c from s: E102 no pairs.\n<!-- t:end -->\nz\n")
    file.write_text("no marks", encoding="utf-8")
    with pytest.raises(UsageError, match="<!-- t:begin -->"):
        write_between_marks(file, "t", "")


def test_what_training_read_of_its_judges_is_measured_and_printed(data: str):
    """The STS files of the folder are pairs of its plain sentences."""
    config = table(data, methods=["cls_before_pooler"])
    with without_prefect(Store.default()):
        found = methods_small.fn(config)
    overlaps = largest_overlaps(found.overlaps)
    assert {name: one.exact for name, one in overlaps.items()} == {"STS-B-dev": 1.0, "SICK-R": 1.0}
    assert list(found.pools) == ["blog_usgov"]
    assert "measure_overlap" in {one.stage for one in last_runs(Store.default())[0].stages}
    with dry_run(Store.default()) as plan:
        method_cells.walked(config, method_cells.cells(config))
    assert ("measure_overlap", "HIT") in {(one.stage, one.verdict) for one in plan.statuses}
    seen = found.seen()
    told = cells_markdown([measured("conpono", 1)], seen)
    _, texts, _ = seen
    assert texts.startswith("Judges' texts that training read as a whole: ")
    assert texts.count("100.0 %") == 2
    assert all(f"\n- {line}" in told for line in seen)


def test_people_and_programs_read_the_same_rows():
    cells = [measured("conpono", 1, error="E102 no pairs.")]
    shown = cells_table(cells)
    assert [str(column.header) for column in shown.columns] == header(cells)
    assert (shown.row_count, cells_json(cells)[0]["error"]) == (1, "E102 no pairs.")


def few(data: str, **changes: object) -> FewShotTable:
    settings = {"data": data, "counts": [4, 8], "seeds": [1], "steps": 4, "batch_size": 8}
    return checked_as(FewShotTable, settings | {"labels": {"epochs": 2}} | changes)


def shot(config: FewShotTable) -> list[MethodCell]:
    with without_prefect(Store.default()):
        return few_shot.fn(config).cells


LEAD = re.compile(
    r"blog_usgov, static, (\d+) labels: (.+) less (.+) ([+-]\d\.\d+) "
    r"\([+-]\d\.\d+ to [+-]\d\.\d+\), above in [01] of 1 seed; one seed alone .*"
)


def test_every_method_meets_every_number_of_labels(data: str, tmp_path: Path, capsys):
    cells = shot(few(data, methods=["conpono", "infocse_idc", "simcse"]))
    found = {(cell.method, cell.labels) for cell in cells if cell.scores}
    curves = {(method, count) for method in ("conpono", "infocse_idc") for count in (0, 4, 8)}
    plus = {(method, count) for method in (NOTHING, PLUS) for count in (4, 8)}
    fixed = {(name, 0) for name in ("random vectors", "BM25", "start encoder")}
    assert found == curves | plus | fixed
    assert {cell.error.split()[0] for cell in cells if cell.method == "simcse"} == {"E303"}
    assert "labels" in header(cells)
    assert {bool(cell.seconds) for cell in cells if cell.learnt and not cell.error} == {True}
    assert {line[-1] for line in lines(cells) if line[2] == "start encoder"} == {""}
    (figure,) = write_curves(cells, {"seeds": [42]}, tmp_path)
    drawn = json.loads(figure.with_suffix(".json").read_text())
    assert drawn["settings"] == {"seeds": [42]}
    assert {(point["method"], point["labels"]) for point in drawn["points"]} == curves | plus
    assert drawn["fixed"].keys() == {"random vectors", "BM25", "start encoder"}
    assert figure.read_bytes()[:4] == b"\x89PNG"

    found = leads(cells)
    head, *told = told_leads(cells)
    assert drawn["leads"] == [lead.model_dump() for lead in found]
    assert len(found) == len(told)
    for lead in found:
        assert lead.low <= lead.mean <= lead.high
    recall = {(cell.method, cell.labels): numbers_of(cell)["R@5"] for cell in cells if cell.scores}
    assert len(told) == len(curves | plus) - 3  # of each number of labels the best has no rival
    for line in told:
        labels, best, other, gain = LEAD.fullmatch(line).groups()
        own = {name: recall[name, count] for name, count in curves | plus if count == int(labels)}
        assert own[best] == max(own.values())
        assert float(gain) == pytest.approx(own[best] - own[other], abs=5e-4)
    assert f"- {head}\n- {told[0]}" in cells_markdown(cells)
    console.show(cells_table(cells))
    assert " ".join(told[0].split()) in " ".join(capsys.readouterr().out.split())
    assert leads([cell for cell in cells if not cell.labels]) == []


def test_a_lead_is_of_the_seeds_that_both_have(monkeypatch):
    """Of 40 queries the first method answers all, the second the first 20 or none."""

    def hits(count: int) -> TaskResult:
        found = np.repeat([1.0, 0.0], [count, 40 - count])
        return TaskResult("title", "R@5", {"R@5": count / 40}, found[:, None])

    of_b, of_c = {1: hits(20), 3: hits(0)}, {3: hits(0)}
    methods = {"b": of_b, "a": {1: hits(40), 2: hits(40)}, "c": of_c}
    monkeypatch.setattr("tasks.tables.cells.hits_of", lambda cells: {("c", "s", 100): methods})
    above_b, above_c = leads([measured("a", 1, labels=100)])
    line, apart = str(above_b), str(above_c)
    assert (above_c.seeds, above_c.mean) == (0, None)
    assert line.startswith("c, s, 100 labels: a less b +0.500 (+0.3")
    assert apart == "c, s, 100 labels: a less c have no seed in common"
    assert "), above in 1 of 1 seed; one seed alone knows the noise of the queries" in line


def test_the_best_of_a_number_of_labels_is_the_best_of_the_same_seeds(monkeypatch):
    """Seed 2 is hard, and the first method has no number there."""

    def hits(count: int) -> TaskResult:
        found = np.repeat([1.0, 0.0], [count, 40 - count])
        return TaskResult("title", "R@5", {"R@5": count / 40}, found[:, None])

    methods = {"lucky": {1: hits(30)}, "better": {1: hits(40), 2: hits(10)}}
    monkeypatch.setattr("tasks.tables.cells.hits_of", lambda cells: {("c", "s", 100): methods})
    (lead,) = leads([measured("better", 1, labels=100)])
    assert (lead.best, lead.other, lead.mean) == ("better", "lucky", 0.25)


@pytest.mark.parametrize(
    ("start", "shares"), [("static", [0.25, 0.25, None, 0.5, None]), ("minilm", [0.5, None] * 2)]
)
def test_infocse_plus_meets_the_labels_in_either_cycle(start: Start, shares: list[float | None]):
    """Each cycle has half of what a method without cycles has."""
    asked = few("data")
    steps = asked.point_steps(PLUS, 4, start)
    assert [getattr(step, "times", None) for step in steps] == shares
    assert {step.count for step in steps if isinstance(step, Label)} == {4}


@pytest.mark.parametrize("steps", [4, 5, 7])
def test_a_cycle_is_told_with_the_steps_that_it_takes(steps: int):
    asked = few("data", steps=steps)
    alone, *_ = asked.point_steps(PLUS, 4, "minilm")
    assert asked.training_of(alone, "minilm", 1).steps == asked.cost(PLUS, "minilm")["steps"]


def test_a_method_says_how_many_steps_each_of_its_cycles_has(data: str):
    cells = shot(few(data, counts=[4], methods=["infocse_idc"]))
    told = {cell.method: (cell.cycles, cell.steps) for cell in cells if cell.labels}
    assert told == {NOTHING: (1, 0), PLUS: (2, 2), "infocse_idc": (1, 4)}


def test_inner_products_meet_the_labels_without_a_temperature():
    """One for cosines would leave them no gradient."""
    asked = few("data", methods=["infocse_idc", "infocse_idc_dot"])
    for row, temperature in (("infocse_idc", 0.05), ("infocse_idc_dot", 1.0)):
        trainings = [
            asked.training_of(step, "static", 1) for step in asked.point_steps(row, 4, "static")
        ]
        assert trainings[-1].method.name == "fine_tune"
        assert {training.method.temperature for training in trainings} == {temperature}


def test_a_plan_of_few_shot_curves_tells_of_every_cell_before_a_cycle_is_judged(data: str):
    asked = few(data, counts=[4])
    with without_prefect(Store.default()):
        (block, _) = method_cells.tried_block(asked, "blog_usgov", "static", 1)
        shots.counts_of(asked, block)
    with dry_run(Store.default()) as plan:
        cells = list(shots.few_shot_cells(asked))
    assert plan.incomplete
    assert {cell.error for cell in cells} == {""}
    assert {cell.method for cell in cells} > {PLUS, "infocse_idc"}


def test_more_labels_than_there_are_make_one_point(data: str):
    cells = shot(few(data, methods=["conpono"], counts=[4, 500, 1_000]))
    counts = sorted({cell.labels for cell in cells if cell.method == "conpono"})
    assert counts[:2] == [0, 4]
    assert len(counts) == 3
    assert counts[2] < 30


def test_a_curve_goes_on_where_it_was(data: str):
    shot(few(data, methods=["conpono"]))
    with recording(Store.default(), "probe", [], {}) as log:
        shot(few(data, methods=["conpono"]))
    assert not [used for used in log.used if not used.hit]
