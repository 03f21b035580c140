"""Training on several devices: torchrun runs this module in one process a device.

The parent writes folders and settings as JSON. Rank 0 sends events, one JSON object a line: steps,
checkpoints and lines of the log; any rank sends its error. The trained weights come back in the
last checkpoint. The parent holds a pipe open that the ranks watch, so no rank outlives it.

    python -m torch.distributed.run ... -m sentemb_core.training.torchrun FOLDER
"""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread, Timer
from typing import IO, NoReturn

import torch

from sentemb_core.config.run import TrainingConfig
from sentemb_core.encoder.devices import compute_device
from sentemb_core.errors import LostRankError, SentembError, UsageError
from sentemb_core.methods.parts.method import Learner
from sentemb_core.termination import STATUS, cleaning_up, terminable
from sentemb_core.training.distributed import connected
from sentemb_core.training.inputs import TrainingInputs, train_from
from sentemb_core.training.loop import load_trained
from sentemb_core.training.state import StepLog, TrainingReport
from sentemb_core.types import Json, OnStep, Value

log = logging.getLogger(__name__)

JOB, MEETING, AGENT = "job.json", "ranks", "agent"
"""Files of the folder that the parent and the ranks share."""

OUTPUT = "ranks.log"
"""File in the working folder with all that torchrun and the ranks print."""

ENDING = 20.0
"""Seconds for the ranks to write a checkpoint and end after an interruption."""

FIRST_FAILURE = re.compile(r"Root Cause.*?rank *: (\d+) .*?exitcode *: (-?\d+)", re.DOTALL)
"""Of torchrun's report."""


class Job(Value):
    """What the ranks train."""

    inputs: TrainingInputs
    config: TrainingConfig
    work: Path


def train_on_devices(
    inputs: TrainingInputs,
    config: TrainingConfig,
    work: Path,
    *,
    on_step: OnStep,
    on_checkpoint: Callable[[], None],
    steps: StepLog,
) -> tuple[Learner, TrainingReport]:
    """Train on `config.devices` devices; otherwise as `inputs.train_from`.

    An interruption ends all ranks with a checkpoint. So the same call continues the training.

    Raises:
        UsageError: there are fewer GPUs than devices.
        LostRankError: a rank ended without an error of its own.
        SentembError: an error of a rank.
    """
    require_devices(config.devices)
    output = work / OUTPUT
    errors: list[SentembError] = []

    def receive(event: Json) -> None:
        match event:
            case {"step": step, "metrics": metrics}:
                on_step(step, metrics)
            case {"checkpoint": _}:
                on_checkpoint()
            case {"logger": logger, "level": level, "message": message}:
                logging.getLogger(logger).log(level, "%s", message)
            case {"code": code, "message": message}:
                errors.append(error_of(code, message))
            case _:
                raise ValueError(f"unknown event {event}")

    with TemporaryDirectory(prefix="sentemb-ranks-") as folder, output.open("wb") as printed:
        job = Job(inputs=inputs, config=config, work=work.absolute())
        (Path(folder) / JOB).write_text(job.model_dump_json(), encoding="utf-8")
        status = _run_ranks(config, Path(folder), printed, receive)
    if errors:
        raise errors[0]
    if status:
        raise _lost_rank(config, output)
    method, learner = inputs.learner(config)
    return learner, load_trained(learner, method, config, work, steps)


def require_devices(devices: int) -> None:
    """Check that each rank has a GPU of its own, where there are GPUs.

    Raises:
        UsageError: there are fewer.
    """
    if compute_device().type == "cuda" and devices > torch.cuda.device_count():
        raise UsageError(
            f"Each device of a training is a GPU of its own; found {torch.cuda.device_count()} "
            f"and training.devices {devices}. Lower training.devices."
        )


