"""Both command lines explain every command and option, and print results as JSON."""

from importlib.metadata import version

import pytest
from cyclopts import App

from deployments.__main__ import app as deployments
from flows.__main__ import app as flows
from sentemb_core import console
from sentemb_core.cli import app as core

PROGRAMS = {"flows": flows, "sentemb": core}
COMMANDS = [
    (program, command)
    for program, app in PROGRAMS.items()
    for command in app
    if not command.startswith("-")
]


def options_of(program: str, command: str):
    return PROGRAMS[program][command].assemble_argument_collection(parse_docstring=True)


def test_every_command_and_option_has_a_help_text(capsys):
    for program, command in COMMANDS:
        assert PROGRAMS[program][command].help.strip(), command
        leaves = [option for option in options_of(program, command) if not option.children]
        assert [option.name for option in leaves if not option.parameter.help] == []
        assert console.run(PROGRAMS[program], [command, "--help"]) == 0
        captured = capsys.readouterr()
        assert ("--debug" in captured.out, captured.err) == (True, "")


@pytest.mark.parametrize("app", [flows, core, deployments])
def test_version_is_that_of_the_package(app: App, capsys):
    assert console.run(app, ["--version"]) == 0
    assert capsys.readouterr().out == f"{version('sentemb')}\n"


def test_every_command_with_a_result_has_json():
    without = {
        (program, command)
        for program, command in COMMANDS
        if "--json" not in {option.name for option in options_of(program, command)}
    }
    assert without == {("flows", "where"), ("flows", "serve")}  # a path, and a service
