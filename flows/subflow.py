"""Sub-flows that can be walked without Prefect: by a plan, by a test, by a script."""

import inspect
from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from prefect import flow

from tasks.execution import part, walking

P = ParamSpec("P")
R = TypeVar("R")


def sub_flow(*, name: str, flow_run_name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A Prefect sub-flow, or the plain function it is while somebody walks the flow.

    Args:
        name: Of the flow.
        flow_run_name: Of a run of it, a template over its parameters; a plan shows it too.
    """

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        @cache  # drawing up the schema of its parameters takes a tenth of a second
        def as_flow() -> Callable[P, R]:
            return flow(name=name, flow_run_name=flow_run_name)(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if not walking():
                return as_flow()(*args, **kwargs)
            bound = inspect.signature(function).bind(*args, **kwargs)
            with part(flow_run_name.format(**bound.arguments)):
                return function(*args, **kwargs)

        return call

    return wrap
