"""The retriever of a run: its parts, its choice, what is published, and what stays as before."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from flows import retriever as making
from flows.cli.run import closing_lines, tables_of
from flows.infocse_idc import self_train
from flows.infocse_plus import self_train_and_fine_tune
from flows.retriever import add_retriever, semantic_bases
from sentemb_core.config.run import InfoCSEIDC, InfoCSEPlus, RunConfig
from sentemb_core.corpus.validation_pool import ValidationPool
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.evaluation.validation_scores import read_ranks
from sentemb_core.retriever import choice as choosing
from sentemb_core.retriever.choice import Choice, has_encoder
from sentemb_core.retriever.folder import RETRIEVER, load_retriever
from sentemb_core.types import ArtifactRef
from tasks.artifacts import RetrieverResult, RunResult, artifact_path, save_json
from tasks.execution import dry_run, without_prefect
from tasks.publish import card_of, published_model
from tasks.report import full_report
from tasks.retriever import (
    ReadEncoder,
    ReadEncoders,
    choice_of,
    path_of_published,
    retriever_scores,
    validate_retriever,
)
from tasks.verdict import returned_name, verdict_on
from tests.encoder.starting import start
from tests.flows.corpora import bodies_run, in_process, outcome_of, tiny_run, write_corpus

pytestmark = pytest.mark.usefixtures("home")

ONE_ROUND = {"rounds": {"max_rounds": 1, "patience": 1}, "returns": "retriever"}
STAGES = ["read_pool", "choose_retriever", "retriever_scores"]


@pytest.fixture(autouse=True)
def _short_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The corpus table takes a few steps; sixty documents are enough to choose."""
    for name in ("NEIGHBOURS", "RELATED"):
        short = getattr(making, name).model_copy(update={"steps": 3, "batch_size": 16})
        monkeypatch.setattr(making, name, short)
    monkeypatch.setattr(making, "TABLE", making.TABLE.model_copy(update={"dim": 8}))
    monkeypatch.setattr(choosing, "FEWEST_QUERIES", 6)


@pytest.fixture
def transformer(tmp_path: Path) -> str:
    """The folder of a tiny transformer that knows the words of the corpus."""
    save_encoder(start("transformer", layers=1), tmp_path / "transformer", "card")
    return str(tmp_path / "transformer")


def returning(config: RunConfig, loop: Any = self_train) -> RunResult:
    """The loop of a run, and its retriever."""

    def whole(config: Any, on_row: Any) -> RunResult:
        return add_retriever(loop(config, on_row), config)

    return in_process(whole, config)


def retriever_of(run: RunResult) -> tuple[RetrieverResult, Choice]:
    assert run.retriever
    return run.retriever, choice_of(run.retriever.choice)


def ranks(scores: ArtifactRef) -> np.ndarray:
    return read_ranks(artifact_path(scores), "test")


def untrained(source: Path, encoder: str, **changes: Any) -> InfoCSEIDC:
    """A run whose single round trains one step."""
    hardly = {"steps": 1, "batch_size": 16, "learning_rate": 1e-4}
    given = {"encoder": {"name": encoder}, "initialiser": None, "control": False}
    return tiny_run(source, **{**given, "training": hardly, **ONE_ROUND, **changes})


def test_a_run_from_nothing_returns_a_retriever_of_its_round_and_its_control(corpus_file: Path):
    config = tiny_run(corpus_file, **ONE_ROUND)
    run = returning(config)
    made, choice = retriever_of(run)
    assert made.token_maps == {}, "a table of words has no token states"
    assert made.without_encoder is None, "nothing is pretrained"
    names = {each.folder for row in choice.judged for each in row.candidate.spec.vectors}
    assert made.compared
    compared = choice_of(made.compared)
    assert names == {"start", compared.label}
    assert {row.candidate.label for row in compared.judged} == {*made.bases}
    assert {*made.bases.values()} == {"round 1", run.controls[0].label}, "the start is random"
    assert not choice.fixed
    assert choice.label in {row.candidate.label for row in choice.judged}
    config = config.model_copy(update={"returns": "encoder"})
    assert add_retriever(run.model_copy(update={"retriever": None}), config).retriever is None


