"""Workers: processes of this machine, or of a Dask cluster, that compute the shards of a stage.

The run's own process keeps keys, claims, records and Prefect's pages. A worker gets references and
settings. It computes the shard into the store and returns the record.
"""

import logging
import os
import signal
from collections.abc import Generator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context, parent_process
from queue import LifoQueue
from threading import Lock, Thread
from typing import Any, Protocol

from sentemb_core.config.run import RunConfig
from sentemb_core.errors import OtherDeviceError
from sentemb_core.store.machine import processors
from sentemb_core.store.objects import Store
from sentemb_core.store.records import Record
from sentemb_core.store.stages import Stage, StageKey
from sentemb_core.termination import STATUS

log = logging.getLogger("sentemb_core.run")

TRIES = 2
"""How often a shard is computed whose worker ends: a second loss has a reason of its own."""


@dataclass(frozen=True)
class Job:
    """A shard to compute: the stage by its module and function, its arguments, and their key."""

    module: str
    function: str
    arguments: dict[str, Any]
    key: StageKey
    refresh: bool

    def record(self) -> Record:
        """Compute the shard in this process, and return its record.

        Raises:
            OtherDeviceError: The key of this process differs: other code, libraries or device.
        """
        stage: Stage = getattr(import_module(self.module), self.function).stage
        store, key = Store.default(), stage.key(self.arguments)
        if key != self.key:
            both = self.key.parts.items() ^ key.parts.items()
            names = ", ".join(sorted({name for name, _ in both}))
            raise OtherDeviceError(
                "A worker computes with the code, the libraries and the kind of device of the run. "
                f"They differ in: {names}. Start the worker from the environment of the run."
            )
        return stage.share(store, stage.compute(store, key, self.arguments), replace=self.refresh)


class Workers(Protocol):
    """Computes jobs in other processes; threads of the run wait for them."""

    @property
    def in_flight(self) -> int:
        """Jobs that are sent at once."""
        ...

    def record(self, job: Job) -> Record:
        """Return the record of a job when a worker has computed it."""
        ...

    def stop(self) -> None:
        """End the workers, or their work on this run."""
        ...


class LocalWorkers:
    """Processes of this machine. They end with the run, however it ends.

    Each is a pool of its own: a pool of several processes ends all of them when one is lost.
    """

    def __init__(self, count: int) -> None:
        self.in_flight = count
        self._idle: LifoQueue[ProcessPoolExecutor | None] = LifoQueue()
        for _ in range(count):
            self._idle.put(None)
        self._pids: dict[int, ProcessPoolExecutor] = {}
        self._lock = Lock()
        self._stopped = False

    def record(self, job: Job) -> Record:
        """Compute a job in an idle worker, and once more if that worker is lost.

        Raises:
            ChildProcessError: The second worker was lost as well.
        """
        for left in reversed(range(TRIES)):
            worker = self._idle.get()
            try:
                worker = worker or self._started()
                return worker.submit(job.record).result()
            except BrokenProcessPool:
                worker = None
                if self._stopped or not left:
                    break
                log.warning("%s: a worker was lost; its shard runs again.", job.function)
            finally:
                self._idle.put(worker)
        raise ChildProcessError(
            f"{TRIES} workers ended while they computed this shard. If memory ran out, use fewer "
            "--workers or a smaller corpus.shard_sentences."
        )

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for pid, worker in self._pids.items():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                worker.shutdown(wait=False, cancel_futures=True)

    def _started(self) -> ProcessPoolExecutor:
        threads = max(1, processors() // self.in_flight)
        worker = ProcessPoolExecutor(1, get_context("spawn"), _begin, (threads,))
        pid = worker.submit(os.getpid).result()
        with self._lock:
            self._pids[pid] = worker
            if self._stopped:
                os.kill(pid, signal.SIGKILL)
        return worker


def _begin(threads: int) -> None:
    """Begin a worker: only its run ends it, and it computes with its part of the threads."""
    os.environ["OMP_NUM_THREADS"] = str(threads)  # torch is not imported yet
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := parent_process():
        parent.join()
        os._exit(STATUS)


_of_run: ContextVar[Workers | None] = ContextVar("workers of the run", default=None)
_of_shard: ContextVar[Workers | None] = ContextVar("workers of the shard", default=None)


@contextmanager
def workers_of(config: RunConfig) -> Generator[None, None, None]:
    """In this block the shards of stages are computed as the run's settings say."""
    workers = _workers(config)
    token = _of_run.set(workers)
    try:
        yield
    finally:
        _of_run.reset(token)
        if workers:
            workers.stop()


def _workers(config: RunConfig) -> Workers | None:
    if config.cluster:
        from tasks.cluster import Cluster  # an extra

        return Cluster(config.cluster)
    return LocalWorkers(config.workers) if config.workers > 1 else None


def current_workers() -> Workers | None:
    """Return the workers of this run; None: its own process computes."""
    return _of_run.get()


def compute_elsewhere(workers: Workers) -> None:
    """Let `workers` compute the stages of this context, which is a shard's."""
    _of_shard.set(workers)


def run_stage(stage: Stage, arguments: Mapping[str, Any], *, refresh: bool = False) -> Any:
    """Return the result of `Stage.run`, computed by a worker if the call is a shard's."""
    workers, store = _of_shard.get(), Store.default()
    if workers is None:
        return stage.run(store, arguments, refresh=refresh)

    def compute(stage: Stage, store: Store, key: StageKey, arguments: Mapping[str, Any]) -> Record:
        function = stage.function
        job = Job(function.__module__, function.__name__, dict(arguments), key, refresh)
        return workers.record(job)

    return stage.run(store, arguments, refresh=refresh, compute=compute)
