import pytest

from deployments.production import DEPLOYMENTS, NIGHTLY_DEMO


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: deployment.name)
def test_every_deployment_is_a_flow_whose_parameters_it_takes(deployment):
    flow = deployment.load()
    module, _, function = deployment.flow.rpartition(".")
    assert (flow.fn.__module__, flow.fn.__name__) == (module, function)
    assert set(deployment.parameters) <= set(flow.parameters.properties)
    flow.validate_parameters(deployment.parameters)


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: deployment.name)
def test_every_deployment_is_a_lab_note(deployment):
    assert "python -m flows" in deployment.description
    assert "minute" in deployment.description


def test_names_are_unique_and_something_runs_at_night():
    names = [(deployment.flow, deployment.name) for deployment in DEPLOYMENTS]
    assert len(set(names)) == len(names)
    assert NIGHTLY_DEMO.cron
