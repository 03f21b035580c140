"""A stage over the shards of a corpus: one cached call a shard, and the join of their results.

`@stage(by_shard=...)` names the arguments that a stage takes shard by shard. A shard is known by
its documents, and a join by its parts (`parts_of`). The key of a call holds its own shard alone, so
a corpus with further or changed documents runs again only in the shards that changed.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import partial

from sentemb_core.errors import SentembError, ShardError
from sentemb_core.formats import counted
from sentemb_core.store.stages import Stage
from sentemb_core.termination import cleaning_up
from sentemb_core.types import ArtifactRef
from tasks.execution import Arguments, ends_all_parts, in_sub_flow, is_dry_run
from tasks.prefect_pages import progress
from tasks.workers import Workers, compute_elsewhere, current_workers

log = logging.getLogger("sentemb_core.run")

_parts: dict[str, list[ArtifactRef]] = {}
"""Digest of a corpus or a join -> its shards. A run learns them on its way, cached or not."""


def set_parts(whole: ArtifactRef, parts: Sequence[ArtifactRef]) -> ArtifactRef:
    """Let stages take `whole` by these shards; return it."""
    _parts[whole.digest] = [*parts]
    return whole


def calls_by_shard(names: Sequence[str], arguments: Arguments) -> list[Arguments]:
    """Return the arguments of a stage's call for each shard; empty if it is called once.

    It is called once unless all its arguments of these names, of which some may be None, are in
    shards: the clusters of k-means are not.
    """
    given = [name for name in names if arguments.get(name) is not None]
    shards = [_parts.get(arguments[name].digest, []) for name in given]
    if not all(shards):
        return []
    return [arguments | dict(zip(given, own, strict=True)) for own in zip(*shards, strict=True)]


def results_by_shard(
    stage: Stage, calls: Sequence[Arguments], run: Callable[[Arguments], ArtifactRef]
) -> list[ArtifactRef]:
    """Return the result of each call.

    Raises:
        ShardError: Some calls failed. The results of the others are stored.
    """
    results: dict[int, ArtifactRef] = {}
    failed: dict[int, Exception] = {}

    def run_one(number: int, call: Arguments) -> None:
        log.debug("%s: shard %d of %d", stage.name, number, len(calls))
        try:
            results[number] = run(call)
        except Exception as error:
            if ends_all_parts(error):
                raise
            failed[number] = error

    def run_all() -> None:
        workers = None if is_dry_run() else current_workers()
        jobs = [partial(run_one, number, call) for number, call in enumerate(calls, 1)]
        with progress(f"{stage.name}, shards", len(jobs)) as advance:
            if workers:
                _run_in_workers(jobs, workers, advance)
            else:
                for done, job in enumerate(jobs, 1):
                    job()
                    advance(done)

    in_sub_flow(f"{stage.name}: {len(calls)} shards", run_all)
    if failed:
        raise _error_of(stage.name, failed, len(calls))
    return [results[number] for number in sorted(results)]


def _run_in_workers(
    jobs: Sequence[Callable[[], None]], workers: Workers, advance: Callable[[int], None]
) -> None:
    """Run jobs, as many at once as the workers take; the first error that one raises ends all."""
    with ThreadPoolExecutor(workers.in_flight) as threads:
        contexts = [copy_context() for _ in jobs]
        for context in contexts:
            context.run(compute_elsewhere, workers)
        futures = [
            threads.submit(context.run, job) for context, job in zip(contexts, jobs, strict=True)
        ]
        try:
            left = set(futures)
            while left:  # wakes every second: Ctrl-C ends a run whose workers are gone, too
                ended, left = wait(left, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in ended:
                    future.result()
                advance(len(futures) - len(left))
        except BaseException:
            cleaning_up()
            workers.stop()
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def _error_of(name: str, failed: dict[int, Exception], count: int) -> ShardError:
    first = next(iter(failed))
    error = failed[first]
    reason = str(error) if isinstance(error, SentembError) else f"{type(error).__name__}: {error}"
    numbers = ", ".join(map(str, failed))
    raised = ShardError(
        f"{name} must succeed on every shard of the corpus. It failed on "
        f"{counted(len(failed), 'shard')} of {count} ({numbers}); the first reason is: {reason} "
        "The results of the other shards are stored. Remove the reason and repeat the command."
    )
    raised.__cause__ = error
    return raised
