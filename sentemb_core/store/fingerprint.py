"""Fingerprint of the code that a stage can reach. Comments and docstrings do not change it.

The reachable modules follow statically from absolute imports; nothing is imported. The hash covers
syntax trees without comments, docstrings and line numbers.
"""

import ast
import copy
import hashlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import sentemb_core
from sentemb_core.errors import UsageError
from sentemb_core.store import disk

NEUTRAL = {
    "sentemb_core.config.run": "the values that a stage reads enter its key as arguments",
    "sentemb_core.config.suite": "the task that a stage scores enters its key as an argument",
    "sentemb_core.encoder.card": "text about an encoder; `publish_encoder` names it in `modules`",
    "sentemb_core.errors": "a message changes no result, and a failure is never recorded",
    "sentemb_core.progress": "a progress bar changes no result",
    "sentemb_core.report": "only people read pages and figures",
    "sentemb_core.store": "the place of results does not change them",
    "sentemb_core.types": "names for values without behaviour",
}
"""Modules, with all modules below them, that do not enter the fingerprint, and why."""


@cache  # a dry run asks for each stage dozens of times; a process does not see its code change
def code_fingerprint(function: Callable[..., Any], modules: tuple[str, ...] = ()) -> str:
    """Return the SHA-256 of a function, the definitions it uses, and all core modules they reach.

    Decorators do not enter: the number of retries does not change a result.

    Args:
        function: A stage's body.
        modules: Further core modules that enter: modules imported by a computed name, and NEUTRAL
            modules that do change this stage's result.

    Raises:
        UsageError: the function closes over variables, whose values the source does not show.
    """
    function = inspect.unwrap(function)
    if function.__closure__:
        raise UsageError(
            "A stage uses only its arguments and its module. Found a closure: "
            f"{function.__qualname__} uses {', '.join(function.__code__.co_freevars)}. Pass them "
            "as arguments."
        )
    file, line = Path(inspect.getfile(function)), function.__code__.co_firstlineno
    known, key = _known_fingerprints(), _digest_of(_core_digest(), file.read_bytes(), line, modules)
    if key not in known:
        known[key] = _fingerprint(file, line, modules)
        _save_fingerprints(known)
    return known[key]


def _fingerprint(file: Path, line: int, modules: tuple[str, ...]) -> str:
    """Return the fingerprint of the function that begins on a line of a file."""
    nodes = definitions(parsed(file), line)
    roots = {name for node in nodes for name in imported(node)} | set(modules)
    reached = sorted({*closure(roots, core_file), *modules})
    digest = hashlib.sha256()
    for text in (*map(ast.dump, nodes), *(f"{name} {_core_dump(name)}" for name in reached)):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


# Parsing takes a second: fingerprints are kept beside the compiled modules, by all bytes they can
# depend on

KEPT = Path(importlib.util.cache_from_source(__file__)).with_name("fingerprints.json")

MOST = 500
"""Fingerprints in the file; a checkout has about 50 stages."""


@cache
def _core_digest() -> str:
    """Return the digest of the Python version and of all files of the core."""
    files = sorted(Path(inspect.getfile(sentemb_core)).parent.rglob("*.py"))
    return _digest_of(sys.version, *((str(file), file.read_bytes()) for file in files))


def _digest_of(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@cache
def _known_fingerprints() -> dict[str, str]:
    """Return the kept fingerprints of the core as it is; empty if its files have changed."""
    with suppress(OSError, ValueError, TypeError, LookupError, AttributeError):
        kept = json.loads(KEPT.read_bytes())
        if kept["core"] == _core_digest() and len(kept["of"]) < MOST:
            return {str(key): str(value) for key, value in kept["of"].items()}
    return {}


def _save_fingerprints(known: Mapping[str, str]) -> None:
    """Write the fingerprints for the next process; skip it if the folder is not writable."""
    content = json.dumps({"core": _core_digest(), "of": known}).encode()
    with suppress(OSError):
        disk.write_atomically(KEPT, content, KEPT.parent)


def closure(roots: Iterable[str], file_of: Callable[[str], Path | None]) -> list[str]:
    """Return the sorted names of all package modules that `roots` import, directly or not.

    `file_of` returns a module's file, or None for a name outside the package.
    """
    reached: set[str] = set()
    todo = list(roots)
    while todo:
        name = todo.pop()
        file = file_of(name)
        if file is None or name in reached or is_neutral(name):
            continue
        reached.add(name)
        todo += imported_by(file)
        todo += parents(name)
    return sorted(reached)


def parents(name: str) -> list[str]:
    """Return the packages whose `__init__` runs when a module is imported."""
    pieces = name.split(".")
    return [".".join(pieces[:count]) for count in range(1, len(pieces))]


def is_neutral(name: str) -> bool:
    return any(name == left_out or name.startswith(f"{left_out}.") for left_out in NEUTRAL)


def imported(node: ast.AST) -> list[str]:
    """Return the dotted names that code may import: for `from a import b`, `a` and `a.b`."""
    names: list[str] = []
    for part in ast.walk(node):
        if isinstance(part, ast.Import):
            names += [alias.name for alias in part.names]
        elif isinstance(part, ast.ImportFrom) and part.module and not part.level:
            names += [part.module, *(f"{part.module}.{alias.name}" for alias in part.names)]
    return names


@cache
def imported_by(file: Path) -> list[str]:
    return imported(parsed(file))


def definitions(tree: ast.Module, line: int) -> list[ast.stmt]:
    """Return the function that begins on a line and all top-level definitions that it reaches."""
    function = function_at(tree, line)
    by_name = {bound: node for node in tree.body for bound in bound_names(node)}
    reached: dict[str, ast.stmt] = {}
    todo = used_names(function)
    while todo:
        name = todo.pop()
        if name in by_name and name not in reached and name != function.name:
            reached[name] = by_name[name]
            todo += used_names(by_name[name])
    chosen = {id(node) for node in reached.values()}
    return [function, *(node for node in tree.body if id(node) in chosen)]


def function_at(tree: ast.Module, line: int) -> ast.FunctionDef:
    """Return the function whose source begins on this line, without its decorators."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = node.decorator_list[0] if node.decorator_list else node
            if first.lineno == line:
                bare = copy.copy(node)
                bare.decorator_list = []
                return bare
    raise UsageError(f"The body of a stage is a `def` in a file; no `def` begins on line {line}.")


def bound_names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a top-level statement defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    else:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                yield part.id


def used_names(node: ast.AST) -> list[str]:
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


@cache
def parsed(file: Path) -> ast.Module:
    """Return a file's syntax tree without docstrings, lone strings and `Field(description=...)`."""
    return _Bare().visit(ast.parse(file.read_bytes()))


class _Bare(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        text = node.value
        return None if isinstance(text, ast.Constant) and isinstance(text.value, str) else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "Field":
            node.keywords = [given for given in node.keywords if given.arg != "description"]
        return self.generic_visit(node)


@cache
def core_file(name: str) -> Path | None:
    """Return the file of a core module without importing it; None for any other name."""
    head, *rest = name.split(".")
    if head != sentemb_core.__name__:
        return None
    package = Path(inspect.getfile(sentemb_core)).parent.joinpath(*rest)
    for file in (package.with_suffix(".py"), package / "__init__.py"):
        if file.is_file():
            return file
    return None


@cache
def _core_dump(name: str) -> str:
    file = core_file(name)
    assert file is not None, f"{name} was reached through its file"
    return ast.dump(parsed(file))
