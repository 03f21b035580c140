import io

import pytest

from sentemb_core import progress as module
from sentemb_core.progress import log_progress, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar_and_removes_it(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with progress("encode sentences", 8) as update:
        update(2)
        update(8, "loss 0.25")
    shown = screen.getvalue()
    assert "encode sentences, loss 0.25" in shown
    assert "8/8" in shown
    assert shown.rstrip().endswith("\x1b[2K")


@pytest.mark.parametrize(("note", "shown"), [((), ""), (("loss 0.25",), ", loss 0.25")])
def test_a_log_line_has_count_share_and_note(monkeypatch, caplog, note, shown):
    monkeypatch.setattr(module, "EVERY", 0.0)
    update = log_progress("train_encoder", 8)
    with caplog.at_level("INFO"):
        update(8, *note)
    assert caplog.messages == [f"train_encoder: 8 of 8 (100 %{shown})"]
