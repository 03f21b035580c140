import re

import pytest

from deployments.production import BLOG_USGOV, DEPLOYMENTS, NIGHTLY_DEMO
from flows.__main__ import app
from flows.demo import WAYS


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: deployment.name)
def test_every_deployment_has_valid_parameters(deployment):
    flow = deployment.load()
    module, _, function = deployment.flow.rpartition(".")
    assert (flow.fn.__module__, flow.fn.__name__) == (module, function)
    assert set(deployment.parameters) <= set(flow.parameters.properties)
    flow.validate_parameters(deployment.parameters)


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: deployment.name)
def test_every_description_has_a_valid_command(deployment):
    commands = re.findall(r"`python -m flows ([^`]+)`", deployment.description)
    assert commands
    for command in commands:
        app.parse_args(command)


def test_the_command_of_a_description_is_the_same_run():
    (line,) = re.findall(r"`python -m flows ([^`]+)`", BLOG_USGOV.description)
    command, bound, *_ = app.parse_args(line)
    assert command.__name__ == "demo"
    way = WAYS[bound.arguments["only"]]
    assert BLOG_USGOV.parameters["config"] == way.model_dump(mode="json")


def test_names_are_unique_and_something_runs_at_night():
    names = [(deployment.flow, deployment.name) for deployment in DEPLOYMENTS]
    assert len(set(names)) == len(names)
    assert NIGHTLY_DEMO.cron
