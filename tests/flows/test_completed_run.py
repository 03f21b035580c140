"""One run under a real Prefect server with MLflow: pages, records, registry, report, verbs."""

import json
import os
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, FlowRunFilter

from flows.__main__ import app
from flows.cli.reproduce import table_settings
from flows.cli.run import closing_lines
from flows.cli.settings import settings
from flows.experiments.settings import Reproduction
from flows.infocse_idc import infocse_idc
from sentemb_core import console
from sentemb_core.annotation.pairs import read_report
from sentemb_core.config.run import InfoCSEIDC
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import load_encoder
from sentemb_core.errors import RegistryError
from sentemb_core.evaluation.bootstrap import confidence_interval
from sentemb_core.evaluation.canary import match_vectors
from sentemb_core.evaluation.round_values import read_diagnostics
from sentemb_core.evaluation.validation_scores import read_ranks
from sentemb_core.report import collect
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import Run, last_runs
from sentemb_core.types import ArtifactRef
from tasks.artifacts import EncoderResult
from tasks.prefect_pages import artifact_key
from tasks.registered_encoders import canaries_of, find_encoder, with_local_encoders
from tasks.registry import find_version
from tasks.report import Outcome, row_and_control
from tasks.servers import experiment_id, mlflow_client
from tasks.stage import STAGES
from tasks.tracking import plain
from tasks.validate import scores_of
from tests.flows.corpora import tiny_run
from tests.messages import pattern
from tests.waiting import soon

pytestmark = [pytest.mark.server, pytest.mark.slow]

CHAMPION = "models:/tiny@champion"
MLFLOW = "http://127.0.0.1:5000"
SECRETS = {
    "HF_TOKEN": "secret-of-the-hub",
    "MLFLOW_TRACKING_PASSWORD": "secret-of-mlflow",
    "SOME_API_KEY": "secret-of-another",
}
ROWS = ["start", "after conpono", "round 1", "round 2", "control 1", "control 2"]

MANY_FOR_THE_GATE = {"gate_share": 0.6, "validation_share": 0.2}
"""With fewer than 30 queries the gate promotes nothing."""

COLUMNS = ("--id-column", "id", "--sentences-column", "sentences")
SENTENCES = ("--by", "sentence", *COLUMNS)

EXPORTED = {
    "clusters",
    "clusters_per_document",
    "pairs",
    "kept_share",
    "dropped_share",
    "adjacent_share",
    "lexical_overlap",
}
"""The metrics of a round that come from the stage of pairs."""


@dataclass
class Completed:
    """A finished run of the flow."""

    home: Path
    config: InfoCSEIDC
    id: str
    """Of the Prefect flow run."""
    outcome: Outcome
    record: Run


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """One home for all tests here; the command line's changes to the environment end with them."""
    folder = tmp_path_factory.mktemp("runs") / "home"
    folder.mkdir()
    (folder / "mlflow.url").write_text(f"{MLFLOW}\n")  # as `serve --mlflow` leaves it
    environment = mock.patch.dict(os.environ, {"SENTEMB_HOME": str(folder)} | SECRETS)
    with environment, mock.patch("tasks.servers.answers", return_value=True):
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        yield folder


def run(home: Path, config: InfoCSEIDC) -> Completed:
    torch.set_num_threads(1)
    state = infocse_idc(config, return_state=True)
    assert state.is_completed(), state.message
    outcome = state.result()
    record = next(one for one in last_runs(Store.default()) if one.id == outcome.run)
    return Completed(home, config, state.state_details.flow_run_id, outcome, record)


@pytest.fixture(scope="module")
def first(prefect_server, home, corpus_file):
    return run(home, tiny_run(corpus_file, validation=MANY_FOR_THE_GATE))


@pytest.fixture(scope="module")
def again(first):
    return run(first.home, first.config)


