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
from tasks.doctor import findings, orphans, parent_of
from tasks.servers import STARTED_BY, users
from tests.repository import ROOT


@pytest.fixture(autouse=True)
def _room(monkeypatch):
    monkeypatch.setattr(doctor, "FREE_GB", 0.0)


def wrong(home: Path) -> dict[str, str]:
    """What of this machine is not as it must be, and what was found."""
    return {told.what.strip(): told.found for told in findings(home) if not told.ok}


def test_the_pins_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extra = map(Requirement, project["optional-dependencies"]["flows"])
    bounds = {wanted.name: wanted.specifier for wanted in extra}
    for name, (pin, _) in doctor.PINS.items():
        assert SpecifierSet(pin) == bounds[name], name


@pytest.mark.parametrize("name", doctor.PINS)
@pytest.mark.parametrize("outside", ["0.1", "99.1", None])
def test_a_version_outside_its_pin_is_told_with_the_way_out(
    home, monkeypatch, name: str, outside: str | None
):
    installed = doctor.installed
    monkeypatch.setattr(doctor, "installed", lambda one: outside if one == name else installed(one))
    bounds, why = doctor.PINS[name]
    assert wrong(home) == {
        f"{name} {bounds}": outside or "not installed",
        name: f"install the locked version: {why}",
    }


def test_the_first_fastapi_that_breaks_the_server_is_outside(monkeypatch):
    found = {"fastapi": "0.151.0", "sqlalchemy": "2.1.0"}
    monkeypatch.setattr(doctor, "installed", lambda name: found.get(name) or metadata.version(name))
    bad = {told.found for told in doctor.versions() if not told.ok}
    assert bad > {"0.151.0", "2.1.0"}


@pytest.mark.parametrize(("version", "told"), [("1.15", "faiss-cpu, faiss-gpu"), (None, "none")])
def test_two_faiss_wheels_or_none_are_told(home, monkeypatch, version: str | None, told: str):
    monkeypatch.setattr(faiss_wheels, "_version", lambda wheel: version)
    assert wrong(home) == {"exactly one faiss": told}


def process(folder: Path, pid: int, *environment: str, parent: int = 1) -> None:
    (folder / str(pid)).mkdir(parents=True)
    (folder / str(pid) / "status").write_text(f"Name:\tpython\nPid:\t{pid}\nPPid:\t{parent}\n")
    (folder / str(pid) / "environ").write_bytes("\0".join(environment).encode())


def test_a_server_that_a_killed_run_left_is_told_with_the_way_out(home, tmp_path):
    listed = tmp_path / "proc"
    process(listed, 1, "PREFECT__SERVER_EPHEMERAL=1", "SENTEMB_HOME=/another")
    process(listed, 2, f"SENTEMB_HOME={home}")
    process(listed, 31, "PREFECT__SERVER_EPHEMERAL=1", f"SENTEMB_HOME={home}")
    (listed / "4").mkdir()  # gone meanwhile
    (left,) = orphans(home, listed)
    assert (left.ok, left.found) == (False, "end it: kill 31")
    with recording(Store(home), "run", [], {}):
        assert orphans(home, listed) == [], "it is this run's"


def test_a_server_of_a_run_that_just_starts_is_left_alone(home, tmp_path):
    """The run files itself when the server answers; who reaps orphans need not be process 1."""
    listed = tmp_path / "proc"
    marks = ("PREFECT__SERVER_EPHEMERAL=1", f"SENTEMB_HOME={home}", f"{STARTED_BY}=20")
    process(listed, 31, *marks, parent=20)
    assert orphans(home, listed) == []
    process(listed, 32, *marks, parent=7)
    assert [left.found for left in orphans(home, listed)] == ["end it: kill 32"]


def test_the_server_that_runs_would_take_is_told(home, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://me:word@prefect:4200/api")
    assert doctor.server(home).found == "http://***@prefect:4200/api"
    monkeypatch.setenv("PREFECT_API_URL", "")
    assert doctor.server(home).found.startswith("none: runs start a short-lived one")


def test_a_registry_that_does_not_answer_is_told_before_a_run_meets_it(home, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert doctor.registry(home).found == "the home's own mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:word@127.0.0.1:9/")
    way_out = "start it, or unset MLFLOW_TRACKING_URI for the home's own"
    assert wrong(home) == {"MLflow registry": f"http://***@127.0.0.1:9 does not answer: {way_out}"}
    monkeypatch.setattr("tasks.servers.answers", lambda url, _: url.endswith("127.0.0.1:9"))
    assert doctor.registry(home).ok


def test_a_server_that_another_run_joined_is_left_alone(home, tmp_path):
    listed = tmp_path / "proc"
    process(listed, 31, "PREFECT__SERVER_EPHEMERAL=1", f"SENTEMB_HOME={home}")
    joined = shared_lock(users(home / "logs"))
    assert orphans(home, listed) == []
    os.close(joined)
    assert len(orphans(home, listed)) == 1


def test_a_process_knows_its_parent():
    assert parent_of(Path("/proc/self")) == str(os.getppid())
    assert parent_of(Path("/proc/0")) == ""
