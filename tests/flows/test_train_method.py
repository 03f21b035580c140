"""A run of one training by any method: its stages, report and record."""

import json
import re
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from pydantic import ValidationError

from flows.cli.run import closing_lines
from flows.cli.settings import checked
from flows.train_method import train_method, train_once
from sentemb_core.config.run import MethodRun, ValidationConfig
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.encoder import start
from sentemb_core.encoder.checkpoint import save_encoder
from sentemb_core.encoder.names import HEAD_FILE
from sentemb_core.errors import BadDataError, RecipeError
from sentemb_core.methods.parts.stored_head import HeadShape, write_head
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs
from tasks.artifacts import artifact_path
from tasks.checks import check_run
from tasks.execution import dry_run, without_prefect
from tasks.gate import has_collapsed
from tasks.report import doubts_of, draw_report, full_report, write_report_of
from tasks.run_table import outcome_table
from tasks.validate import recall_at_5
from tests import tiny
from tests.flows.corpora import TOPICS, bodies_run, in_process, outcome_of, probed, tiny_run
from tests.messages import pattern

pytestmark = pytest.mark.usefixtures("home")


def tiny_method(source: Path, method: str = "conpono", **changes: object) -> MethodRun:
    """The corpus and the encoder of `tiny_run`, and one training."""
    whole = tiny_run(source).model_dump(include={"name", "corpus", "encoder", "initialiser"})
    training = whole.pop("initialiser") | {"method": {"name": method}, "steps": 30}
    return MethodRun.model_validate(whole | {"training": training} | changes)


trained = partial(in_process, train_once)


def test_a_condenser_stage_has_no_map(corpus_file: Path):
    stage = {"method": {"name": "condenser"}}
    with pytest.raises(ValidationError, match=pattern("Condenser postprocess")):
        tiny_method(corpus_file, training=stage, postprocess="flow")


def test_a_run_trains_once_and_validation_chooses(corpus_file: Path):
    found = trained(tiny_method(corpus_file))
    assert [row.label for row in found.rows] == ["start", "after conpono"]
    start, after = (recall_at_5(row.scores) for row in found.rows)
    assert after > start
    assert (found.best, found.controls) == (1, [])


def test_a_harmful_training_returns_the_start_encoder(corpus_file: Path):
    hardly = {"method": "conpono", "steps": 1, "batch_size": 16, "learning_rate": 1e-9}
    assert trained(tiny_method(corpus_file, training=hardly)).best == 0


def test_a_method_that_is_its_own_initialiser_has_unique_labels(corpus_file: Path):
    config = tiny_method(corpus_file)
    found = trained(config.model_copy(update={"initialiser": config.training}))
    last = found.model_copy(update={"best": 2})
    assert [row.label for row in last.path] == ["start", "after conpono", "after conpono again"]


def word_vectors(folder: Path, broken: str = "") -> Path:
    """A file of word vectors, each topic of the corpus in a direction of its own."""
    file = folder / "words.vec"
    words = [(word, k) for k, topic in enumerate(TOPICS) for word in topic.split()]
    rows = [" ".join([word, *map(str, np.eye(6)[k])]) for word, k in words]
    file.write_text("\n".join([f"{len(rows)} 6", *rows]) + broken, encoding="utf-8")
    return file


def test_a_run_may_start_from_word_vectors_which_are_known_by_their_bytes(
    corpus_file: Path, tmp_path: Path
):
    file = word_vectors(tmp_path)
    config = tiny_method(corpus_file, encoder={"name": str(file)})
    check_run(config)
    found = trained(config)
    assert [row.label for row in found.rows] == ["start", "after conpono"]
    assert recall_at_5(found.rows[0].scores) > 0.3  # a sixth of the titles is of a topic
    moved = file.rename(tmp_path / "moved.vec")
    assert bodies_run(trained, tiny_method(corpus_file, encoder={"name": str(moved)})) == []
    file.write_text("river 1 0\nflood 0 1\n")
    assert trained(config).rows[0].encoder != found.rows[0].encoder


