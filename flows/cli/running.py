"""What every run of the command line stands in: its log, and a server to be watched on."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from flows.environment import home, log_file
from flows.logs import logged
from flows.server import served
from sentemb_core.console import remark
from sentemb_core.errors import BadDataError, RegistryError, StorageError
from sentemb_core.formats import are, counted
from sentemb_core.store.runs import read_run, runs_of_this_process
from tasks.checks import check_faiss


@contextmanager
def running() -> Generator[None, None, None]:
    """Keep all that the block says; give its flows a server; say how an ended one goes on.

    Raises:
        UsageError: both faiss wheels are installed, which no verb that runs flows works with.
    """
    check_faiss(needed=False)
    log, earlier = log_file(), len(runs_of_this_process())
    remark("Starting; Prefect, its server and MLflow take some seconds to load.")
    if not (home() / "mlflow.db").exists():
        remark("The first run of this home makes their databases, too.")
    try:
        with logged(log), served(log.with_name("server.log")):
            yield
    except (KeyboardInterrupt, RegistryError, StorageError):  # a run registers last
        remark(kept_of(runs_of_this_process()[earlier:]))
        raise


def kept_of(runs: Sequence[str]) -> str:
    """What the last of these leaves that was interrupted, found no registry or no room."""
    from sentemb_core.store.objects import Store

    run = read_run(Store.default(), runs[-1]) if runs else None
    if run is None:
        return "What is finished is kept: the same command goes on from there."
    done = len(run.stages)
    return (
        f"{counted(done, 'finished stage')} {are(done)} kept, and a training up to its last "
        f"checkpoint: `python -m flows resume {run.id}` goes on from there."
    )


def refusals(errors: Iterable[str]) -> int:
    """Bad data (3) where a part of a table was refused: the rest of it stands."""
    return BadDataError.exit_code if any(errors) else 0
