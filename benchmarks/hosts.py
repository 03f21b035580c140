"""Run on two hosts, which are network namespaces of this machine, and compare with one process.

    python -m benchmarks.hosts      # as root

The first host has the scheduler, the run and MLflow; the second has S3. Each host has a Dask
worker. Each process has a home of its own. The exit code is 1 if a result differs, or if more
shards than lost workers are computed twice.
"""

import os
import subprocess
import sys
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from sentemb_core.errors import ClusterError
from sentemb_core.store.objects import Store
from sentemb_core.store.records import all_records
from sentemb_core.types import ArtifactRef
from tests.flows.corpora import tiny_run, write_corpus
from tests.waiting import soon

ROOT = Path(__file__).parents[1]
ONE, TWO = HOSTS = ("10.77.0.1", "10.77.0.2")
SCHEDULER = f"tls://{ONE}:8786"
MLFLOW = f"http://{ONE}:5000"

DOCUMENTS, FULL = 240, 100
"""Documents, and sentences of a full shard."""

ENCODED = 4
"""Encoded shards after which a process is killed."""

TIMED = "draw_report"
"""The stage whose result has times: it differs between any two runs."""

S3 = """
import signal, sys
from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem
ThreadedMotoServer(sys.argv[1], port=9000, verbose=False).start()
S3FileSystem().mkdir("shared")
signal.pause()
"""

LOAD = """
import sys
from sentence_transformers import SentenceTransformer
from tasks.registered_encoders import find_encoder
folder = find_encoder(sys.argv[1])
print(folder, SentenceTransformer(str(folder)).encode(["storm"]).shape)
"""


class Network:
    """Two network namespaces with a cable between them, and processes in them by their homes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names = {host: f"s{os.getpid()}-{number}" for number, host in enumerate(HOSTS, 1)}
        self._running: dict[Path, subprocess.Popen[bytes]] = {}
        self._environment = os.environ | tls_settings(folder)
        self._environment |= {
            "AWS_ENDPOINT_URL": f"http://{TWO}:9000",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }

    def connect(self) -> None:
        one, two = self._names.values()
        for name in (one, two):
            call("ip", "netns", "add", name)
        cable = "type", "veth", "peer", "name", two, "netns", two
        call("ip", "-n", one, "link", "add", one, *cable)
        for host, name in self._names.items():
            call("ip", "-n", name, "address", "add", f"{host}/24", "dev", name)
            for link in (name, "lo"):
                call("ip", "-n", name, "link", "set", link, "up")

    def start(self, host: str, home: Path, *words: str, **environment: str) -> None:
        """Start Python on a host; its output is a file of its home."""
        home.mkdir(parents=True, exist_ok=True)
        with (home / "output").open("ab") as output:
            self._running[home] = subprocess.Popen(
                ["ip", "netns", "exec", self._names[host], sys.executable, *words],
                cwd=ROOT,
                env=self._environment | {"SENTEMB_HOME": str(home)} | environment,
                stdout=output,
                stderr=output,
            )

    def end(self, home: Path, expected: int = 0) -> None:
        """Wait for a process, and check its exit status."""
        status = self._running.pop(home).wait()
        output = (home / "output").read_text("utf-8")
        assert status == expected, f"{home.name} ended with {status}: {output[-2000:]}"

    def kill(self, *homes: Path) -> None:
        for home in homes:
            if process := self._running.pop(home, None):
                process.kill()
                process.wait()

    def close(self) -> None:
        self.kill(*self._running.copy())
        for name in self._names.values():
            subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)


def call(*words: str) -> None:
    try:
        subprocess.run(words, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        found = getattr(error, "stderr", None) or error
        sys.exit(f"Two hosts need root, iproute2 and openssl; `{' '.join(words)}`: {found}")


def tls_settings(folder: Path) -> dict[str, str]:
    """Return Dask's settings for a new certificate, which all its processes share."""
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    options = "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=sentemb"
    call("openssl", "req", *options, "-keyout", key, "-out", certificate)
    settings = {"CA_FILE": certificate}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        settings |= {f"{role}__CERT": certificate, f"{role}__KEY": key}
    return {f"DASK_DISTRIBUTED__COMM__TLS__{name}": value for name, value in settings.items()}


