"""Properties of the machine, found without torch."""

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
def test_bfloat16_is_chosen_on_processors_with_units_for_it(
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
def test_a_container_uses_its_share_of_the_processors(
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
    monkeypatch.setenv("OMP_NUM_THREADS", "")  # restored after the test
    monkeypatch.delenv("OMP_NUM_THREADS")
    keep_to_quota()
    assert quota() == expected
    assert processors() == (expected or 64)
    assert os.environ.get("OMP_NUM_THREADS") == (str(expected) if expected else None)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    keep_to_quota()
    assert os.environ["OMP_NUM_THREADS"] == "7"
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: range(1))
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 1)
    assert processors() == 1, "a share larger than the machine adds no processor"


def test_a_version_has_no_build_tag(monkeypatch):
    monkeypatch.setattr(machine, "version", lambda _: "2.13.0+cpu")
    assert installed("torch") == "2.13.0"


@pytest.mark.parametrize(
    ("torch", "visible", "device"),
    [
        ("2.13.0+cpu", "0", "cpu"),
        ("2.13.0+cu130", "0", "cuda"),
        ("2.13.0", "0", "cuda"),
        ("2.13.0+cpu", None, "cpu"),
        ("2.13.0+cu130", None, "cuda"),
        ("2.13.0", None, "cuda"),
        ("2.13.0+cu130", "-1", "cpu"),
        ("2.13.0+cu130", "", "cpu"),
    ],
)
def test_the_device_follows_driver_build_and_visibility(
    monkeypatch, tmp_path, torch, visible, device
):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(machine, "DRIVER", tmp_path)
    monkeypatch.setattr(machine, "version", lambda _: torch)
    assert default_device() == device