@pytest.fixture(scope="module")
def worse(again, corpus_file):
    """The same name, hardly trained, after the good one."""
    hardly = {"method": "conpono", "steps": 1, "batch_size": 16, "learning_rate": 1e-9}
    rounds = {"max_rounds": 1, "patience": 1}
    config = tiny_run(
        corpus_file,
        initialiser=hardly,
        rounds=rounds,
        control=False,
        validation=MANY_FOR_THE_GATE,
    )
    training = config.training.model_copy(update={"steps": 1, "learning_rate": 1e-9})
    return run(again.home, config.model_copy(update={"training": training}))


@pytest.fixture(scope="module")
def report(first) -> dict[str, Any]:
    """The data of the first run's page."""
    return json.loads(Path(first.outcome.report).with_name("report.json").read_text("utf-8"))


def rows_of(run: Completed) -> list[EncoderResult]:
    """As they stand in tables: the controls last."""
    return [*run.outcome.training.rows, *run.outcome.training.controls]


def call(*arguments: str) -> int:
    """Exit code of `python -m flows ...`, in this process."""
    return console.run(app, arguments)


def last_json(capsys) -> Any:
    """The JSON that calls wrote since one looked last."""
    return json.loads(capsys.readouterr().out)


def stored(artifact: ArtifactRef) -> Path:
    return Store.default().path(artifact)


@pytest.fixture
def client(prefect_server):
    with get_client(sync_client=True) as client:
        yield client


def test_rounds_and_trainings_are_completed_sub_flows(first, client):
    parent = FlowRunFilter(parent_flow_run_id={"any_": [first.id]})
    inside = soon(
        lambda: client.read_flow_runs(flow_run_filter=parent),
        lambda found: len(found) == 5 and all(one.state.is_final() for one in found),
    )
    assert {one.name for one in inside} == {
        "after conpono",
        "round 1",
        "round 2",
        "control 1: neighbours only",
        "control 2: neighbours only",
    }
    assert {one.state.name for one in inside} == {"Completed"}


def test_a_round_runs_its_stages_in_the_papers_order(first, client):
    mine = FlowRunFilter(name={"any_": ["round 1"]}, parent_flow_run_id={"any_": [first.id]})
    (round_1,) = client.read_flow_runs(flow_run_filter=mine)
    inside = FlowRunFilter(id={"any_": [round_1.id]})
    ran = soon(
        lambda: client.read_task_runs(flow_run_filter=inside, sort="EXPECTED_START_TIME_ASC"),
        lambda tasks: len(tasks) == 9,
    )
    assert [task.name for task in ran] == [
        "encode_sentences",  # cached by the validation of the encoder before
        "build_graph",
        "prune_graph",
        "cluster_sentences",
        "export_pairs",
        "train_encoder",
        "encode_sentences",
        "validate_encoder",
        "diagnose_round",
    ]


def test_the_table_of_rounds_grew_with_every_row(first, report, client):
    key = ArtifactFilter(key={"any_": [artifact_key(first.outcome.run)]})
    versions = client.read_artifacts(artifact_filter=key)
    tables = sorted((json.loads(version.data) for version in versions), key=len)
    assert [len(table) for table in tables] == [1, 2, 3, 4, 5, 6]
    assert [row["encoder"].partition(":")[0] for row in tables[-1]] == ROWS
    assert all(row["R@5"] for row in tables[-1])
    for row, shown in zip(rows_of(first), tables[-1], strict=True):
        scores = scores_of(row.scores)["validation"].document_to_counterpart
        assert shown["R@20"] == f"{scores.recall_at_20:.3f}"
    kept = [one["numbers"].get("kept_share") for one in report["rounds"]]
    assert [share is not None for share in kept] == [False, False, True, True, False, False]
    shares = ["" if share is None else f"{share:.3f}" for share in kept]
    assert [row["pairs kept"] for row in tables[-1]] == shares


