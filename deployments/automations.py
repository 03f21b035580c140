"""What the server does by itself: a run that stopped beating is declared crashed."""

from datetime import timedelta

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ActionTypes, ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

HEARTBEAT = timedelta(seconds=180)
"""Prefect's default pace (PREFECT_FLOWS_HEARTBEAT_FREQUENCY)."""

CRASHED: list[ActionTypes] = [
    ChangeFlowRunState(
        name=None,
        state=StateType.CRASHED,
        message="Three heartbeats are missing: `python -m flows resume` goes on from here.",
        force=False,
    )
]

ZOMBIES = AutomationCore(
    name="crash runs that stopped beating",
    description="A killed process cannot say so: it would stay 'Running' for ever.",
    trigger=EventTrigger(
        after={"prefect.flow-run.heartbeat"},
        expect={"prefect.flow-run.*"},
        match={"prefect.resource.id": ["prefect.flow-run.*"]},
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=3 * HEARTBEAT,
    ),
    actions=CRASHED,
)


def apply_automations(client: SyncPrefectClient) -> None:
    """Make them, or update those that changed: of these Prefect forgets which runs it watches."""
    for automation in (ZOMBIES,):
        told = automation.model_fields_set
        known = client.read_automations_by_name(automation.name)
        if not known:
            client.create_automation(automation)
        elif known[0].model_dump(include=told) != automation.model_dump(include=told):
            client.update_automation(known[0].id, automation)
