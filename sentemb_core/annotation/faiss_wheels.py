"""The installed faiss package. It is looked up without an import, which would load torch."""

from importlib.metadata import distributions

from sentemb_core.errors import UsageError

WHEELS = ("faiss-cpu", "faiss-gpu")


def installed_faiss() -> list[str]:
    """The faiss wheels that are installed."""
    return [wheel for wheel in WHEELS if any(distributions(name=wheel))]


def check_faiss(*, needed: bool) -> None:
    """Refuse two wheels at once, and no wheel where k-means is `needed`.

    Raises:
        UsageError: With the wheels to install.
    """
    found = installed_faiss()
    if len(found) > 1:
        raise UsageError(
            "Only one faiss wheel may be installed, because both write the folder `faiss`: found "
            f"{' and '.join(found)}. Uninstall both, then install sentemb[cpu] or sentemb[gpu]."
        )
    if needed and not found:
        raise UsageError(
            "k-means needs faiss-cpu or faiss-gpu, found neither. Install sentemb[cpu] or "
            "sentemb[gpu], or set clustering = 'partition'."
        )
