"""The servers of a home: which one answers, the client of MLflow, and the registries in use."""

import base64
import http.client
import logging
import os
import sqlite3
import urllib.error
import urllib.request
from contextlib import closing, nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from sentemb_core.errors import BrokenFileError, RegistryDownError
from sentemb_core.redaction import redacted
from sentemb_core.store.locks import file_lock, is_locked
from sentemb_core.store.seals import sealed, unsealed

if TYPE_CHECKING:
    from mlflow import MlflowClient

log = logging.getLogger("sentemb_core.run")

BUSY = 120.0
"""Seconds for the answer of a live server: with a stalled disk it took over 40. A server that has
ended refuses at once."""

BRIEF = 5.0
"""Seconds if only a link or a hint depends on the answer."""

HEALTHY = (b"true", b"OK")
"""The health answers of Prefect and of MLflow; other programs may answer any path."""

PASSWORD_WANTED = (401, 403)
"""Statuses of our server without a password; another status means another program."""

EPHEMERAL = "PREFECT__SERVER_EPHEMERAL"
"""Variable of a short-lived server, Prefect's own name: it has fewer services."""

STARTED_BY = "SENTEMB_STARTED_BY"
"""Variable of a short-lived server: the id of the process that started it."""


def serve_lock(home: Path) -> Path:
    """The lock that `serve` holds while it runs on this home."""
    return home / "locks" / "serve.lock"


def users(logs: Path) -> Path:
    """The lock that runs share while they use one short-lived server, which waits for it to end."""
    return logs / "server.users"


def live_server(home: Path) -> str | None:
    """The API of the server that `serve` started on this home, if it holds its lock and answers.

    After a kill the file with its address stays, and another home's server may answer there.
    """
    note = home / "server.url"
    if not (note.exists() and is_locked(serve_lock(home))):
        return None
    url = note.read_text().strip()
    return url if answers(url) else None


def answers(url: str, patience: float = BUSY) -> bool:
    """Whether a Prefect or MLflow server answers; one that wants a password does."""
    try:
        with urllib.request.urlopen(call_of(f"{url}/health"), timeout=patience) as answer:
            return answer.read(16).strip() in HEALTHY
    except urllib.error.HTTPError as error:
        return error.code in PASSWORD_WANTED
    except (OSError, ValueError, http.client.HTTPException):
        return False


def call_of(url: str) -> urllib.request.Request:
    """A request with the login of an address user:password@host, as Prefect's client sends it."""
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    encoded = base64.b64encode(unquote(login).encode()).decode()
    headers = {"Authorization": f"Basic {encoded}"} if login else {}
    return urllib.request.Request(parts._replace(netloc=host).geturl(), headers=headers)


EXPERIMENT = "sentemb"

PATH_COLUMNS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
    ("logged_models", "artifact_location"),
)
"""Tables and columns of MLflow's database with absolute paths of files."""

SQLITE_TIMEOUT = 60.0
"""Seconds to wait for other writers of the database."""

MLFLOW_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "MLFLOW_MODEL_CATALOG_URI": "",  # else a list of models is fetched from GitHub
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # the default 7 blocked 247 s on a closed port
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # else each run's, with a password in it
    "DISABLE_MLFLOW_INTEGRATION": "TRUE",
}


def tracking_uri(home: Path) -> str:
    """$MLFLOW_TRACKING_URI, else the SQLite database of this home. May hold a password."""
    return os.environ.get("MLFLOW_TRACKING_URI") or own_uri(home)


def own_uri(home: Path) -> str:
    return f"sqlite:///{home / 'mlflow.db'}"


def mlflow_client(home: Path) -> "MlflowClient":
    """The client of this home. Only one process at a time creates a database.

    Six processes that opened a new one together failed 11 times in 12 (a race in alembic).
    """
    set_environment()
    return _client(home, tracking_uri(home))


def set_environment() -> None:
    """Set what MLflow needs before its import, except what is set already."""
    for name, value in MLFLOW_ENVIRONMENT.items():
        os.environ.setdefault(name, value)


