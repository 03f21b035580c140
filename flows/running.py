"""What every run of the command line stands in: its log, and a server to be watched on."""

from collections.abc import Generator
from contextlib import contextmanager

from flows.environment import log_file
from flows.logs import logged
from flows.server import served
from sentemb_core.console import remark


@contextmanager
def running() -> Generator[None, None, None]:
    """Keep all that the block says; give its flows a server."""
    log = log_file()
    remark("Starting; Prefect, its server and MLflow take some seconds to load.")
    with logged(log), served(log.with_name("server.log")):
        yield
