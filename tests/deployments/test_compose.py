"""compose.yaml and Dockerfile, checked without building them."""

import ast
import re

import pytest
import yaml

from deployments import mlflow_app
from deployments.server import POOL
from flows import prefect_app
from tests.repository import ROOT

DOCKERFILE = (ROOT / "deployments" / "Dockerfile").read_text("utf-8")
COMPOSE = (ROOT / "deployments" / "compose.yaml").read_text("utf-8")
SERVICES = yaml.safe_load(COMPOSE)["services"]
STAYING = sorted(set(SERVICES) - {"set_up"})


def instructions(name: str) -> list[str]:
    joined = DOCKERFILE.replace("\\\n", " ")
    return re.findall(rf"^{name} (.*)$", joined, re.MULTILINE)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_on_loopback_without_capabilities_and_waits_for_healthy_ones(name):
    service = SERVICES[name]
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:"), port
    for needed, how in service.get("depends_on", {}).items():
        ends = needed not in STAYING
        wanted = "service_completed_successfully" if ends else "service_healthy"
        assert how == {"condition": wanted}
    if name in STAYING:
        check = service["healthcheck"]
        assert check["test"][0] in ("CMD", "CMD-SHELL")
        assert check["retries"] * int(check["interval"].rstrip("s")) >= 60
    if name != "database":
        assert service["image"] == "sentemb:local"
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_file_holds_no_password():
    assert "password" not in re.sub(
        r"\$\{POSTGRES_PASSWORD:\?[^}]*\}", "", COMPOSE
    ).lower().replace("postgres_password", "")


def test_prefect_knows_all_settings():
    from prefect import settings

    named = {name for service in SERVICES.values() for name in service.get("environment", {})}
    known = {name for name in named if name.startswith("PREFECT_")}
    assert known
    assert {name for name in known if not hasattr(settings, name)} == set()


def test_both_servers_are_guarded_and_allow_the_worker_and_their_pages():
    worker = SERVICES["worker"]["environment"]
    for name, module, address in (
        ("server", prefect_app, "PREFECT_API_URL"),
        ("mlflow", mlflow_app, "MLFLOW_TRACKING_URI"),
    ):
        server = SERVICES[name]
        assert server["command"][:3] == ["python", "-m", module.__name__]
        called = [worker[address]]
        called += [f"http://{port.rpartition(':')[0]}" for port in server["ports"]]
        own = server["environment"][module.ORIGINS].split(",")
        assert {url.removesuffix("/api") for url in called} <= set(own)
    pages = SERVICES["server"]["environment"]["PREFECT_UI_API_URL"]
    assert pages.removesuffix("/api") in SERVICES["server"]["environment"][prefect_app.ORIGINS]
    settings = SERVICES["mlflow"]["environment"]
    assert {mlflow_app.DATABASE, mlflow_app.FILES} <= set(settings)


def test_the_worker_uses_our_pool_and_set_up_runs():
    assert SERVICES["worker"]["command"][:5] == ["prefect", "worker", "start", "--pool", POOL]
    program = ast.parse(SERVICES["set_up"]["command"][-1])
    namespace = {}
    imports = [line for line in program.body if isinstance(line, ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), "set_up", "exec"), namespace)
    (call,) = [line.value for line in program.body if isinstance(line, ast.Expr)]
    assert callable(namespace[call.func.id])
    assert namespace[call.args[1].id], "deployments"
    assert call.args[0].value == SERVICES["worker"]["environment"]["PREFECT_API_URL"]


def test_the_image_is_the_locked_environment():
    assert instructions("FROM") == ["python:3.11-slim-bookworm"]
    runs = instructions("RUN")
    assert "-r requirements.lock" in runs[0]
    assert "--no-deps" in runs[1]


def test_every_copied_path_exists_and_is_not_ignored():
    copied = [name for line in instructions("COPY") for name in line.split()[:-1]]
    ignored = (ROOT / "deployments" / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored
    packages = {"sentemb_core", "tasks", "flows", "deployments"}
    assert packages <= set(copied)


def test_nothing_runs_as_root():
    (user,) = instructions("USER")
    assert int(user) > 1_000
    after = DOCKERFILE[DOCKERFILE.index("\nUSER ") :]
    assert "RUN" not in after
