"""python -m deployments: server, worker and schedules on loopback (`python -m flows serve`)."""

from typing import Annotated

from cyclopts import Parameter, validators

from sentemb_core import console

app = console.command_line(
    "python -m deployments", "Prefect server, worker and schedules on loopback."
)


@app.default
def serve(
    *,
    port: Annotated[
        int,
        Parameter(validator=validators.Number(gte=0, lte=65_535), help="0: any free one."),
    ] = 4200,
    for_: Annotated[float | None, Parameter(name="--for", help="Seconds.")] = None,
    mlflow: Annotated[bool, Parameter(help="MLflow's pages too.")] = False,
) -> int:
    """Serve Prefect's pages, a worker and the schedules until Ctrl-C or for some seconds."""
    from deployments import local
    from flows.environment import prepare

    return local.serve(prepare(), port=port, seconds=for_, mlflow=mlflow)


if __name__ == "__main__":
    console.main(app)
