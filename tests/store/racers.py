"""Source of a process that races others for one stage of one home or of one shared store."""

RACER = """
import json, os, pathlib, time
import chain
from sentemb_core.store import locks
from sentemb_core.store.objects import Store
from sentemb_core.store.stages import Stage
if os.environ.get("NO_LOCKS"):
    locks.fcntl.flock = lambda *args: None
home = pathlib.Path(os.environ.get("MEETING") or os.environ["SENTEMB_HOME"])
(home / f"ready-{os.getpid()}").touch()
while len(list(home.glob("ready-*"))) < int(os.environ["RACERS"]):
    time.sleep(0.01)
edges = chain.put("edges", 1)
model = Stage("slow", 1, chain.slow).run(Store.default(), {"edges": edges})
print(json.dumps([model.digest, len(chain.RAN)]))
"""
"""Starts when `$RACERS` processes are ready; prints the artifact and how often it was computed.

They meet in the home, or in the folder `$MEETING` if each has a home of its own.
"""
