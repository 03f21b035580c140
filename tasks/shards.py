"""A stage over the shards of a corpus: one cached call a shard, and the join of their results.

`@stage(by_shard=...)` names the arguments that a stage takes shard by shard. A shard is known by
its documents, and a join by its parts (`parts_of`). The key of a call holds its own shard alone, so
a corpus with further or changed documents runs again only in the shards that changed.
"""

import logging
from collections.abc import Callable, Sequence

from sentemb_core.errors import SentembError, ShardError
from sentemb_core.formats import counted
from sentemb_core.store.stages import Stage
from sentemb_core.types import ArtifactRef
from tasks.execution import Arguments, ends_all_parts, in_sub_flow

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
    results: list[ArtifactRef] = []
    failed: dict[int, Exception] = {}

    def run_all() -> None:
        for number, call in enumerate(calls, 1):
            log.debug("%s: shard %d of %d", stage.name, number, len(calls))
            try:
                results.append(run(call))
            except Exception as error:
                if ends_all_parts(error):
                    raise
                failed[number] = error

    in_sub_flow(f"{stage.name}: {len(calls)} shards", run_all)
    if failed:
        raise _error_of(stage.name, failed, len(calls))
    return results


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
