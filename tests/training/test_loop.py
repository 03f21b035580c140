"""The training loop: deterministic, resumable in the same bits, with codes for its failures."""

import errno
import hashlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError
from torch import nn
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from sentemb_core.config.run import TrainingConfig
from sentemb_core.errors import DivergedError, OutOfMemoryError, RecipeError, StorageError
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.parts.pairs import Annotation
from sentemb_core.store import disk
from sentemb_core.training import checkpoint
from sentemb_core.training.batches import sampler_for
from sentemb_core.training.checkpoint import last_checkpoint
from sentemb_core.training.gradients import GradientJob
from sentemb_core.training.loop import learner_of, train
from sentemb_core.training.state import StepLog, read_steps
from tests import tiny
from tests.interrupted import BreakingOff, InterruptionError

STEPS = 14


def config_of(**changes) -> TrainingConfig:
    given = {
        "method": "simcse",
        "steps": STEPS,
        "batch_size": 8,
        "learning_rate": 1e-2,
        "checkpoint_every": 3,
        "evaluate_every": 4,
        "patience": 9,
        "threads": 1,
    }
    return TrainingConfig(**(given | changes))


def digest(encoder) -> str:
    """SHA-256 of all weights."""
    weights = encoder.state_dict()
    return hashlib.sha256(
        b"".join(weights[name].numpy().tobytes() for name in sorted(weights))
    ).hexdigest()


def some_score(encoder) -> float:
    """Return a score that depends on the weights; draw random numbers, as a validation may."""
    torch.rand(3)
    return float(encoder.backbone.state_dict().popitem()[1].sum())


def trained(config, work, *, kind="transformer", validate=some_score, encoder=None, **callbacks):
    encoder = encoder or (tiny.static() if kind == "static" else tiny.bert())
    corpus = tiny.corpus([4] * 16, special=kind == "transformer")
    position = np.arange(64) % 4
    i = np.flatnonzero(position < 2)
    annotation = Annotation(i, i + 2, (position % 2).astype(np.int32))
    method = method_for(config.method, encoder)
    sampler = sampler_for(config, method, corpus, annotation)
    learner = learner_of(method, encoder, config.seed)
    report = train(learner, method, sampler, config, work, validate=validate, **callbacks)
    return encoder, report


def refusing(broken):
    """Return `perform` with an unreadable path."""

    def perform(operation, path, *args):
        if path == broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return operation(path, *args)

    return perform


def interrupted(work, step, error=InterruptionError, **changes):
    with pytest.raises(error):
        trained(config_of(**changes), work, on_step=BreakingOff(step, error))


def resumed_from(work, **changes) -> tuple[int, tuple]:
    """Resume a run; return its first step, and its digest and report."""
    steps = []
    encoder, report = trained(
        config_of(**changes), work, on_step=lambda step, _: steps.append(step)
    )
    return steps[0], (digest(encoder), report)


