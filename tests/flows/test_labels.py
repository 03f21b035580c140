"""Fine-tuning and InfoCSE++: which labels train, when cycles end, which encoder is the best."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter

from flows import fine_tune as tuning
from flows import infocse_plus as cycling
from flows.cli.settings import checked, settings
from flows.fine_tune import by_epochs, fine_tune, fine_tune_once, labels_of
from flows.infocse_idc import self_train
from flows.infocse_plus import infocse_plus, self_train_and_fine_tune, stop_cycles
from flows.pipeline import add_mapped_encoders, prepare_run
from sentemb_core.config.run import (
    CyclesConfig,
    FineTuneRun,
    InfoCSEIDC,
    InfoCSEPlus,
    LabelsConfig,
    MethodRun,
    TrainingConfig,
)
from sentemb_core.corpus.table import read_documents
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import ValidationPool, is_label
from sentemb_core.encoder.checkpoint import load_encoder
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import EmptyPairsError, UnknownLabelsError, UsageError
from sentemb_core.store import records
from sentemb_core.store.objects import Store
from sentemb_core.types import ArtifactRef
from tasks.artifacts import artifact_path
from tasks.execution import dry_run, without_prefect
from tasks.report import full_report, notes_of
from tests.flows.corpora import in_process, outcome_of, recorded_starts, tiny_run
from tests.messages import pattern
from tests.waiting import soon

pytestmark = pytest.mark.usefixtures("home")

TUNING = {"method": "fine_tune", "batch_size": 8, "learning_rate": 5e-3, "checkpoint_every": 4}
LABELS = {"epochs": 3, "patience": 3}
POOL = {"label_share": 0.5}


def tuning_run(source: Path, **changes: Any) -> FineTuneRun:
    whole = tiny_run(source).model_dump(include={"name", "corpus", "encoder", "initialiser"})
    given = {"training": TUNING, "labels": LABELS, "validation": POOL} | changes
    return FineTuneRun.model_validate(whole | given)


def plus_run(source: Path, **changes: Any) -> InfoCSEPlus:
    whole = tiny_run(source).model_dump(exclude={"rounds", "labels", "validation"})
    given = {
        "rounds": {"max_rounds": 1},
        "fine_tuning": TUNING,
        "labels": LABELS,
        "validation": POOL,
        "cycles": {"max_cycles": 2, "patience": 2},
    }
    return InfoCSEPlus.model_validate(whole | given | changes)


cycled = partial(in_process, self_train_and_fine_tune)
tuned = partial(in_process, fine_tune_once)


def test_fine_tuning_follows_the_initialised_encoder(corpus_file: Path):
    found = tuned(tuning_run(corpus_file, labels=LABELS | {"count": 8}))
    assert [row.label for row in found.rows] == ["start", "after conpono", "after fine_tune"]
    assert [row.kind for row in found.rows] == ["start", "trained", "fine-tuned"]
    assert found.labels == 8


def test_a_labelled_counterpart_is_a_query_and_its_sentences_are_documents(
    corpus_file: Path, monkeypatch: pytest.MonkeyPatch
):
    made: list[tuple[TokenCorpus, Encoder]] = []
    tokenise = tuning.tokenise_sentences

    def noted(documents: ArtifactRef, pool: None, encoder: ArtifactRef, **options: bool):
        tokens = tokenise(documents, pool, encoder, **options)
        made.append((TokenCorpus.open(artifact_path(tokens)), load_encoder(artifact_path(encoder))))
        return tokens

    monkeypatch.setattr(tuning, "tokenise_sentences", noted)
    whole = tuning_run(corpus_file)
    prompts = {"query_prompt": "which? ", "document_prompt": "this: "}
    tuned(whole.model_copy(update={"encoder": whole.encoder.model_copy(update=prompts)}))
    ((corpus, encoder),) = made
    assert encoder.prompts.by_name == {"query": "which? ", "document": "this: "}
    ends = set((corpus.offsets[1:] - 1).tolist())
    for row, (text, tokens) in enumerate(
        zip(corpus.texts(range(len(corpus))), corpus.tokens(range(len(corpus))), strict=True)
    ):
        (expected,) = encoder.tokenise([text], "query" if row in ends else "sentence")
        assert tokens.tolist() == expected.tolist()


def test_an_epoch_is_a_pass_over_the_labels():
    training = TrainingConfig.model_validate(TUNING)
    limits = LabelsConfig(epochs=5, patience=2)
    counted = by_epochs(training, 40, limits)
    assert (counted.steps, counted.evaluate_every, counted.patience) == (25, 5, 2)
    few = by_epochs(training, 3, limits)
    assert (few.steps, few.evaluate_every) == (5, 1)


def test_every_cycle_starts_from_the_last_fine_tuned_encoder(
    corpus_file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    starts = recorded_starts(monkeypatch, cycling, "one_cycle")
    with caplog.at_level("INFO", logger="sentemb_core.run"):
        found = cycled(plus_run(corpus_file))
    for values in ("cycle 2 2 cycles.max_cycles", "labels control=false"):
        assert sum(bool(re.search(pattern(values), line)) for line in caplog.messages) == 1
    assert starts == [("after conpono",) * 2, ("cycle 1, fine-tuned",) * 2]
    assert [(row.label, row.parent) for row in found.rows] == [
        ("start", ""),
        ("after conpono", "start"),
        ("cycle 1, round 1", "after conpono"),
        ("cycle 1, fine-tuned", "after conpono"),
        ("cycle 2, round 1", "cycle 1, fine-tuned"),
        ("cycle 2, fine-tuned", "cycle 1, fine-tuned"),
    ]
    assert found.rows[found.best].kind == "fine-tuned"
    assert found.labels > 0
    assert {row.kind for row in found.path} == {"start", "trained", "fine-tuned"}
    assert [row.label for row in found.controls] == ["control: labels only"]
    (note,) = notes_of(found, 0)
    assert "R@5" not in note, "no round of this small run grows"


@pytest.mark.parametrize("without", [{"labels": {"count": 0}}, {"cycles": {"max_cycles": 0}}])
def test_without_labels_or_cycles_it_is_infocse_idc(corpus_file: Path, without: dict[str, Any]):
    config = plus_run(corpus_file, **without)
    plain = InfoCSEIDC.model_validate(config.model_dump(exclude={"fine_tuning", "cycles"}))
    assert cycled(config) == in_process(self_train, plain)


def test_one_cycle_ends_with_fine_tuning_and_never_returns_the_mapped_start(
    corpus_file: Path, monkeypatch: pytest.MonkeyPatch
):
    config = plus_run(corpus_file, cycles={"max_cycles": 1}, postprocess="whitening")
    plain = cycled(config)
    assert [row.kind for row in plain.rows][2:] == ["round", "fine-tuned"]
    assert plain.best == 3
    order = {"start": 0.9, plain.rows[-1].label: 0.5}

    def judged(scores: object) -> float:
        return next(order.get(row.parent, 0.4) for row in found if row.scores == scores)

    found = [plain.rows[plain.best]]
    monkeypatch.setattr("flows.pipeline.recall_at_5", judged)
    with without_prefect():
        mapped = add_mapped_encoders(plain, config, found.append)
    assert [row.kind for row in mapped.rows[-2:]] == ["mapped", "mapped"]
    assert mapped.rows[mapped.best].parent == plain.rows[plain.best].label


def test_cycles_stop_without_growth(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flows.infocse_plus.recall_at_5", lambda scores: scores)

    class Scored:
        def __init__(self, scores: float) -> None:
            self.scores = scores

    rule = CyclesConfig(max_cycles=9, patience=1)
    cases = [], [0.5], [0.5, 0.6], [0.5, 0.6, 0.6]
    decisions = [stop_cycles([Scored(s) for s in scores], rule) for scores in cases]
    assert [decision.go_on for decision in decisions] == [True, True, True, False]
    assert decisions[-1].best == 1
    assert not stop_cycles([Scored(0.1)], CyclesConfig(max_cycles=1)).go_on


def test_a_file_of_labels_validates_and_trains(corpus_file: Path, tmp_path: Path):
    rows = [json.loads(line) for line in corpus_file.read_text().splitlines()]
    file = tmp_path / "labels.jsonl"
    file.write_text(
        "".join(
            json.dumps({"doc_id": row["id"], "counterpart": f"query of {row['title']}"}) + "\n"
            for row in rows
        )
    )
    corpus = tiny_run(corpus_file).corpus.model_copy(update={"counterpart_column": None})
    config = tuning_run(
        corpus_file, corpus=corpus.model_dump(), labels=LABELS | {"source": str(file)}
    )
    found = tuned(config)
    assert found.rows[-1].kind == "fine-tuned"
    with without_prefect():
        learnt = read_documents(
            artifact_path(labels_of(found.texts, config).documents) / "documents.parquet"
        )
    trained_on = [document.sentences[-1] for document in learnt]
    judging = ValidationPool.open(artifact_path(found.texts.validation_pool)).candidate_text
    assert {*trained_on, *judging} == {f"query of {row['title']}" for row in rows}
    assert len(trained_on) == found.labels
    strange = tmp_path / "strange.jsonl"
    strange.write_text('{"doc_id": "nobody", "counterpart": "text"}\n' * 3)
    with pytest.raises(UnknownLabelsError, match=pattern("E501 3 of 3")):
        tuned(tuning_run(corpus_file, labels=LABELS | {"source": str(strange)}))


def test_refused_labels_are_counted_in_the_report(corpus_file: Path, tmp_path: Path):
    ids = [json.loads(line)["id"] for line in corpus_file.read_text().splitlines()]
    rows = [{"doc_id": one, "counterpart": f"{k} of {one}"} for one in ids for k in (1, 2)]
    file = tmp_path / "labels.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[7]]))
    config = tuning_run(corpus_file, labels=LABELS | {"source": str(file)})
    report = full_report(outcome_of(tuned(config)), config)
    assert (report.labels.read, report.labels.counts) == (len(rows) + 1, {"duplicate-label": 1})
    (refused,) = report.labels.rows
    assert (refused.row, refused.excerpt) == (len(rows), rows[7]["counterpart"])
    assert Path(report.labels.file).exists()


def test_a_corpus_without_counterparts_has_no_labels(corpus_file: Path):
    corpus = tiny_run(corpus_file).corpus.model_copy(update={"counterpart_column": None})
    with pytest.raises(EmptyPairsError, match="E102"):
        tuned(tuning_run(corpus_file, corpus=corpus.model_dump()))


@pytest.mark.parametrize("kind", [tuning_run, plus_run])
def test_labels_of_one_document_are_refused_before_training(
    corpus_file: Path, tmp_path: Path, kind: Any
):
    rows = [json.loads(line) for line in corpus_file.read_text().splitlines()]
    learnt = next(row for row in rows if is_label(row["id"], 0.5))
    few = [row for row in rows if row is learnt or not is_label(row["id"], 0.5)]
    file = tmp_path / "few.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in few))
    walked = cycled if kind is plus_run else tuned
    with pytest.raises(EmptyPairsError, match=pattern("E102 1; 1 of 1 validation.label_share")):
        walked(kind(file))
    made = {record.stage for record in records.all_records(Store.default())}
    assert made == {"read_corpus", "draw_validation_pool"}


def test_a_dry_run_ends_at_an_unknown_number_of_labels(corpus_file: Path):
    config = plus_run(corpus_file)
    for known in (False, True):
        with dry_run() as plan:
            self_train_and_fine_tune(config, lambda row: None)
        assert plan.incomplete
        stages = {status.stage for status in plan.statuses}
        assert ("draw_labels" in stages, "export_pairs" in stages) == (True, known)
        texts = in_process(prepare_run, config).texts
        with without_prefect():
            labels_of(texts, config)


def test_options_choose_the_kind_of_run():
    source = {"corpus.source": "x.jsonl"}
    assert type(settings(None, source, [])) is InfoCSEIDC
    tuning = settings(None, source | {"training.method": "fine_tune"}, [])
    assert isinstance(tuning, FineTuneRun)
    assert tuning.validation.label_share == 0.5
    assert (tuning.labels.epochs, tuning.labels.patience) == (20, 2), "as in mutual"
    assert tuning.training.batch_size == 64
    plus = settings(None, source | {"cycles.max_cycles": 2, "labels.count": 100}, [])
    assert isinstance(plus, InfoCSEPlus)
    assert plus.fine_tuning.batch_size == 64
    assert checked(plus.model_dump(mode="json")) == plus
    assert checked(tuning.model_dump(mode="json")) == tuning
    assert isinstance(settings(None, source | {"training.method": "conpono"}, []), MethodRun)
    run = settings(
        None, source | {"training.method": "simcse"}, ["training.method.temperature=0.1"]
    )
    assert isinstance(run, MethodRun)
    assert run.training.method.model_dump(include={"name", "temperature"}) == {
        "name": "simcse",
        "temperature": 0.1,
    }


FINE_TUNE = {"training.method": "fine_tune"}
COUNTERPARTS = "validation.label_share validation.halves"
EPOCHS = "labels.epochs labels.patience"


@pytest.mark.parametrize(
    ("options", "setting", "values"),
    [
        (FINE_TUNE, "labels.count=0", "E001 labels.count 0 2"),
        (FINE_TUNE, "validation.label_share=0", f"E001 labels {COUNTERPARTS}"),
        (FINE_TUNE, "validation.halves=true", f"E001 labels {COUNTERPARTS}"),
        (FINE_TUNE, "training.steps=9", f"E001 training.steps (--steps): {EPOCHS}"),
        (FINE_TUNE, "training.evaluate_every=9", f"E001 training.evaluate_every: {EPOCHS}"),
        ({"cycles.max_cycles": 1}, "fine_tuning.steps=9", f"E001 fine_tuning.steps: {EPOCHS}"),
    ],
)
def test_settings_that_fine_tuning_cannot_use_are_refused(
    options: dict[str, object], setting: str, values: str
):
    with pytest.raises(UsageError, match=pattern(values)):
        settings(None, {"corpus.source": "x.jsonl"} | options, [setting])


@pytest.mark.parametrize("method", ["simcse", "fine_tune"])
@pytest.mark.parametrize("setting", ["rounds.max_rounds", "cycles.max_cycles"])
def test_one_training_has_no_rounds_and_no_cycles(method: str, setting: str):
    options = {"corpus.source": "x.jsonl", "training.method": method, setting: 2}
    part, _, _ = setting.partition(".")
    with pytest.raises(UsageError, match=pattern(f"E001 {part}: infocse_idc")):
        settings(None, options, [])


def test_the_settings_beside_a_report_are_read_again(tmp_path: Path):
    source = {"corpus.source": "x.jsonl"}
    tuning = settings(None, source | {"training.method": "fine_tune"}, [])
    file = tmp_path / "config.json"
    file.write_text(tuning.model_dump_json(), "utf-8")
    assert settings(file, {"training.steps": None}, []) == tuning
    plus = {"cycles.max_cycles": 1, "training.steps": 9}
    assert settings(None, source | plus, []).training.steps == 9  # of a round


def runs_inside(flow_run: object) -> dict[str, list[str]]:
    """Names of the completed sub-flows of a run, and of those within each."""

    def ended(parent: object) -> list[Any]:
        own = FlowRunFilter(parent_flow_run_id={"any_": [parent]})
        return soon(
            lambda: client.read_flow_runs(flow_run_filter=own),
            lambda found: all(one.state.is_completed() for one in found),
        )

    with get_client(sync_client=True) as client:
        return {one.name: sorted(inner.name for inner in ended(one.id)) for one in ended(flow_run)}


@pytest.mark.usefixtures("prefect_server")
def test_both_flows_complete_under_prefect_and_cycles_are_sub_flows(corpus_file: Path):
    state = infocse_plus(plus_run(corpus_file), return_state=True)
    assert runs_inside(state.state_details.flow_run_id) == {
        "after conpono": [],
        "cycle 1": ["cycle 1, fine-tuned", "cycle 1, round 1"],
        "cycle 2": ["cycle 2, fine-tuned", "cycle 2, round 1"],
        "control: labels only": [],
    }
    outcome = state.result()
    assert outcome.training.rows[outcome.training.best].kind == "fine-tuned"
    page = Path(outcome.report).read_text(encoding="utf-8")
    assert "cycle 2, fine-tuned" in page
    with without_prefect():
        (note,) = notes_of(outcome.training, 0)
    assert note in page
    assert fine_tune(tuning_run(corpus_file)).training.rows[-1].label == "after fine_tune"
