"""The process environment every run needs, set before Prefect or MLflow is imported."""

import errno
import logging
import os
from pathlib import Path

from sentemb_core.console import remark
from sentemb_core.errors import UsageError
from sentemb_core.redaction import redacted
from sentemb_core.store.disk import storage_error
from sentemb_core.store.machine import keep_to_quota
from sentemb_core.store.objects import Store
from tasks.servers import MLFLOW_ENVIRONMENT, answers, live_server

QUIET = {
    "HF_HUB_OFFLINE": "1",  # no network unless asked
    "TOKENIZERS_PARALLELISM": "false",
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # a quarter less peak memory while reading (measured)
    "GOMP_SPINCOUNT": "3000",  # waiting threads spin on an idle machine, sleep on a busy one
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",  # of 1,024, one for each shape of a batch
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLIENT_MAX_RETRIES": "2",  # a killed server: with the default, 5, noticed after 219 s
    "PREFECT_API_REQUEST_TIMEOUT": "90",  # a busy server waits for its database for up to 60
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "sentemb_core",  # our lines in the log of the run
    **MLFLOW_ENVIRONMENT,
}

LOOPBACK = "127.0.0.1,localhost"
"""Hosts of a home's servers, which no proxy may serve."""


def home() -> Path:
    """The folder of store, records, runs, Prefect and MLflow: $SENTEMB_HOME or ./.sentemb."""
    return Store.default().root.resolve()


def log_file() -> Path:
    return home() / "logs" / "sentemb.log"


def prepare() -> Path:
    """Set what is not set yet; use the local server if one is up; return the home (else E001)."""
    folder = home()
    logging.getLogger("sentemb_core").setLevel(logging.INFO)  # or the root's WARNING holds
    os.environ["SENTEMB_HOME"] = str(folder)
    keep_to_quota()
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if direct != "*" and LOOPBACK not in direct:
        os.environ["no_proxy"] = f"{direct},{LOOPBACK}".lstrip(",")
    os.environ.setdefault("PREFECT_HOME", str(folder / "prefect"))
    prefect_home = Path(os.environ["PREFECT_HOME"])
    try:
        prefect_home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise storage_error("make folder", prefect_home, error) from error
        if not (folder.is_dir() and error.errno in (errno.EROFS, errno.EACCES)):
            raise UsageError(
                "All files are in a home ($SENTEMB_HOME, else .sentemb in the current folder); "
                f"{prefect_home} cannot be created: {error.strerror}. Set it to a writable folder."
            ) from error  # a read-only home can still be searched
    with_a_home(folder)
    given = os.environ.get("PREFECT_API_URL")
    if given and not answers(given):
        remark(f"No Prefect server answers at {redacted(given)}: runs start a short-lived one.")
        given = None
    # empty without one: Prefect then looks for none in .env, prefect.toml or a profile
    os.environ["PREFECT_API_URL"] = given or live_server(folder) or ""
    return folder


def with_a_home(folder: Path) -> None:
    """Provide a user's home folder, which Prefect and matplotlib need and a container may lack."""
    try:
        own = Path.home()
    except RuntimeError:  # no HOME, and no entry in passwd
        os.environ["HOME"] = str(own := folder)
    if not os.access(own, os.W_OK):
        os.environ.setdefault("MPLCONFIGDIR", str(folder / "matplotlib"))
