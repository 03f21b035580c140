"""Concurrency on one machine: one run at a time, the next one waits."""

from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy

RUNS_AT_ONCE = 1
"""A training uses all cores; two at once take longer than one after the other."""

ONE_AFTER_THE_OTHER = ConcurrencyLimitConfig(
    limit=RUNS_AT_ONCE, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE
)
"""Per deployment: a late nightly run does not overlap the next one."""
