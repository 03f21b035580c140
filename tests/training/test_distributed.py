"""Two ranks take the steps of one process, and a resumed training ends in the same bits."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file

from sentemb_core.config.run import TrainingConfig
from sentemb_core.errors import OutOfMemoryError, RecipeError, UsageError
from sentemb_core.training.distributed import Ranks
from sentemb_core.training.gradients import GradientJob
from sentemb_core.training.loop import train
from tests.methods.recipes import config_of, made, sampler_of
from tests.methods.steps import norm
from tests.repository import ROOT
from tests.training.joint_ranks import Tensors, cases

CASES = sorted(cases(Path()))
RANDOM = {"dropout", "resumed"}
"""Ranks draw other dropout than one process."""

WITHIN = {"float32": 1e-6, "float32-clusters": 1e-6, "zero-rows": 1e-6, "training": 1e-5}

Found = Callable[[str, str], Tensors]


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Case, and rank or `alone` -> its tensors."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-W", "ignore", "-m", "tests.training.joint_ranks", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=600, stderr=subprocess.DEVNULL)
    return lambda case, rank: load_file(folder / f"{case}-{rank}.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case not in RANDOM])
def test_two_ranks_compute_what_one_process_does(case: str, found: Found):
    alone, within = found(case, "alone"), WITHIN.get(case, 1e-12)
    for rank in "01":
        joint = found(case, rank)
        assert joint.keys() == alone.keys()
        for kind in {name.partition(" ")[0] for name in alone}:
            names = [name for name in alone if name.startswith(kind)]
            size = norm(alone[name] for name in names)
            assert norm(joint[name] - alone[name] for name in names) <= within * size


@pytest.mark.slow
def test_texts_without_a_known_word_were_in_the_batch_of_both_ranks(found: Found):
    vectors = found("zero-rows", "alone")
    zero = [(~rows.any(dim=1)).sum() for name, rows in vectors.items() if "vectors" in name]
    assert sum(zero) > 2


@pytest.mark.slow
def test_both_ranks_end_in_the_same_bits_with_other_dropout_than_one_process(found: Found):
    first, second, alone = (found("dropout", rank) for rank in ("0", "1", "alone"))
    assert all(weight.equal(second[name]) for name, weight in first.items())
    assert not first["losses"].equal(alone["losses"])


@pytest.mark.slow
@pytest.mark.parametrize("rank", ["0", "1", "alone"])
def test_a_resumed_training_ends_in_the_bits_of_an_undisturbed_one(found: Found, rank: str):
    undisturbed, resumed = found("dropout", rank), found("resumed", rank)
    assert all(weight.equal(resumed[name]) for name, weight in undisturbed.items())


def test_a_method_that_needs_a_batch_in_one_pass_refuses_devices(tmp_path: Path):
    method, learner = made("consert", first=("adversarial",), second=())
    config = config_of("consert", {"first": ("adversarial",), "second": ()}, devices=2)
    with pytest.raises(RecipeError):
        train(learner, method, sampler_of(config, method), config, tmp_path, ranks=Ranks(0, 2))


def test_one_process_refuses_a_training_of_two_devices(tmp_path: Path):
    method, learner = made("simcse")
    config = config_of("simcse", {}, devices=2)
    with pytest.raises(UsageError) as refused:
        train(learner, method, sampler_of(config, method), config, tmp_path)
    assert refused.value.code == "E001"


def test_a_batch_needs_a_text_for_each_device():
    with pytest.raises(ValueError, match="devices"):
        TrainingConfig(batch_size=3, devices=4)
    method, learner = made("simcse")
    batch = sampler_of(config_of("simcse", {}, batch_size=2), method).batch(0)
    job = GradientJob(learner, method, bfloat16=False, seed=0, ranks=Ranks(0, 5))
    with pytest.raises(RecipeError):
        job.run(batch, 0, None)


def test_a_device_without_memory_ends_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The other ranks wait for this one, so it cannot try smaller chunks alone."""

    def run(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(GradientJob, "run", run)
    method, learner = made("simcse")
    config = config_of("simcse", {}, devices=2)
    with pytest.raises(OutOfMemoryError):
        train(learner, method, sampler_of(config, method), config, tmp_path, ranks=Ranks(0, 2))