def test_notes_links_and_progress_bars_are_on_the_runs_page(first, client):
    mine = ArtifactFilter(flow_run_id={"any_": [first.id]})
    key = ArtifactFilter(key={"any_": [artifact_key(f"{first.outcome.run}-mlflow")]})
    notes = [one for one in client.read_artifacts(artifact_filter=mine) if one.type == "markdown"]
    (note,) = [one for one in notes if one.key.endswith("-report")]
    training = first.outcome.training
    assert f"{len(training.rows) + len(training.controls)} encoders" in note.data
    (way,) = [one for one in client.read_artifacts(artifact_filter=key) if one.type == "markdown"]
    assert f"({MLFLOW}/#/experiments/" in way.data
    bars = ArtifactFilter(key={"any_": ["train-encoder"]})
    assert {bar.data for bar in client.read_artifacts(artifact_filter=bars)} >= {100.0}


def mlflow_runs_of(run: Completed) -> tuple[Any, dict[str, Any]]:
    """MLflow's run of a flow run, and the children of that by name."""
    client = mlflow_client(run.home)
    experiments = [experiment_id(run.home)]
    found = client.search_runs(experiments, f"tags.`prefect.flow_run_id` = '{run.id}'")
    (parent,) = [one for one in found if "mlflow.parentRunId" not in one.data.tags]
    query = f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
    return parent, {one.info.run_name: one for one in client.search_runs(experiments, query)}


def test_mlflow_has_a_parent_with_settings_and_a_child_per_encoder(first):
    client = mlflow_client(first.home)
    parent, children = mlflow_runs_of(first)
    assert parent.info.status == "FINISHED"
    assert parent.data.params["training.steps"] == "10"
    assert parent.data.tags["encoder"] == first.outcome.encoder.digest
    assert parent.data.tags["documents"] == first.outcome.training.texts.documents.digest
    (folder,) = client.list_artifacts(parent.info.run_id)
    files = {
        Path(file.path).name for file in client.list_artifacts(parent.info.run_id, folder.path)
    }
    assert files == {"report.html", "report.json", "config.json", "figures"}

    best = first.outcome.training.rows[first.outcome.training.best]
    chosen = children[plain(best.label).replace(" ", "-")].data.metrics
    assert parent.data.metrics.items() <= chosen.items()
    test = scores_of(best.scores)["test"].document_to_counterpart
    assert parent.data.metrics["test/document_to_counterpart/recall_at_5"] == test.recall_at_5

    assert set(children) == {plain(row.label).replace(" ", "-") for row in rows_of(first)}
    child = children["round-1"]
    assert child.data.metrics["validation/document_to_counterpart/recall_at_5"] > 0
    history = client.get_metric_history(child.info.run_id, "training/loss")
    assert [point.step for point in history][-1] == 10


def test_mlflow_has_annotation_metrics_of_rounds_alone(first):
    _, runs = mlflow_runs_of(first)
    children = {name: run.data.metrics for name, run in runs.items()}
    for row in rows_of(first):
        metrics = children[plain(row.label).replace(" ", "-")]
        found = {
            name.removeprefix("annotation/"): value
            for name, value in metrics.items()
            if name.startswith("annotation/")
        }
        if not row.annotation:
            assert found == {}, row.label
            continue
        pairs = stored(row.annotation.pairs)
        exported = read_report(pairs)
        diagnosed = read_diagnostics(stored(row.diagnostics))
        sizes = [int(size) for size, n in exported["cluster_sizes"].items() for _ in range(n)]
        taught = exported["documents"] - exported["held_out_documents"]
        changed = diagnosed.model_dump(
            include={"churn", "new_share", "gone_share"}, exclude_none=True
        )
        assert found == pytest.approx(
            {name: exported[name] for name in EXPORTED}
            | {"cluster_size_mean": np.mean(sizes), "cluster_size_largest": max(sizes)}
            | {"related_share": diagnosed.related_share}
            | {"alignment": diagnosed.after.alignment}
            | diagnosed.after.shape.model_dump(include={"uniformity", "effective_rank"})
            | {"giving_share": exported["giving_documents"] / taught}
            | changed
        )
    assert "annotation/churn" not in children["round-1"], "there is none before it"
    assert -1 <= children["round-2"]["annotation/churn"] <= 1
    assert 0 <= children["round-2"]["annotation/gone_share"] <= 1


