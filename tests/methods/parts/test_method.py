"""How a method adds up its terms."""

import logging
import re

import pytest

from sentemb_core.config.run import TrainingConfig
from sentemb_core.methods.catalogue import method_for
from tests import tiny


@pytest.mark.parametrize(
    ("method", "similarity", "values"),
    [
        ("conpono", "dot", r"conpono .*\bdot .* 0\.05:.*method\.temperature=1,"),
        ("fine_tune", "dot", r"fine_tune .*\bdot .*encoder\.similarity=cosine"),
        ({"name": "hicl", "segment": 8}, "dot", r"hicl .*\bdot .* 0\.05:"),
        ({"name": "conpono", "temperature": 1.0}, "cosine", r"conpono .*\bcosine .* 1:"),
        (
            {"name": "infocse_idc", "temperature": 2.0},
            "cosine",
            r"infocse_idc .*\bcosine .* 2:.*encoder\.similarity=dot",
        ),
        ({"name": "conpono", "temperature": 1.0}, "dot", None),
        ("conpono", "cosine", None),
        ("sg_opt", "dot", None),
        ("clm_autoencoder", "dot", None),
        ({"name": "clm_autoencoder", "simcse": 1.0}, "dot", r"clm_autoencoder .*\bdot .* 0\.05:"),
        ("is_bert", "dot", None),
    ],
)
def test_an_unusual_temperature_gives_one_warning(method, similarity, values, caplog):
    with caplog.at_level(logging.WARNING):
        method_for(TrainingConfig(method=method).method, tiny.bert(similarity=similarity))
    warnings = [line for line in caplog.messages if "temperature" in line]
    assert len(warnings) == (values is not None)
    assert all(re.search(values, line) for line in warnings)
