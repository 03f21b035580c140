"""The run that `killed_runs.py` kills, left alone."""

import json
import os
import sys
from pathlib import Path

import torch

from flows.infocse_idc import self_train
from sentemb_core.store.objects import Store
from tasks.caching import without_prefect
from tests.flows.corpora import tiny_run

if __name__ == "__main__":
    os.environ["SENTEMB_HOME"] = sys.argv[2]
    torch.set_num_threads(1)
    with without_prefect(Store.default()):
        survivor = self_train(tiny_run(Path(sys.argv[1])), lambda row: None)
    sys.stdout.write(json.dumps({"survivor": survivor.model_dump(mode="json")}))
