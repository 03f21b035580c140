"""The installed faiss package. It is looked up without an import, which would load torch."""

from importlib.metadata import PackageNotFoundError, version

from sentemb_core.errors import UsageError

WHEELS = ("faiss-cpu", "faiss-gpu")


def installed_faiss() -> list[str]:
    """The wheels that are there."""
    return [wheel for wheel in WHEELS if _version(wheel)]


def check_faiss(*, needed: bool) -> None:
    """Refuse two wheels at once, whatever of them is used; or none where k-means is `needed`.

    Raises:
        UsageError: saying which to install.
    """
    found = installed_faiss()
    if len(found) > 1:
        raise UsageError(
            "faiss-cpu and faiss-gpu own the same folder `faiss`, and the one has overwritten "
            f"files of the other: found {' and '.join(found)}. Uninstall both, then install "
            "sentemb[cpu] or sentemb[gpu]."
        )
    if needed and not found:
        raise UsageError(
            "k-means needs faiss-cpu or faiss-gpu: found neither. Install sentemb[cpu] or "
            "sentemb[gpu]; or set clustering = 'partition'."
        )


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