def test_the_champion_is_opened_by_the_safe_loader_and_its_canaries_know_it(first):
    assert first.outcome.gate.alias == "champion"
    own, start = first.outcome.encoder, first.outcome.training.rows[0].encoder
    folder = find_encoder(CHAMPION)
    assert folder == stored(own)
    assert embed_texts(load_encoder(folder), ["river flood water."]).shape == (1, 16)
    canaries = canaries_of(CHAMPION)
    assert len(canaries.sentences) == 64
    for artifact, same in ((own, True), (start, False)):
        vectors = embed_texts(load_encoder(stored(artifact)), canaries.sentences)
        assert match_vectors(canaries, canaries.sentences, vectors).same is same


def test_an_index_is_held_against_a_version_in_a_word(first, capsys, tmp_path):
    index = str(tmp_path / "index.parquet")
    start = str(stored(first.outcome.training.rows[0].encoder))
    source = first.config.corpus.source
    for model, code in ((CHAMPION, 0), (start, 3)):
        assert call("encode", source, index, "--model", model, "--overwrite", *SENTENCES) == 0
        capsys.readouterr()
        assert call("canary", index, "--model", CHAMPION, "--json") == code
        result = json.loads(capsys.readouterr().out)
        assert (result["model"], result["same"], result["found"] >= 64) == (
            "models:/tiny/1",
            code == 0,
            True,
        )
    assert call("canary", start, "--model", CHAMPION) == 3
    assert re.search(rf"E202 {start} .*\bmodels:/tiny/1\b", capsys.readouterr().err)
    assert call("canary", str(find_encoder(CHAMPION)), "--model", CHAMPION) == 0
    assert re.search(r"models:/tiny/1\b.*\b64\b", " ".join(capsys.readouterr().out.split()))


def test_an_index_of_other_documents_is_held_against_the_versions_encoder(first, capsys, tmp_path):
    """A rolling corpus has none of the sentences of months ago."""
    later = tmp_path / "later.jsonl"
    rows = [{"id": f"l{k}", "sentences": [f"A later one of {k}.", "It rains."]} for k in range(40)]
    later.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    start = str(stored(first.outcome.training.rows[0].encoder))
    for model, code in ((CHAMPION, 0), (start, 3)):
        index = str(tmp_path / f"{code}.parquet")
        assert call("encode", str(later), index, "--model", model, *SENTENCES) == 0
        assert call("canary", index, "--model", CHAMPION) == code


def test_no_file_of_a_run_holds_a_secret_of_the_environment(first):
    written = [path for path in first.home.rglob("*") if path.is_file()]
    assert len(written) > 100
    assert [path for path in written if b"secret-of-" in path.read_bytes()] == []


def test_the_card_has_corpus_method_scores_and_usage(first):
    card = (find_encoder(CHAMPION) / "README.md").read_text()
    training = first.outcome.training
    digest = training.texts.documents.digest[:12]
    corpus = rf"- Corpus: [\d,]+ documents, [\d,]+ sentences \(documents:{digest}\)"
    assert re.search(corpus, card)
    assert f"- Parent: {training.rows[0].encoder.digest}" in card
    assert "- Start: static" in card
    assert "- Method: infocse_idc: conpono, then round 1" in card
    best = training.rows[training.best]
    scores = {row.label: row.scores for row in training.rows[: training.best]} | {
        f"{best.label} (this model)": best.scores,
        "BM25": training.bm25,
        "control: the same number of steps on plain neighbours": training.controls[0].scores,
    }
    for label, ref in scores.items():
        test = scores_of(ref)["test"].document_to_counterpart
        recalls = (test.recall_at_1, test.recall_at_5, test.recall_at_10)
        assert f"| {label} | {' | '.join(f'{recall:.4f}' for recall in recalls)} |\n" in card
    assert "test R@5" in card
    assert "SentenceTransformer(" in card
    assert "AutoModel" not in card, "it is static"
    assert CHAMPION in card
    assert "## Licence" in card
    assert str(first.home) not in card


