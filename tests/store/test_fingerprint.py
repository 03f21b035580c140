"""Code fingerprints change with reachable code, and not with comments."""

import ast
import importlib.util
import itertools
from pathlib import Path

import pytest

import sentemb_core
from sentemb_core import stopping
from sentemb_core.errors import UsageError
from sentemb_core.store.fingerprint import (
    NEUTRAL,
    closure,
    code_fingerprint,
    core_file,
    is_neutral,
    parsed,
)

BASE = '''
"""A module."""

from pydantic import Field
from sentemb_core import stopping

LIMIT = 3
SPEED = Field(default=5, description="Of light.")


def decorated(times):
    return lambda function: function


def helper(x, speed=SPEED):
    """Help."""
    return x + LIMIT


def unrelated(x):
    return x


@decorated(times=1)
def body(x):
    """What the stage does."""
    from sentemb_core.store import disk
    from sentemb_core.schemas import EDGES
    return helper(x)
'''


@pytest.fixture
def fingerprint(tmp_path: Path):
    """Fingerprint of `body` in a module of this text. Every text is a new file."""
    number = itertools.count()

    def of(text: str, **options) -> str:
        path = tmp_path / f"stages_{next(number)}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return code_fingerprint(module.body, **options)

    return of


KEPT = [
    ('"""What the stage does."""', '"""Something else."""'),
    ('"""Help."""', ""),
    ('"""A module."""', "# a module"),
    ("return x + LIMIT", "return x + LIMIT  # a reason"),
    ("return x + LIMIT", "return (x\n            + LIMIT)"),
    ("LIMIT = 3\n", 'LIMIT = 3\n"""A documented constant."""\n'),
    ('description="Of light."', 'description="Of sound."'),
    ("def unrelated(x):\n    return x", "def unrelated(x):\n    return 2 * x"),
    ("times=1", "times=5"),
]
CHANGED = [
    ("return helper(x)", "return helper(x) + 1"),
    ("return x + LIMIT", "return x - LIMIT"),
    ("LIMIT = 3", "LIMIT = 4"),
    ("default=5", "default=6"),
    ("def body(x)", "def body(x=1)"),
    ("from sentemb_core.schemas import EDGES", "from sentemb_core.annotation import pruning"),
]


@pytest.mark.parametrize(("old", "new"), KEPT + CHANGED)
def test_reachable_code_changes_the_key_and_other_text_keeps_it(fingerprint, old, new):
    assert old in BASE
    same = fingerprint(BASE) == fingerprint(BASE.replace(old, new))
    assert same == ((old, new) in KEPT)


def test_a_module_imported_under_an_alias_enters(fingerprint):
    text = BASE.replace("import stopping", "import stopping as ending")
    text = text.replace("+ LIMIT", "+ ending.x")
    other = text.replace("import stopping as", "import formats as")
    assert fingerprint(text) != fingerprint(other)


def test_a_function_of_the_core_has_a_fingerprint():
    assert code_fingerprint(stopping.stopping_decision) != code_fingerprint(closure)


def test_a_closure_is_refused():
    hidden = 3

    def body() -> int:
        return hidden

    with pytest.raises(UsageError, match=r"body .*\bhidden\b"):
        code_fingerprint(body)


def test_a_lambda_is_no_stage():
    with pytest.raises(UsageError, match=r"line \d+"):
        code_fingerprint(lambda: 1)


def package(tmp_path: Path, **modules: str):
    """Write files of a package `toy` and return the function that finds them."""
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(text)

    def file_of(name: str) -> Path | None:
        path = tmp_path / f"{name.removeprefix('toy.')}.py"
        return path if name.startswith("toy.") and path.exists() else None

    return file_of


def test_the_closure_follows_imports_of_every_form(tmp_path):
    file_of = package(
        tmp_path,
        a="from toy import b",
        b="def late():\n    import toy.c as c",
        c="from toy.d import something\nimport toy.a",
        d="import numpy",
        e="",
    )
    assert closure(["toy.a"], file_of) == ["toy.a", "toy.b", "toy.c", "toy.d"]


def test_a_fingerprint_is_computed_once(monkeypatch):
    first = code_fingerprint(stopping.stopping_decision)
    monkeypatch.setattr("sentemb_core.store.fingerprint.closure", None)
    assert code_fingerprint(stopping.stopping_decision) == first


def test_the_init_of_a_package_belongs_to_the_closure():
    reached = closure(["sentemb_core.annotation.pruning"], core_file)
    assert {"sentemb_core", "sentemb_core.annotation", "sentemb_core.annotation.pruning"} <= set(
        reached
    )


def test_a_module_that_a_stage_names_enters_also_a_neutral_one(fingerprint):
    assert all(core_file(name) for name in NEUTRAL)
    assert closure(list(NEUTRAL), core_file) == []
    assert is_neutral("sentemb_core.store.disk")
    assert not is_neutral("sentemb_core.storehouse")
    for named in ("sentemb_core.encoder.card", "sentemb_core.annotation.pruning"):
        assert fingerprint(BASE) != fingerprint(BASE, modules=(named,))


def test_core_files_are_found_without_an_import():
    assert core_file("sentemb_core") == Path(sentemb_core.__file__)
    assert core_file("sentemb_core.types").name == "types.py"
    assert core_file("sentemb_core.types.ArtifactRef") is None
    assert core_file("numpy") is None


def test_no_core_module_imports_relatively():
    """The closure follows absolute imports only."""
    for path in Path(sentemb_core.__file__).parent.rglob("*.py"):
        imports = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.ImportFrom)]
        assert not [node.lineno for node in imports if node.level], path
