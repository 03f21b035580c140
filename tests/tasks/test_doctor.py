"""The checks of a machine: each failure is reported with its value."""

import os
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from sentemb_core.annotation import faiss_wheels
from sentemb_core.store.locks import shared_lock
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import recording
from tasks import doctor
from tasks.doctor import machine_checks, orphans, parent_of
from tasks.servers import STARTED_BY, users
from tests.repository import ROOT


@pytest.fixture(autouse=True)
def _enough_disk(monkeypatch):
    monkeypatch.setattr(doctor, "FREE_GB", 0.0)


def failures(home: Path) -> dict[str, str]:
    """The failed checks of this machine, and their values."""
    return {check.what.strip(): check.found for check in machine_checks(home) if not check.ok}


def test_pins_are_the_projects():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extra = map(Requirement, project["optional-dependencies"]["flows"])
    bounds = {wanted.name: wanted.specifier for wanted in extra}
    for name, (pin, _) in doctor.PINS.items():
        assert SpecifierSet(pin) == bounds[name], name


@pytest.mark.parametrize("name", doctor.PINS)
@pytest.mark.parametrize("number", ["0.1", "99.1", None])
def test_version_outside_its_pin_fails(home, monkeypatch, name: str, number: str | None):
    installed = doctor.installed
    monkeypatch.setattr(doctor, "installed", lambda one: number if one == name else installed(one))
    bounds, why = doctor.PINS[name]
    failed = failures(home)
    assert failed.keys() == {f"{name} {bounds}", name}
    assert failed[f"{name} {bounds}"] == (number or "not installed")
    assert why in failed[name]


def test_first_breaking_versions_are_outside_their_pins(monkeypatch):
    numbers = {"fastapi": "0.151.0", "sqlalchemy": "2.1.0"}
    monkeypatch.setattr(
        doctor, "installed", lambda name: numbers.get(name) or metadata.version(name)
    )
    assert {check.found for check in doctor.versions() if not check.ok} > {*numbers.values()}


@pytest.mark.parametrize(("found", "value"), [({"1.15"}, "faiss-cpu, faiss-gpu"), (set(), "none")])
def test_two_faiss_wheels_or_none_fail(home, monkeypatch, found: set[str], value: str):
    monkeypatch.setattr(faiss_wheels, "distributions", lambda name: found)
    assert failures(home) == {"exactly one faiss": value}


def process(folder: Path, pid: int, *environment: str, parent: int = 1) -> None:
    (folder / str(pid)).mkdir(parents=True)
    (folder / str(pid) / "status").write_text(f"Name:\tpython\nPid:\t{pid}\nPPid:\t{parent}\n")
    (folder / str(pid) / "environ").write_bytes("\0".join(environment).encode())


def test_server_of_a_killed_run_fails(home, tmp_path):
    listed = tmp_path / "proc"
    process(listed, 1, "PREFECT__SERVER_EPHEMERAL=1", "SENTEMB_HOME=/another")
    process(listed, 2, f"SENTEMB_HOME={home}")
    process(listed, 31, "PREFECT__SERVER_EPHEMERAL=1", f"SENTEMB_HOME={home}")
    (listed / "4").mkdir()  # ended meanwhile
    (orphan,) = orphans(home, listed)
    assert (orphan.ok, orphan.found) == (False, "end it: kill 31")
    with recording(Store(home), "run", [], {}):
        assert orphans(home, listed) == [], "it belongs to this run"
    joined = shared_lock(users(home / "logs"))
    assert orphans(home, listed) == [], "another run has joined it"
    os.close(joined)
    assert len(orphans(home, listed)) == 1


def test_server_of_a_starting_run_is_no_orphan(home, tmp_path):
    """A run is recorded when its server answers; a subreaper need not be process 1."""
    listed = tmp_path / "proc"
    marks = ("PREFECT__SERVER_EPHEMERAL=1", f"SENTEMB_HOME={home}", f"{STARTED_BY}=20")
    process(listed, 31, *marks, parent=20)
    assert orphans(home, listed) == []
    process(listed, 32, *marks, parent=7)
    assert [orphan.found for orphan in orphans(home, listed)] == ["end it: kill 32"]


def test_server_address_has_no_password(home, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://me:word@prefect:4200/api")
    assert doctor.server(home).found == "http://***@prefect:4200/api"
    monkeypatch.setenv("PREFECT_API_URL", "")
    assert "none" in doctor.server(home).found


def test_unreachable_registry_fails_without_its_password(home, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert doctor.registry(home).ok
    assert "mlflow.db" in doctor.registry(home).found
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:word@127.0.0.1:9/")
    failed = failures(home)
    assert failed.keys() == {"MLflow registry"}
    assert failed["MLflow registry"].startswith("http://***@127.0.0.1:9 ")
    assert "MLFLOW_TRACKING_URI" in failed["MLflow registry"]
    monkeypatch.setattr("tasks.servers.answers", lambda url, _: url.endswith("127.0.0.1:9"))
    assert doctor.registry(home).ok


def test_parent_of_a_process():
    assert parent_of(Path("/proc/self")) == str(os.getppid())
    assert parent_of(Path("/proc/0")) == ""


def test_a_shared_store_is_written_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert doctor.shared_store() == []
    monkeypatch.setenv("SENTEMB_STORE", f"file://{tmp_path}/shared")
    assert [check.ok for check in doctor.shared_store()] == [True]
    (tmp_path / "file").touch()
    monkeypatch.setenv("SENTEMB_STORE", f"file://{tmp_path}/file/below")
    assert [check.found[:4] for check in doctor.shared_store()] == ["E607"]
