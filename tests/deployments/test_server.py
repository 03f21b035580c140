import socket
from dataclasses import replace

import pytest
from prefect import flow, task
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL
from prefect.states import Running

from deployments import server
from deployments.production import DEPLOYMENTS, NIGHTLY_DEMO
from deployments.server import POOL, crash_orphans, environment, free_port, set_up
from sentemb_core.errors import UsageError
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import recording


@pytest.fixture
def client(prefect_server):
    with get_client(sync_client=True) as client:
        yield client


@pytest.fixture
def api(prefect_server):
    return PREFECT_API_URL.value()


@pytest.mark.server
def test_setting_up_twice_leaves_one_of_each(client, api):
    for _ in range(2):
        set_up(api, DEPLOYMENTS)
    found = {deployment.name: deployment for deployment in client.read_deployments()}
    for wanted in DEPLOYMENTS:
        made = found[wanted.name]
        assert made.entrypoint == wanted.flow, "a module, never a file"
        assert made.work_pool_name == POOL
        assert made.global_concurrency_limit.limit == 1
        assert [entry.schedule.cron for entry in made.schedules] == (
            [wanted.cron] if wanted.cron else []
        )
    automations = client.read_automations_by_name("crash runs that stopped beating")
    assert len(automations) == 1
    assert client.read_work_pool(POOL).concurrency_limit == 1


@pytest.mark.server
def test_a_deployment_removed_from_the_list_is_deleted(client, api, capsys):
    def known():
        return {f"{deployment.name} {deployment.tags}" for deployment in client.read_deployments()}

    nightly, *others = DEPLOYMENTS
    set_up(api, DEPLOYMENTS)
    before = known()
    set_up(api, (replace(nightly, name="renamed"), *others))
    assert known() == {name.replace(nightly.name, "renamed") for name in before}
    (line,) = capsys.readouterr().err.splitlines()
    assert line.split()[-1] == nightly.name
    set_up(api, DEPLOYMENTS)
    assert known() == before


@flow
def below(): ...


@task
def calls(): ...


@pytest.mark.server
def test_runs_of_ended_processes_crash_and_set_up_spares_live_ones(client, api, home, monkeypatch):
    def called_by(run):
        call = client.create_task_run(calls, run.id, dynamic_key="0", state=Running())
        return client.create_flow_run(below, parent_task_run_id=call.id, state=Running())

    set_up(api, DEPLOYMENTS)
    deployment = client.read_deployment_by_name("demo/nightly")
    run = client.create_flow_run_from_deployment(deployment.id, state=Running())
    killed = client.create_flow_run(below, state=Running())
    lost = [run, way := called_by(run), called_by(way), killed, called_by(killed)]
    with monkeypatch.context() as patched, recording(Store(home), "living", [], {}):
        crash_orphans(api, home)  # they may be of the living run
        patched.setenv("PREFECT_API_DATABASE_CONNECTION_URL", "postgresql+asyncpg://db/prefect")
        patched.setattr(server, "START", -60.0)
        crash_orphans(api, home)  # they may be of another machine
    set_up(api, DEPLOYMENTS)  # as a second `docker compose up` does beside a worker
    assert all(client.read_flow_run(one.id).state.is_running() for one in lost)
    crash_orphans(api, home)
    assert all(client.read_flow_run(one.id).state.is_crashed() for one in lost)
    for left in lost:
        client.delete_flow_run(left.id)


@pytest.mark.server
def test_a_paused_schedule_stays_paused_after_a_restart(client, api):
    def states():
        found = client.read_deployment_by_name("demo/nightly")
        return found.paused, [(entry.schedule.cron, entry.active) for entry in found.schedules]

    later = replace(NIGHTLY_DEMO, cron="0 4 * * *")
    assert set_up(api, [NIGHTLY_DEMO]) == []
    known = client.read_deployment_by_name("demo/nightly")
    client.update_deployment_schedule(known.id, known.schedules[0].id, active=False)
    assert set_up(api, [NIGHTLY_DEMO]) == [NIGHTLY_DEMO]
    assert states() == (False, [("0 3 * * *", False)])
    assert set_up(api, [later]) == [later]
    assert states() == (False, [("0 4 * * *", False)])
    client.delete_deployment(known.id)

    set_up(api, [NIGHTLY_DEMO])
    client.pause_deployment(client.read_deployment_by_name("demo/nightly").id)
    assert set_up(api, [NIGHTLY_DEMO]) == [NIGHTLY_DEMO]
    assert states() == (True, [("0 3 * * *", True)])
    client.resume_deployment(client.read_deployment_by_name("demo/nightly").id)
    assert set_up(api, [NIGHTLY_DEMO]) == []


@pytest.mark.server
def test_an_unchanged_automation_is_not_updated(client, monkeypatch):
    """Prefect keeps what it watches by the id of the trigger, and gives a new one with each PUT."""

    def known():
        (found,) = client.read_automations_by_name(server.ZOMBIES.name)
        answer = client.request("GET", "/automations/{id}", path_params={"id": found.id}).json()
        return answer["trigger"]["id"], answer["description"]

    server.apply_automation(client)
    before = known()
    server.apply_automation(client)
    assert known() == before
    changed = server.ZOMBIES.model_copy(update={"description": "Changed."})
    monkeypatch.setattr(server, "ZOMBIES", changed)
    server.apply_automation(client)
    assert known()[1] == "Changed."


def test_a_taken_port_is_refused():
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    with taken, pytest.raises(UsageError, match=rf"E001 .*\b{port}\b.*--port 0"):
        free_port(port)
    assert free_port(0) > 0


def test_pages_and_api_share_the_port_and_the_homes_state(tmp_path):
    settings = environment(tmp_path, 4321)
    assert settings["PREFECT_UI_API_URL"] == settings["PREFECT_API_URL"]
    assert settings["PREFECT_API_URL"] == "http://127.0.0.1:4321/api"
    assert settings["PREFECT_HOME"] == str(tmp_path / "prefect")
    assert "*" not in settings["PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS"]
    assert settings["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
