"""Checks of this machine before a run: versions, pins, disk, devices and servers."""

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from packaging.specifiers import SpecifierSet

from sentemb_core.annotation.faiss_wheels import installed_faiss
from sentemb_core.errors import SentembError
from sentemb_core.formats import size
from sentemb_core.redaction import redacted
from sentemb_core.store.machine import fast_precision, installed

PINS = {
    "fastapi": (">=0.139,<0.151", "newer versions break the server of prefect 3.8"),
    "sqlalchemy": (">=2.0,<2.1", "2.1 stops the scheduler of prefect 3.8"),
    "prefect": (">=3.8.8,<3.9", "the tested version"),
    "mlflow": (">=3.17.2,<3.18", "the tested version"),
}

FREE_GB = 5.0
"""Free disk space to ask for; a run over a few thousand documents writes some hundred megabytes."""


@dataclass(frozen=True)
class Check:
    """A checked property of this machine, and its value."""

    what: str
    found: str
    ok: bool = True


def machine_checks(home: Path, cluster: str | None = None) -> list[Check]:
    """Return all checks of `doctor`, also of the workers of a Dask scheduler if one is named."""
    offline = os.environ.get("HF_HUB_OFFLINE", "unset")
    return [
        *versions(),
        *faiss(),
        *device(),
        disk_space(home),
        writing(home),
        *shared_store(),
        *workers(cluster),
        Check("HF_HUB_OFFLINE", f"{offline} (1: no access to the model hub)"),
        server(home),
        registry(home),
        *orphans(home),
    ]


def versions() -> list[Check]:
    python = sys.version_info
    results = [Check("Python 3.11 or newer", sys.version.split()[0], python >= (3, 11))]
    for name, (bounds, why) in PINS.items():
        number = installed(name)
        fits = number is not None and SpecifierSet(bounds).contains(number)
        results.append(Check(f"{name} {bounds}", number or "not installed", fits))
        if not fits:
            results.append(Check(f"  {name}", f"install the locked version: {why}", ok=False))
    return results


def faiss() -> list[Check]:
    """Check that one faiss wheel is installed; the two share a folder."""
    wheels = installed_faiss()
    return [Check("exactly one faiss", ", ".join(wheels) or "none", len(wheels) == 1)]


def device() -> list[Check]:
    import torch

    cuda = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return [
        Check("torch", torch.__version__),
        Check("CUDA device", cuda),
        Check("CPU threads", f"{torch.get_num_threads()} of {os.cpu_count()}"),
        Check("fastest precision", fast_precision()),
    ]


def disk_space(home: Path) -> Check:
    home.mkdir(parents=True, exist_ok=True)
    status = os.statvfs(home)
    free = status.f_bavail * status.f_frsize
    return Check(f"{FREE_GB:.0f} GB free at {home}", size(free), free >= 1e9 * FREE_GB)


def writing(home: Path) -> Check:
    """Check write, fsync and rename, on which the store depends."""
    try:
        with tempfile.NamedTemporaryFile(dir=home, delete=False) as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(home / ".doctor")
        (home / ".doctor").unlink()
    except OSError as error:
        return Check("write, fsync and rename", str(error), ok=False)
    return Check("write, fsync and rename", "work")


def shared_store() -> list[Check]:
    """Check that the store at $SENTEMB_STORE, if there is one, can be written and read."""
    from sentemb_core.store import shared

    url = os.environ.get("SENTEMB_STORE")
    if not url:
        return []
    name, what = f"doctor/{uuid4().hex}", f"write, read and remove at {redacted(url)}"
    try:
        store = shared.shared_store(url)
        works = store.create(name, b"x") and store.read(name) == b"x"
        store.remove(name)
    except SentembError as error:
        return [Check(what, str(error), ok=False)]
    return [Check(what, "work" if works else "the file has other bytes", works)]


def workers(address: str | None) -> list[Check]:
    """Check that the workers of a cluster have the versions, device and store of this machine."""
    if not address:
        return []
    from tasks.cluster import Cluster

    try:
        cluster = Cluster(address)
    except SentembError as error:
        return [Check(f"Dask workers of {address}", str(error), ok=False)]
    cluster.stop()
    return [Check(f"Dask workers of {address}", f"{cluster.in_flight // 2} threads, as here")]


def server(home: Path) -> Check:
    from tasks.servers import live_server

    known = redacted(os.environ.get("PREFECT_API_URL", "")) or live_server(home)
    return Check("Prefect server", known or "none: runs start a short-lived server")


def registry(home: Path) -> Check:
    """Check that the server of MLflow answers, if there is one."""
    from tasks.servers import BRIEF, address_of, answers, tracking_uri

    uri, known = tracking_uri(home), address_of(home)
    if not uri.startswith("http") or answers(uri.rstrip("/"), BRIEF):
        return Check("MLflow registry", known)
    way_out = "start it, or unset MLFLOW_TRACKING_URI to use the home's own"
    return Check("MLflow registry", f"{known} does not answer: {way_out}", ok=False)


def orphans(home: Path, processes: Path = Path("/proc")) -> list[Check]:
    """Find short-lived servers of this home without a running run: they lock its database.

    A server whose starter lives is no orphan: its run is recorded only when the server answers. A
    server that another run has joined is no orphan either.
    """
    from sentemb_core.store.locks import is_shared
    from sentemb_core.store.objects import Store
    from sentemb_core.store.runs import last_runs
    from tasks.servers import EPHEMERAL, STARTED_BY, users

    running = any(run.state == "running" for run in last_runs(Store(home)))
    if running or is_shared(users(home / "logs")):
        return []
    wanted = {f"SENTEMB_HOME={home}".encode(), f"{EPHEMERAL}=1".encode()}
    orphaned = [
        path.name
        for path in processes.glob("[0-9]*")
        if wanted <= (environment := environment_of(path))
        and f"{STARTED_BY}={parent_of(path)}".encode() not in environment
    ]
    return [
        Check("Prefect server of an ended run", f"end it: kill {pid}", ok=False)
        for pid in sorted(orphaned, key=int)
    ]


def parent_of(process: Path) -> str:
    """Return the id of a process's parent; it changes when the parent ends."""
    try:
        lines = (process / "status").read_text("utf-8").splitlines()
    except OSError:
        return ""
    return next((line.split()[1] for line in lines if line.startswith("PPid:")), "")


def environment_of(process: Path) -> set[bytes]:
    """Return the environment of a process; empty for another user's or an ended process."""
    try:
        return set((process / "environ").read_bytes().split(b"\0"))
    except OSError:
        return set()
