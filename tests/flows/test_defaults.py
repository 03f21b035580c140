"""A configuration given to a flow is completed to the settings of the same command."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows import pipeline
from flows.cli.settings import nested, settings
from flows.defaults import completed
from flows.fine_tune import fine_tune
from flows.infocse_idc import infocse_idc
from flows.infocse_plus import infocse_plus
from flows.presets import PRETRAINED, STATIC
from flows.train_method import train_method
from sentemb_core.config.methods import SimCSE
from sentemb_core.config.run import (
    AnnotationConfig,
    CorpusConfig,
    EncoderConfig,
    FineTuneRun,
    InfoCSEIDC,
    InfoCSEPlus,
    MethodRun,
    RunConfig,
    TrainingConfig,
)

SIMCSE = {"training.method.name": "simcse"}

KINDS: dict[Any, tuple[type[RunConfig], dict[str, Any], dict[str, Any]]] = {
    infocse_idc: (InfoCSEIDC, {}, {}),
    infocse_plus: (InfoCSEPlus, {}, {"cycles.max_cycles": 3}),
    fine_tune: (FineTuneRun, {}, {"training.method.name": "fine_tune"}),
    train_method: (MethodRun, SIMCSE, SIMCSE),
}
"""Flow -> its configuration, what it must name, and what makes the command line choose it."""

ASKED: dict[str, st.SearchStrategy[Any]] = {
    "name": st.just("mine"),
    "encoder.name": st.sampled_from(["static", "transformer", "minilm"]),
    "encoder.dim": st.just(16),
    "annotation.top_k": st.just(2),
    "annotation.positives": st.sampled_from(["cluster", "edge"]),
    "annotation.keep_embeddings": st.booleans(),
    "training.batch_size": st.just(8),
    "training.learning_rate": st.just(3e-4),
    "validation.candidates": st.just(50),
    "validation.label_share": st.just(0.25),
    "labels.epochs": st.just(4),
    "initialiser.method.name": st.sampled_from(["simcse", "conpono"]),
    "returns": st.just("encoder"),
}


def of_command(paths: dict[str, Any]) -> str:
    return settings(None, paths, []).model_dump_json()


def recorded_by(flow: Any, config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> RunConfig:
    """The configuration that a flow records."""
    recorded: list[RunConfig] = []

    def monitored_run(config: RunConfig) -> None:
        recorded.append(config)
        raise InterruptedError

    monkeypatch.setattr(pipeline, "monitored_run", monitored_run)
    with suppress(InterruptedError):
        flow.fn(config)
    return recorded[0]


@pytest.mark.parametrize(
    "asked",
    [{}, {"encoder.name": "static"}, {"encoder.name": "minilm"}, {"training.learning_rate": 7e-4}],
)
@pytest.mark.parametrize("flow", KINDS, ids=lambda flow: flow.name)
def test_a_flow_records_the_settings_of_the_command(
    flow: Any, asked: dict[str, Any], corpus_file: Path, monkeypatch: pytest.MonkeyPatch
):
    kind, own, of_kind = KINDS[flow]
    source = {"corpus.source": str(corpus_file)}
    if kind is FineTuneRun and "training.learning_rate" in asked:
        own = of_kind
    config = kind.model_validate(nested(source | own | asked))
    recorded = recorded_by(flow, config, monkeypatch)
    assert recorded.model_dump_json() == of_command(source | of_kind | asked)
    if "training.learning_rate" in asked:
        assert recorded.training.learning_rate == 7e-4


@pytest.mark.parametrize("flow", KINDS, ids=lambda flow: flow.name)
def test_parameters_of_a_deployment_have_the_settings_of_the_command(flow: Any, tmp_path: Path):
    _, own, of_kind = KINDS[flow]
    source = {"corpus.source": str(tmp_path / "news.jsonl"), "encoder.name": "static"}
    parameters = {"config": nested(source | own)}
    config = flow.validate_parameters(json.loads(json.dumps(parameters)))["config"]
    assert completed(config).model_dump_json() == of_command(source | of_kind)
    again = flow.validate_parameters({"config": config})["config"]
    assert again.model_fields_set == config.model_fields_set


@given(asked=st.fixed_dictionaries({}, optional=ASKED), flow=st.sampled_from([*KINDS]))
def test_whatever_is_asked_gives_the_run_of_the_command(asked: dict[str, Any], flow: Any):
    kind, own, of_kind = KINDS[flow]
    source = {"corpus.source": "absent.jsonl"}
    if kind is FineTuneRun and any(path.startswith("training.") for path in asked):
        own = of_kind
    run = completed(kind.model_validate(nested(source | own | asked)))
    assert run.model_dump_json() == of_command(source | of_kind | asked)
    tree = run.model_dump()
    assert nested({path: value_at(tree, path) for path in asked}) == nested(asked)
    assert completed(run) == run


def value_at(tree: dict[str, Any], path: str) -> Any:
    for name in path.split("."):
        tree = tree[name]
    return tree


@pytest.mark.parametrize(
    ("options", "overrides"),
    [
        ({"preset": "paper"}, []),
        ({"preset": "edges", "seed": 7}, ["initialiser.method=none"]),
        ({"preset": "paper", "cycles.max_cycles": 2}, []),
        ({"training.method": "simcse", "preset": "paper", "encoder.name": "minilm"}, []),
    ],
)
def test_a_run_of_the_command_line_is_complete(options: dict[str, Any], overrides: list[str]):
    run = settings(None, {"corpus.source": "absent.jsonl", **options}, overrides)
    assert completed(run) == run
    beside_its_report = type(run).model_validate_json(run.model_dump_json())
    assert completed(beside_its_report) == run


def test_values_of_models_count_as_given():
    corpus = CorpusConfig(source="absent.jsonl")
    config = InfoCSEIDC(
        corpus=corpus,
        encoder=EncoderConfig(name="static"),
        initialiser=None,
        annotation=AnnotationConfig(positives="cluster"),
        training=TrainingConfig(steps=5),
    )
    run = completed(config)
    assert run.initialiser is None
    assert (run.annotation.positives, run.annotation.min_distance) == ("cluster", 1)
    assert run.training == TrainingConfig.model_validate(STATIC["training"] | {"steps": 5})
    method = MethodRun(
        corpus=corpus,
        encoder=EncoderConfig(name="minilm"),
        training=TrainingConfig(method=SimCSE(temperature=0.1)),
    )
    training = completed(method).training
    assert training.method == SimCSE(temperature=0.1)
    assert training.learning_rate == PRETRAINED["training"]["learning_rate"]


@pytest.mark.parametrize("column", ["text", "sentences"])
@pytest.mark.parametrize(
    ("texts", "asked", "splitter", "distance"),
    [
        (["one two three four five"], {}, "words", 1),
        ([" ".join(f"w{k}" for k in range(24))], {}, "words", 2),
        (["One is here.", "Two is there."], {}, "syntok", 1),
        (["One is here.", "Two is there.", "Three is away."], {}, "syntok", 2),
        (["one two three four five"], {"corpus.splitter": "none"}, "none", 1),
        (["one two three four five"], {"annotation.min_distance": 3}, "words", 3),
    ],
)
def test_short_documents_have_settings_with_which_they_give_pairs(
    texts: list[str], asked: dict[str, Any], splitter: str, distance: int, column: str,
    tmp_path: Path,
):  # fmt: skip
    value = texts if column == "sentences" else " ".join(texts)
    source = tmp_path / "short.jsonl"
    source.write_text("\n".join(json.dumps({column: value}) for _ in range(300)), "utf-8")
    run = completed(
        InfoCSEIDC.model_validate(
            nested({"corpus.source": str(source), "encoder.name": "static"} | asked)
        )
    )
    assert (run.corpus.splitter, run.annotation.min_distance) == (splitter, distance)
    assert completed(run) == run


def test_a_method_that_needs_no_pairs_keeps_texts_of_one_sentence(tmp_path: Path):
    source = tmp_path / "short.jsonl"
    source.write_text('{"text": "one two three four five"}\n' * 300, "utf-8")
    config = {"corpus.source": str(source), "encoder.name": "minilm"} | SIMCSE
    assert completed(MethodRun.model_validate(nested(config))).corpus.splitter == "syntok"