def test_word_vectors_of_a_wrong_width_are_refused_before_anything_trains(
    corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = tiny_method(corpus_file, encoder={"name": str(word_vectors(tmp_path, "\nlate 1 2 3"))})
    values = r"E100 .*words\.vec .* 6 .* 31 has 3"
    with pytest.raises(BadDataError, match=values):
        check_run(config)
    monkeypatch.setattr(start, "FIRST_WORDS", 10)  # behind those that are looked at before a run
    check_run(config)
    with probed() as log, pytest.raises(BadDataError, match=values):
        trained(config)
    assert {used.stage for used in log.run.stages} == {"read_corpus", "draw_validation_pool"}


def test_neither_a_rerun_nor_a_folder_named_as_the_encoder_runs_a_stage_body(
    corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    trained(tiny_method(corpus_file))
    assert bodies_run(trained, tiny_method(corpus_file)) == []
    (tmp_path / "static").mkdir()
    monkeypatch.chdir(tmp_path)
    assert bodies_run(trained, tiny_method(corpus_file)) == []


def test_a_dry_run_visits_the_flow(corpus_file: Path):
    trained(tiny_method(corpus_file))
    with dry_run() as plan:
        train_once(tiny_method(corpus_file, "ict"), lambda row: None)
    verdicts = {status.stage: status.verdict for status in plan.statuses}
    assert (verdicts["start_encoder"], verdicts["train_encoder"]) == ("HIT", "MISS")


def test_a_method_that_needs_layers_refuses_a_static_encoder_before_a_record(corpus_file: Path):
    config = tiny_method(corpus_file, "simcse")
    with pytest.raises(RecipeError, match=pattern("E303 simcse static")):
        trained(config)
    with without_prefect(), pytest.raises(RecipeError, match="E303 simcse"):
        train_method.fn(config)
    assert last_runs(Store.default()) == []


def test_a_run_continues_the_head_of_a_condenser_folder(corpus_file: Path, tmp_path: Path):
    small = {"name": "transformer", "dim": 16, "vocabulary": 300}
    steps = {"steps": 2, "batch_size": 8, "learning_rate": 1e-9}
    stage = {"method": {"name": "condenser"}, **steps}
    first = trained(tiny_method(corpus_file, encoder=small, training=stage))
    assert first.best == 1
    folder = Store.default().path(first.rows[1].encoder)
    training = {"method": {"name": "infocse_aux", "weight": 1.0}, **steps}
    given = tiny_method(corpus_file, encoder={"name": str(folder)}, training=training)
    check_run(given)
    own = tiny_method(corpus_file, encoder=small, initialiser=stage, training=training)
    random = given.training.method.model_copy(update={"random_head": True})
    other = given.training.model_copy(update={"method": random})
    ends = [
        Store.default().path(trained(config).rows[-1].encoder) / "model.safetensors"
        for config in (given, own, given.model_copy(update={"training": other}))
    ]
    weights = [end.read_bytes() for end in ends]
    assert weights[0] == weights[1] != weights[2]
    assert not (ends[0].parent / HEAD_FILE).exists()


def test_folders_without_a_fitting_head_are_refused(corpus_file: Path, tmp_path):
    save_encoder(tiny.bert(), tmp_path / "bare", "")
    shutil.copytree(tmp_path / "bare", tmp_path / "deep")
    write_head({"bias": torch.zeros(1)}, HeadShape(layers=3, below=1), tmp_path / "deep")
    values = {"bare": "random_head=true", "deep": "of 3 layers.*head_layers 2.*head_layers=3"}
    for name, found in values.items():
        start = {"name": str(tmp_path / name)}
        with pytest.raises(RecipeError, match=f"E303 .*{found}"):
            check_run(tiny_method(corpus_file, "infocse_aux", encoder=start))


def test_the_gate_reads_the_stored_vectors(corpus_file: Path, monkeypatch: pytest.MonkeyPatch):
    run = trained(tiny_method(corpus_file))
    without = [row.model_copy(update={"embeddings": None}) for row in run.rows]
    bare = run.model_copy(update={"rows": without})
    assert has_collapsed(run, 100) == has_collapsed(bare, 100)

    def refuse(*_: object) -> None:
        raise AssertionError("encoded again")

    monkeypatch.setattr("sentemb_core.encoder.batching.encode", refuse)
    assert not has_collapsed(run, 100)
    with pytest.raises(AssertionError, match="encoded again"):
        has_collapsed(bare, 100)


def test_the_report_of_one_training_has_its_curve_and_is_in_the_home_of_today(
    corpus_file: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):
    config = tiny_method(corpus_file)
    outcome = outcome_of(trained(config))
    report = full_report(outcome, config)
    assert [row.label for row in report.rounds] == ["start", "after conpono"]
    assert [row.curve is not None for row in report.rounds] == [False, True]
    assert report.notes == doubts_of(outcome.training)
    assert report.settings["training.method.name"] == "conpono"
    moved = outcome.model_copy(update={"report": str(tmp_path / "old" / "report.html")})
    with caplog.at_level("INFO", logger="sentemb_core.run"):
        page = write_report_of(moved, config)
    assert page.parent == Store.default().root / "reports" / outcome.run
    assert (page.parent,) in [record.args for record in caplog.records]
    assert not (tmp_path / "old").exists()
    before = page.read_bytes()
    monkeypatch.setattr(type(draw_report.stage), "compute", None)  # nothing is drawn again
    assert write_report_of(moved, config).read_bytes() == before


@pytest.mark.parametrize("halves", [False, True])
def test_the_table_of_a_run_names_what_its_queries_retrieve(corpus_file: Path, halves: bool):
    pool = ValidationConfig(halves=halves, gate_share=0.0)
    changes = {"validation": pool, "register_model": False}
    outcome = outcome_of(trained(tiny_method(corpus_file).model_copy(update=changes)))
    with without_prefect():
        heads = str(outcome_table(outcome).head())
    assert ("counterpart" in heads, "first half → second half" in heads) == (not halves, halves)


def test_refused_rows_are_reported_in_order(
    corpus_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    lines = corpus_file.read_text("utf-8").splitlines()
    source = tmp_path / "with_bad_rows.jsonl"
    bad = [lines[0], json.dumps({"id": None, "sentences": ["A word."]}), "no JSON"]
    source.write_text("\n".join([*lines, *bad]) + "\n", "utf-8")
    config = tiny_method(source)
    with caplog.at_level("INFO", logger="sentemb_core"):
        outcome = outcome_of(trained(config))
        report = full_report(outcome, config)
    assert [(row.row - len(lines), row.reason) for row in report.quarantine.rows] == [
        (0, "duplicate-id"),
        (1, "bad-id"),
        (2, "broken-row"),
    ]
    assert report.quarantine.rows[1].excerpt == ""
    assert pq.read_table(report.quarantine.file).num_rows == 3
    counts = f"3 of {len(lines) + 3} 1 bad-id, 1 broken-row, 1 duplicate-id"
    for shown in (caplog.messages, closing_lines(outcome, config)):
        found = [line for line in shown if report.quarantine.file in line]
        assert [bool(re.search(pattern(counts), line)) for line in found] == [True]


def test_the_share_of_truncated_sentences_is_logged_and_reported(
    corpus_file: Path, caplog: pytest.LogCaptureFixture
):
    config = tiny_method(corpus_file)
    short = config.encoder.model_copy(update={"max_length": 3})
    config = config.model_copy(update={"encoder": short})
    with caplog.at_level("INFO", logger="sentemb_core"):
        report = full_report(outcome_of(trained(config)), config)
    truncated = str(report.corpus["read by the encoder"])
    assert float(truncated.partition("%")[0]) > 50
    assert " 3 tokens" in truncated
    (line,) = [message for message in caplog.messages if truncated in message]
    assert "encoder.max_length" in line


def test_hicl_logs_the_share_of_texts_with_several_segments(
    corpus_file: Path, caplog: pytest.LogCaptureFixture
):
    small = {"name": "transformer", "dim": 16, "vocabulary": 300}
    training = {"method": {"name": "hicl", "segment": 42}, "steps": 1, "batch_size": 8}
    config = tiny_method(corpus_file, encoder=small, training=training)
    with caplog.at_level("INFO", logger="sentemb_core.run"):
        found = trained(config)
    corpus = TokenCorpus.open(artifact_path(found.texts.sentences))
    content = np.add.reduceat(corpus.uncut_lengths - 2, corpus.offsets[:-1])
    share = 100 * (content > 40).mean()
    assert 0 < share < 100
    assert (share, 60) in [record.args for record in caplog.records]


def test_the_method_of_a_record_chooses_the_flow(corpus_file: Path):
    for config in (tiny_method(corpus_file), tiny_run(corpus_file)):
        record = json.loads(config.model_dump_json())
        assert checked(record) == config


@pytest.mark.server
@pytest.mark.slow
def test_a_whole_run_is_reported_recorded_and_registered(prefect_server, corpus_file, home):
    outcome = train_method(tiny_method(corpus_file))
    (record,) = last_runs(Store.default())
    assert (record.id, record.state) == (outcome.run, "completed")
    assert Path(outcome.report).is_file()
    assert outcome.gate is not None
    assert outcome.gate.uri == "models:/tiny/1"
    assert "15 queries" in outcome.gate.reason
    card = (Store.default().path(outcome.encoder) / "README.md").read_text()
    assert "- Method: conpono\n" in card
