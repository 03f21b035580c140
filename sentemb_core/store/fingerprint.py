"""A fingerprint of the code that a stage can reach: it changes when the code does, not its prose.

The closure is computed statically from absolute imports, so nothing is imported to ask. What is
hashed are syntax trees without comments, docstrings and line numbers.
"""

import ast
import copy
import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import sentemb_core
from sentemb_core.errors import UsageError

NEUTRAL = {
    "sentemb_core.config.run": "the values a stage reads enter its key by themselves",
    "sentemb_core.encoder.card": "words about an encoder; `publish_encoder` names it among its own",
    "sentemb_core.errors": "a message changes no result, and a failure is never recorded",
    "sentemb_core.progress": "how far a stage is changes nothing of it",
    "sentemb_core.report": "pages and figures are read by people alone",
    "sentemb_core.store": "where results are kept does not change them",
    "sentemb_core.config.suite": "the task that a stage scores enters its key by itself",
    "sentemb_core.types": "names for values without behaviour",
}
"""Modules (with all below them) that do not enter, and why."""


@cache  # a plan asks for each stage dozens of times, and no process sees its own code change
def code_fingerprint(function: Callable[..., Any], modules: tuple[str, ...] = ()) -> str:
    """SHA-256 over a function, what it uses of its own module, and all core modules they reach.

    Decorators do not enter: how often a stage is tried again does not change its result.

    Args:
        function: A stage's body.
        modules: Modules of the core that enter besides: those imported by a computed name, and
            NEUTRAL ones that do change this stage's result.

    Raises:
        UsageError: the function closes over variables, whose values no source text shows.
    """
    function = inspect.unwrap(function)
    if function.__closure__:
        raise UsageError(
            f"A stage sees its arguments and its module alone, {function.__qualname__} closes over "
            f"{', '.join(function.__code__.co_freevars)}: pass them as arguments."
        )
    nodes = definitions(parsed(Path(inspect.getfile(function))), function.__code__.co_firstlineno)
    roots = {name for node in nodes for name in imported(node)} | set(modules)
    reached = sorted({*closure(roots, core_file), *modules})
    digest = hashlib.sha256()
    for text in (*map(ast.dump, nodes), *(f"{name} {_core_dump(name)}" for name in reached)):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


def closure(roots: Iterable[str], file_of: Callable[[str], Path | None]) -> list[str]:
    """Names of the package's modules that these import, directly or not, sorted.

    `file_of` gives a module's file, or none for what is not a module of the package.
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
    """The packages whose `__init__` runs when a module is imported."""
    pieces = name.split(".")
    return [".".join(pieces[:count]) for count in range(1, len(pieces))]


def is_neutral(name: str) -> bool:
    return any(name == left_out or name.startswith(f"{left_out}.") for left_out in NEUTRAL)


def imported(node: ast.AST) -> list[str]:
    """Dotted names that a piece of code may import: for `from a import b`, both `a` and `a.b`."""
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
    """The function that begins on a line, then what it uses of its module's top, and so on."""
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
    """The function whose source begins on this line, without its decorators."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = node.decorator_list[0] if node.decorator_list else node
            if first.lineno == line:
                bare = copy.copy(node)
                bare.decorator_list = []
                return bare
    raise UsageError(f"The body of a stage is a `def` in a file; none begins on line {line}.")


def bound_names(node: ast.stmt) -> Iterator[str]:
    """Names that a statement at the top of a module defines."""
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
    """The syntax tree of a file without docstrings, lone strings and `Field(description=...)`."""
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
    """The file of a core module, found without importing it; none for any other name."""
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
