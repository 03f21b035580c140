"""The servers of a home, Prefect's and MLflow's: which is up, and who shares a short-lived one."""

import base64
import http.client
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sentemb_core.store.locks import is_locked

BUSY = 120.0
"""Seconds that a server which is up may take to say so: one whose disk stalled took over 40, and a
run that gave it up went on where nobody looked. One that is gone refuses at once."""

BRIEF = 5.0
"""Seconds where a link or a piece of advice alone hangs on the answer."""

HEALTHY = (b"true", b"OK")
"""What Prefect's server says of its health, and what MLflow's; pages of others answer any path."""

PASSWORD_WANTED = (401, 403)
"""What a server of ours answers before it was told one; any other refusal is somebody else's."""

EPHEMERAL = "PREFECT__SERVER_EPHEMERAL"
"""In the environment of a short-lived server, as of Prefect's own one: it has fewer services."""

STARTED_BY = "SENTEMB_STARTED_BY"
"""Likewise: the id of the process that started it."""


def serve_lock(home: Path) -> Path:
    """What `serve` holds while it is up on this home."""
    return home / "locks" / "serve.lock"


def users(logs: Path) -> Path:
    """What runs share while they go to one short-lived server, which has it alone when it ends."""
    return logs / "server.users"


def live_server(home: Path) -> str | None:
    """The API of the server that `serve` started on this home, if it still answers.

    One that was killed leaves its address, where anybody may be by now: another home's server, too.
    """
    note = home / "server.url"
    if not (note.exists() and is_locked(serve_lock(home))):
        return None
    url = note.read_text().strip()
    return url if answers(url) else None


def answers(url: str, patience: float = BUSY) -> bool:
    """Whether Prefect's server, or MLflow's, is there; one that wants a password is."""
    try:
        with urllib.request.urlopen(call_of(f"{url}/health"), timeout=patience) as answered:
            return answered.read(16).strip() in HEALTHY
    except urllib.error.HTTPError as error:
        return error.code in PASSWORD_WANTED
    except (OSError, ValueError, http.client.HTTPException):
        return False


def call_of(url: str) -> urllib.request.Request:
    """With the login of an address, user:password@host, as Prefect's client sends it."""
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    encoded = base64.b64encode(unquote(login).encode()).decode()
    headers = {"Authorization": f"Basic {encoded}"} if login else {}
    return urllib.request.Request(parts._replace(netloc=host).geturl(), headers=headers)