@cache
def _client(home: Path, uri: str) -> "MlflowClient":
    from mlflow import MlflowClient

    for name in ("mlflow.store.db.utils", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    own, database = uri == own_uri(home), home / "mlflow.db"
    lock = file_lock(home / "locks" / "mlflow.lock")
    with nullcontext() if own and database.exists() else lock:  # a home may be read-only
        if own and not database.exists():
            _make_database(database)
        elif own and not database.is_file():  # MLflow would try for 100 seconds
            raise RegistryDownError(
                f"The registry of a home is a file; {database} is not. Move it away, or restore "
                "the file from a copy."
            )
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        if uri.startswith("sqlite:"):
            client.search_registered_models(max_results=1)
    if own and os.access(home, os.W_OK):
        _follow_home(client, home)
    return client


def _make_database(place: Path) -> None:
    """Create the database atomically: MLflow cannot open one with a part of its tables.

    The tables take seconds, and a refused run may end before they are complete.
    """
    from mlflow import MlflowClient

    fresh = place.with_name(f"{place.name}.fresh")
    fresh.unlink(missing_ok=True)
    uri = f"sqlite:///{fresh}"
    MlflowClient(tracking_uri=uri, registry_uri=uri).search_registered_models(max_results=1)
    fresh.replace(place)


def _follow_home(client: "MlflowClient", home: Path) -> None:
    """Update the paths in the database of a home that was moved or copied.

    Paths outside the home stay; a link to the home is the same place.
    """
    from mlflow.utils.file_utils import local_file_uri_to_path

    found = client.get_experiment_by_name(EXPERIMENT)
    before = found.artifact_location if found else ""
    if not before.startswith("file:"):
        return
    was, now = Path(local_file_uri_to_path(before)), home / "mlartifacts"
    if was.name != now.name or was.resolve() == now.resolve():
        return
    places = {"before": before, "now": now.as_uri()}
    with (
        file_lock(home / "locks" / "mlflow.lock"),
        closing(sqlite3.connect(home / "mlflow.db", SQLITE_TIMEOUT)) as database,
        database,
    ):
        for table, column in PATH_COLUMNS:
            database.execute(
                f"UPDATE {table} SET {column} = :now || substr({column}, length(:before) + 1) "
                f"WHERE substr({column} || '/', 1, length(:before) + 1) = :before || '/'",
                places,
            )
    log.info("Files of models and runs: moved with the home from %s to %s", was, now)


def experiment_id(home: Path) -> str:
    """The id of our experiment: created if absent, restored if a person deleted it."""
    client = mlflow_client(home)
    local = tracking_uri(home).startswith("sqlite:")
    with file_lock(home / "locks" / "mlflow.lock"):
        if found := client.get_experiment_by_name(EXPERIMENT):
            if found.lifecycle_stage == "deleted":
                client.restore_experiment(found.experiment_id)
                log.warning("MLflow's experiment %r was deleted; it is restored.", EXPERIMENT)
            return found.experiment_id
        place = (home / "mlartifacts").as_uri() if local else None
        return client.create_experiment(EXPERIMENT, artifact_location=place)


def address_of(home: Path) -> str:
    """The tracker's address without a password; a fixed name for the home's own database."""
    own = tracking_uri(home) == own_uri(home)
    return "the home's own mlflow.db" if own else redacted(tracking_uri(home)).rstrip("/")


def note_registry(home: Path) -> None:
    """Add today's registry to the home's list of registries, one sealed address a line."""
    line = sealed(address_of(home))
    if line not in _lines_of(home / "registries.txt"):
        with (home / "registries.txt").open("ab") as file:
            file.write(b"\n" + line + b"\n")  # the first \n ends a partial line


def known_registries(home: Path) -> list[str]:
    """Return the registries with models of this home, as `address_of` names them.

    Raises:
        BrokenFileError: a line is damaged or not sealed.
    """
    file, known = home / "registries.txt", list[str]()
    for number, line in enumerate(_lines_of(file), 1):
        try:
            known += [str(unsealed(line))] if line else []
        except ValueError as error:
            raise BrokenFileError(
                f"Each line of {file} names a registry with models of this home, under a seal. "
                f"Line {number} is damaged, or of an earlier version: {line[:200]!r}. Delete the "
                "line if that registry is gone; else set MLFLOW_TRACKING_URI to it and register a "
                "run again, which writes the line."
            ) from error
    return known


def _lines_of(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines() if file.exists() else []


def server_address(home: Path) -> str | None:
    """The address of MLflow's pages without a password; None if no server shows them.

    `python -m flows serve --mlflow` writes it to the home; a killed one leaves the file there.
    """
    uri, note = tracking_uri(home), home / "mlflow.url"
    if uri.startswith("http"):
        return redacted(uri).replace("***@", "").rstrip("/")
    noted = note.read_text().strip() if note.exists() else None
    return noted if noted and answers(noted, BRIEF) else None
