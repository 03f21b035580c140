import json
import re

import pytest

from deployments.production import BLOG_USGOV, DEPLOYMENTS, NIGHTLY_DEMO, Deployment
from flows.__main__ import app
from flows.demo import WAYS


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


def test_what_a_lab_note_runs_by_hand_is_the_same_run():
    (told,) = re.findall(r"`python -m flows ([^`]+)`", BLOG_USGOV.description)
    command, bound, *_ = app.parse_args(told)
    assert command.__name__ == "demo"
    way = WAYS[bound.arguments["only"]]
    assert BLOG_USGOV.parameters["config"] == way.model_dump(mode="json")


def test_the_config_that_a_run_leaves_is_what_its_deployment_takes():
    config = json.dumps(WAYS["nothing"].model_dump(mode="json"))  # as it lies beside the report
    own = Deployment(
        name="news",
        flow="flows.infocse_idc.infocse_idc",
        cron="0 2 * * *",
        parameters={"config": json.loads(config)},
        description="",
    )
    own.load().validate_parameters(own.parameters)


def test_names_are_unique_and_something_runs_at_night():
    names = [(deployment.flow, deployment.name) for deployment in DEPLOYMENTS]
    assert len(set(names)) == len(names)
    assert NIGHTLY_DEMO.cron
