"""How much may go on at once on one machine: one run, and the next one waits its turn."""

from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy

RUNS_AT_ONCE = 1
"""A training takes all cores; two at once take longer than one after the other."""

ONE_AFTER_THE_OTHER = ConcurrencyLimitConfig(
    limit=RUNS_AT_ONCE, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE
)
"""Of one deployment: a nightly run that is late does not overlap the next."""