def test_the_report_stands_alone_and_is_complete(first, report):
    page = Path(first.outcome.report).read_text("utf-8")
    assert not re.search(r"""(src|href|url)\s*[=(]\s*["']?(https?:|//)""", page)
    for words in (*ROWS, "BM25", "random encoder"):
        assert words in page
    empty = [name for name, value in report.items() if value in (None, [], {}, "")]
    assert empty == ["retriever", "served", "labels", "evaluation"]
    assert report["quarantine"] == {"read": 60, "counts": {}, "rows": [], "file": ""}
    assert "--config" in report["command"]
    assert report["settings"]["training.steps"] == "10"
    curves = [row["curve"] for row in report["rounds"]]
    assert [curve is not None for curve in curves] == [False, *[True] * 5]
    for curve in curves[1:]:
        assert min(curve["gradient_norm"]) > 0
        assert curve["pairs"] == len(curve["step"]) * first.config.training.batch_size
    chosen, control, _ = row_and_control(first.outcome.training)
    test = [
        scores_of(row.scores)["test"].document_to_counterpart.recall_at_5
        for row in (chosen, control)
    ]
    few, note = report["notes"]
    assert few in unescape(page)
    assert note in unescape(page)
    assert few in closing_lines(first.outcome, first.config)
    assert f"{chosen.label} reaches R@5 {test[0]:.3f} on the test split" in note
    assert f"plain neighbours) {test[1]:.3f}:" in note


def test_the_report_shows_every_row_both_ways_and_how_sure_its_validation_is(first, report):
    for row, shown in zip(rows_of(first), report["rounds"], strict=True):
        scores = scores_of(row.scores)
        for split in ("validation", "test"):
            assert shown["scores"][split] == scores[split].model_dump()
        hits = read_ranks(stored(row.scores), "validation") <= 5
        band = confidence_interval(hits.astype(np.float64), collect.SEED)
        assert (shown["low"], shown["high"]) == (band.low, band.high)


def test_the_report_shows_one_document_and_the_lost_queries_with_their_rivals(first, report):
    shown = report["document"]
    assert list(shown["clusters"]) == ROWS[:4]
    lines = Path(first.config.corpus.source).read_text("utf-8").splitlines()
    rows = {row["id"]: row for row in map(json.loads, lines)}
    assert shown["counterpart"] == rows[shown["name"]]["title"]
    assert shown["sentences"] == rows[shown["name"]]["sentences"]
    best = first.outcome.training.rows[first.outcome.training.best]
    ranks = np.sort(read_ranks(stored(best.scores), "validation"))[::-1]
    lost = report["lost_queries"]
    assert [query["rank"] for query in lost] == [rank for rank in ranks[:10].tolist() if rank > 1]
    assert all(query["wanted"] != query["found"] for query in lost)


def test_an_unchanged_run_runs_no_stage_body_and_says_so(again, first, client):
    assert Counter(used.hit for used in again.record.stages) == {True: len(again.record.stages)}
    assert again.outcome.encoder == first.outcome.encoder
    mine = FlowRunFilter(id={"any_": [again.id]})
    tasks = soon(  # a task's begin and end reach the server's table by and by
        lambda: [
            task for task in client.read_task_runs(flow_run_filter=mine) if task.name in STAGES
        ],
        lambda tasks: tasks and all(task.state.is_final() for task in tasks),
    )
    assert {task.state.name for task in tasks} == {"Cached"}
    assert again.outcome.gate.uri == first.outcome.gate.uri, "registered once"
    assert again.outcome.gate.alias == "champion"
    assert again.outcome.gate.text.startswith(again.outcome.gate.uri)
    page = Path(again.outcome.report).read_text("utf-8")
    assert "0 stages ran in 0.00 s" in page


