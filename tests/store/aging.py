"""Make the files of a store look old."""

import os
import time

from sentemb_core.store.maintenance import HOUR
from sentemb_core.store.objects import Store


def grow_old(store: Store, seconds: float = 2 * HOUR) -> None:
    """Set the times of all files in the store to so many seconds ago."""
    then = time.time() - seconds
    for path in store.root.rglob("*"):
        os.utime(path, (then, then))
