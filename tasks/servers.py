"""The servers of a home, Prefect's and MLflow's: which one answers, and locks of a shared one."""

import base64
import http.client
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sentemb_core.store.locks import is_locked

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
