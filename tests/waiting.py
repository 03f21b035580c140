"""Waiting on a machine that stalls: a deadline costs time only where a test fails."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

LONG = 300.0
"""Seconds: a minute's stall of the machine, a few times over."""

TICK = 0.01


def soon(look: Callable[[], Any], holds: Callable[[Any], object] = bool, pause: float = 0.1) -> Any:
    """What `look` saw last: as soon as it holds, or when the time is over."""
    deadline = time.monotonic() + LONG
    while not holds(seen := look()) and time.monotonic() < deadline:
        time.sleep(pause)
    return seen


@contextmanager
def awake() -> Generator[Callable[[], float], None, None]:
    """Seconds of the block so far, without those in which the machine left this process out."""
    ticks, over = [0], threading.Event()

    def count() -> None:
        while not over.wait(TICK):
            ticks[0] += 1

    counter = threading.Thread(target=count, daemon=True)
    counter.start()
    try:
        yield lambda: TICK * ticks[0]
    finally:
        over.set()
        counter.join()
