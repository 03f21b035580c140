"""Import contracts, packaging, dependencies and shipped data."""

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


def test_import_contracts_hold():
    linted = run(str(Path(sys.executable).with_name("lint-imports")), "--no-cache")
    assert linted.returncode == 0, linted.stdout


def test_every_ground_module_may_import_neither_files_nor_clock():
    ground = CONTRACTS["Layers of the core"]["layers"][-1].split(" : ")
    checked = CONTRACTS["The lowest layer reads no file and no clock"]["source_modules"]
    parts = ("pairs", "views", "negation", "info_nce")
    assert checked == [
        *(f"sentemb_core.{module}" for module in ground),
        *(f"sentemb_core.methods.parts.{module}" for module in parts),
    ]


def wheel_in(folder: Path) -> Path:
    built = run(
        *(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"),
        *("--wheel-dir", str(folder), "."),
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_the_wheel_contains_the_core_alone_and_is_reproducible(tmp_path: Path):
    wheel = wheel_in(tmp_path / "now")
    assert wheel_in(tmp_path / "later").read_bytes() == wheel.read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "sentemb_core/py.typed" in names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"sentemb_core"}


def test_an_editable_install_makes_all_packages_importable(tmp_path: Path):
    found = run(
        *(sys.executable, "-c", "import deployments, flows, sentemb_core, tasks; print('all')"),
        cwd=tmp_path,
    )
    assert found.stdout.strip() == "all", found.stderr


def test_the_core_imports_neither_prefect_nor_mlflow():
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
    """Requirements of the core and of these extras."""
    lists = (PROJECT["dependencies"], *(EXTRAS[extra] for extra in extras))
    return [Requirement(text) for texts in lists for text in texts]


def test_the_lock_pins_every_dependency_within_its_bounds():
    pins = locked()
    for requirement in wanted():
        if requirement.name == "faiss-gpu":
            continue  # exclusive twin of faiss-cpu
        assert requirement.specifier.contains(pins[requirement.name]), requirement


def test_the_environment_equals_the_lock():
    drifted = {
        name: (version, metadata.version(name))
        for name, version in locked().items()
        if metadata.version(name).split("+")[0] != version
    }
    assert not drifted


def test_only_one_faiss_wheel_is_installed():
    installed = {dist.metadata["Name"].lower() for dist in metadata.distributions()}
    assert not {"faiss-cpu", "faiss-gpu"} <= installed


def imported(file: Path) -> set[str]:
    """Top-level packages that a file imports, anywhere in the file."""
    nodes = list(ast.walk(ast.parse((ROOT / file).read_text("utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    ("floor", "extras"),
    [
        ("sentemb_core", []),
        ("tasks", ["flows", "dask"]),
        ("flows", ["flows"]),
        ("deployments", ["flows"]),
        ("benchmarks", [*EXTRAS]),
        ("tests", [*EXTRAS]),
    ],
)
def test_imported_packages_are_declared(floor: str, extras: list[str]):
    """A package that another dependency happens to install does not count."""
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


def test_every_dependency_has_a_reason():
    text = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    rows = "".join(re.findall(r"^\|.*?\|", text, re.MULTILINE))
    explained = set(re.findall(r"`([\w-]+)", rows))
    assert {requirement.name for requirement in wanted()} - explained == set()


def test_pre_commit_runs_the_tools_of_make_check():
    makefile = (ROOT / "Makefile").read_text()
    (recipe,) = re.findall(r"^check:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    hooks = {tool(hook["entry"]) for hook in local["hooks"]}
    assert hooks == {tool(line) for line in recipe.splitlines()}


def tool(command: str) -> str:
    """The tool of a command: `ruff check` of `$(BIN)/ruff check --fix .`."""
    return re.match(r"[a-z-]+( [a-z]+)?", command.rpartition("/")[2])[0]


def test_the_repository_contains_only_permitted_data():
    shipped = [file.name for file in repository_files() if file.suffix == ".parquet"]
    allowed = ("blog_usgov", "long_elife", "pairs_scitldr_")
    assert "blog_usgov.parquet" in shipped
    assert [name for name in shipped if not name.startswith(allowed)] == []


@pytest.mark.parametrize("module", ["sentemb_core.cli", "flows"])
def test_help_imports_nothing_heavy(module: str):
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['{module}', '--help']\n"
        "try:\n"
        f"    runpy.run_module('{module}', run_name='__main__')\n"
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
