"""Measure ways to do the same work, and compare a number with its promise."""

import math
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def fastest(
    ways: Mapping[str, Callable[[], T]],
    rounds: int = 3,
    clock: Callable[[], float] = time.process_time,
) -> tuple[dict[str, float], dict[str, T]]:
    """Return the seconds of each way's fastest round, and its result.

    The ways take turns: a slow moment of the machine affects all of them.
    """
    seconds, results = dict.fromkeys(ways, math.inf), dict[str, T]()
    for _ in range(rounds):
        for name, way in ways.items():
            began = clock()
            results[name] = way()
            seconds[name] = min(seconds[name], clock() - began)
    return seconds, results


def kept(
    name: str, value: float, *, at_least: float = -math.inf, at_most: float = math.inf
) -> bool:
    """Print the number beside its promise; return whether the promise is kept."""
    promise = f"at most {at_most:g}" if math.isinf(at_least) else f"at least {at_least:g}"
    is_kept = at_least <= value <= at_most
    print(f"{name}: {value:.2f} ({promise}: {'kept' if is_kept else 'MISSED'})", flush=True)
    return is_kept
