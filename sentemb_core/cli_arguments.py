"""Checks of positional arguments, before anything slow is loaded."""

from pathlib import Path

from sentemb_core.encoder.names import has_encoder, locate_encoder
from sentemb_core.errors import UsageError


def require_arguments(order: str, model: str, *others: str) -> None:
    """Check the order of the arguments, and that the encoder may exist.

    Raises:
        UsageError, MissingEncoderError: as `require_order` and `locate_encoder`.
    """
    require_order(order, model, *others)
    locate_encoder(model)


def require_order(order: str, *given: str) -> None:
    """Check that documents or an index are the last argument, and no other argument.

    Args:
        order: Names of the arguments, separated by blanks.
        given: Their values.

    Raises:
        UsageError: a path of data in another place.
    """
    *others, (name, last) = zip(order.split(), given, strict=True)
    for place, value in others:
        if _is_data(value) and not _is_data(last):
            raise UsageError(
                f"The order is {order}. Found data ({value!r}) as {place}, and {last!r} as {name}: "
                "swap them."
            )


def _is_data(value: str) -> bool:
    """Whether a path exists that may be a corpus or an index."""
    try:
        return Path(value).exists() and not has_encoder(value)
    except OSError:  # longer than a path can be
        return False


def require_free(source: str, out: Path, *, overwrite: bool) -> None:
    """Check that vectors overwrite a file only on request, and never their own documents.

    Raises:
        UsageError: the file exists, or holds the documents.
    """
    if not out.exists():
        return
    if Path(source).exists() and out.samefile(source):
        raise UsageError(f"{out} holds the documents. Name another file for their vectors.")
    if not overwrite:
        raise UsageError(f"{out} exists. Name another file, or replace it with --overwrite.")
