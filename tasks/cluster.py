"""Workers of a Dask cluster that runs already: `--cluster tcp://HOST:PORT`.

Stages stay tasks of the run's own Prefect, so the workers need no Prefect. Dask pickles what its
processes exchange: who reaches a scheduler runs code on it.
"""

import os
import platform
import socket
from concurrent.futures import CancelledError
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from sentemb_core.errors import ClusterError, OtherDeviceError, UsageError
from sentemb_core.redaction import first_line
from sentemb_core.store.machine import default_device, installed
from sentemb_core.store.objects import Store
from sentemb_core.store.records import Record
from tasks.workers import Job

PATIENCE = 10
"""Seconds for the scheduler's first answer; Dask's own limit is 30."""


class Cluster:
    """The workers of a Dask scheduler."""

    def __init__(self, address: str) -> None:
        """Connect, and compare the workers with this process.

        Raises:
            UsageError: The address is neither on loopback nor TLS, or Dask is absent.
            ClusterError: The scheduler does not answer, refuses the certificate, or has no worker.
            OtherDeviceError: A worker has another environment, device or store.
        """
        require_loopback_or_tls(address)
        try:
            from distributed import Client
        except ImportError as error:
            raise UsageError(
                "--cluster needs Dask, which is not installed: pip install 'sentemb[dask]'."
            ) from error
        self.address = address
        try:
            require_certificate(address)
            self._client = Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise self._lost(error) from error
        try:
            self.in_flight = 2 * self._threads()
            self._compare()
        except BaseException:
            self.stop()
            raise

    def record(self, job: Job) -> Record:
        """Return the record of a job when a worker has computed it.

        Raises:
            ClusterError: The scheduler is lost.
        """
        from distributed.client import ClosedClientError
        from distributed.comm.core import CommClosedError

        try:
            return self._client.submit(job.record, pure=False).result()
        except (CancelledError, ClosedClientError, CommClosedError) as error:
            raise self._lost(error) from error

    def stop(self) -> None:
        self._client.close(timeout=2)

    def _threads(self) -> int:
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        if not workers:
            raise ClusterError(f"A cluster needs a worker; {self.address} has none. Start one.")
        return sum(worker["nthreads"] for worker in workers)

    def _compare(self) -> None:
        ours = environment()
        try:
            theirs: Any = self._client.run(environment)
        except ImportError as error:
            raise OtherDeviceError(
                f"Each worker of {self.address} needs sentemb; found: {first_line(error)}."
            ) from error
        for worker, its in theirs.items():
            if found := [
                f"{name} {its[name]}, here {ours[name]}" for name in ours if its[name] != ours[name]
            ]:
                raise OtherDeviceError(
                    "Workers have the environment, the kind of device and the store of the run. "
                    f"Worker {worker} has {'; '.join(found)}. Start it as the run is started."
                )

    def _lost(self, error: BaseException) -> ClusterError:
        reason = first_line(error).rstrip(".")
        return ClusterError(
            f"The scheduler {self.address} must answer; found: {reason}. Finished "
            "shards are stored. Start the scheduler, check the address and the certificate, and "
            "repeat the command."
        )


def require_loopback_or_tls(address: str) -> None:
    """Refuse an address at which another machine could read and write what Dask pickles.

    Raises:
        UsageError: a plain `tcp://` address that is not on loopback, another protocol, or none.
    """
    if "://" not in address:
        raise UsageError(
            "--cluster is an address with its protocol, such as tcp://127.0.0.1:8786 or "
            f"tls://HOST:8786; found {address}."
        )
    parts = urlsplit(address)
    host = parts.hostname or ""
    try:
        loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if parts.scheme == "tls" or (parts.scheme == "tcp" and loopback):
        return
    raise UsageError(
        "Dask runs code for everyone who reaches its scheduler. So --cluster is tcp:// on "
        f"loopback, or tls:// with Dask's own TLS settings; found {address} (docs/scale.md)."
    )


def require_certificate(address: str) -> None:
    """Raise `ValueError` for a TLS address if Dask's settings name no certificate.

    Dask's client would raise `TypeError`, and delay the end of the process by 20 seconds.
    """
    from distributed import Security

    if address.startswith("tls:") and not Security().get_connection_args("client")["ssl_context"]:
        raise ValueError("no certificate of the client in Dask's TLS settings")


def environment() -> dict[str, str]:
    """Return what a worker has in common with its run: versions, kind of device, store."""
    home = f"{socket.gethostname()}:{Store.default().root.resolve()}"
    return {
        "Python": platform.python_version(),
        "sentemb": installed("sentemb") or "absent",
        "torch": installed("torch") or "absent",
        "device": default_device(),
        "store": os.environ.get("SENTEMB_STORE") or home,
    }
