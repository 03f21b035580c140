"""Claims: one machine computes a key at a time, and a dead or silent one holds it no longer."""

import signal
import threading
import time
from pathlib import Path

import pytest

from sentemb_core.store import claims
from sentemb_core.store.claims import claim
from sentemb_core.store.shared import SharedStore
from tests.store.racers import RACER
from tests.waiting import soon

HOLDER = """
import os, time
from sentemb_core.store.claims import claim
from sentemb_core.store.shared import shared_store
with claim(shared_store(os.environ["SENTEMB_STORE"]), "key"):
    time.sleep(600)
"""

in_a_folder = pytest.mark.parametrize("shared", ["file"], indirect=True)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(claims, "PAUSE", 0.01)
    monkeypatch.setattr(claims, "BEAT", 0.02)


def test_one_thread_holds_a_claim_at_a_time(shared: SharedStore):
    inside, most = [], []

    def hold() -> None:
        with claim(shared, "key"):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.05)
            inside.pop()

    threads = [threading.Thread(target=hold, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1, 1, 1]
    assert shared.read("claims/key") is None


@in_a_folder
def test_a_killed_holder_is_followed_after_the_lease(shared: SharedStore, python, monkeypatch):
    held = python(HOLDER).process
    soon(lambda: shared.read("claims/key"))
    held.send_signal(signal.SIGKILL)
    held.communicate()
    monkeypatch.setattr(claims, "LEASE", 0.2)
    began = time.monotonic()
    with claim(shared, "key"):
        assert time.monotonic() - began >= 0.2
    assert shared.read("claims/key") is None


@in_a_folder
def test_a_living_holder_keeps_its_claim_for_many_leases(shared: SharedStore, monkeypatch):
    monkeypatch.setattr(claims, "LEASE", 0.3)
    order = []

    def wait() -> None:
        with claim(shared, "key"):
            order.append("second")

    with claim(shared, "key"):
        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        waiting.join(1.0)
        order.append("first")
    waiting.join(60)
    assert order == ["first", "second"]


@in_a_folder
def test_two_machines_without_file_locks_compute_once(shared, python, tmp_path: Path):
    environment = {"MEETING": str(tmp_path), "RACERS": "2", "NO_LOCKS": "1"}
    racers = [python(RACER, **environment, SENTEMB_HOME=str(tmp_path / name)) for name in "ab"]
    (one, other), counts = zip(*(racer.json() for racer in racers), strict=True)
    assert one == other
    assert sum(counts) == 1
