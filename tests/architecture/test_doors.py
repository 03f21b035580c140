"""Both doors explain every verb and every option, and say which version they are of."""

from importlib.metadata import version

import pytest
from cyclopts import App

from deployments.__main__ import app as deployments
from flows.__main__ import app as flows
from sentemb_core import console
from sentemb_core.cli import app as core

DOORS = {"flows": flows, "sentemb": core}
VERBS = [(door, verb) for door, app in DOORS.items() for verb in app if not verb.startswith("-")]


@pytest.mark.parametrize(("door", "verb"), VERBS)
def test_every_verb_and_option_is_explained(door: str, verb: str):
    command = DOORS[door][verb]
    assert command.help.strip(), verb
    options = command.assemble_argument_collection()
    assert [one.name for one in options if not one.children and not one.parameter.help] == []


@pytest.mark.parametrize(("door", "verb"), VERBS)
def test_the_help_of_a_verb_is_a_result(door: str, verb: str, capsys):
    assert console.run(DOORS[door], [verb, "--help"]) == 0
    said = capsys.readouterr()
    assert "--debug" in said.out
    assert said.err == ""


@pytest.mark.parametrize("app", [flows, core, deployments])
def test_a_door_says_its_version(app: App, capsys):
    assert console.run(app, ["--version"]) == 0
    assert capsys.readouterr().out == f"{version('sentemb')}\n"


def test_every_verb_with_a_result_gives_it_as_json_too():
    without = {(door, verb) for door, verb in VERBS if "json" not in options_of(door, verb)}
    assert without == {("flows", "where"), ("flows", "serve")}  # a path, and a service


def options_of(door: str, verb: str) -> set[str]:
    collected = DOORS[door][verb].assemble_argument_collection()
    return {one.name.removeprefix("--") for one in collected}
