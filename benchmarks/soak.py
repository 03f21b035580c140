"""Fifty runs in a row through one service: growth of memory, open files and disk.

    python benchmarks/soak.py --runs 50

Each run is another seed of a tiny pipeline (100 posts, 10 steps) with report and registration. It
is requested through Prefect's API, like a scheduled run. Memory and open files are those of the
permanent processes: server, worker, MLflow's pages. After every tenth run the artifacts become a
day old and `gc` runs. At the end `gc` runs once more, without the versions that have no alias.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flows.demo import SAMPLE, WAYS
from sentemb_core.config.run import InfoCSEIDC

ROOT = Path(__file__).parents[1]
DAY = 24 * 3600.0
EVERY = 10
"""Runs between two lines of the table; the first line is the baseline."""


def config(seed: int) -> InfoCSEIDC:
    """Return a run of some seconds with all parts: two encoders, a report, the gate."""
    tiny = WAYS["nothing"].model_dump(mode="json")
    tiny |= {"name": "soak", "control": False}
    tiny["encoder"] |= {"seed": seed}
    tiny["corpus"] |= SAMPLE.model_dump(mode="json") | {"max_documents": 100}
    tiny["rounds"] |= {"max_rounds": 1, "patience": 1}
    tiny["training"] |= {"steps": 10}
    return InfoCSEIDC.model_validate(tiny)


def call(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    for pause in (1, 5, 25, None):
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            if refused.code != HTTPStatus.SERVICE_UNAVAILABLE or pause is None:
                raise
            time.sleep(pause)  # SQLite is busy: ask again


@contextmanager
def service() -> Generator[Path, None, None]:
    """Start `python -m flows serve --mlflow` for this block; yield its folder in /proc."""
    command = [sys.executable, "-m", "flows", "serve", "--port", "0", "--mlflow"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            if not any(line.startswith("Ready") for line in process.stdout):
                sys.exit("The service did not start.")
            yield Path("/proc", str(process.pid))
        finally:
            process.terminate()


def run(api: str, seed: int) -> None:
    """Request one run and wait for its end."""
    deployment = call(f"{api}/deployments/name/infocse-idc/blog-usgov")
    body = {"parameters": {"config": config(seed).model_dump(mode="json")}}
    asked = call(f"{api}/deployments/{deployment['id']}/create_flow_run", body)
    while True:
        state = call(f"{api}/flow_runs/{asked['id']}")["state"]
        if state["type"] == "COMPLETED":
            return
        if state["type"] in ("FAILED", "CRASHED", "CANCELLED"):
            sys.exit(f"Run {seed} is {state['name']}: {state['message']}")
        time.sleep(0.5)


def descendants(process: Path) -> list[Path]:
    """Return the living descendants of a process, as folders of /proc."""
    children = [
        Path("/proc", child)
        for thread in (process / "task").iterdir()
        for child in (thread / "children").read_text().split()
    ]
    return [*children, *(each for child in children for each in descendants(child))]


def memory(process: Path) -> int:
    """Return the resident bytes of a process."""
    return int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def size(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def collect_garbage(home: Path) -> None:
    """Make the artifacts a day old and run `gc`."""
    then = time.time() - DAY
    for path in [*(home / "objects").rglob("*"), *(home / "objects").glob("??/*")]:
        os.utime(path, (then, then), follow_symlinks=False)
    subprocess.run([sys.executable, "-m", "flows", "gc"], cwd=ROOT, check=True, capture_output=True)


def delete_versions_without_alias() -> int:
    """Delete the registered versions without an alias; return their number."""
    from sentemb_core.store.objects import Store
    from tasks.registry import versions
    from tasks.servers import mlflow_client

    client = mlflow_client(Store.default().root)
    with_alias = {
        int(number)
        for model in client.search_registered_models()
        for number in model.aliases.values()
    }
    unused = [version for version in versions() if version.version not in with_alias]
    for version in unused:
        client.delete_model_version(version.name, str(version.version))
    return len(unused)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=50)
    runs = parser.parse_args().runs
    with TemporaryDirectory(prefix="sentemb-soak-") as name:
        home = Path(name) / "home"
        os.environ["SENTEMB_HOME"] = str(home)
        with service() as served:
            api, processes = (home / "server.url").read_text().strip(), descendants(served)
            print("| runs | memory, MB | open files | store after gc, MB | all of the home, MB |")
            print("|---:|---:|---:|---:|---:|")
            for number in range(1, runs + 1):
                run(api, number)
                if number % EVERY == 0:
                    collect_garbage(home)
                    files = sum(len(list((process / "fd").iterdir())) for process in processes)
                    sizes = sum(map(memory, processes)), size(home / "objects"), size(home)
                    resident, store, whole = (f"{value / 1e6:.1f}" for value in sizes)
                    print(f"| {number} | {resident} | {files} | {store} | {whole} |", flush=True)
        count = delete_versions_without_alias()
        collect_garbage(home)
        print(f"Without {count} unaliased versions: {size(home / 'objects') / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
