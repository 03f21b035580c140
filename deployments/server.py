"""The Prefect server of the service: environment, limits, work pool, deployments, automations."""

import os
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import (
    ConcurrencyLimitConfig,
    ConcurrencyLimitStrategy,
    FlowRun,
    StateType,
)
from prefect.deployments.runner import RunnerDeployment
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound
from prefect.schedules import Cron
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Crashed
from prefect.types.entrypoint import EntrypointType
from prefect.workers.process import ProcessWorker

from deployments.processes import Children
from deployments.production import Deployment
from flows.prefect_app import ORIGINS, own_origins
from sentemb_core.console import remark
from sentemb_core.errors import SentembError, UsageError
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs
from sentemb_core.termination import check
from tasks.servers import answers

RUNS_AT_ONCE = 1
"""A training uses all cores; two at once take longer than one after the other."""

ONE_AFTER_THE_OTHER = ConcurrencyLimitConfig(
    limit=RUNS_AT_ONCE, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE
)
"""Per deployment: a late nightly run does not overlap the next one."""

HEARTBEAT = timedelta(seconds=180)
"""Prefect's default interval (PREFECT_FLOWS_HEARTBEAT_FREQUENCY)."""

ZOMBIES = AutomationCore(
    name="crash runs that stopped beating",
    description="A killed process cannot report its end: the run would stay 'Running'.",
    trigger=EventTrigger(
        after={"prefect.flow-run.heartbeat"},
        expect={"prefect.flow-run.*"},
        match={"prefect.resource.id": ["prefect.flow-run.*"]},
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=3 * HEARTBEAT,
    ),
    actions=[
        ChangeFlowRunState(
            name=None,
            state=StateType.CRASHED,
            message="Three heartbeats are missing: `python -m flows resume` continues the run.",
            force=False,
        )
    ],
)


POOL = "sentemb"

LOOPBACK = "127.0.0.1"
"""The only address to listen on: every client of the API can run code."""

PATIENCE = 300.0
"""Seconds for a start: 21 with a new database on a busy machine, and disks stall."""

UNDER_WAY = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]

DATABASES = {"PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL"}
"""Variables that name a database outside the home; other machines may run flows in it."""

START = 60.0
"""Seconds that a flow run may be older than the record of its run."""


def environment(home: Path, port: int) -> dict[str, str]:
    """The environment of server, worker and runs: all state in the home, no telemetry."""
    api = f"http://{LOOPBACK}:{port}/api"
    return os.environ | {
        "SENTEMB_HOME": str(home),
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_API_URL": api,
        "PREFECT_UI_API_URL": api,  # else the pages call port 4200
        ORIGINS: own_origins(port),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "PREFECT_WORKER_QUERY_SECONDS": "3",
        "DO_NOT_TRACK": "1",
    }


def free_port(port: int) -> int:
    """Return the port if it is free on loopback (else E001); for 0 any free port."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
        except OSError as error:
            raise UsageError(
                f"Port {port} of {LOOPBACK} cannot be used ({error.strerror}): choose another one "
                "with --port, or --port 0 for any free one."
            ) from error
        return trial.getsockname()[1]


def wait_for(url: str, children: Children) -> None:
    """Wait until a child answers at an address; an error if one has ended, or none answers in time.

    Another program may have taken the port since it was free; then the child ends.
    """
    port = urlsplit(url).port
    assert port, "an address of ours names its port"
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        children.require_alive()
        check()
        if answers(url, patience=2) and children.listens(port):
            return
        time.sleep(0.2)
    raise SentembError(f"{url} did not answer in {PATIENCE:.0f} s; see {children.logs}.")


def set_up(api: str, deployments: Iterable[Deployment]) -> list[Deployment]:
    """Create or update pool, automation and deployments, delete others; return the paused ones.

    A renamed or removed deployment would otherwise keep its schedule.
    """
    with temporary_settings({PREFECT_API_URL: api}), get_client(sync_client=True) as client:
        template = ProcessWorker.get_default_base_job_template()
        pool = WorkPoolCreate(
            name=POOL,
            type="process",
            base_job_template=template,
            concurrency_limit=RUNS_AT_ONCE,
        )
        client.create_work_pool(pool, overwrite=True)
        apply_automation(client)
        kept = {deploy(client, deployment): deployment for deployment in deployments}
        paused: list[Deployment] = []
        ours = WorkPoolFilter(name=WorkPoolFilterName(any_=[POOL]))
        for known in client.read_deployments(work_pool_filter=ours):
            if known.id not in kept:
                client.delete_deployment(known.id)
                remark(f"deployment deleted, as it is not in the list: {known.name}")
            elif any(known.paused or not schedule.active for schedule in known.schedules):
                paused.append(kept[known.id])
        return paused


def apply_automation(client: SyncPrefectClient) -> None:
    """Create or update the automation; an update makes Prefect forget the runs it watches."""
    fields = ZOMBIES.model_fields_set
    known = client.read_automations_by_name(ZOMBIES.name)
    if not known:
        client.create_automation(ZOMBIES)
    elif known[0].model_dump(include=fields) != ZOMBIES.model_dump(include=fields):
        client.update_automation(known[0].id, ZOMBIES)


def deploy(client: SyncPrefectClient, deployment: Deployment) -> UUID:
    """Create or update a deployment, whose flow is imported, not copied; return its id.

    A paused schedule stays paused, even if its hour changes.
    """
    flow = deployment.load()
    paused, active = False, True
    with suppress(ObjectNotFound):
        known = client.read_deployment_by_name(f"{flow.name}/{deployment.name}")
        paused, active = known.paused, all(schedule.active for schedule in known.schedules)
    built = flow.to_deployment(
        name=deployment.name,
        schedule=Cron(deployment.cron, active=active) if deployment.cron else None,
        paused=paused,
        parameters=deployment.parameters,
        description=deployment.description,
        tags=list(deployment.tags),
        concurrency_limit=ONE_AFTER_THE_OTHER,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    deployment_id = cast(RunnerDeployment, built).apply(work_pool_name=POOL)
    return cast(UUID, deployment_id)  # outside a flow the call is synchronous


def crash_orphans(api: str, home: Path) -> None:
    """Set the runs of ended workers and processes to Crashed: they would stay 'Running'.

    Call it only while no worker of the pool is alive. Runs since the start of the oldest living run
    of this home stay as they are, and so do all runs of a database that is not the home's.
    """
    if DATABASES & os.environ.keys():
        return
    living = [run.began for run in last_runs(Store(home)) if run.state == "running"]
    before = min(living, default=time.time() + START) - START
    under_way = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=UNDER_WAY)))
    ended = Crashed(message="Its process ended without a report.")
    with temporary_settings({PREFECT_API_URL: api}), get_client(sync_client=True) as client:

        def orphans() -> list[FlowRun]:
            known = client.read_flow_runs(flow_run_filter=under_way)
            return [run for run in known if run.created and run.created.timestamp() < before]

        while runs := orphans():  # the server returns at most 200
            for run in runs:
                client.set_flow_run_state(run.id, ended, force=True)
