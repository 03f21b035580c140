"""How far a stage is: on the terminal or in the log, and on Prefect's page."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from sentemb_core import progress as words
from tasks import artifacts


@contextmanager
def progress(label: str, total: int) -> Generator[Callable[[int], None], None, None]:
    """Yields `update(done)`: call it with the number of things done so far."""
    with words.progress(label, total) as here, artifacts.progress(label, total) as there:

        def update(done: int) -> None:
            here(done)
            there(done)

        yield update
