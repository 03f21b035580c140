"""How far a stage is: on the terminal or in the log, and on Prefect's page."""

from collections.abc import Generator
from contextlib import contextmanager

from sentemb_core import progress as words
from tasks import prefect_pages as artifacts


@contextmanager
def progress(label: str, total: int) -> Generator[words.Update, None, None]:
    """Yields what is called with the number of things done so far."""
    with words.progress(label, total) as here, artifacts.progress(label, total) as there:

        def update(done: int, told: str = "") -> None:
            here(done, told)
            there(done)

        yield update
