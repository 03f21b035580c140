"""What the machine has, without torch."""

import os
from pathlib import Path

import pytest

from sentemb_core.store import machine
from sentemb_core.store.machine import (
    default_device,
    fast_precision,
    installed,
    keep_to_quota,
    processors,
    quota,
)


@pytest.mark.parametrize(
    ("device", "words", "expected"),
    [
        ("cpu", "GenuineIntel fpu avx2 avx512_bf16 amx_bf16 amx_tile", "bfloat16"),
        ("cpu", "GenuineIntel fpu avx2 avx512f avx512_bf16", "float32"),
        ("cpu", "AuthenticAMD fpu avx2 avx512f avx512_bf16", "bfloat16"),
        ("cpu", "AuthenticAMD fpu avx2", "float32"),
        ("cpu", None, "float32"),
        ("cuda", "AuthenticAMD fpu avx2", "bfloat16"),
    ],
)
def test_bfloat16_is_chosen_where_there_are_units_for_it(
    tmp_path: Path, monkeypatch, device: str, words: str | None, expected: str
):
    file = tmp_path / "cpuinfo"
    if words:
        vendor, flags = words.split(" ", 1)
        text = f"processor\t: 0\nvendor_id\t: {vendor}\nflags\t\t: {flags}\n\n"
        file.write_text(text * 2, encoding="utf-8")
    monkeypatch.setattr(machine, "CPU", file)
    monkeypatch.setattr(machine, "default_device", lambda: device)
    assert fast_precision() == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_a_container_has_no_more_threads_than_its_share(
    tmp_path: Path, monkeypatch, files: dict[str, str], expected: int | None
):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="ascii")
    monkeypatch.setattr(
        machine, "QUOTAS", (tmp_path / "cpu.max", tmp_path / "cpu/cpu.cfs_quota_us")
    )
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: range(64))
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 64)
    monkeypatch.setenv("OMP_NUM_THREADS", "")  # remembered, so that what is set here does not stay
    monkeypatch.delenv("OMP_NUM_THREADS")
    keep_to_quota()
    assert quota() == expected
    assert processors() == (expected or 64)
    assert os.environ.get("OMP_NUM_THREADS") == (str(expected) if expected else None)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    keep_to_quota()
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_hidden_devices_are_none(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "DRIVER", tmp_path)
    monkeypatch.setattr(machine, "version", lambda _: "2.13.0+cu130")
    for named, device in (("0", "cuda"), ("-1", "cpu"), ("", "cpu")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
        assert default_device() == device


def test_a_share_larger_than_the_machine_gives_no_more_processors(monkeypatch):
    monkeypatch.setattr(machine, "quota", lambda: 100)
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: range(3))
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 3)
    assert processors() == 3


def test_a_version_is_told_without_its_build(monkeypatch):
    monkeypatch.setattr(machine, "version", lambda _: "2.13.0+cpu")
    assert installed("torch") == "2.13.0"


@pytest.mark.parametrize(
    ("torch", "device"), [("2.13.0+cpu", "cpu"), ("2.13.0+cu130", "cuda"), ("2.13.0", "cuda")]
)
def test_a_driver_serves_a_torch_that_is_built_for_it(monkeypatch, tmp_path, torch, device):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(machine, "DRIVER", tmp_path)
    monkeypatch.setattr(machine, "version", lambda _: torch)
    assert default_device() == device
