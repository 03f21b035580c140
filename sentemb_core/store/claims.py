"""Claims: which machine computes a key of the shared store. They save work and decide nothing.

A claim is a file that its machine rewrites every `BEAT` seconds. Another machine takes over a claim
that has not changed while it watched for `LEASE` seconds, so no two clocks are compared. If both
compute after all, because one had stalled, the first result counts (`records.share`).
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from sentemb_core.errors import SharedStoreError
from sentemb_core.store.disk import unique
from sentemb_core.store.shared import SharedStore
from sentemb_core.termination import check

log = logging.getLogger(__name__)

LEASE = 60.0
"""Seconds without a change after which a claim is free: six beats, each with its retries."""

BEAT = 10.0
"""Seconds between two changes of a claim (Kubernetes' leases: 10 of 15)."""

PAUSE = 2.0
"""Seconds between two looks at another machine's claim (Kubernetes' leases: 2)."""


@contextmanager
def claim(shared: SharedStore, name: str) -> Generator[None, None, None]:
    """Hold the claim on a name, after waiting for the machine that holds it.

    Raises:
        SharedStoreError: the shared store does not answer before the block. Within, it is logged.
    """
    file = f"claims/{name}"
    holder = unique(f"{socket.gethostname()}-{os.getpid()}")
    _take(shared, file, holder)
    done = threading.Event()
    beats = threading.Thread(target=_beat, args=(shared, file, holder, done), daemon=True)
    beats.start()
    try:
        yield
    finally:
        done.set()
        beats.join(BEAT)
        with _logged_failure():
            shared.remove(file)


def _take(shared: SharedStore, file: str, holder: str) -> None:
    seen, since = None, time.monotonic()
    while not shared.create(file, holder.encode()):
        check()
        content = shared.read(file)
        if content != seen:
            if seen is None and content:
                log.info("Waiting for another machine: %r holds %s.", content[:100], file)
            seen, since = content, time.monotonic()
        elif time.monotonic() - since > LEASE:
            log.warning("Take over %s: its holder was silent for %.0f s.", file, LEASE)
            shared.remove(file)
            continue
        time.sleep(PAUSE)


def _beat(shared: SharedStore, file: str, holder: str, done: threading.Event) -> None:
    count = 0
    while not done.wait(BEAT):
        count += 1
        with _logged_failure():
            shared.write(file, f"{holder} {count}".encode())


@contextmanager
def _logged_failure() -> Generator[None, None, None]:
    try:
        yield
    except SharedStoreError as error:
        log.warning("Another machine may do the same work: %s", error)
