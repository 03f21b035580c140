"""Self-training in this process: what is cached, what runs again, and every variant."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from sentence_transformers import SentenceTransformer

from flows import infocse_idc
from flows.annotation_variants import annotate
from flows.cli.run import walk
from flows.cli.settings import settings
from flows.infocse_idc import neighbours_only, self_train
from flows.pipeline import add_mapped_encoders, prepare_run
from flows.presets import FAST
from sentemb_core.annotation.pairs import Pairs
from sentemb_core.config.methods import METHODS
from sentemb_core.config.run import AnnotationConfig, InfoCSEIDC
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.errors import EmptyCorpusError, NoQueriesError, RecipeError
from sentemb_core.evaluation.round_values import read_diagnostics
from sentemb_core.store.objects import Store
from tasks.artifacts import Annotation, artifact_path
from tasks.checks import check_run
from tasks.execution import dry_run, without_prefect
from tasks.train import steps_of
from tasks.validate import numbers_of_annotation, recall_at_5, scores_of
from tests.flows.corpora import (
    bodies_run,
    in_process,
    probed,
    recorded_starts,
    tiny_run,
    write_corpus,
)
from tests.second_device import THERE, SecondDevice

pytestmark = pytest.mark.usefixtures("home")


trained = partial(in_process, self_train)
stages_run_by = partial(bodies_run, trained)


def test_a_round_trains_and_annotates_with_the_encoder_before_it(
    corpus_file: Path, monkeypatch: pytest.MonkeyPatch
):
    starts = recorded_starts(monkeypatch, infocse_idc, "training_round")
    found = trained(tiny_run(corpus_file))
    assert starts == [("after conpono", "after conpono"), ("round 1", "round 1")]
    assert [row.label for row in found.rows] == ["start", "after conpono", "round 1", "round 2"]
    assert [row.parent for row in found.rows] == ["", "start", "after conpono", "round 1"]
    assert [(row.label, row.parent) for row in found.controls] == [
        ("control 1: neighbours only", "after conpono"),
        ("control 2: neighbours only", "control 1: neighbours only"),
    ]
    assert all(row.annotation for row in found.rows[2:])
    first, second = (read_diagnostics(artifact_path(row.diagnostics)) for row in found.rows[2:])
    assert first.before.shape != first.after.shape == second.before.shape
    assert first.churn is None
    assert second.churn < 1
    assert first.new_share is None
    assert 0 < second.new_share < 1
    recalls = [recall_at_5(row.scores) for row in found.rows]
    assert max(recalls[1:]) > recalls[0]
    assert recalls[found.best] == max(recalls[1:])
    assert recall_at_5(found.bm25, "test") > 0.5 > recall_at_5(found.random, "test")
    assert add_mapped_encoders(found, tiny_run(corpus_file), pytest.fail) is found, "no map"


def test_a_run_logs_its_rounds_and_why_no_other_follows(
    corpus_file: Path, caplog: pytest.LogCaptureFixture
):
    def logged(config: InfoCSEIDC, walked: Callable[[InfoCSEIDC], object] = trained) -> list[str]:
        caplog.clear()
        with caplog.at_level("INFO"):
            walked(config)
        return [one.getMessage() for one in caplog.records if one.module == "infocse_idc"]

    config = tiny_run(corpus_file)
    first, second, end, controls = logged(config)
    assert re.match("round 1 .* 2 .*rounds.max_rounds", first)
    assert re.match("round 2 .* 2 .*rounds.max_rounds", second)
    rows = trained(config).rows[1:]
    scores = ", ".join(f"{row.label} {recall_at_5(row.scores):.3f}" for row in rows)
    assert re.match(r"round 2 .* 2 .*rounds.patience, rounds.max_rounds", end)
    assert end.endswith(f"R@5 on the validation split: {scores}")
    assert re.search(r"\b2 .*control=false", controls)
    with dry_run(config):
        assert logged(config, walk) == []
    rule = {"max_rounds": 2, "patience": 1, "min_delta": 1.0}
    first, end = logged(tiny_run(corpus_file, rounds=rule, control=False))
    assert re.match(r"round 1 .* 1\.0 .* 1 ", end)


INITIALISERS = METHODS.keys() - {"infocse_idc", "fine_tune"}


def initialised_by(source: Path, method: str, encoder: str, **settings: object) -> InfoCSEIDC:
    """A run of rounds after two steps of a method."""
    start = {"name": encoder, "dim": 16, "vocabulary": 300}
    stage = {"method": {"name": method, **settings}, "steps": 2, "batch_size": 8}
    rounds = {"rounds": {"max_rounds": 1}, "training": {"steps": 2, "batch_size": 8}}
    return tiny_run(source, encoder=start, initialiser=stage, control=False, **rounds)


@pytest.mark.parametrize("encoder", ["static", "transformer"])
def test_every_method_without_annotation_can_initialise(corpus_file: Path, encoder: str):
    for name in sorted(INITIALISERS):
        if encoder == "static" and METHODS[name].encoder != "any":
            continue
        random_head = {"random_head": True} if METHODS[name].encoder == "condensed" else {}
        config = initialised_by(corpus_file, name, encoder, **random_head)
        check_run(config)
        with dry_run(config) as plan:
            walk(config)
        trainings = [status.part for status in plan.statuses if status.stage == "train_encoder"]
        assert trainings == [f"after {name}"], "the dry run ends here"


def test_an_initialiser_that_its_encoder_cannot_train_is_refused(corpus_file: Path):
    needs = {name: METHODS[name].encoder for name in INITIALISERS}
    static = [(name, "static", name) for name in needs if needs[name] != "any"]
    headless = [
        (name, "transformer", "random_head") for name in needs if needs[name] == "condensed"
    ]
    assert static
    assert headless
    for method, encoder, value in static + headless:
        with pytest.raises(RecipeError, match=f"E303 .*{value}"):
            check_run(initialised_by(corpus_file, method, encoder))


def test_a_transformer_trains_a_round_after_simcse(
    corpus_file: Path, monkeypatch: pytest.MonkeyPatch
):
    starts = recorded_starts(monkeypatch, infocse_idc, "training_round")
    found = trained(initialised_by(corpus_file, "simcse", "transformer"))
    assert starts == [("after simcse", "after simcse")]
    assert [row.label for row in found.rows] == ["start", "after simcse", "round 1"]
    assert len({row.encoder for row in found.rows}) == 3


def test_a_corpus_of_many_shards_trains_in_parts(
    corpus_file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr("sentemb_core.corpus.tokenise.SHARD_SENTENCES", 40)
    monkeypatch.setattr("sentemb_core.corpus.table.READ_ROWS", 4)
    for module in ("corpus.tokens", "training.batches"):
        monkeypatch.setattr(f"sentemb_core.{module}.AT_ONCE", 4)
    with caplog.at_level("INFO"):
        found = trained(tiny_run(corpus_file))
    parts = {record.args for record in caplog.records if "shards" in str(record.msg)}
    assert parts == {(1, 4, 8), (2, 4, 8)}
    assert len(found.rows) == 4
    recalls = [recall_at_5(row.scores) for row in found.rows]
    assert max(recalls[1:]) > recalls[0]


@pytest.mark.parametrize("encoder", ["static", "transformer"])
def test_a_run_on_another_device_gives_the_same_encoders(
    corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoder: str
):
    start = {"name": encoder, "dim": 16, "vocabulary": 300}
    config = tiny_run(corpus_file, encoder=start, rounds={"max_rounds": 1})
    here = trained(config)
    monkeypatch.setenv("SENTEMB_HOME", str(tmp_path / "another home"))
    monkeypatch.setattr("sentemb_core.encoder.checkpoint.compute_device", lambda: THERE)
    with SecondDevice():
        there = trained(config)
    assert [row.encoder for row in there.rows] == [row.encoder for row in here.rows]
    assert [row.scores for row in there.rows] == [row.scores for row in here.rows]


def test_only_other_bytes_of_a_corpus_run_a_stage_body_again(corpus_file: Path, tmp_path: Path):
    config = tiny_run(corpus_file)
    assert "train_encoder" in stages_run_by(config)
    assert stages_run_by(config) == []
    copy = tmp_path / "elsewhere.jsonl"
    copy.write_bytes(corpus_file.read_bytes())
    assert stages_run_by(tiny_run(copy)) == []
    copy.write_bytes(corpus_file.read_bytes() + b'{"id": "x", "sentences": ["a b.", "c d."]}\n')
    assert "read_corpus" in stages_run_by(tiny_run(copy))


def test_a_control_takes_the_steps_of_its_round(corpus_file: Path):
    settings = tiny_run(corpus_file).training.model_dump()
    settings |= {"steps": 12, "evaluate_every": 2, "patience": 1, "learning_rate": 1e-9}
    config = tiny_run(corpus_file, training=settings)
    found = trained(config)
    rounds = [steps_of(row.log) for row in found.rows if row.kind == "round"]
    assert [steps_of(row.log) for row in found.controls] == rounds
    assert max(rounds) < 12


def test_a_control_has_its_own_seed_and_of_cluster_batches_as_many_sentences(corpus_file: Path):
    by_cluster = {"name": "infocse_idc", "batches": "cluster"}
    settings = tiny_run(corpus_file).training.model_dump()
    settings |= {"method": by_cluster, "batch_size": 48}
    assert neighbours_only(tiny_run(corpus_file, training=settings), 1).batch_size == 24
    config = tiny_run(corpus_file)
    seeds = [neighbours_only(config, number).seed for number in (1, 2)]
    assert len({*seeds, config.training.seed, config.initialiser.seed}) == 3


@pytest.mark.slow
@pytest.mark.weights
def test_minilm_trains_a_round_with_its_preset(corpus_file: Path):
    source = tiny_run(corpus_file).corpus.model_dump(exclude_none=True)
    given = {f"corpus.{name}": value for name, value in source.items()}
    short = {"training.steps": 2, "training.batch_size": 8, "rounds.max_rounds": 1}
    config = settings(None, given | short | {"encoder.name": "minilm", "name": "minilm"}, [])
    assert config.training.dtype == config.annotation.dtype == FAST
    run = trained(config)
    start, first = run.rows
    assert start.encoder != first.encoder
    assert [row.label for row in (start, first)] == ["start", "round 1"]
    for row in (start, first):
        assert scores_of(row.scores)["test"].document_to_counterpart.recall_at_10 > 0.2
    encoder = SentenceTransformer(str(artifact_path(first.encoder)), device="cpu")
    assert encoder.encode(["Pay the tax by form."]).shape == (1, 384)


@pytest.mark.parametrize(
    ("dtype", "positives", "measured"),
    [("float32", "cluster", False), ("bfloat16", "cluster", True), ("bfloat16", "related", True)],
)
def test_a_round_in_bfloat16_measures_its_drift_from_float32(
    corpus_file: Path, dtype: str, positives: str, measured: bool
):
    transformer = {"name": "transformer", "dim": 16, "vocabulary": 300}
    changes = {
        "encoder": transformer,
        "annotation": {"dtype": dtype, "positives": positives},
        "rounds": {"max_rounds": 1},
    }
    config = tiny_run(corpus_file, **changes)
    *_, last = trained(config).rows
    with without_prefect():
        found = numbers_of_annotation(last)
    assert ("drift" in found) == measured
    assert 0 <= found.get("drift", 0) < 0.5


def test_a_changed_setting_leaves_all_before_it_cached(corpus_file: Path):
    trained(tiny_run(corpus_file))
    with dry_run() as plan:
        self_train(tiny_run(corpus_file, annotation={"top_k": 2}), lambda row: None)
    first = {}
    for status in plan.statuses:
        first.setdefault(status.stage, status)
    assert first["build_graph"].verdict == "HIT"
    assert first["prune_graph"].verdict == "MISS"
    assert "top_k 1 -> 2" in first["prune_graph"].why
    assert first["cluster_sentences"].verdict == "AFTER"
    settings = tiny_run(corpus_file).training.model_dump() | {"steps": 11}
    again = stages_run_by(tiny_run(corpus_file, training=settings))
    assert {"read_corpus", "start_encoder", "tokenise_sentences", "bm25_scores"}.isdisjoint(again)
    before = again[: again.index("train_encoder")]
    assert {"build_graph", "prune_graph", "cluster_sentences"}.isdisjoint(before)


@pytest.mark.parametrize("harm", ["deleted", "truncated", "flipped"])
def test_a_broken_artifact_is_computed_again_alone(corpus_file: Path, harm: str):
    config = tiny_run(corpus_file)
    before = trained(config)
    graph = next(
        path
        for path in sorted(Store.default().objects.glob("*/*/manifest.json"))
        if json.loads(path.read_text())["kind"] == "edges"
    ).parent
    victim = next((graph / "data").iterdir())
    content = victim.read_bytes()
    if harm == "deleted":
        victim.unlink()
    elif harm == "truncated":
        victim.write_bytes(content[:-9])
    else:
        middle = len(content) // 2
        victim.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    assert stages_run_by(config) == ["prune_graph"]
    assert trained(config) == before


def test_keeping_no_embeddings_gives_the_same_encoders(corpus_file: Path):
    kept = trained(tiny_run(corpus_file))
    fused = trained(tiny_run(corpus_file, annotation={"keep_embeddings": False}))
    assert [row.encoder for row in fused.rows] == [row.encoder for row in kept.rows]
    assert all(row.embeddings is None for row in fused.rows)


def test_a_round_annotates_as_the_general_function(corpus_file: Path):
    config = tiny_run(corpus_file, rounds={"max_rounds": 1}, control=False)
    *_, base, last = trained(config).rows
    with without_prefect():
        for embeddings in (base.embeddings, None):
            general = annotate(base.encoder, base.sentences, config.annotation, embeddings)
            assert general == last.annotation


POSITIVES = ("cluster", "edge", "related")


def test_clusters_edges_and_related_pairs_are_three_annotations(corpus_file: Path):
    base = in_process(prepare_run, tiny_run(corpus_file)).rows[-1]

    def found(kind: str, distance: int) -> Annotation:
        config = AnnotationConfig(positives=kind, min_distance=distance)
        return annotate(base.encoder, base.sentences, config, base.embeddings)

    with without_prefect():
        usual = [found(kind, 1) for kind in POSITIVES]
        distant = [found(kind, 3) for kind in POSITIVES]
    assert len({one.clusters for one in usual}) == 1
    assert len({one.pairs for one in usual}) == 3
    for one in distant:
        corpus = TokenCorpus.open(artifact_path(base.sentences))
        pairs = Pairs.open(artifact_path(one.pairs), corpus)
        assert min(int((j - i).min()) for i, j in pairs.chunks()) == 3


def test_kmeans_finds_other_clusters_than_the_graph(corpus_file: Path):
    changes = {"rounds": {"max_rounds": 1}, "control": False}
    by_kmeans = {"clustering": "kmeans", "n_clusters": 4}
    *_, base, last = trained(tiny_run(corpus_file, annotation=by_kmeans, **changes)).rows
    with without_prefect():
        by_graph = annotate(base.encoder, base.sentences, AnnotationConfig(), base.embeddings)
    assert last.annotation.clusters != by_graph.clusters
    assert last.annotation.pairs != by_graph.pairs


def test_cluster_batches_train_on_the_same_annotation(corpus_file: Path):
    base = tiny_run(corpus_file)
    by_cluster = {"name": "infocse_idc", "batches": "cluster"}
    settings = base.training.model_dump() | {"method": by_cluster, "batch_size": 48}
    found = trained(tiny_run(corpus_file, training=settings))
    assert found.rows[2].annotation == trained(base).rows[2].annotation
    assert recall_at_5(found.rows[-1].scores) > recall_at_5(found.rows[0].scores)


def test_round_1_can_have_its_own_annotator(corpus_file: Path):
    other = {"name": "static", "dim": 24, "vocabulary": 300, "seed": 7}
    own = trained(tiny_run(corpus_file, annotator=other))
    usual = trained(tiny_run(corpus_file))
    assert own.rows[1] == usual.rows[1]
    assert own.rows[2].annotation != usual.rows[2].annotation


def test_without_counterparts_held_out_halves_validate(tmp_path: Path):
    source = write_corpus(tmp_path / "plain.jsonl", documents=80)
    columns = {"source": str(source), "id_column": "id", "sentences_column": "sentences"}
    found = trained(tiny_run(source, corpus=columns))
    report = json.loads((artifact_path(found.texts.validation_pool) / "pool.json").read_text())
    assert report["kind"] == "halves"
    assert report["n_candidates"] == 16  # a fifth of the documents, never trained on
    pairs = json.loads((artifact_path(found.rows[-1].annotation.pairs) / "report.json").read_text())
    assert pairs["held_out_documents"] == 16


def test_validation_during_training_reloads_the_best(corpus_file: Path):
    settings = tiny_run(corpus_file).training.model_dump() | {"evaluate_every": 3, "patience": 2}
    found = trained(tiny_run(corpus_file, training=settings))
    report = json.loads((artifact_path(found.rows[-1].log) / "report.json").read_text())
    assert report["best_step"] == max(report["scores"], key=lambda s: (s[1], -s[0]))[0]
    assert max(score for _, score in report["scores"]) == recall_at_5(found.rows[-1].scores)


@pytest.mark.parametrize("kind", ["whitening", "soft_whitening", "flow"])
def test_start_and_best_get_a_map_and_validation_chooses(corpus_file: Path, kind: str):
    config = tiny_run(corpus_file, postprocess=kind)
    plain = trained(config)
    found = in_process(partial(add_mapped_encoders, plain), config)
    base, named = plain.rows[plain.best], kind.replace("_", " ")
    assert found.rows[: len(plain.rows)] == plain.rows
    assert [(row.kind, row.label, row.parent) for row in found.rows[len(plain.rows) :]] == [
        ("mapped", f"{named} of start", "start"),
        ("mapped", f"{named} of {base.label.removeprefix('after ')}", base.label),
    ]
    scores = [recall_at_5(row.scores) for row in found.rows]
    tried = [plain.best, *range(len(plain.rows), len(found.rows))]
    assert found.best == max(tried, key=lambda place: (scores[place], -place))
    assert SentenceTransformer(str(artifact_path(found.rows[-1].encoder))).encode(["w1"]).any()
    assert found.model_copy(update={"best": len(found.rows) - 1}).best_trained == base


def test_a_dry_run_visits_the_maps(corpus_file: Path):
    config = tiny_run(corpus_file, postprocess="whitening")
    in_process(partial(add_mapped_encoders, trained(config)), config)
    with dry_run(config) as plan:
        walk(config)
    verdicts = [one.verdict for one in plan.statuses if one.stage == "finished_encoder"]
    assert verdicts == ["HIT", "HIT"]


def test_a_refused_corpus_leaves_its_quarantine(tmp_path: Path):
    source = tmp_path / "bad.jsonl"
    source.write_text('{"id": 1, "sentences": []}\n{"id": 2, "sentences": [" "]}\n')
    columns = {"source": str(source), "id_column": "id", "sentences_column": "sentences"}
    with pytest.raises(EmptyCorpusError, match="E101") as refused:
        trained(tiny_run(source, corpus=columns))
    (path,) = [Path(word.rstrip(".")) for word in str(refused.value).split() if "parquet" in word]
    assert pq.read_table(path)["reason"].to_pylist() == ["empty", "empty"]


def test_a_corpus_too_small_for_the_gate_is_refused_before_training(tmp_path: Path):
    config = tiny_run(write_corpus(tmp_path / "tiny.jsonl", documents=5))
    config = config.model_copy(
        update={"corpus": config.corpus.model_copy(update={"counterpart_column": None})}
    )
    with dry_run() as plan:
        self_train(config, lambda row: None)
    assert "train_encoder" in {status.stage for status in plan.statuses}
    with pytest.raises(NoQueriesError, match="E502"), probed() as log:
        trained(config)
    assert [used.stage for used in log.run.stages] == ["read_corpus", "draw_validation_pool"]