def test_a_worse_encoder_becomes_challenger_and_the_champion_stays(worse, first, capsys):
    assert worse.outcome.gate.alias == "challenger"
    uris = (worse.outcome.gate.uri, first.outcome.gate.uri)
    values = "{} challenger {} champion".format(*uris)
    assert re.search(pattern(values), worse.outcome.gate.serving)
    assert worse.outcome.gate.reason
    assert call("promote", worse.outcome.run) == 4
    assert "E701" in capsys.readouterr().err
    assert call("promote", first.outcome.run) == 0
    champion = find_version(f"models:/{first.config.name}@champion")
    assert champion.uri == first.outcome.gate.uri


def test_verbs_find_the_finished_run(first, capsys):
    assert call("lineage", CHAMPION, "--json") == 0
    assert "read_corpus" in capsys.readouterr().out
    assert call("status", first.outcome.run, "--json") == 0
    verdicts = {status["verdict"] for status in json.loads(capsys.readouterr().out)}
    assert verdicts - {"SAME"} == {"HIT"}
    assert call("where", CHAMPION) == 0
    assert capsys.readouterr().out.strip() == str(find_encoder(CHAMPION))
    assert call("register", first.outcome.run, "--json") == 0
    assert last_json(capsys)["uri"] == first.outcome.gate.uri, "a second time changes nothing"


def test_a_deployment_begins_with_the_champion_of_its_day(worse, capsys):
    config = worse.config
    champion = config.encoder.model_copy(update={"name": CHAMPION})
    changed = {"encoder": champion, "initialiser": None, "register_model": False}
    began = run(worse.home, config.model_copy(update=changed))
    version = find_version(CHAMPION)
    assert began.record.config["encoder"]["name"] == version.uri, "or `resume` began with another"
    made = version.artifact
    start = began.outcome.training.rows[0]
    sentences = ["one of them", "and another"]
    vectors = [embed_texts(load_encoder(stored(one)), sentences) for one in (made, start.encoder)]
    assert np.array_equal(*vectors)


def test_a_command_begins_with_a_registered_encoder(worse, capsys):
    file = worse.config.corpus.source
    source = {"corpus.source": file, "corpus.id_column": "id", "corpus.text_column": "sentences"}
    asked = settings(None, source | {"encoder.name": CHAMPION}, [])
    version, folder = find_version(CHAMPION).uri, str(find_encoder(CHAMPION))
    assert asked.encoder.name == version
    assert with_local_encoders(asked) == settings(
        None, source | {"encoder.name": folder}, []
    )  # its presets
    two = settings(None, source, [f"annotator.name={CHAMPION}"])
    assert isinstance(two, InfoCSEIDC)
    assert two.annotator is not None
    assert two.annotator.name == version
    assert call("run", file, "--encoder", "models:/nothing@champion", "--dry-run") == 2
    assert re.search(r"models:/nothing@champion\b.*\btiny\b", capsys.readouterr().err)


def test_a_papers_table_begins_with_a_registered_encoder_and_keeps_its_version(worse, tmp_path):
    table = table_settings("mutual.t3b", {"encoder": CHAMPION, "data": str(tmp_path)})
    assert isinstance(table, Reproduction)
    version = find_version(CHAMPION)
    assert table.encoder == version.uri, "an alias may move before the table is resumed"
    assert table.budget.base.encoder.name == str(find_encoder(CHAMPION))
    assert table.budget.differs.startswith(f"Every arm starts from {version.uri} as it is.")


def test_a_deleted_report_is_written_again(first, capsys):
    page = Path(first.outcome.report)
    before = page.read_bytes()
    page.unlink()
    assert call("report", first.outcome.run) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split()[-1] == str(page)
    assert page.read_bytes() == before


