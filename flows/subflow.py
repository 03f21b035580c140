"""Sub-flows that can be walked without Prefect: by a plan, by a test, by a script."""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from prefect import flow

from tasks.caching import walking

P = ParamSpec("P")
R = TypeVar("R")


def sub_flow(**options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A Prefect sub-flow, or the plain function it is while somebody walks the flow."""

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        @cache  # drawing up the schema of its parameters takes a tenth of a second
        def as_flow() -> Callable[P, R]:
            return flow(**options)(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return (function if walking() else as_flow())(*args, **kwargs)

        return call

    return wrap