def error_of(code: str, message: str) -> SentembError:
    """Return the error of a rank by its code."""
    kinds: list[type[SentembError]] = [SentembError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return next(kind for kind in kinds if kind.code == code)(message)


def _run_ranks(
    config: TrainingConfig, folder: Path, output: IO[bytes], receive: Callable[[Json], None]
) -> int:
    """Run all ranks to their end, receive their events, and return torchrun's exit status."""
    process = subprocess.Popen(
        _command(config.devices, folder),
        env=os.environ | _environment(config),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=output,
        start_new_session=True,  # Ctrl-C reaches this process alone, which ends the ranks
    )
    assert process.stdin is not None, "a pipe"
    assert process.stdout is not None, "a pipe"
    end = process.stdin.close  # a rank that still runs ends then

    def end_with_torchrun() -> None:
        process.wait()
        end()

    Thread(target=end_with_torchrun, daemon=True).start()
    try:
        for line in process.stdout:
            receive(json.loads(line))
    except BaseException:
        cleaning_up(ENDING)
        process.terminate()
        give_up = Timer(ENDING, end)
        give_up.daemon = True
        give_up.start()
        for line in process.stdout:
            receive(json.loads(line))
        raise
    finally:
        end()
        process.stdout.close()
        process.wait()
    return process.returncode


def _command(devices: int, folder: Path) -> list[str]:
    """Return torchrun's command. Its processes meet in files, so none of them listens for others.

    They compute as they would alone, so one rank that ends ends all: there are no restarts.
    """
    return [
        *(sys.executable, "-m", "torch.distributed.run"),
        *("--nnodes", "1", "--nproc-per-node", str(devices), "--max-restarts", "0"),
        *("--rdzv-backend", "c10d", "--rdzv-conf", "store_type=file"),
        *("--rdzv-endpoint", str(folder / AGENT), "--rdzv-id", "sentemb"),
        *("--local-addr", "127.0.0.1", "--log-dir", str(folder / "logs")),
        *("-m", __name__, str(folder)),
    ]


def _environment(config: TrainingConfig) -> dict[str, str]:
    """Return the variables of torchrun and the ranks: loopback only, and a share of the threads."""
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    paths = filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")))
    threads = max(1, (config.threads or torch.get_num_threads()) // config.devices)
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": str(threads),
        "GLOO_SOCKET_IFNAME": loopback,
        "NCCL_SOCKET_IFNAME": loopback,
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # torchrun's own listens on all interfaces
    }


def _lost_rank(config: TrainingConfig, output: Path) -> LostRankError:
    """Return the error of a rank that ended without one, from torchrun's report."""
    found = FIRST_FAILURE.search(output.read_text("utf-8", errors="replace"))
    how = "torchrun ended without a report"
    if found:
        rank, status = int(found[1]), int(found[2])
        ended = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        how = f"rank {rank} ended with {ended}"
    return LostRankError(
        f"A training on {config.devices} devices needs all its ranks. Found: {how} (details in "
        f"{output}). `resume` goes on from the last checkpoint. If memory ran out, lower "
        "training.chunk or training.batch_size first."
    )


class Events(logging.Handler):
    """Sends events of this rank to the parent, also the lines of the log."""

    def __init__(self) -> None:
        """Take standard output for events; what else is printed goes to standard error."""
        super().__init__()
        self._out = os.dup(1)
        os.dup2(2, 1)

    def send(self, **event: object) -> None:
        os.write(self._out, json.dumps(event).encode() + b"\n")

    def send_step(self, step: int, metrics: Mapping[str, float]) -> None:
        self.send(step=step, metrics=dict(metrics))

    def send_checkpoint(self) -> None:
        self.send(checkpoint=True)

    def emit(self, record: logging.LogRecord) -> None:
        self.send(logger=record.name, level=record.levelno, message=record.getMessage())


def _end_with_parent() -> None:
    """End this process when the parent's pipe, the standard input, closes."""
    while os.read(0, 1):
        pass
    os._exit(STATUS)


def main() -> NoReturn:
    """Train as the rank that torchrun started."""
    Thread(target=_end_with_parent, daemon=True).start()
    events, folder = Events(), Path(sys.argv[1])
    job = Job.model_validate_json((folder / JOB).read_bytes())
    first = os.environ["RANK"] == "0"
    if first:
        logger = logging.getLogger("sentemb_core")
        logger.addHandler(events)
        logger.setLevel(logging.INFO)
    else:  # it ends with rank 0, which writes a checkpoint first
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with terminable() if first else nullcontext(), connected(folder / MEETING) as ranks:
            train_from(
                job.inputs,
                job.config,
                job.work,
                on_step=events.send_step if first else None,
                on_checkpoint=events.send_checkpoint,
                steps=StepLog(),
                ranks=ranks,
            )
    except KeyboardInterrupt:
        os._exit(STATUS)
    except SentembError as error:
        events.send(code=error.code, message=str(error).removeprefix(f"{error.code} "))
        os._exit(error.exit_code)
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
