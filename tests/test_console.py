"""What a command line prints: for a person, for a program, and on a terminal."""

import io
import json
import logging
import os
import sys

import pytest
from rich.console import Console

from sentemb_core import console
from sentemb_core.cli import app
from sentemb_core.console import complain, emit, log_to_stderr, remark, show, terminal_table

CONTROLS = "\x1b]0;title\x07\x9b2J\x08\r\u202eback\u2066 end"
"""Escape sequences, a bell, a backspace, and text direction."""


def shown(width: int, *, folded: bool = False) -> list[str]:
    rows = [["our[bold]model", "0.5"], ["other", "12.25"]]
    terminal = Console(width=width)
    with terminal.capture() as captured:
        terminal.print(terminal_table(["model", "R@5"], rows, [1], folded=folded))
    return [line.strip() for line in captured.get().splitlines()]


def test_numbers_are_aligned_right_and_brackets_are_text():
    assert shown(40) == [
        "model             R@5",
        "our[bold]model    0.5",
        "other           12.25",
    ]


LONG_NAME = "x" * 300


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("search", "minilm", "storm \udce9", "docs.jsonl"), "E001"),
        (("encode", "minilm", "caf\udce9.jsonl", "x.parquet"), "E001"),
        (("encode", "minilm", f"{LONG_NAME}.jsonl", "x.parquet"), "E001"),
        (("encode", "minilm", "docs.jsonl", f"{LONG_NAME}.parquet"), "E001"),
        (("encode", LONG_NAME, "docs.jsonl", "x.parquet"), "E001"),
        (("search", "minilm", "--queries", LONG_NAME, "docs.jsonl"), "E103"),
        (("search", "minilm", "--queries", "/dev/zero", "docs.jsonl"), "E103"),
        (("search", "minilm", "\u200b\ufeff", "docs.jsonl"), "E001"),
        (("export", "minilm", LONG_NAME), "E001"),
    ],
)
def test_odd_arguments_are_usage_errors(answer, tmp_path, monkeypatch, words, code):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs.jsonl").write_text('{"text": "One. Two."}\n', encoding="utf-8")
    status, out, error = answer(app, *words)
    assert (status, out, code in error) == (2 if code == "E001" else 3, "", True), error


def test_a_long_word_is_cut_or_wrapped():
    assert shown(18)[1].split() == ["our[bold…", "0.5"]
    wrapped = "".join(line.split()[0] for line in shown(18, folded=True)[1:-1])
    assert wrapped == "our[bold]model"


def test_no_text_controls_the_terminal(capsys):
    show(terminal_table(["text"], [[CONTROLS]], title=CONTROLS), f"text {CONTROLS}")
    complain(CONTROLS)
    remark(f"one\n\ttwo {CONTROLS}")
    log_to_stderr()
    logging.getLogger("sentemb_core.test").info("unused columns: %s", CONTROLS)
    captured = capsys.readouterr()
    for text in captured:
        assert text.count("␛]0;title␇�2J␈␍�back� end") >= 2
        assert not set(text) & set(CONTROLS) - set("]0;title2J back end")
    assert "one\n\ttwo" in captured.err
    assert "unused columns: ␛]0;title␇" in captured.err


def test_json_keeps_every_character_and_controls_no_terminal(capsys):
    emit({"text": CONTROLS, "näme": "Zürich"})
    text = capsys.readouterr().out
    assert json.loads(text) == {"text": CONTROLS, "näme": "Zürich"}
    assert "Zürich" in text
    assert all(letter.isprintable() or letter == "\n" for letter in text)


@pytest.mark.parametrize(
    ("verb", "text"),
    [
        ("table", "Z\\xfcrich \\U0001f600"),
        ("document", '{\n  "city": "Z\\u00fcrich \\ud83d\\ude00"\n}'),
    ],
)
def test_a_letter_that_stdout_lacks_is_escaped(monkeypatch, verb, text):
    app = console.command_line("cities", "Names.")
    app.command(lambda: show(terminal_table(["Zürich 😀"])), name="table")
    app.command(lambda: emit({"city": "Zürich 😀"}), name="document")
    ascii_only = io.TextIOWrapper(io.BytesIO(), "ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", ascii_only)
    assert console.run(app, [verb]) == 0
    assert ascii_only.buffer.getvalue().decode().strip() == text


def test_a_closed_pipe_is_not_a_failure(monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    app = console.command_line("models", "Names.")
    app.command(lambda: show(terminal_table(["model"], [["ours"]])), name="table")
    with os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert console.run(app, ["table"]) == 0
