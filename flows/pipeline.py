"""A whole run: recorded and tracked, with its loop, its maps, and what it publishes."""

from collections.abc import Callable
from typing import TypeVar

from flows.steps import OnRow, run_with_maps
from sentemb_core.config.run import RunConfig
from tasks.finishing import published
from tasks.publish import Outcome
from tasks.registered_encoders import pinned
from tasks.rows import RunResult
from tasks.run_monitor import monitored_run

C = TypeVar("C", bound=RunConfig)


def run_pipeline(config: C, loop: Callable[[C, OnRow], RunResult]) -> Outcome:
    """What is left of a run by such a loop."""
    config = pinned(config)
    with monitored_run(config) as run:
        return published(run_with_maps(loop(config, run), config, run), run)
