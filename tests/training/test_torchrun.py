"""The parent of ranks: their events, their errors, their end. Small programs stand for torchrun."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from sentemb_core.config.run import TrainingConfig
from sentemb_core.errors import DivergedError, LostRankError, SentembError
from sentemb_core.training import torchrun
from sentemb_core.training.inputs import TrainingInputs
from sentemb_core.training.state import StepLog
from tests.interrupted import BreakingOff, InterruptionError

STEPS = "".join(f"print('{json.dumps({'step': k, 'metrics': {'loss': 1 / k}})}');" for k in (1, 2))
REPORT = """
Root Cause (first observed failure):
[0]:
  time      : 2026-11-28_23:30:51
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 15684)  (SIGKILL)
"""


def run(
    monkeypatch: pytest.MonkeyPatch, work: Path, program: str, on_step=lambda *_: None
) -> list[str]:
    """Train with a program in place of torchrun; return the events besides steps."""
    others: list[str] = []
    command = [sys.executable, "-S", "-c", f"import os, signal, sys, time\n{program}"]
    monkeypatch.setattr(torchrun, "_command", lambda *_: command)
    inputs = TrainingInputs(encoder=work, sentences=work)
    config = TrainingConfig(devices=2, threads=2)
    how = {"on_step": on_step, "on_checkpoint": lambda: others.append("checkpoint")}
    torchrun.train_on_devices(inputs, config, work, **how, steps=StepLog())
    return others


def test_an_error_of_a_rank_keeps_its_code_and_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    losses = BreakingOff(None)
    program = STEPS + 'print(\'{"code": "E302", "message": "too high"}\'); sys.exit(3)'
    with pytest.raises(DivergedError) as raised:
        run(monkeypatch, tmp_path, program, losses)
    assert (str(raised.value), losses.losses) == ("E302 too high", [1.0, 0.5])


def test_every_error_comes_back_by_its_code():
    kinds: list[type[SentembError]] = [SentembError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    assert all(type(torchrun.error_of(kind.code, "text")) is kind for kind in kinds)


@pytest.mark.parametrize("report", ["", REPORT])
def test_a_lost_rank_ends_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: str
):
    with pytest.raises(LostRankError) as raised:
        run(monkeypatch, tmp_path, f"sys.stderr.write({report!r}); sys.exit(1)")
    assert (raised.value.code, raised.value.exit_code) == ("E606", 5)
    assert ("rank 1" in str(raised.value), "SIGKILL" in str(raised.value)) == 2 * (bool(report),)
    assert (tmp_path / torchrun.OUTPUT).read_text("utf-8") == report


def test_an_interruption_waits_for_the_last_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    steps = BreakingOff(1)
    program = (
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.2),"
        f"os.write(1, b'{json.dumps({'step': 2, 'metrics': {'loss': 7.0}})}\\n'), os._exit(143)))\n"
        f"os.write(1, b'{json.dumps({'step': 1, 'metrics': {'loss': 8.0}})}\\n'); time.sleep(60)"
    )
    with pytest.raises(InterruptionError):
        run(monkeypatch, tmp_path, program, steps)
    assert steps.losses == [8.0, 7.0]


def test_a_rank_that_does_not_end_loses_the_pipe_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torchrun, "ENDING", 0.2)
    program = (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"os.write(1, b'{json.dumps({'step': 1, 'metrics': {'loss': 8.0}})}\\n')\n"
        "while os.read(0, 1): pass"
    )
    began = time.monotonic()
    with pytest.raises(InterruptionError):
        run(monkeypatch, tmp_path, program, BreakingOff(1))
    assert time.monotonic() - began < 30


def test_ranks_listen_on_the_loopback_interface_and_share_the_threads():
    found = torchrun._environment(TrainingConfig(devices=2, threads=5))
    assert found["OMP_NUM_THREADS"] == "2"
    assert {found["GLOO_SOCKET_IFNAME"], found["NCCL_SOCKET_IFNAME"]} <= {"lo", "lo0"}
    assert str(Path(torchrun.__file__).parents[2]) in found["PYTHONPATH"].split(os.pathsep)
