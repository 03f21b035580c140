"""Fifty runs in a row through one service: what grows in its processes, and on the disk.

    python benchmarks/soak.py --runs 50

Each run is another seed of a tiny pipeline (100 posts, 10 steps), trained, reported and
registered, and asked for through Prefect's API as a schedule would. Memory and open files are those
of the processes that stay: server, worker, MLflow's pages. After every tenth run the artifacts are
made a day old and `gc` runs; at the end once more, without the versions that no alias names.
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
"""Runs between two lines of the table; the first line is what the others are compared with."""


def config(seed: int) -> InfoCSEIDC:
    """A run of seconds that goes the whole way: two encoders, a report, the gate."""
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
            time.sleep(pause)  # SQLite is being written to: ask again


@contextmanager
def service() -> Generator[Path, None, None]:
    """`python -m flows serve` with everything, while the block lasts, as a folder of /proc."""
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
    """One run from its request to its end."""
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


def staying(process: Path) -> list[Path]:
    """All that a process of /proc has started and that is there, as folders of /proc."""
    begun = [
        Path("/proc", child)
        for thread in (process / "task").iterdir()
        for child in (thread / "children").read_text().split()
    ]
    return [*begun, *(one for child in begun for one in staying(child))]


def memory(process: Path) -> int:
    """Resident bytes."""
    return int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def size(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def collected(home: Path) -> None:
    """`gc`, a day later."""
    then = time.time() - DAY
    for path in [*(home / "objects").rglob("*"), *(home / "objects").glob("??/*")]:
        os.utime(path, (then, then), follow_symlinks=False)
    subprocess.run([sys.executable, "-m", "flows", "gc"], cwd=ROOT, check=True, capture_output=True)


def forgotten() -> int:
    """Delete the registered versions that no alias names; how many they were."""
    from sentemb_core.store.objects import Store
    from tasks.mlflow_client import mlflow_client
    from tasks.model_versions import versions

    client = mlflow_client(Store.default().root)
    named = {
        int(number)
        for model in client.search_registered_models()
        for number in model.aliases.values()
    }
    loose = [version for version in versions() if version.version not in named]
    for version in loose:
        client.delete_model_version(version.name, str(version.version))
    return len(loose)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=50)
    runs = parser.parse_args().runs
    with TemporaryDirectory(prefix="sentemb-soak-") as name:
        home = Path(name) / "home"
        os.environ["SENTEMB_HOME"] = str(home)
        with service() as served:
            api, processes = (home / "server.url").read_text().strip(), staying(served)
            print("| runs | memory, MB | open files | store after gc, MB | all of the home, MB |")
            print("|---:|---:|---:|---:|---:|")
            for number in range(1, runs + 1):
                run(api, number)
                if number % EVERY == 0:
                    collected(home)
                    files = sum(len(list((process / "fd").iterdir())) for process in processes)
                    told = sum(map(memory, processes)), size(home / "objects"), size(home)
                    held, store, whole = (f"{value / 1e6:.1f}" for value in told)
                    print(f"| {number} | {held} | {files} | {store} | {whole} |", flush=True)
        count = forgotten()
        collected(home)
        print(
            f"Without {count} versions that no alias names: {size(home / 'objects') / 1e6:.1f} MB"
        )


if __name__ == "__main__":
    main()
