"""MLflow's API and pages behind the guard of Prefect's (`flows/prefect_app.py`), our runs first.

MLflow has no login either. Its own check lets the pages of all ports of this machine write to it,
and leaves out /graphql.

Run as a program, this file serves on an address: `python -m deployments.mlflow_app HOST PORT`. Its
settings are those of `mlflow server`, as environment variables.
"""

import json
import os
import sys
from pathlib import Path

from flows.prefect_app import App, Channel, Scope, guarded
from tasks.servers import EXPERIMENT

ORIGINS = "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"
"""MLflow's setting: the allowed origins, separated by commas."""

DATABASE = "MLFLOW_BACKEND_STORE_URI"
FILES = "MLFLOW_ARTIFACTS_DESTINATION"

INTERFACE = {
    "mlflow.settings.telemetry.enabled_v1": "false",
    "mlflow.telemetry.info.alert.dismissed_v1": "true",
    "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": "true",
    "mlflow.workflowType_v1": '"machine_learning"',
}
"""Entries of the browser's storage: no telemetry, no assistant unasked, training before GenAI."""

FIRST = """<script>
for (const [name, value] of Object.entries({settings})) localStorage[name] ??= value;
if (location.hash.length < 3) location.hash = {page};
</script>"""


def mlflow_app() -> App:
    """MLflow's app behind the guard; without `ORIGINS` it refuses all requests."""
    database = os.environ[DATABASE]
    pass_settings_on(database, os.environ[FILES])
    from mlflow.server.fastapi_app import app

    return guarded(with_runs_first(app, database), os.environ.get(ORIGINS, "*"))


def pass_settings_on(database: str, files: str) -> None:
    """Create the tables, and set what `mlflow server` sets for its workers."""
    from mlflow.server import constants
    from mlflow.server.handlers import initialize_backend_stores

    artifacts = "mlflow-artifacts:/"
    os.environ |= {
        constants.BACKEND_STORE_URI_ENV_VAR: database,
        constants.REGISTRY_STORE_URI_ENV_VAR: database,
        constants.ARTIFACT_ROOT_ENV_VAR: artifacts,
        constants.SERVE_ARTIFACTS_ENV_VAR: "true",
        constants.ARTIFACTS_DESTINATION_ENV_VAR: files,
    }
    initialize_backend_stores(database, database, artifacts)


def with_runs_first(app: App, database: str) -> App:
    """The app whose first page lists our runs. What a person chose in the browser stays."""

    async def answer(scope: Scope, receive: Channel, send: Channel) -> None:
        if scope["type"] == "http" and (scope["method"], scope["path"]) == ("GET", "/"):
            from fastapi.responses import HTMLResponse

            await HTMLResponse(first_page(database))(scope, receive, send)
        else:
            await app(scope, receive, send)

    return answer


def first_page(database: str) -> str:
    """MLflow's page with a script that opens the runs of our experiment."""
    import mlflow.server

    client = mlflow.MlflowClient(tracking_uri=database, registry_uri=database)
    found = client.get_experiment_by_name(EXPERIMENT)
    page = f"#/experiments/{found.experiment_id}/runs" if found else "#/experiments"
    script = FIRST.format(settings=json.dumps(INTERFACE), page=json.dumps(page))
    folder = Path(mlflow.server.__file__).parent / mlflow.server.REL_STATIC_DIR
    return (folder / "index.html").read_text("utf-8").replace("<head>", f"<head>{script}", 1)


if __name__ == "__main__":
    import uvicorn

    host, port = sys.argv[1:]
    uvicorn.run(mlflow_app, factory=True, host=host, port=int(port), log_level="warning")