KINDS = [
    {},
    {"method": "simcse", "chunk": 3, "dtype": "bfloat16"},
    {"method": "ict", "optimizer": "adam", "schedule": "constant"},
    {"method": {"name": "infocse_idc", "batches": "cluster"}, "schedule": "slanted"},
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return digest and report of an uninterrupted run, by its changes to the configuration."""
    known = {}

    def run(**changes):
        key = json.dumps(changes, sort_keys=True)
        if key not in known:
            work = tmp_path_factory.mktemp("undisturbed")
            encoder, report = trained(config_of(**changes), work)
            known[key] = digest(encoder), report
        return known[key]

    return run


@given(st.sampled_from(KINDS), st.sets(st.integers(1, STEPS), min_size=1, max_size=3))
@settings(
    max_examples=10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_run_interrupted_anywhere_ends_in_the_same_bits(
    undisturbed, tmp_path_factory, changes, stops
):
    work = tmp_path_factory.mktemp("interrupted")
    for stop in sorted(stops):
        interrupted(work, stop, **changes)
    encoder, report = trained(config_of(**changes), work)
    assert (digest(encoder), report) == undisturbed(**changes)


@pytest.mark.parametrize("every", [1, 100])
def test_a_run_resumes_with_another_checkpoint_every(undisturbed, tmp_path, every):
    interrupted(tmp_path, 8)
    assert resumed_from(tmp_path, checkpoint_every=every) == (7, undisturbed())


def test_the_log_of_a_resumed_run_has_all_steps(tmp_path):
    whole, resumed = StepLog(), StepLog()
    trained(config_of(), tmp_path / "whole", steps=whole)
    for stop in (5, 8, 10):
        interrupted(tmp_path / "torn", stop)
    trained(config_of(), tmp_path / "torn", steps=resumed)
    whole.write(tmp_path / "whole")
    resumed.write(tmp_path / "torn")
    log = read_steps(tmp_path / "whole")
    assert read_steps(tmp_path / "torn") == log
    assert log["step"] == list(range(1, STEPS + 1))
    scores = zip(log["step"], log["validation"], strict=True)
    assert [step for step, score in scores if score is not None] == [4, 8, 12, 14]


class CtrlC:
    """Raises KeyboardInterrupt after the eighth call."""

    def __init__(self, call=lambda *_: None):
        self.call, self.calls = call, 0

    def __call__(self, *args):
        result = self.call(*args)
        self.calls += 1
        if self.calls == 8:
            raise KeyboardInterrupt
        return result


@pytest.mark.parametrize("changes", KINDS)
def test_an_interruption_between_steps_loses_no_step(undisturbed, tmp_path, changes):
    interrupted(tmp_path, 8, KeyboardInterrupt, **changes)
    assert resumed_from(tmp_path, **changes) == (9, undisturbed(**changes))


@pytest.mark.parametrize("changes", KINDS)
def test_an_interruption_in_a_step_repeats_that_step_only(
    undisturbed, tmp_path, monkeypatch, changes
):
    run = CtrlC(GradientJob.run)
    monkeypatch.setattr(GradientJob, "run", lambda *given: run(*given))
    with pytest.raises(KeyboardInterrupt):
        trained(config_of(**changes), tmp_path)
    assert resumed_from(tmp_path, **changes) == (8, undisturbed(**changes))


@pytest.mark.parametrize(
    "moment", [register_optimizer_step_pre_hook, register_optimizer_step_post_hook]
)
def test_half_an_update_is_never_saved(undisturbed, tmp_path, moment):
    changes = {"evaluate_every": None, "patience": None}
    hook = moment(CtrlC())
    try:
        with pytest.raises(KeyboardInterrupt):
            trained(config_of(**changes), tmp_path)
    finally:
        hook.remove()
    assert resumed_from(tmp_path, **changes) == (7, undisturbed(**changes)), "after the checkpoint"


def test_an_interrupted_validation_is_repeated(undisturbed, tmp_path):
    def validate(encoder):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(config_of(), tmp_path, validate=validate)
    assert resumed_from(tmp_path) == (4, undisturbed())


@pytest.mark.parametrize("error", [SafetensorError("(os error 28)"), KeyboardInterrupt()])
def test_an_interruption_ends_the_run_if_the_checkpoint_fails(tmp_path, monkeypatch, caplog, error):
    """A full disk, or a second Ctrl-C."""

    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(checkpoint, "save_file", refuse)
    interrupted(tmp_path, 2, KeyboardInterrupt)
    assert last_checkpoint(tmp_path) is None
    refused = [(2, "E601")] if isinstance(error, SafetensorError) else []
    assert [(record.args[0], record.args[1].code) for record in caplog.records] == refused


def test_an_interruption_before_a_broken_checkpoint_is_saved(tmp_path, undisturbed):
    interrupted(tmp_path, 7)
    newest = max(tmp_path.glob("step-*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-100])
    interrupted(tmp_path, 4, KeyboardInterrupt)
    assert resumed_from(tmp_path) == (5, undisturbed())


def test_on_checkpoint_is_called_for_every_checkpoint(tmp_path):
    kept = []
    steps = BreakingOff(8, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        trained(
            config_of(),
            tmp_path,
            on_step=steps,
            on_checkpoint=lambda: kept.append(len(steps.losses)),
        )
    assert kept == [3, 6, 8]


def test_runs_are_equal_for_equal_seeds_only(tmp_path):
    runs = [
        digest(trained(config_of(seed=seed), tmp_path / str(k))[0])
        for k, seed in enumerate([1, 1, 2])
    ]
    assert runs[0] == runs[1] != runs[2]


def test_a_fresh_head_depends_on_the_seed_only():
    method = method_for(config_of(method="esimcse").method, tiny.bert())
    heads = []
    for seed in (1, 1, 2):
        torch.rand(1)
        weights = learner_of(method, tiny.bert(), seed).head.parameters()
        heads.append(nn.utils.parameters_to_vector(weights))
    assert heads[0].equal(heads[1])
    assert not heads[0].equal(heads[2])


def test_a_run_restores_the_random_state_and_threads(tmp_path):
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    trained(config_of(threads=threads + 1, steps=2), tmp_path)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads


CHILD = """
import sys
from pathlib import Path
def on_step(step, _):
    print(step, flush=True)
    if step == {last}:
        sys.stdin.read()  # the kill comes before its end does
sys.path.insert(0, {root!r})
sys.path.insert(0, {here!r})
import test_loop as t
encoder, report = t.trained(
    t.config_of(steps=200, evaluate_every=None, patience=None, checkpoint_every=5),
    Path({work!r}),
    on_step=on_step,
)
print("digest", t.digest(encoder))
"""


@pytest.mark.slow
def test_a_run_killed_by_the_system_ends_in_the_same_bits(tmp_path):
    def child(work, last=None):
        here = Path(__file__).parent
        code = CHILD.format(root=str(here.parents[1]), here=str(here), work=str(work), last=last)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        return subprocess.Popen([sys.executable, "-c", code], env=os.environ, **pipes)

    with child(tmp_path / "killed", last=100) as killed:
        for line in killed.stdout:
            if line.strip() == "17":
                killed.send_signal(signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    assert list((tmp_path / "killed").glob("step-*.json"))
    with child(tmp_path / "killed") as again, child(tmp_path / "whole") as undisturbed:
        resumed, whole = again.communicate()[0].split(), undisturbed.communicate()[0].split()
    assert 10 < int(resumed[0]) < 200
    assert resumed[-2:] == whole[-2:]
    assert whole[0] == "1"


@pytest.mark.parametrize(
    "damage", ["truncated", "flipped", "no manifest", "half a manifest", "unreadable"]
)
def test_a_broken_checkpoint_is_skipped_for_the_one_before(
    damage, undisturbed, tmp_path, caplog, monkeypatch
):
    trained(config_of(), tmp_path)
    newest = sorted(tmp_path.glob("step-*.safetensors"))[-1]
    assert newest.name == "step-00000012.safetensors"
    if damage == "truncated":
        newest.write_bytes(newest.read_bytes()[:-100])
    elif damage == "flipped":
        content = bytearray(newest.read_bytes())
        content[len(content) // 2] ^= 1
        newest.write_bytes(content)
    elif damage == "no manifest":
        newest.with_suffix(".json").unlink()
    elif damage == "unreadable":
        monkeypatch.setattr(disk, "perform", refusing(newest))
    else:
        manifest = newest.with_suffix(".json")
        manifest.write_text(manifest.read_text()[:9])
    assert resumed_from(tmp_path) == (10, undisturbed())
    assert ("step-00000012.safetensors" in caplog.text) == (damage != "no manifest")


def test_a_checkpoint_of_another_recipe_is_removed(tmp_path):
    trained(config_of(), tmp_path)
    assert resumed_from(tmp_path, seed=3, steps=7)[0] == 1
    kept = [path.name for path in tmp_path.glob("*.json")]
    assert sorted(kept) == ["step-00000003.json", "step-00000006.json"]  # of the new recipe


def test_only_the_last_two_checkpoints_are_kept(tmp_path):
    trained(config_of(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"step-{step:08d}.{kind}" for step in (9, 12) for kind in ("json", "safetensors")
    ]


@pytest.mark.parametrize("name", [".tmpYXnaZz", "draft-1f"])
def test_the_draft_of_a_killed_save_is_removed(tmp_path, name):
    """Safetensors writes to a hidden name first. A young draft may be of another process."""
    left = tmp_path / name
    left.write_bytes(b"half of the weights")
    trained(config_of(steps=3), tmp_path)
    assert left.exists()
    os.utime(left, (0, time.time() - 2 * checkpoint.HOUR))
    trained(config_of(steps=3, seed=5), tmp_path)
    assert not left.exists()


def test_a_run_survives_the_removal_of_its_folder(undisturbed, tmp_path):
    """Where nothing locks, another process with the same key may finish and remove it."""
    work = tmp_path / "work"

    def remove_at_five(step, _):
        if step == 5:
            shutil.rmtree(work)

    encoder, report = trained(config_of(), work, on_step=remove_at_five)
    assert (digest(encoder), report) == undisturbed()


def test_a_disk_that_fills_during_a_checkpoint_is_e601(tmp_path, monkeypatch):
    """Safetensors gives the error number in its text only."""

    def full(*_, **__):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(StorageError, match="No space left on device"):
        trained(config_of(), tmp_path)


@pytest.mark.parametrize("validate", [some_score, None])
@pytest.mark.parametrize("method", ["simcse", "esimcse", "is_bert", "clm_autoencoder"])
def test_checkpoints_that_do_not_fit_the_disk_are_e601_at_the_start(
    tmp_path, monkeypatch, method, validate
):
    steps = []
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=0))
    asked = []
    real = disk.require_free
    monkeypatch.setattr(disk, "require_free", lambda *given: (asked.append(given), real(*given)))
    config = config_of(method=method)
    with pytest.raises(StorageError, match=r"^E601 3 checkpoints"):
        trained(config, tmp_path, validate=validate, on_step=lambda *step: steps.append(step))
    assert steps == []
    monkeypatch.setattr(disk, "require_free", lambda *given: None)
    trained(config, tmp_path, validate=validate)
    kept = last_checkpoint(tmp_path).tensors
    counters = [name for name in kept if name.startswith("optimiser.") and name.endswith(".step")]
    log = [name for name in kept if name.startswith("log.")]
    sizes = [kept[name].nbytes for name in kept.keys() - {*counters, *log}]
    assert asked[0][1] == 3 * sum(sizes)


def test_a_resumed_run_needs_room_for_its_remaining_checkpoints(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(disk, "require_free", lambda _, size, what: asked.append((size, what)))
    trained(config_of(steps=2, checkpoint_every=3), tmp_path / "short")
    trained(config_of(steps=5, checkpoint_every=3), tmp_path / "once")
    interrupted(tmp_path / "long", 8)
    trained(config_of(), tmp_path / "long")
    counts = [what.split()[0] for _, what in asked]
    assert counts == ["0", "1", "3", "1"]
    assert asked[0][0] == 0 < asked[1][0] * 3 == asked[2][0] == asked[3][0] * 3


def test_the_head_is_in_the_checkpoint_only(tmp_path):
    encoder, _ = trained(config_of(), tmp_path)
    from safetensors import safe_open

    with safe_open(tmp_path / "step-00000012.safetensors", "pt") as file:
        heads = [name for name in file.keys() if name.startswith("head.")]  # noqa: SIM118
    assert heads == ["head.0.bias", "head.0.weight"]
    assert encoder.state_dict().keys() == tiny.bert().state_dict().keys()
    assert not encoder.training


def test_frozen_parameters_do_not_move(tmp_path):
    encoder, fresh = tiny.bert(), tiny.bert()
    trained(config_of(method="sg_opt", steps=2), tmp_path, encoder=encoder)
    pairs = zip(encoder.named_parameters(), fresh.parameters(), strict=True)
    still = {name for (name, weight), before in pairs if weight.equal(before)}
    assert still == {name for name, _ in fresh.named_parameters() if "embeddings." in name}
    assert all(weight.requires_grad for weight in encoder.parameters())


def test_patience_ends_the_run_and_restores_the_best_weights(tmp_path):
    scores = iter([0.1, 0.5, 0.4, 0.5, 0.9])
    kept = []

    def validate(encoder):
        assert not encoder.training
        kept.append(digest(encoder))
        return next(scores)

    config = config_of(steps=100, evaluate_every=4, patience=2)
    encoder, report = trained(config, tmp_path, validate=validate)
    assert report.scores == ((4, 0.1), (8, 0.5), (12, 0.4), (16, 0.5))
    assert (report.best_step, report.steps) == (8, 16)
    assert digest(encoder) == kept[1]
    assert len(set(kept)) == 4


def test_networks_that_a_method_keeps_are_restored_as_well(tmp_path):
    config = config_of(method="condenser", steps=4, evaluate_every=1, checkpoint_every=1)
    encoder, seen = tiny.bert(), []
    method = method_for(config.method, encoder)
    learner = learner_of(method, encoder, config.seed)

    def validate(encoder):
        seen.append([digest(encoder), digest(learner.networks["condenser"])])
        return -abs(len(seen) - 2.0)

    sampler = sampler_for(config, method, tiny.corpus([4] * 16))
    report = train(learner, method, sampler, config, tmp_path, validate=validate)
    assert (report.best_step, report.steps) == (2, 4)
    assert [digest(encoder), digest(learner.networks["condenser"])] == seen[1] != seen[3]
    again = learner_of(method, tiny.bert(), config.seed)
    train(again, method, sampler, config, tmp_path, validate=validate)
    assert digest(again.networks["condenser"]) == seen[1][1]


def test_a_run_without_patience_does_not_resume(tmp_path):
    config = config_of(steps=100, evaluate_every=3, patience=2)
    scores = iter([0.3, 0.2, 0.1, 0.9])
    _, first = trained(config, tmp_path, validate=lambda _: next(scores))
    encoder, again = trained(config, tmp_path, validate=lambda _: next(scores))
    assert first == again
    assert again.best_step == 3
    assert digest(encoder) != digest(tiny.bert())


def test_without_evaluate_every_the_validation_is_at_the_end(tmp_path):
    config = config_of(evaluate_every=None, patience=None)
    _, report = trained(config, tmp_path, validate=lambda _: 0.7)
    assert report.scores == ((STEPS, 0.7),)
    assert report.best_step == STEPS


def test_every_step_is_reported(tmp_path):
    steps = {}
    _, report = trained(config_of(), tmp_path, on_step=steps.__setitem__)
    assert list(steps) == list(range(1, STEPS + 1))
    for metrics in steps.values():
        assert {"loss", "learning_rate", "gradient_norm", "pairs_per_second"} <= metrics.keys()
        assert all(np.isfinite(value) for value in metrics.values())
    assert [step for step, metrics in steps.items() if "validation" in metrics] == [4, 8, 12, 14]
    assert report.loss == steps[STEPS]["loss"]
    assert report.pairs == 8 * STEPS
    assert report.sentences == 16 * STEPS


@pytest.mark.parametrize(("method", "drops"), [("simcse", True), ("ct", False)])
def test_dropout_follows_the_method_also_after_a_validation(tmp_path, method, drops):
    encoder, modes = tiny.bert(), []
    encoder.backbone.embeddings.register_forward_pre_hook(
        lambda embeddings, _: modes.append(embeddings.training)
    )
    passes = []
    trained(
        config_of(method=method, steps=2, evaluate_every=1),
        tmp_path,
        encoder=encoder,
        on_step=lambda *_: passes.append(len(modes)),
    )
    assert 0 < passes[0] < passes[1], "each step encodes its batch"
    assert {*modes} == {drops}
    assert not any(module.training for module in encoder.modules())


def test_the_gradient_is_clipped_and_its_norm_reported_before(tmp_path):
    reported, taken = [], []

    def look(optimiser, *_):
        weights = [weight for group in optimiser.param_groups for weight in group["params"]]
        gradients = [weight.grad.flatten() for weight in weights if weight.grad is not None]
        taken.append(torch.cat(gradients).norm().item())

    hook = register_optimizer_step_pre_hook(look)
    try:
        trained(
            config_of(clip=1e-2, steps=3),
            tmp_path,
            on_step=lambda _, metrics: reported.append(metrics["gradient_norm"]),
        )
    finally:
        hook.remove()
    assert min(reported) > 2e-2
    assert taken == pytest.approx([1e-2] * 3, rel=1e-3)


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_non_finite_loss_or_gradient_is_e302_and_saves_the_batch(where, tmp_path):
    encoder = tiny.static(similarity="dot")
    before = digest(encoder)
    if where == "loss":
        encoder.backbone.embedding.weight.data.fill_(float("nan"))
    else:
        encoder.backbone.embedding.weight.register_hook(lambda gradient: gradient * float("inf"))
    config = config_of(method="conpono", evaluate_every=None, patience=None)
    with pytest.raises(DivergedError, match=r"\b[Ss]tep 0 .*learning_rate") as caught:
        trained(config, tmp_path, kind="static", encoder=encoder)
    path = tmp_path / "diverged-00000000.json"
    assert str(path) in str(caught.value)
    saved = json.loads(path.read_text())
    assert saved["step"] == 0
    assert len(saved["views"]["anchor"]["tokens"]) == 8
    assert len(saved["views"]["positive"]["document"]) == 8
    if where == "gradient":
        assert digest(encoder) == before


def failing(monkeypatch, encoder, error, when=lambda ids: True, of="forward"):
    """Let a forward pass raise an error for some rows."""
    honest = getattr(encoder, of)

    def failed(ids, mask=None, **options):
        if when(ids):
            raise error
        return honest(ids, mask, **options)

    monkeypatch.setattr(encoder, of, failed)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 7 bytes"),
        MemoryError(),
    ],
)
@pytest.mark.parametrize("chunk", [None, 4096])
def test_out_of_memory_halves_the_chunks_and_keeps_the_batch(
    error, chunk, tmp_path, monkeypatch, caplog
):
    """Without dropout the result equals that with enough memory."""
    config = config_of(method="conpono", steps=6, chunk=chunk)
    roomy, expected = trained(config, tmp_path / "roomy", encoder=tiny.bert(dropout=0.0))
    encoder = tiny.bert(dropout=0.0)
    failing(monkeypatch, encoder, error, lambda ids: len(ids) > 5 and torch.is_grad_enabled())
    with caplog.at_level(logging.WARNING):
        _, report = trained(config, tmp_path / "cramped", encoder=encoder)
    assert report.chunk == 4
    assert report.pairs == expected.pairs
    assert (8,) in [record.args for record in caplog.records]
    for ours, theirs in zip(encoder.parameters(), roomy.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)


ADVERSARIAL = {"name": "consert", "first": ["adversarial"]}


def test_a_view_in_one_pass_is_not_cut_when_memory_runs_out(tmp_path, monkeypatch):
    encoder, error = tiny.bert(), torch.OutOfMemoryError("CUDA out of memory")
    failing(monkeypatch, encoder, error, lambda ids: len(ids) > 5, of="read")
    values = r"consert .*\b16 sentences .*training\.batch_size"
    with pytest.raises(OutOfMemoryError, match=values):
        trained(config_of(method=ADVERSARIAL), tmp_path, encoder=encoder)


def test_chunks_of_a_view_in_one_pass_are_e303_before_a_step(tmp_path):
    with pytest.raises(RecipeError, match=r"consert .*\bchunk 4\b"):
        trained(config_of(method=ADVERSARIAL, chunk=4), tmp_path, on_step=pytest.fail)
    trained(config_of(method="consert", chunk=4, steps=1), tmp_path)


def test_other_errors_pass(tmp_path, monkeypatch):
    encoder = tiny.bert()
    failing(monkeypatch, encoder, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="shapes"):
        trained(config_of(), tmp_path, encoder=encoder)


def test_a_single_sentence_that_does_not_fit_is_e603(tmp_path, monkeypatch):
    encoder = tiny.bert()
    failing(monkeypatch, encoder, MemoryError())
    with pytest.raises(OutOfMemoryError, match=r"E603 .*encoder\.max_length"):
        trained(config_of(), tmp_path, encoder=encoder)


@pytest.mark.parametrize("method", ["conpono", "ict", "infocse_idc", "cpc"])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_sentences_without_a_known_word_do_not_disturb_word_vectors(
    tmp_path, caplog, method, similarity
):
    encoder = tiny.static(similarity=similarity)
    with torch.no_grad():
        encoder.backbone.embedding.weight[:2] = 0
    corpus = tiny.corpus([4] * 16, special=False)
    for k in range(0, len(corpus.sentences), 5):
        corpus.sentences[k] = np.array([1])
    config = config_of(method=method, learning_rate=1e-3, clip=1.0)
    i = np.flatnonzero(np.arange(64) % 4 < 2)
    annotation = Annotation(i, i + 2, (np.arange(64) % 2).astype(np.int32))
    recipe = method_for(config.method, encoder)
    sampler = sampler_for(config, recipe, corpus, annotation)
    norms = []
    report = train(
        learner_of(recipe, encoder, config.seed),
        recipe,
        sampler,
        config,
        tmp_path,
        on_step=lambda _, metrics: norms.append(metrics["gradient_norm"]),
    )
    assert max(norms) < 1e3
    assert report.zero_rows > 0
    assert encoder.backbone.embedding.weight[:2].eq(0).all()
    (record,) = [one for one in caplog.records if "known word" in one.message]
    assert record.args == (report.zero_rows, report.sentences)
