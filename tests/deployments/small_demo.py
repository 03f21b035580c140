"""A flow run as a worker starts it, with ways of the demo that are small.

    python tests/deployments/small_demo.py WAYS

The file of that name has the config of each way.
"""

import json
import runpy
import sys
from pathlib import Path

from flows import demo
from sentemb_core.config.run import InfoCSEIDC

if __name__ == "__main__":
    configs = json.loads(Path(sys.argv.pop()).read_text("utf-8"))
    demo.WAYS = {way: InfoCSEIDC.model_validate(config) for way, config in configs.items()}
    runpy.run_module("prefect.engine", run_name="__main__")
