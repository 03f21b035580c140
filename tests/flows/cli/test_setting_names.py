"""The reason why a stage would run names settings, not arguments."""

from pathlib import Path

import pytest

from flows.cli.run import plan_of
from flows.cli.settings import checked, nested
from flows.infocse_idc import neighbours_only, self_train
from flows.presets import merged
from sentemb_core.config.run import FineTuneRun, InfoCSEPlus
from tasks.execution import without_prefect
from tasks.setting_names import in_settings
from tests.flows.corpora import tiny_run

ROUND = {"rounds": {"max_rounds": 1, "patience": 1}, "control": False}
STEPS = "arguments.config.steps 1 -> 2"


@pytest.mark.usefixtures("home")
def test_a_dry_run_names_the_changed_setting_and_its_stage(corpus_file: Path, tmp_path: Path):
    with without_prefect():
        self_train(tiny_run(corpus_file, **ROUND), lambda row: None)
    tree = tiny_run(corpus_file, **ROUND).model_dump(mode="json")
    edited = tmp_path / corpus_file.name
    edited.write_text(corpus_file.read_text("utf-8").replace("a", "b", 1), encoding="utf-8")
    degree = "annotation.graph_degree or annotation.top_k 8 -> 9"
    for path, value, part, stage, why in (
        ("training.steps", 11, "round 1", "train_encoder", "training.steps 10 -> 11"),
        ("initialiser.steps", 9, "after conpono", "train_encoder", "initialiser.steps 12 -> 9"),
        ("annotation.top_k", 2, "round 1", "prune_graph", "annotation.top_k 1 -> 2"),
        ("annotation.graph_degree", 9, "round 1", "build_graph", degree),
        (
            "annotation.max_partners",
            3,
            "round 1",
            "export_pairs",
            "annotation.max_partners None -> 3",
        ),
        (
            "validation.gate_share",
            0.2,
            "",
            "draw_validation_pool",
            "validation.gate_share 0.3 -> 0.2",
        ),
        ("encoder.dim", 8, "", "start_encoder", "encoder.dim 16 -> 8"),
        ("corpus.max_sentences", 3, "", "read_corpus", "corpus.max_sentences None -> 3"),
        ("corpus.source", str(edited), "", "read_corpus", None),
    ):
        plan = plan_of(checked(merged(tree, nested({path: value}))))
        first = next(status for status in plan.statuses if status.verdict == "MISS")
        assert (first.part, first.stage, path in first.why) == (part, stage, True)
        assert why in (None, first.why)


def test_a_value_that_the_run_chose_is_not_named_as_a_setting(tmp_path: Path):
    config = tiny_run(tmp_path / "a.jsonl")
    control = {"config": neighbours_only(config, 1)}
    why = in_settings(f"arguments.config.seed 42 -> 43, {STEPS}", "train_encoder", control, config)
    assert why == "seed of this stage 42 -> 43, training.steps 1 -> 2"


@pytest.mark.parametrize(
    ("kind", "table"), [(InfoCSEPlus, "fine_tuning"), (FineTuneRun, "training")]
)
def test_fine_tuning_is_named_by_its_own_table(tmp_path: Path, kind: type, table: str):
    tree = {"corpus": {"source": str(tmp_path / "a.jsonl")}, "validation": {"label_share": 0.5}}
    config = kind.model_validate(tree)
    copy = {"config": getattr(config, table).model_copy(update={"patience": 1})}
    assert in_settings(STEPS, "train_encoder", copy, config) == f"{table}.steps 1 -> 2"


@pytest.mark.parametrize(
    ("why", "stage", "setting"),
    [
        (
            "code changed, libraries.torch 2.12 -> 2.13, numeric.threads 1 -> 2, version 1 -> 2",
            "validate_encoder",
            "code changed, torch 2.12 -> 2.13, threads 1 -> 2, version 1 -> 2",
        ),
        (
            "arguments.card.base static -> minilm, arguments.card.method ict -> cpc",
            "publish_encoder",
            "encoder.name static -> minilm, training.method.name ict -> cpc",
        ),
        ("arguments.card.name a -> b", "publish_encoder", "name a -> b"),
        (STEPS, "train_encoder", "training.steps 1 -> 2"),
        ("arguments.config.source a -> b", "read_labels", "the bytes of labels.source a -> b"),
        ("arguments.seed 1 -> 2", "random_scores", "encoder.seed 1 -> 2"),
    ],
)
def test_a_part_of_a_key_is_named_by_its_setting(why: str, stage: str, setting: str):
    assert in_settings(why, stage, {"config": None}, None) == setting
