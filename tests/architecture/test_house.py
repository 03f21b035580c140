"""The house stands: floors, packaging, exclusive faiss wheels, honest lock file."""

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repository import ROOT, repository_files

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
EXTRAS = PROJECT["optional-dependencies"]
OURS = SETTINGS["tool"]["ruff"]["lint"]["isort"]["known-first-party"]
CONTRACTS = {
    contract["name"].partition(":")[0]: contract
    for contract in SETTINGS["tool"]["importlinter"]["contracts"]
}


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_an_arrow_between_the_floors_points_down_only():
    linted = run(str(Path(sys.executable).with_name("lint-imports")), "--no-cache")
    assert linted.returncode == 0, linted.stdout


def test_the_whole_ground_floor_touches_no_file_and_no_clock():
    ground = CONTRACTS["The floors of the core"]["layers"][-1].split(" : ")
    held = CONTRACTS["The ground floor touches no file and no clock"]["source_modules"]
    assert held == [f"sentemb_core.{module}" for module in ground]


def wheel_in(folder: Path) -> Path:
    built = run(
        *(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"),
        *("--wheel-dir", str(folder), "."),
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_the_wheel_carries_the_core_alone_and_is_the_same_whenever_it_is_built(tmp_path: Path):
    wheel = wheel_in(tmp_path / "now")
    assert wheel_in(tmp_path / "later").read_bytes() == wheel.read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"sentemb_core"}


def test_an_editable_checkout_makes_every_floor_importable_from_anywhere(tmp_path: Path):
    found = run(
        *(sys.executable, "-c", "import deployments, flows, sentemb_core, tasks; print('all')"),
        cwd=tmp_path,
    )
    assert found.stdout.strip() == "all", found.stderr


def test_the_core_imports_without_an_orchestrator_or_a_tracker():
    code = (
        "import sys, pkgutil, importlib, sentemb_core\n"
        "for m in pkgutil.walk_packages(sentemb_core.__path__, 'sentemb_core.'):\n"
        "    importlib.import_module(m.name)\n"
        "print(sorted({'prefect', 'mlflow'} & set(sys.modules)))"
    )
    found = run(sys.executable, "-W", "ignore", "-c", code)
    assert found.stdout.strip() == "[]", found.stderr


def locked() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text().split()
    pins = dict(line.split("==") for line in lines)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pins.items()}


def wanted(extras: Iterable[str] = tuple(EXTRAS)) -> list[Requirement]:
    """Of the core and of these extras."""
    lists = (PROJECT["dependencies"], *(EXTRAS[extra] for extra in extras))
    return [Requirement(text) for texts in lists for text in texts]


def test_the_lock_pins_every_dependency_inside_its_bounds():
    pins = locked()
    for requirement in wanted():
        if requirement.name == "faiss-gpu":
            continue  # exclusive twin of faiss-cpu
        assert requirement.specifier.contains(pins[requirement.name]), requirement


def test_the_environment_is_the_locked_one():
    drifted = {
        name: (version, metadata.version(name))
        for name, version in locked().items()
        if metadata.version(name).split("+")[0] != version
    }
    assert not drifted


def test_the_two_faiss_wheels_are_never_both_there():
    installed = {dist.metadata["Name"].lower() for dist in metadata.distributions()}
    assert not {"faiss-cpu", "faiss-gpu"} <= installed


def imported(file: Path) -> set[str]:
    """The modules at the top that a file imports, wherever in it."""
    nodes = list(ast.walk(ast.parse((ROOT / file).read_text("utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    ("floor", "extras"),
    [
        ("sentemb_core", []),
        ("tasks", ["flows"]),
        ("flows", ["flows"]),
        ("deployments", ["flows"]),
        ("benchmarks", [*EXTRAS]),
        ("tests", [*EXTRAS]),
    ],
)
def test_what_a_floor_imports_of_others_is_declared_for_it(floor: str, extras: list[str]):
    """That another dependency brings it along today is no promise."""
    declared = {canonicalize_name(requirement.name) for requirement in wanted(extras)}
    packages = metadata.packages_distributions()
    files = [file for file in repository_files() if file.parts[0] == floor and file.suffix == ".py"]
    foreign = {name for file in files for name in imported(file)}
    foreign -= {*sys.stdlib_module_names, *OURS}
    undeclared = {
        name
        for name in foreign
        if declared.isdisjoint(map(canonicalize_name, packages.get(name, [name])))
    }
    assert foreign
    assert undeclared == set()


def test_every_dependency_has_its_reason():
    text = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    rows = "".join(re.findall(r"^\|.*?\|", text, re.MULTILINE))
    told = set(re.findall(r"`([\w-]+)", rows))
    assert {requirement.name for requirement in wanted()} - told == set()


def test_a_commit_is_held_to_what_make_check_runs():
    makefile = (ROOT / "Makefile").read_text()
    (recipe,) = re.findall(r"^check:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    hooks = {tool(hook["entry"]) for hook in local["hooks"]}
    assert hooks == {tool(line) for line in recipe.splitlines()}


def tool(command: str) -> str:
    """`ruff check`, of `$(BIN)/ruff check --fix .`."""
    return re.match(r"[a-z-]+( [a-z]+)?", command.rpartition("/")[2])[0]


@pytest.mark.parametrize("folder", ["flows", "tasks", "sentemb_core", "deployments", "tests"])
def test_the_readme_of_a_floor_says_what_lives_there_what_never_does_and_why(folder: str):
    text = (ROOT / folder / "README.md").read_text("utf-8")
    told, _, decisions = text.partition("\n## Decisions\n")
    assert told.startswith(f"# {folder}: ")
    for part in ("What never lives here", r"Adding an? [a-z]+"):
        assert re.search(rf"^\*\*{part}:\*\* \S.{{40}}", told, re.MULTILINE), part
    lines = decisions.splitlines()
    assert lines
    assert all(re.match(r"- \*20\d\d-[01]\d-[0-3]\d\* .{40}", line) for line in lines), lines


def test_the_readme_of_the_core_has_its_floors_as_the_contract_has_them():
    text = (ROOT / "sentemb_core" / "README.md").read_text("utf-8")
    rows = re.findall(r"^\|[^|]+\| `([^`]+)` \|[^|]+\|$", text, re.MULTILINE)
    told = [{name.removesuffix("/").removesuffix(".py") for name in row.split()} for row in rows]
    layers = CONTRACTS["The floors of the core"]["layers"]
    assert told == [set(layer.split(" : ")) for layer in layers]


def test_the_repository_ships_only_data_it_may_ship():
    shipped = [file.name for file in repository_files() if file.suffix == ".parquet"]
    allowed = ("blog_usgov", "long_elife", "pairs_scitldr_")
    assert "blog_usgov.parquet" in shipped
    assert [name for name in shipped if not name.startswith(allowed)] == []


@pytest.mark.parametrize("door", ["sentemb_core.cli", "flows"])
def test_help_imports_nothing_heavy(door: str):
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['{door}', '--help']\n"
        "try:\n"
        f"    runpy.run_module('{door}', run_name='__main__')\n"
        "except SystemExit:\n"
        "    pass\n"
        "heavy = {'torch', 'transformers', 'prefect', 'mlflow', 'datasets', 'pyarrow', 'numpy'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=environment
    )
    assert done.stdout.splitlines()[-1] == "HEAVY []", done.stdout + done.stderr
