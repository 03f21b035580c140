"""kubernetes.yaml, checked against the API's own schema and this project's options."""

import re
from copy import deepcopy
from typing import Any

import kubernetes_validate
import pytest
import yaml

from flows.cli.settings import settings
from tests.repository import ROOT

JOB: Any = yaml.safe_load((ROOT / "deployments" / "kubernetes.yaml").read_text("utf-8"))
POD: Any = JOB["spec"]["template"]["spec"]


def validate(job: Any) -> None:
    kubernetes_validate.validate(job, "1.33", strict=True)


def test_the_job_fits_the_schema_and_a_misspelt_field_does_not():
    validate(JOB)
    misspelt = deepcopy(JOB)
    misspelt["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(misspelt)


def test_the_pod_has_no_rights_that_a_run_does_not_need():
    assert POD["securityContext"]["runAsNonRoot"]
    assert not POD["automountServiceAccountToken"]
    for container in POD["containers"]:
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert not container["securityContext"]["allowPrivilegeEscalation"]
        assert "KEY" not in "".join(each["name"] for each in container["env"])
    user = re.search(
        r"^USER (\d+)$", (ROOT / "deployments" / "Dockerfile").read_text("utf-8"), re.M
    )
    assert user
    assert POD["securityContext"]["runAsUser"] == int(user[1])


def test_its_command_is_a_run_whose_home_is_a_volume():
    (container,) = POD["containers"]
    command, options = container["command"], container["args"]
    assert command[:4] == ["python", "-m", "flows", "run"]
    values = dict(zip(options[::2], options[1::2], strict=True))
    config = settings(
        None,
        {
            "corpus.source": command[4],
            "encoder.name": "static",
            "workers": int(values.pop("--workers")),
            "name": values.pop("--name"),
            "corpus.id_column": values.pop("--id-column"),
            "corpus.text_column": values.pop("--text-column"),
        },
        [],
    )
    assert not values
    assert config.workers == int(container["resources"]["requests"]["cpu"])
    mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in POD["volumes"]}
    assert "emptyDir" in volumes[mounts["/var/lib/sentemb"]]
    assert any(config.corpus.source.startswith(place) for place in mounts)
