"""What a run needs, checked on this machine: versions, known-bad pins, disk, devices, servers."""

import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet

from sentemb_core.annotation.faiss_wheels import installed_faiss
from sentemb_core.redaction import redacted
from sentemb_core.store.machine import fast_precision, installed

PINS = {
    "fastapi": (">=0.139,<0.151", "newer ones break the server of prefect 3.8"),
    "sqlalchemy": (">=2.0,<2.1", "2.1 stops the scheduler of prefect 3.8"),
    "prefect": (">=3.8.8,<3.9", "what was tested"),
    "mlflow": (">=3.17.2,<3.18", "what was tested"),
}

FREE_GB = 5.0
"""A run over a few thousand documents writes some hundred megabytes; below this, make room."""

HASHED = 64 << 20


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    found: str
    ok: bool = True


def findings(home: Path) -> list[Finding]:
    """Everything `doctor` tells."""
    return [
        *versions(),
        *faiss(),
        *device(),
        disk_space(home),
        writing(home),
        hashing(),
        offline(),
        server(home),
        registry(home),
        *orphans(home),
    ]


def versions() -> list[Finding]:
    python = sys.version_info
    told = [Finding("Python 3.11 or newer", sys.version.split()[0], python >= (3, 11))]
    for name, (bounds, why) in PINS.items():
        have = installed(name)
        fits = have is not None and SpecifierSet(bounds).contains(have)
        told.append(Finding(f"{name} {bounds}", have or "not installed", fits))
        if not fits:
            told.append(Finding(f"  {name}", f"install the locked version: {why}", ok=False))
    return told


def faiss() -> list[Finding]:
    """Both wheels own one folder: never both."""
    have = installed_faiss()
    return [Finding("exactly one faiss", ", ".join(have) or "none", len(have) == 1)]


def device() -> list[Finding]:
    import torch

    cuda = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return [
        Finding("torch", torch.__version__),
        Finding("CUDA device", cuda),
        Finding("CPU threads", f"{torch.get_num_threads()} of {os.cpu_count()}"),
        Finding("fastest products", fast_precision()),
    ]


def disk_space(home: Path) -> Finding:
    home.mkdir(parents=True, exist_ok=True)
    status = os.statvfs(home)
    free = status.f_bavail * status.f_frsize / 1e9
    return Finding(f"{FREE_GB:.0f} GB free at {home}", f"{free:.1f} GB", free >= FREE_GB)


def writing(home: Path) -> Finding:
    """Write, fsync, rename: what the store is made of."""
    try:
        with tempfile.NamedTemporaryFile(dir=home, delete=False) as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(home / ".doctor")
        (home / ".doctor").unlink()
    except OSError as error:
        return Finding("write, fsync and rename", str(error), ok=False)
    return Finding("write, fsync and rename", "work")


def hashing() -> Finding:
    import hashlib

    began = time.perf_counter()
    hashlib.sha256(bytes(HASHED)).hexdigest()
    return Finding("SHA-256", f"{HASHED / 1e6 / (time.perf_counter() - began):,.0f} MB/s")


def offline() -> Finding:
    state = os.environ.get("HF_HUB_OFFLINE", "unset")
    return Finding("HF_HUB_OFFLINE", f"{state} (1: no model hub is asked)")


def server(home: Path) -> Finding:
    from tasks.servers import live_server

    known = redacted(os.environ.get("PREFECT_API_URL", "")) or live_server(home)
    return Finding("Prefect server", known or "none: runs start a short-lived one")


def registry(home: Path) -> Finding:
    """Where runs are told and models registered; a server is asked whether it is there."""
    from tasks.mlflow_client import address_of, tracking_uri
    from tasks.servers import BRIEF, answers

    uri, known = tracking_uri(home), address_of(home)
    if not uri.startswith("http") or answers(uri.rstrip("/"), BRIEF):
        return Finding("MLflow registry", known)
    way_out = "start it, or unset MLFLOW_TRACKING_URI for the home's own"
    return Finding("MLflow registry", f"{known} does not answer: {way_out}", ok=False)


def orphans(home: Path, processes: Path = Path("/proc")) -> list[Finding]:
    """Short-lived servers of this home while none of its runs goes on: they hold its database.

    A run files itself when its server answers, so a server whose starter lives is none of them; nor
    is one that another run has joined.
    """
    from sentemb_core.store.locks import is_shared
    from sentemb_core.store.objects import Store
    from sentemb_core.store.runs import last_runs
    from tasks.servers import EPHEMERAL, STARTED_BY, users

    going_on = any(run.state == "running" for run in last_runs(Store(home)))
    if going_on or is_shared(users(home / "logs")):
        return []
    wanted = {f"SENTEMB_HOME={home}".encode(), f"{EPHEMERAL}=1".encode()}
    left = [
        path.name
        for path in processes.glob("[0-9]*")
        if wanted <= (told := environment_of(path))
        and f"{STARTED_BY}={parent_of(path)}".encode() not in told
    ]
    return [
        Finding("Prefect server of a run that is gone", f"end it: kill {pid}", ok=False)
        for pid in sorted(left, key=int)
    ]


def parent_of(process: Path) -> str:
    """Id of a process's parent: another one than it started with if that is gone."""
    try:
        lines = (process / "status").read_text("utf-8").splitlines()
    except OSError:
        return ""
    return next((line.split()[1] for line in lines if line.startswith("PPid:")), "")


def environment_of(process: Path) -> set[bytes]:
    """What a process was started with; nothing of one that is another user's, or gone."""
    try:
        return set((process / "environ").read_bytes().split(b"\0"))
    except OSError:
        return set()
