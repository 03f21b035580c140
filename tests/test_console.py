"""What a command line writes: to a person, to a program, to a terminal that obeys what it reads."""

import io
import json
import logging
import os
import sys

import pytest
from cyclopts import App
from rich.console import Console

from sentemb_core import console
from sentemb_core.console import (
    complain,
    emit,
    log_to_stderr,
    remark,
    show,
    terminal_table,
)

STEERS = "\x1b]0;title\x07\x9b2J\x08\r\u202eback\u2066 end"
"""Escape sequences, a bell, a step back, and text that is shown from right to left."""


def shown(width: int, *, folded: bool = False) -> list[str]:
    rows = [["our[bold]model", "0.5"], ["other", "12.25"]]
    console = Console(width=width)
    with console.capture() as captured:
        console.print(terminal_table(["model", "R@5"], rows, [1], folded=folded))
    return [line.strip() for line in captured.get().splitlines()]


def test_numbers_stand_on_the_right_and_a_bracket_is_no_markup():
    assert shown(40) == [
        "model             R@5",
        "our[bold]model    0.5",
        "other           12.25",
    ]


def test_a_long_word_is_cut_or_goes_on_below():
    assert shown(18)[1].split() == ["our[bold…", "0.5"]
    whole = "".join(line.split()[0] for line in shown(18, folded=True)[1:-1])
    assert whole == "our[bold]model"


def test_no_text_of_a_corpus_steers_the_terminal(capsys):
    show(terminal_table(["text"], [[STEERS]], title=STEERS), f"said {STEERS}")
    complain(STEERS)
    remark(STEERS)
    for told in capsys.readouterr():
        assert told.count("␛]0;title␇�2J␈␍�back� end") >= 2
        assert not set(told) & set(STEERS) - set("]0;title2J back end")


def test_no_name_of_a_column_steers_the_terminal(capsys):
    log_to_stderr()
    logging.getLogger("sentemb_core.test").info("unused columns: %s", STEERS)
    assert "unused columns: ␛]0;title␇" in capsys.readouterr().err


def test_line_ends_and_tabs_of_a_text_stay(capsys):
    remark("one\n\ttwo")
    assert capsys.readouterr().err == "one\n\ttwo\n"


def test_a_program_reads_every_character_and_a_terminal_obeys_none(capsys):
    emit({"text": STEERS, "näme": "Zürich"})
    told = capsys.readouterr().out
    assert json.loads(told) == {"text": STEERS, "näme": "Zürich"}
    assert "Zürich" in told
    assert all(letter.isprintable() or letter == "\n" for letter in told)


@pytest.mark.parametrize(
    ("verb", "told"),
    [
        ("table", "Z\\xfcrich \\U0001f600"),
        ("document", '{\n  "city": "Z\\u00fcrich \\ud83d\\ude00"\n}'),
    ],
)
def test_a_letter_that_stdout_does_not_have_ends_no_verb(monkeypatch, verb, told):
    app: App = console.command_line("cities", "Names.")

    @app.command
    def table() -> None:
        show(terminal_table(["Zürich 😀"]))

    @app.command
    def document() -> None:
        emit({"city": "Zürich 😀"})

    ascii_alone = io.TextIOWrapper(io.BytesIO(), "ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", ascii_alone)
    assert console.run(app, [verb]) == 0
    assert ascii_alone.buffer.getvalue().decode().strip() == told


def test_a_reader_that_had_enough_of_a_table_is_no_failure(monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    app = console.command_line("models", "Names.")

    @app.command
    def table() -> None:
        show(terminal_table(["model"], [["ours"]]))

    with os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert console.run(app, ["table"]) == 0
