"""What the machine has, without torch."""

from pathlib import Path

import pytest

from sentemb_core.store import machine
from sentemb_core.store.machine import default_device, fast_precision


@pytest.mark.parametrize(
    ("device", "flags", "expected"),
    [
        ("cpu", "fpu avx2 avx512_bf16 amx_bf16 amx_tile", "bfloat16"),
        ("cpu", "fpu avx2 avx512f avx512_bf16", "float32"),
        ("cpu", "fpu avx2", "float32"),
        ("cpu", None, "float32"),
        ("cuda", "fpu avx2", "bfloat16"),
    ],
)
def test_bfloat16_is_chosen_where_there_are_units_for_it(
    tmp_path: Path, monkeypatch, device: str, flags: str | None, expected: str
):
    file = tmp_path / "cpuinfo"
    if flags:
        file.write_text(f"processor\t: 0\nflags\t\t: {flags}\n\n" * 2, encoding="utf-8")
    monkeypatch.setattr(machine, "CPU", file)
    monkeypatch.setattr(machine, "default_device", lambda: device)
    assert fast_precision() == expected


def test_hidden_devices_are_none(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert default_device() == "cpu"
