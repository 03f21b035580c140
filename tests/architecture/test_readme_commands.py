"""What the READMEs and the pages of docs/ say to type is what the two doors take; links lead on."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.__main__ import app as flows
from sentemb_core.cli import app as core
from tests.repository import ROOT, repository_files

LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#([^)\s]+))?\)")
DOORS = {"python -m flows": flows, "sentemb": core}
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:.*/)?(python -m flows|sentemb) +(.+)")
ABBREVIATION = re.compile(r'^(\w+)="(.+?)"', re.MULTILINE)
"""`D="documents.jsonl --id-column id"`, which commands below name as `$D`."""


def commands(text: str) -> Iterator[tuple[str, ...]]:
    """Door and words of each command that is told whole, in a block or in a sentence."""
    lines = [line for block in FENCE.findall(text) for line in block.splitlines()]
    for line in [*lines, *re.findall(r"`([^`\n]+)`", text)]:
        if (found := COMMAND.fullmatch(line)) and "..." not in line:
            typed = found[2]
            for name, meant in ABBREVIATION.findall(text):
                typed = typed.replace(f"${name}", meant)
            yield found[1], *shlex.split(typed, comments=True)


PAGES = [
    ROOT / name
    for name in repository_files()
    if name.suffix == ".md" and (name.stem == "README" or name.parts[0] == "docs")
]
TOLD = {" ".join(words): words for page in PAGES for words in commands(page.read_text("utf-8"))}


@pytest.mark.parametrize("words", TOLD.values(), ids=TOLD)
def test_a_command_of_a_page_is_one(words: tuple[str, ...]):
    door, *typed = words
    assert typed[0] in DOORS[door]
    if typed[1:]:  # a verb alone names it, whatever it wants
        DOORS[door].parse_args(typed, exit_on_error=False, print_error=False)


def test_commands_are_found_in_blocks_and_in_sentences_with_what_an_abbreviation_means():
    text = (
        'Say `sentemb methods`, `run ...`:\n```\nD="a.jsonl"\npython -m flows run $D  # so\n```\n'
    )
    assert [*commands(text)] == [("python -m flows", "run", "a.jsonl"), ("sentemb", "methods")]
    assert len(TOLD) > 20


def test_the_table_of_the_two_command_lines_names_every_verb_of_each():
    section = (
        (ROOT / "docs/operations.md").read_text("utf-8").partition("\n## Two command lines\n")[2]
    )
    head, _, verbs = re.findall(r"^\|(.+)\|(.+)\|$", section, re.MULTILINE)[:3]
    for door, told in zip(head, verbs, strict=True):
        (name,) = (known for known in DOORS if f"`{known} ..." in door)
        verbs_of = sorted(verb for verb in DOORS[name] if verb[0] != "-")
        assert sorted(told.strip(" `").split()) == verbs_of


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_links_to_is_there(page: Path):
    text = page.read_text("utf-8")
    for place, _, section in LINK.findall(text):
        linked = (page.parent / place).resolve() if place else page
        assert linked.exists(), place
        assert not section or section in anchors(linked.read_text("utf-8")), section


def anchors(text: str) -> list[str]:
    """Of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
