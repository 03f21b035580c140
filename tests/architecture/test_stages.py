"""Only `@stage` caches, and its key holds the code that the stage runs."""

import ast
import inspect
import pkgutil
import re
import symtable
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import tasks
from flows.cli.lineage import PARAMETERS
from sentemb_core.store.fingerprint import bound_names, used_names
from sentemb_core.store.stages import Stage
from tasks.setting_names import OTHER_NAMES
from tasks.stage import STAGES
from tests.repository import ROOT, repository_files

FLOORS = ("sentemb_core", "tasks", "flows", "deployments")
DECORATOR = Path("tasks/prefect_task.py")
"""Where a Prefect task is made, with our policy and storage."""

MAKERS = {"task", "Task", "MaterializingTask", "materialize", "*"}

UNSEEN = {
    "tasks.artifacts.artifact_path": "the place of an artifact does not change it",
    "tasks.artifacts.new_artifact": "the place of an artifact does not change it",
    "tasks.artifacts.read_json": "the content has the artifact's digest",
    "tasks.artifacts.save_json": "stores a value that the core computed",
    "tasks.checks.silent": "a log changes no result",
    "tasks.prefect_pages.progress": "a progress bar changes no result",
    "tasks.run_monitor.step_logger": "only logs to MLflow",
    "tasks.artifacts.Labelled": "a record of another shape is a miss",
    "tasks.artifacts.Trained": "a record of another shape is a miss",
    "tasks.retriever.choice_of": "the content has the artifact's digest",
    "tasks.stage.working_folder": "a killed training ends in the same bits",
    **dict.fromkeys(
        (
            "tasks.sources.require_same_bytes",
            "tasks.sources.require_same_encoder",
            "tasks.sources.require_unchanged",
        ),
        "refuses a changed source, or does nothing",
    ),
}
"""Helpers of other modules of `tasks` that stages use without a fingerprint, with the reason."""


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
def test_a_bare_task_is_found(code: str):
    assert bare_tasks(code)


def test_no_stage_is_a_bare_prefect_task():
    files = [file for file in repository_files() if file.suffix == ".py"]
    found = {
        file: bare
        for file in files
        if file.parts[0] in FLOORS and (bare := bare_tasks((ROOT / file).read_text("utf-8")))
    }
    assert list(found) == [DECORATOR], found


def helpers(code: str, function: str) -> set[str]:
    """What a function, and what it uses of its own module, takes from other modules of `tasks`."""
    top = ast.parse(code).body
    known = {name: node for node in top for name in bound_names(node)}
    origins = dict(one for node in top for one in imports(node))
    scopes = {one.get_name(): one for one in symtable.symtable(code, "", "exec").get_children()}
    found: set[str] = set()
    todo, done = [function], set()
    while todo:
        name = todo.pop()
        if name in done or name not in known:
            continue
        done.add(name)
        if name in origins:
            found.add(origins[name])
            continue
        found |= {origin for node in ast.walk(known[name]) for _, origin in imports(node)}
        isolated = isinstance(known[name], ast.FunctionDef)
        todo += global_names(scopes[name]) if isolated else used_names(known[name])
    return {name for name in found if name.startswith("tasks.")}


def global_names(scope: symtable.SymbolTable) -> list[str]:
    """Those of its module that a function, and functions in it, read; no argument is one."""
    own = [symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global()]
    return own + [name for inner in scope.get_children() for name in global_names(inner)]


def test_helpers_are_found_through_functions_and_constants():
    code = """
from tasks.far import LIMIT, beyond, unused, named
BOUND = LIMIT + 1
def near(x):
    from tasks.farther import deep
    return lambda: beyond(x, BOUND)
def body(named):
    from sentemb_core.annotation import pruning
    return near(named)
"""
    assert helpers(code, "body") == {"tasks.far.LIMIT", "tasks.far.beyond", "tasks.farther.deep"}


def stages_with_helpers() -> Iterator[tuple[Stage, set[str]]]:
    """Every stage of `tasks`, and what it uses of other modules there."""
    for module in pkgutil.walk_packages(tasks.__path__, "tasks."):
        import_module(module.name)
    for stage in STAGES.values():
        if stage.function.__module__.startswith("tasks."):
            code = Path(inspect.getfile(stage.function)).read_text("utf-8")
            yield stage, helpers(code, stage.function.__name__)


def test_helpers_without_a_fingerprint_change_no_result():
    used = {helper: stage.name for stage, names in stages_with_helpers() for helper in names}
    assert {name: stage for name, stage in used.items() if name not in UNSEEN} == {}
    assert UNSEEN.keys() == used.keys()


def test_a_stage_with_the_place_of_a_source_checks_that_it_is_unchanged():
    asks = {
        stage.name: any(name.startswith("tasks.sources.require_") for name in names)
        for stage, names in stages_with_helpers()
        if any("." not in name for name in stage.ignore)
        if stage.name != "shard_size"  # its first answer for a place stays
    }
    assert len(asks) > 10
    assert all(asks.values()), asks


def has_path(fields: dict[str, Any], path: str) -> bool:
    """Whether fields with these types have a dotted path; of a union, whether one member has it."""
    name, _, rest = path.partition(".")
    if name not in fields or not rest:
        return name in fields
    kinds = [fields[name]]
    for kind in kinds:
        kinds += get_args(kind)
    models = [kind for kind in kinds if hasattr(kind, "model_fields")]
    return any(has_path(get_type_hints(model), rest) for model in models)


def test_tables_of_arguments_name_arguments_of_their_stages():
    """`lineage` shows `?` for an unknown argument; `status` shows an argument for a setting."""
    stages: dict[str, Any] = {
        stage.name: get_type_hints(stage.function) for stage, _ in stages_with_helpers()
    }
    shown = [
        f"{stage}.{path}"
        for stage, text in PARAMETERS.items()
        for path in re.findall(r"%\((.+?)\)s", text)
    ]
    assert len(shown) > len(PARAMETERS)
    for path in (*shown, *OTHER_NAMES):
        stage, _, argument = path.partition(".")
        assert has_path(stages[stage], argument), path
