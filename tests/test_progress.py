"""What a person who watches a terminal sees of a long pass."""

import io

import pytest

from sentemb_core import progress as module
from sentemb_core.progress import lines_of_progress, progress


class Terminal(io.StringIO):
    """Where a person watches."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar_that_goes_on_and_goes_away(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with progress("encode sentences", 8) as update:
        update(2)
        update(8, "loss 0.25")
    shown = screen.getvalue()
    assert "encode sentences, loss 0.25" in shown
    assert "8/8" in shown
    assert shown.rstrip().endswith("\x1b[2K"), "the line is wiped when the pass is done"


@pytest.mark.parametrize(("told", "shown"), [((), ""), (("loss 0.25",), ", loss 0.25")])
def test_a_log_has_a_line_of_what_else_there_is_to_tell(monkeypatch, caplog, told, shown):
    monkeypatch.setattr(module, "EVERY", 0.0)
    update = lines_of_progress("train_encoder", 8)
    with caplog.at_level("INFO"):
        update(8, *told)
    assert caplog.messages == [f"train_encoder: 8 of 8 (100 %{shown})"]
