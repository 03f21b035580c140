"""A Prefect server as this house uses it: its environment, its pool, its deployments."""

import os
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import StateType
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound
from prefect.schedules import Cron
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Crashed
from prefect.types.entrypoint import EntrypointType
from prefect.workers.process import ProcessWorker

from deployments.automations import apply_automations
from deployments.limits import ONE_AFTER_THE_OTHER, RUNS_AT_ONCE
from deployments.processes import Children
from deployments.production import Deployment
from flows.prefect_app import ORIGINS, own_origins
from sentemb_core.console import remark
from sentemb_core.errors import SentembError, UsageError
from tasks.servers import answers

POOL = "sentemb"

LOOPBACK = "127.0.0.1"
"""The one address that is listened on: who reaches the API can run code."""

PATIENCE = 300.0
"""Seconds for a start; 21 were seen for a new database on a busy machine, and disks stall."""

UNDER_WAY = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]


def environment(home: Path, port: int) -> dict[str, str]:
    """Of server, worker and runs: all their state is in the home, nothing calls home."""
    api = f"http://{LOOPBACK}:{port}/api"
    return os.environ | {
        "SENTEMB_HOME": str(home),
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_API_URL": api,
        "PREFECT_UI_API_URL": api,  # else the pages ask port 4200, whatever the port
        ORIGINS: own_origins(port),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_WORKER_QUERY_SECONDS": "3",
        "DO_NOT_TRACK": "1",
    }


def free_port(port: int) -> int:
    """The port of loopback itself, if nobody listens there; for 0 any port that is free.

    Raises:
        UsageError: it is taken.
    """
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
        except OSError as error:
            raise UsageError(
                f"Port {port} of {LOOPBACK} cannot be used ({error.strerror}): name another with "
                "--port, or any free one with --port 0."
            ) from error
        return trial.getsockname()[1]


def wait_for(url: str, children: Children) -> None:
    """Wait until a child answers at an address.

    The port was free a while ago: who has taken it since may answer too, and the child that then
    cannot have it ends.

    Raises:
        SentembError: a child ended, or none answers in time.
    """
    port = urlsplit(url).port
    assert port, "an address of ours names its port"
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        children.require_alive()
        if answers(url, patience=2) and children.listens(port):
            return
        time.sleep(0.2)
    raise SentembError(f"{url} did not answer in {PATIENCE:.0f} s; see {children.logs}.")


def set_up(api: str, deployments: Iterable[Deployment]) -> list[Deployment]:
    """Work pool, automations and deployments, made or brought up to date; the pool has no others.

    One that was renamed or taken out of the list would run by its schedule for ever. Returns those
    whose schedule is paused.
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
        apply_automations(client)
        kept = {deploy(client, deployment): deployment for deployment in deployments}
        paused: list[Deployment] = []
        ours = WorkPoolFilter(name=WorkPoolFilterName(any_=[POOL]))
        for found in client.read_deployments(work_pool_filter=ours):
            if found.id not in kept:
                client.delete_deployment(found.id)
                remark(f"The deployment {found.name} is in the list no more: its schedule ends.")
            elif any(found.paused or not schedule.active for schedule in found.schedules):
                paused.append(kept[found.id])
        return paused


def deploy(client: SyncPrefectClient, deployment: Deployment) -> UUID:
    """The id of a deployment that the server is told of. The flow is imported, never copied.

    What a person paused stays paused, at another hour too.
    """
    flow = deployment.load()
    paused, active = False, True
    with suppress(ObjectNotFound):
        known = client.read_deployment_by_name(f"{flow.name}/{deployment.name}")
        paused, active = known.paused, all(schedule.active for schedule in known.schedules)
    made = flow.to_deployment(
        name=deployment.name,
        schedule=Cron(deployment.cron, active=active) if deployment.cron else None,
        paused=paused,
        parameters=deployment.parameters,
        description=deployment.description,
        tags=list(deployment.tags),
        concurrency_limit=ONE_AFTER_THE_OTHER,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    made = cast(RunnerDeployment, made).apply(work_pool_name=POOL)  # synchronous outside a flow
    return cast(UUID, made)


def crash_orphans(api: str) -> None:
    """Runs of a worker that ended with its server would be 'Running' for ever, and block others.

    So would the rounds in them. Only for who knows that no worker of the pool is alive: a live
    one's runs would crash as well.
    """
    under_way = FlowRunFilterState(type=FlowRunFilterStateType(any_=UNDER_WAY))
    with temporary_settings({PREFECT_API_URL: api}), get_client(sync_client=True) as client:
        orphans = level = client.read_flow_runs(
            flow_run_filter=FlowRunFilter(state=under_way),
            work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[POOL])),
        )
        while level:
            parents = FlowRunFilterParentFlowRunId(any_=[run.id for run in level])
            level = client.read_flow_runs(
                flow_run_filter=FlowRunFilter(state=under_way, parent_flow_run_id=parents)
            )
            orphans = level + orphans
        for run in orphans:  # a parent last: its rounds are found through it alone
            client.set_flow_run_state(run.id, Crashed(message="Its worker ended."), force=True)
