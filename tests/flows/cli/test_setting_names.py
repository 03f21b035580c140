"""Why a stage would run is told by the settings that a person types.

Run: pytest tests/flows/test_setting_names.py
"""

from pathlib import Path

import pytest

from flows.cli.run import plan_of
from flows.cli.settings import checked, set_at
from flows.infocse_idc import neighbours_only, self_train
from flows.presets import merged
from sentemb_core.config.run import FineTuneRun, InfoCSEPlus, RunConfig
from sentemb_core.store.objects import Store
from sentemb_core.types import Json
from tasks.execution import without_prefect
from tasks.setting_names import in_settings
from tests.flows.corpora import tiny_run

ROUND = {"rounds": {"max_rounds": 1, "patience": 1}, "control": False}


def changed(source: Path, path: str, value: object) -> RunConfig:
    tree: Json = {}
    set_at(tree, path, value)
    return checked(merged(tiny_run(source, **ROUND).model_dump(mode="json"), tree))


@pytest.mark.usefixtures("home")
def test_a_plan_names_every_setting_as_it_is_set(corpus_file: Path, tmp_path: Path):
    with without_prefect(Store.default()):
        self_train(tiny_run(corpus_file, **ROUND), lambda row: None)

    def first_reason(path: str, value: object) -> str:
        plan = plan_of(changed(corpus_file, path, value))
        return next(f"{told.part}: {told}" for told in plan.statuses if told.verdict == "MISS")

    for path, value, told in (
        ("training.steps", 11, "round 1: train_encoder: MISS (training.steps 10 -> 11)"),
        ("initialiser.steps", 9, "after conpono: train_encoder: MISS (initialiser.steps 12 -> 9)"),
        ("annotation.top_k", 2, "round 1: prune_graph: MISS (annotation.top_k 1 -> 2)"),
        (
            "annotation.graph_degree",
            9,
            "round 1: build_graph: MISS (annotation.graph_degree or annotation.top_k 8 -> 9)",
        ),
        (
            "annotation.max_partners",
            3,
            "round 1: export_pairs: MISS (annotation.max_partners None -> 3)",
        ),
        (
            "validation.gate_share",
            0.2,
            ": draw_validation_pool: MISS (validation.gate_share 0.3 -> 0.2)",
        ),
        ("encoder.dim", 8, ": start_encoder: MISS (encoder.dim 16 -> 8)"),
        ("corpus.max_sentences", 3, ": read_corpus: MISS (corpus.max_sentences None -> 3)"),
    ):
        assert first_reason(path, value) == told
    edited = tmp_path / corpus_file.name
    edited.write_text(corpus_file.read_text("utf-8").replace("a", "b", 1), encoding="utf-8")
    assert first_reason("corpus.source", str(edited)) == (
        ": read_corpus: MISS (first time with these bytes of corpus.source)"
    )


STEPS = "arguments.config.steps 1 -> 2"


def test_what_a_run_makes_of_its_settings_is_not_told_as_one(tmp_path: Path):
    config = tiny_run(tmp_path / "a.jsonl")
    control = {"config": neighbours_only(config, 1)}
    why = f"arguments.config.seed 42 -> 43, {STEPS}"
    assert in_settings(why, "train_encoder", control, config) == (
        "seed of this stage alone 42 -> 43, training.steps 1 -> 2"
    )


def test_a_fine_tuning_is_named_as_the_run_has_it(tmp_path: Path):
    source, judged = {"source": str(tmp_path / "a.jsonl")}, {"label_share": 0.5}
    tree = {"corpus": source, "validation": judged}
    plus = InfoCSEPlus.model_validate(tree)
    alone = FineTuneRun.model_validate(tree)
    for config, given, told in (
        (plus, plus.fine_tuning, "fine_tuning.steps"),
        (alone, alone.training, "training.steps"),
    ):
        copy = {"config": given.model_copy(update={"patience": 1})}
        assert in_settings(STEPS, "train_encoder", copy, config) == f"{told} 1 -> 2"


def test_versions_tags_and_inputs_lose_nothing_but_their_prefix():
    why = "code changed, libraries.torch 2.12 -> 2.13, numeric.threads 1 -> 2, version 1 -> 2"
    assert in_settings(why, "validate_encoder", {}, None) == (
        "code changed, torch 2.12 -> 2.13, threads 1 -> 2, version 1 -> 2"
    )
    assert in_settings(STEPS, "train_encoder", {"config": None}, None) == "training.steps 1 -> 2"
    why = "arguments.config.source 5a -> 6b"
    assert in_settings(why, "read_labels", {}, None) == "the bytes of labels.source 5a -> 6b"
    assert in_settings("arguments.seed 1 -> 2", "random_scores", {}, None) == "encoder.seed 1 -> 2"
    why = "arguments.taught.base static -> minilm, arguments.taught.method ict -> cpc"
    assert in_settings(why, "publish_encoder", {}, None) == (
        "encoder.name static -> minilm, training.method.name ict -> cpc"
    )