def test_a_document_is_found_with_a_registered_model(first, capsys):
    source = first.config.corpus.source
    row = json.loads(Path(source).read_text("utf-8").splitlines()[7])
    named = ("--model", CHAMPION, "--counterpart-column", "title")
    asked = ("search", " ".join(row["sentences"]), source, *named, *COLUMNS)
    assert call(*asked, "--top", "3", "--json") == 0
    hits = last_json(capsys)
    assert (hits[0]["doc_id"], hits[0]["counterpart"]) == (row["id"], row["title"])
    assert hits[0]["sentence"] in row["sentences"]
    assert hits[0]["score"] >= hits[1]["score"] >= hits[2]["score"]


def test_an_index_of_a_registered_model_is_searched_and_updated(first, capsys, tmp_path):
    source, later, index = (
        Path(first.config.corpus.source),
        tmp_path / "later.jsonl",
        tmp_path / "i",
    )
    rows = [json.loads(line) for line in source.read_text("utf-8").splitlines()]
    assert call("index", str(source), str(index), "--model", CHAMPION, *COLUMNS, "--json") == 0
    assert last_json(capsys)["encoded"] == len(rows)
    assert json.loads((index / "index.json").read_text())["model"] == "models:/tiny/1"
    changed = {"id": rows[1]["id"], "sentences": rows[2]["sentences"]}
    new = {"id": "new", "sentences": rows[0]["sentences"]}
    kept = [changed, *rows[2:], new]  # the first document is gone
    later.write_text("".join(f"{json.dumps(row)}\n" for row in kept), encoding="utf-8")
    update = ("index", str(later), str(index), *COLUMNS, "--update", "--json")
    assert call(*update) == 0
    result = last_json(capsys)
    assert (result["documents"], result["encoded"], result["dropped"]) == (len(kept), 2, 1)
    assert call("search", " ".join(rows[0]["sentences"]), str(index), "--json") == 0
    found = [hit["doc_id"] for hit in last_json(capsys)]
    assert (found[0], rows[0]["id"] in found) == ("new", False)
    assert call(*update, "--model", CHAMPION) == 0
    assert last_json(capsys)["encoded"] == 0
    start = str(stored(first.outcome.training.rows[0].encoder))
    for asked in (update, ("search", "river", str(index))):
        assert call(*asked, "--model", start) == 3
        assert "E202 " in capsys.readouterr().err


def test_the_doctor_finds_nothing_wrong_with_the_home_of_a_run(first, capsys, monkeypatch):
    monkeypatch.setattr("tasks.doctor.FREE_GB", 0.0)
    assert call("doctor", "--json") == 0
    findings = last_json(capsys)
    assert {finding["ok"] for finding in findings} == {True}
    assert {"torch", "exactly one faiss", "Prefect server"} <= {one["what"] for one in findings}


def test_gc_leaves_what_a_registered_model_came_from(first, capsys, tmp_path, monkeypatch):
    home = tmp_path / "home"
    shutil.copytree(first.home, home)
    for path in home.rglob("*"):
        os.utime(path, (0, 0))  # the last hour's work stays
    monkeypatch.setenv("SENTEMB_HOME", str(home))
    assert call("gc", "--keep-runs", "0", "--dry-run", "--json") == 0
    would = last_json(capsys)
    assert call("gc", "--keep-runs", "0", "--json") == 0
    assert last_json(capsys) == would
    assert would["counts"]["objects"] > 0
    assert would["kept_objects"] > 0
    assert call("fsck", "--json") == 0
    assert last_json(capsys)["ok"] == would["kept_objects"]
    assert call("lineage", CHAMPION, "--json") == 0
    assert "read_corpus" in capsys.readouterr().out


def test_a_run_whose_registry_does_not_answer_leaves_its_report_which_says_so(again):
    with mock.patch("tasks.publish.register_and_gate", side_effect=RegistryError("no answer")):
        state = infocse_idc(again.config, return_state=True)
    assert state.is_failed()
    failed = last_runs(Store.default())[0]
    page = Store.default().root / "reports" / failed.id / "report.html"
    assert f"python -m flows resume {failed.id}" in page.read_text("utf-8")
    whole = Path(again.outcome.report).read_text("utf-8")
    assert "is not registered" not in whole