@pytest.fixture
def all_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run keeps all its encoders, so that a test can choose another retriever."""
    monkeypatch.setattr(making, "used_by", lambda _, encoders: encoders.all)


@pytest.mark.usefixtures("all_used")
def test_what_is_published_scores_as_what_was_judged(corpus_file: Path, transformer: str):
    config = untrained(corpus_file, transformer)
    run = returning(config)
    made, choice = retriever_of(run)
    (first,) = made.token_maps
    assert first in made.bases
    assert made.without_encoder
    assert set(made.encoders) == {"start", "table", first}
    all_parts = {row.candidate.spec.unit: row for row in choice.judged if row.candidate.spec.tokens}
    assert {*all_parts} == {"sentences", "both"}
    others = [
        choice.model_copy(update={"label": row.candidate.label}) for row in all_parts.values()
    ]
    for one in (choice, *others):
        with without_prefect():
            made, scores = judged_as(run, one)
            folder = published_model(made, config)
            texts = run.texts
            again = validate_retriever(folder, texts.documents, texts.validation_pool)
        np.testing.assert_array_equal(ranks(again), ranks(scores))
        loaded = load_retriever(artifact_path(folder)).spec
        assert (loaded.names, loaded.unit) == (one.spec.names, one.spec.unit)
        card = (artifact_path(folder) / "README.md").read_text("utf-8")
        assert all(part in card for part in loaded.described()), "folders of the model itself"


def judged_as(run: RunResult, choice: Choice) -> tuple[RunResult, ArtifactRef]:
    """The run with another choice, and the scores of this one."""
    made, _ = retriever_of(run)
    ref = save_json("choice", choice.model_dump(mode="json"))

    def read(label: str) -> ReadEncoder:
        token_map = made.token_maps.get(label)
        encoder, whole_texts = made.encoders[label], token_map is not None
        return making.read_encoder(
            label, encoder, run.texts, "float32", token_map, whole_texts=whole_texts
        )

    (first,) = made.token_maps
    encoders = ReadEncoders(start=read("start"), semantic=read(first), table=read("table"))
    scores = retriever_scores(encoders, ref, run.texts.documents, run.texts.validation_pool)
    changed = made.model_copy(update={"choice": ref, "scores": scores})
    return run.model_copy(update={"retriever": changed}), scores


def test_too_few_queries_return_the_first_candidate(
    corpus_file: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(choosing, "FEWEST_QUERIES", 100)
    config = tiny_run(corpus_file, **ONE_ROUND)
    run = returning(config)
    made, choice = retriever_of(run)
    assert choice.fixed
    assert [*made.encoders] == [each.folder for each in choice.spec.vectors], "what is served"
    first = next(iter(semantic_bases(run)))
    assert choice.label == f"{first} + sentences + words"
    page = full_report(outcome_of(run), config)
    report, named = page.retriever, f"retriever: {choice.label}"
    assert report
    assert len(report.encoders) == len(made.bases) == 2
    assert page.served
    rows = [*page.rounds, page.served]
    assert [row.label for row in rows if row.returned] == [named] == [returned_name(run)]
    assert f"{named} (this model)" in card_of(run, config).rows
    assert [row.label for row in report.candidates if not row.why_not] == [choice.label]
    assert any("100" in text for text in report.trust)
    outcome = outcome_of(run)
    served, encoders = tables_of(outcome, config)
    systems = ["BM25", "start encoder", f"retriever ({choice.label})"]
    assert [line[0] for line in served.lines()] == systems
    assert "start" in [line[0] for line in encoders.lines()]
    assert f"{named} *" in [line[0] for line in encoders.lines()]
    head, *lines = closing_lines(outcome, config)
    assert head == verdict_on(run, None).text
    assert set(report.commands) <= set(lines)


@pytest.mark.usefixtures("all_used")
def test_without_titles_pseudo_queries_choose_and_the_judged_parts_are_returned(
    tmp_path: Path, transformer: str
):
    source = write_corpus(tmp_path / "plain.jsonl", documents=120)
    columns = {"source": str(source), "id_column": "id", "sentences_column": "sentences"}
    config = untrained(source, transformer, corpus=columns)
    run = returning(config)
    made, choice = retriever_of(run)
    with without_prefect():
        (label,) = made.token_maps
        base = semantic_bases(run)[label]
        judged = making.whitened(label, base, run.texts, config)
        texts = run.texts
        of_stored = [
            making.read_encoder(
                label,
                judged.encoder,
                texts,
                "float32",
                stored=vectors and making.stored_vectors(base),
            )
            for vectors in (None, base.embeddings)
        ]
    pool = ValidationPool.open(artifact_path(run.texts.validation_pool))
    read, stored = (
        load_file(artifact_path(one.readings) / "documents.safetensors") for one in of_stored
    )
    assert len(read["vectors"]) == 3 * len(pool.query_document), "three kinds of query"
    for name in ("sentences", "vectors"):
        cosines = (stored[name] * read[name]).sum(axis=1)
        assert cosines.min() > 0.995, "float16 on disk, and soft whitening enlarges its noise"
    assert np.array_equal(stored["starts"], read["starts"])
    assert made.encoders[label] == judged.encoder, "not fitted on the held-out documents"
    assert made.token_maps[label] == judged.token_map
    assert made.encoders["start"] == run.rows[0].encoder
    validating = read_ranks(artifact_path(run.rows[0].scores), "validation")
    assert choice.queries == len(validating), "not six times as many"
    report = full_report(outcome_of(run), config).retriever
    assert report
    assert len(report.trust) >= 2
    assert report.directions[0].startswith("first half")


def test_a_fine_tuned_encoder_stays_the_semantic_part(corpus_file: Path):
    whole = tiny_run(corpus_file).model_dump(exclude={"rounds", "labels", "validation", "returns"})
    tuning = {"method": "fine_tune", "batch_size": 8, "learning_rate": 5e-3, "checkpoint_every": 4}
    config = InfoCSEPlus.model_validate(
        whole
        | ONE_ROUND
        | {
            "fine_tuning": tuning,
            "labels": {"epochs": 2, "patience": 2},
            "validation": {"label_share": 0.5},
            "cycles": {"max_cycles": 1, "patience": 1},
        }
    )
    run = returning(config, self_train_and_fine_tune)
    made, choice = retriever_of(run)
    (label,) = made.bases
    assert choice.required == label
    assert made.bases[label] == run.best_trained.label
    assert has_encoder(choice.spec, label)
    assert path_of_published(run)[-1].kind == "fine-tuned"


def test_a_run_that_returns_its_encoder_publishes_it_as_before(corpus_file: Path):
    config = tiny_run(corpus_file, rounds={"max_rounds": 1, "patience": 1})
    run = returning(config)
    assert run.retriever is None
    with without_prefect():
        folder = artifact_path(published_model(run, config))
    assert not (folder / RETRIEVER).exists()
    best = run.rows[run.best].encoder
    table, own = (
        load_encoder(place).backbone.state_dict() for place in (folder, artifact_path(best))
    )
    assert all(np.array_equal(table[name], own[name]) for name in own)
    assert full_report(outcome_of(run), config).retriever is None


def test_a_dry_run_lists_the_stages_and_a_resumed_run_repeats_none(
    corpus_file: Path, transformer: str
):
    config = untrained(corpus_file, transformer)

    def planned() -> dict[str, set[str]]:
        with dry_run(config) as plan:
            add_retriever(self_train(config, lambda _: None), config)
        verdicts: dict[str, set[str]] = {}
        for status in plan.statuses:
            verdicts.setdefault(status.stage, set()).add(status.verdict)
        return verdicts

    before = planned()
    returning(config)
    after = planned()
    assert {"fit_token_map", *STAGES} <= set(after)
    assert {verdict for found in after.values() for verdict in found} <= {"HIT", "SAME"}
    assert "HIT" not in before.get("choose_retriever", set())

    def again() -> None:
        add_retriever(self_train(config, lambda _: None), config)

    assert bodies_run(again) == []


def test_the_card_of_a_control_names_the_control(corpus_file: Path):
    """Its ancestors are controls, not rounds."""
    config = tiny_run(corpus_file, returns="retriever")
    run = returning(config)
    made, choice = retriever_of(run)
    control = run.controls[-1]
    label = f"whitened {control.label}"
    spec = choice.spec.model_copy(update={"vectors": (choosing.Vectors(folder=label),)})
    judged = [
        row.model_copy(update={"candidate": row.candidate.model_copy(update={"spec": spec})})
        if row.candidate.label == choice.label
        else row
        for row in choice.judged
    ]
    with without_prefect():
        ref = save_json("choice", choice.model_copy(update={"judged": judged}).model_dump())
    changed = made.model_copy(update={"choice": ref, "bases": {label: control.label}})
    path = path_of_published(run.model_copy(update={"retriever": changed}))
    assert [row.label for row in path] == [
        "start",
        "after conpono",
        *[row.label for row in run.controls],
    ]
