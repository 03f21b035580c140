"""A whole run: recorded and tracked, with its loop, its maps, and what it publishes."""

from collections.abc import Callable
from typing import TypeVar

from flows.steps import Watch, run_with_maps
from sentemb_core.configs import RunConfig
from tasks.finishing import published
from tasks.following import followed
from tasks.publish import Outcome
from tasks.registered_encoders import pinned
from tasks.rows import SelfTraining

C = TypeVar("C", bound=RunConfig)


def whole_run(config: C, loop: Callable[[C, Watch], SelfTraining]) -> Outcome:
    """What is left of a run by such a loop."""
    config = pinned(config)
    with followed(config) as run:
        return published(run_with_maps(loop(config, run), config, run), run)
