"""python -m deployments: server, worker and schedules on loopback (`python -m flows serve`)."""

from typing import Annotated

from cyclopts import App, Parameter

from sentemb_core.console import run

app = App(name="python -m deployments", result_action="return_value")


@app.default
def serve(
    *,
    port: int = 4200,
    for_: Annotated[float | None, Parameter(name="--for", help="Seconds.")] = None,
    mlflow: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Serve Prefect's pages, a worker and the schedules until Ctrl-C or for some seconds."""
    from deployments import local
    from flows.environment import prepare

    return local.serve(prepare(), port=port, seconds=for_, mlflow=mlflow)


if __name__ == "__main__":
    raise SystemExit(run(app))
