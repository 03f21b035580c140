"""What a person who watches a terminal sees of a long pass."""

import io

from sentemb_core.progress import progress


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
        update(8)
    shown = screen.getvalue()
    assert "encode sentences" in shown
    assert "8/8" in shown
    assert shown.rstrip().endswith("\x1b[2K"), "the line is wiped when the pass is done"
