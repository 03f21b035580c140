"""Automations of the server: a run without heartbeats is set to Crashed."""

from datetime import timedelta

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ActionTypes, ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

HEARTBEAT = timedelta(seconds=180)
"""Prefect's default interval (PREFECT_FLOWS_HEARTBEAT_FREQUENCY)."""

CRASHED: list[ActionTypes] = [
    ChangeFlowRunState(
        name=None,
        state=StateType.CRASHED,
        message="Three heartbeats are missing: `python -m flows resume` continues the run.",
        force=False,
    )
]

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
    actions=CRASHED,
)


def apply_automations(client: SyncPrefectClient) -> None:
    """Create or update the automations; an update makes Prefect forget the runs it watches."""
    for automation in (ZOMBIES,):
        fields = automation.model_fields_set
        known = client.read_automations_by_name(automation.name)
        if not known:
            client.create_automation(automation)
        elif known[0].model_dump(include=fields) != automation.model_dump(include=fields):
            client.update_automation(known[0].id, automation)
