"""Commands and links of the README files and of docs/ are valid."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.__main__ import app as flows
from sentemb_core.cli import app as core
from tests.repository import ROOT

LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#([^)\s]+))?\)")
PROGRAMS = {"python -m flows": flows, "sentemb": core}
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:.*/)?(python -m flows|sentemb) +(.+)")
ABBREVIATION = re.compile(r'^(\w+)="(.+?)"', re.MULTILINE)
"""`D="documents.jsonl --id-column id"`, which later commands use as `$D`."""

PAGES = sorted(
    page
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "*/README.md", "*/*/README.md")
    for page in ROOT.glob(pattern)
)


def commands(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the program and the arguments of each complete command of a page."""
    lines = [line for block in FENCE.findall(text) for line in block.splitlines()]
    for line in [*lines, *re.findall(r"`([^`\n]+)`", text)]:
        if (command := COMMAND.fullmatch(line)) and "..." not in line:
            arguments = command[2]
            for name, value in ABBREVIATION.findall(text):
                arguments = arguments.replace(f"${name}", value)
            yield command[1], *shlex.split(arguments, comments=True)


COMMANDS = {
    " ".join(words): words
    for page in PAGES
    if "results" not in page.parts  # their commands have `--seed S`
    for words in commands(page.read_text("utf-8"))
}


def test_commands_are_found_in_blocks_and_in_sentences():
    text = (
        'See `sentemb methods`, `run ...`:\n```\nD="a.jsonl"\npython -m flows run $D  # so\n```\n'
    )
    assert [*commands(text)] == [("python -m flows", "run", "a.jsonl"), ("sentemb", "methods")]


def test_every_documented_command_parses():
    assert len(COMMANDS) > 20
    for program, *arguments in COMMANDS.values():
        assert arguments[0] in PROGRAMS[program], arguments
        if arguments[1:]:  # a verb alone names it, without its required arguments
            PROGRAMS[program].parse_args(arguments, exit_on_error=False, print_error=False)


def test_the_table_of_verbs_is_complete():
    page = (ROOT / "docs/operations.md").read_text("utf-8")
    section = page.partition("\n## Two command lines\n")[2]
    head, _, verbs = re.findall(r"^\|(.+)\|(.+)\|$", section, re.MULTILINE)[:3]
    for heading, listed in zip(head, verbs, strict=True):
        (program,) = (name for name in PROGRAMS if f"`{name} ..." in heading)
        verbs_of = sorted(verb for verb in PROGRAMS[program] if verb[0] != "-")
        assert sorted(listed.strip(" `").split()) == verbs_of


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_somewhere(page: Path):
    text = page.read_text("utf-8")
    for path, _, section in LINK.findall(text):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert not section or section in anchors(target.read_text("utf-8")), section


def anchors(text: str) -> list[str]:
    """Return the anchors of the headings, as GitHub derives them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
