"""A training follows its key."""

import inspect
from pathlib import Path

import pytest
import torch

from flows.pipeline import encoder_from
from sentemb_core.config.methods import CONPONO
from sentemb_core.config.run import EncoderConfig, TrainingConfig
from sentemb_core.encoder.checkpoint import load_encoder
from sentemb_core.store.fingerprint import closure, core_file, definitions, imported, parsed
from sentemb_core.store.machine import processors
from sentemb_core.store.stages import StageKey
from sentemb_core.training.state import StepLog, read_steps
from sentemb_core.types import ArtifactRef
from tasks.artifacts import artifact_path
from tasks.corpus import tokenise_sentences
from tasks.execution import without_prefect
from tasks.train import RECENT, step_callback, steps_of, train_encoder


def test_how_often_a_training_is_kept_is_no_part_of_its_key():
    ref = ArtifactRef(kind="model", digest="a" * 64, size=3)

    def key(**settings: int) -> StageKey:
        config = TrainingConfig.model_validate(settings)
        return train_encoder.stage.key({"encoder": ref, "sentences": ref, "config": config})

    assert key(checkpoint_every=10) == key(checkpoint_every=1000) != key(steps=10)
    assert key(devices=1) == key() != key(devices=2)
    assert not any("devices" in part for part in key().parts)


@pytest.fixture
def other_threads():
    """Torch has others than a training shall have, as after OMP_NUM_THREADS."""
    before = torch.get_num_threads()
    torch.set_num_threads(processors() + 1)
    yield
    torch.set_num_threads(before)


def test_the_threads_of_a_training_are_those_of_its_key(
    documents: ArtifactRef, monkeypatch: pytest.MonkeyPatch, other_threads
):
    seen: set[int] = set()
    add = StepLog.add

    def watched(log: StepLog, *values: object) -> None:
        seen.add(torch.get_num_threads())
        add(log, *values)

    monkeypatch.setattr(StepLog, "add", watched)
    config = TrainingConfig(method=CONPONO(), steps=2, batch_size=4)
    with without_prefect():
        encoder = encoder_from(EncoderConfig(dim=8, vocabulary=300), documents)
        given = {"encoder": encoder, "sentences": tokenise_sentences(documents, None, encoder)}
        train_encoder(**given, config=config)
    key = train_encoder.stage.key(given | {"config": config})
    assert seen == {key.parts["numeric.threads"]}


@pytest.mark.soak
def test_a_training_on_two_devices_ends_as_one_on_one_device(documents: ArtifactRef):
    """By torchrun, on real text. A static table has no dropout, so the losses agree as well."""
    config = TrainingConfig(method=CONPONO(), steps=4, batch_size=5, threads=2)
    with without_prefect():
        encoder = encoder_from(EncoderConfig(dim=8, vocabulary=300), documents)
        given = {"encoder": encoder, "sentences": tokenise_sentences(documents, None, encoder)}
        one, two = (
            train_encoder(**given, config=config.model_copy(update={"devices": devices}))
            for devices in (1, 2)
        )
    losses, joint = (read_steps(artifact_path(trained.log))["loss"] for trained in (one, two))
    assert joint == pytest.approx(losses, rel=1e-5)
    assert steps_of(two.log) == 4
    weights, others = (
        load_encoder(artifact_path(trained.model)).state_dict() for trained in (one, two)
    )
    for name, weight in weights.items():
        torch.testing.assert_close(others[name], weight, rtol=1e-4, atol=1e-6)


def test_the_code_of_a_training_holds_neither_words_nor_k_means():
    """An edit of evaluation or annotation code must not train every encoder again."""
    body = inspect.unwrap(train_encoder.stage.function)
    nodes = definitions(parsed(Path(inspect.getfile(body))), body.__code__.co_firstlineno)
    reached = closure({name for node in nodes for name in imported(node)}, core_file)
    assert "sentemb_core.training.loop" in reached
    assert not {"sentemb_core.retrieval.bm25", "sentemb_core.annotation.kmeans"} & set(reached)


def test_the_mean_loss_of_the_last_steps_is_shown():
    shown: dict[int, str] = {}
    on_step = step_callback(shown.__setitem__)
    for step, loss in enumerate([9.0] * RECENT + [0.5] * RECENT, start=1):
        on_step(step, {"loss": loss})
    assert [shown[step] for step in (1, RECENT, 2 * RECENT)] == ["loss 9", "loss 9", "loss 0.5"]
    assert shown[RECENT + RECENT // 2] == "loss 4.75"