class Way:
    """A run on both hosts, with homes and a shared store of its own."""

    def __init__(self, network: Network, name: str, config: Path) -> None:
        self.network, self.name, self.config = network, name, config
        self.workers: list[Path] = []

    def undisturbed(self) -> int:
        self._start()
        self._end()
        return 0

    def worker_killed(self) -> int:
        self._start()
        self._kill_in_encoding(self.workers[1])
        self._end()
        return 1

    def scheduler_killed(self) -> int:
        """Return how many workers were lost: both end with the scheduler, and two others start."""
        self._start()
        self._kill_in_encoding(self._home("scheduler"))
        self._end(ClusterError.exit_code)
        self._start("resume")
        self._end()
        return 2

    def results(self) -> dict[str, list[ArtifactRef]]:
        return results_in(self._home("run"), *self.workers)

    def computed(self, stage: str = "*") -> list[int]:
        """Return how many shards each worker has computed."""
        return [len(all_records(Store(worker), stage)) for worker in self.workers]

    def _start(self, *verb: str) -> None:
        """Start the cluster, and the run on it."""
        serve = "--no-dashboard", "--dashboard-address", "127.0.0.1:0", "--host"
        scheduler = "dask", "scheduler", "--port", "8786", *serve, f"tls://{ONE}"
        self._python(ONE, "scheduler", *scheduler)
        for host in HOSTS:
            home = self._home(f"worker-{len(self.workers) + 1}")
            worker = "dask", "worker", SCHEDULER, "--nthreads", "1", "--no-nanny"
            self._python(
                host, home.name, *worker, "--local-directory", str(home), *serve, f"tls://{host}"
            )
            soon(lambda home=home: "Registered to" in (home / "output").read_text("utf-8"))
            self.workers.append(home)
        self._python(ONE, "run", "flows", *(verb or ("run", "--config", str(self.config))))

    def _end(self, expected: int = 0) -> None:
        self.network.end(self._home("run"), expected)
        self.network.kill(*self.workers[-2:], self._home("scheduler"))

    def _python(self, host: str, name: str, *words: str) -> None:
        shared = {"SENTEMB_STORE": f"s3://shared/{self.name}", "MLFLOW_TRACKING_URI": MLFLOW}
        self.network.start(host, self._home(name), "-m", *words, **shared)

    def _home(self, name: str) -> Path:
        return self.network.folder / self.name / name

    def _kill_in_encoding(self, home: Path) -> None:
        soon(lambda: sum(self.computed("encode_sentences")) >= ENCODED, pause=0.01)
        self.network.kill(home)


def results_in(*homes: Path) -> dict[str, list[ArtifactRef]]:
    """Return the outputs of all stages by their keys."""
    records = chain.from_iterable(all_records(Store(home)) for home in homes)
    return {record.id: record.outputs for record in records if record.stage != TIMED}


def write_configs(folder: Path) -> tuple[Path, Path]:
    """Write a corpus and the settings of its run, in one process and on the cluster."""
    source = write_corpus(folder / "documents.jsonl", DOCUMENTS)
    config = tiny_run(source, rounds={"max_rounds": 1}, control=False)
    corpus = config.corpus.model_copy(update={"shard_sentences": FULL})
    config = config.model_copy(update={"corpus": corpus})
    alone, cluster = folder / "alone.json", folder / "cluster.json"
    alone.write_text(config.model_dump_json(), "utf-8")
    config = config.model_copy(update={"cluster": SCHEDULER})
    cluster.write_text(config.model_dump_json(), "utf-8")
    return alone, cluster


def start_servers(network: Network) -> None:
    network.start(TWO, network.folder / "s3", "-c", S3, TWO)
    home = network.folder / "mlflow"
    settings = {
        "MLFLOW_BACKEND_STORE_URI": f"sqlite:///{home}/mlflow.db",
        "MLFLOW_ARTIFACTS_DESTINATION": home.as_uri(),
        "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": MLFLOW,
    }
    network.start(ONE, home, "-m", "deployments.mlflow_app", ONE, "5000", **settings)


def main() -> int:
    with TemporaryDirectory(prefix="sentemb-hosts-") as name:
        network = Network(Path(name))
        try:
            network.connect()
            return compare(network)
        finally:
            network.close()


def compare(network: Network) -> int:
    """Print a row for each way; return 1 if one is not as it must be."""
    folder = network.folder
    start_servers(network)
    alone, cluster = write_configs(folder)
    network.start(ONE, folder / "alone", "-m", "flows", "run", "--config", str(alone))
    network.end(folder / "alone")
    expected, wrong = results_in(folder / "alone"), 0
    print("way               shards of each worker  computed twice  equal results")
    for run in (Way.undisturbed, Way.worker_killed, Way.scheduler_killed):
        way = Way(network, run.__name__, cluster)
        lost = run(way)
        found, shards = way.results(), way.computed()
        twice = sum(shards) - len(results_in(*way.workers))
        equal = sum(found.get(key) == outputs for key, outputs in expected.items())
        print(f"{way.name:18}{shards!s:23}{twice:<16}{equal} of {len(expected)}", flush=True)
        wrong += twice > lost or found != expected
    network.start(
        TWO, folder / "second", "-c", LOAD, "models:/tiny@challenger", MLFLOW_TRACKING_URI=MLFLOW
    )
    network.end(folder / "second")
    print((folder / "second" / "output").read_text("utf-8"))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
