"""A stage is cached by `@stage` alone, by a key that sees the code it runs."""

import ast
from pathlib import Path

import pytest

from tests.repository import ROOT, repository_files

FLOORS = ("sentemb_core", "tasks", "flows", "deployments")
DECORATOR = Path("tasks/caching.py")
"""Where a Prefect task is made, with our policy and storage."""

MAKERS = {"task", "Task", "MaterializingTask", "materialize", "*"}


def bare_tasks(code: str) -> list[str]:
    """Names in Prefect that make a task, as the code imports or reaches them, and cache policies.

    `@task(cache_policy=INPUTS)` shares records between different tasks of equal inputs.
    """
    nodes = [*ast.walk(ast.parse(code))]
    prefect = {bound for node in nodes for bound, origin in imports(node) if is_prefects(origin)}
    found = [origin for node in nodes for _, origin in imports(node) if makes_tasks(origin)]
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in MAKERS:
            text = ast.unparse(node)
            found += [text] if text.partition(".")[0] in prefect else []
        if isinstance(node, ast.keyword) and node.arg == "cache_policy":
            found.append(node.arg)
    return found


def imports(node: ast.AST) -> list[tuple[str, str]]:
    """The names that an import binds, and what they stand for."""
    if isinstance(node, ast.Import):
        return [(one.asname or one.name.partition(".")[0], one.name) for one in node.names]
    if isinstance(node, ast.ImportFrom):
        return [(one.asname or one.name, f"{node.module}.{one.name}") for one in node.names]
    return []


def is_prefects(origin: str) -> bool:
    return origin.partition(".")[0] == "prefect"


def makes_tasks(origin: str) -> bool:
    return is_prefects(origin) and origin.rpartition(".")[2] in MAKERS


@pytest.mark.parametrize(
    "code",
    [
        "from prefect import flow, task",
        "from prefect.tasks import Task as Work",
        "from prefect.assets import materialize",
        "from prefect import *",
        "import prefect\n@prefect.task(retries=1)\ndef work(): ...",
        "import prefect.tasks as orchestra\norchestra.Task(work)",
        "from prefect import tasks\ntasks.task(work)",
        "build_graph.with_options(cache_policy=policy)",
    ],
)
def test_a_bare_task_is_seen(code: str):
    assert bare_tasks(code)


def test_no_stage_is_a_bare_prefect_task():
    files = [file for file in repository_files() if file.suffix == ".py"]
    found = {
        file: bare
        for file in files
        if file.parts[0] in FLOORS and (bare := bare_tasks((ROOT / file).read_text("utf-8")))
    }
    assert list(found) == [DECORATOR], found
