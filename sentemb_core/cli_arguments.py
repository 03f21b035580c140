"""What stands in which place of a verb: told before anything is loaded.

`sentemb` and `python -m flows` ask the same.
"""

from pathlib import Path

from sentemb_core.encoder.names import has_encoder, locate_encoder
from sentemb_core.errors import UsageError


def require_places(order: str, model: str, *others: str) -> None:
    """The order, and that there may be an encoder: told before torch is loaded."""
    require_order(order, model, *others)
    locate_encoder(model)


def is_folder(encoder: str) -> bool:
    """Whether an encoder of this name is a folder that is here; `./minilm` is one called so."""
    from sentemb_core.config.run import (
        BUILT_IN_ENCODERS,  # pydantic, which `--help` does not wait for
    )

    return encoder not in BUILT_IN_ENCODERS and Path(encoder).is_dir()


def is_checkpoint(encoder: str) -> bool:
    """Whether it is whole as it is: of the registry, or a folder that names its modules."""
    return encoder.startswith("models:") or (
        is_folder(encoder) and (Path(encoder) / "modules.json").is_file()
    )


def require_order(order: str, *given: str) -> None:
    """Before anything is loaded: documents or an index stand last, and nowhere else.

    Args:
        order: Names of the places, a blank between them.
        given: What stands there.

    Raises:
        UsageError: what belongs there stands in another place.
    """
    *others, (name, last) = zip(order.split(), given, strict=True)
    for place, text in others:
        if _is_data(text) and not _is_data(last):
            raise UsageError(
                f"The order is {order}; found {text!r}, a file or a folder without an encoder, as "
                f"the {place}, and {last!r} as the {name}: swap them."
            )


def _is_data(text: str) -> bool:
    """Whether something lies at a path that may be a corpus or an index."""
    try:
        return Path(text).exists() and not has_encoder(text)
    except OSError:  # longer than a path can be
        return False


def require_free(source: str, out: Path, *, overwrite: bool) -> None:
    """That a file of vectors takes the place of no other unasked, and of its documents never."""
    if not out.exists():
        return
    if Path(source).exists() and out.samefile(source):
        raise UsageError(
            f"{out} holds the documents, and would be overwritten with their vectors: name "
            "another file."
        )
    if not overwrite:
        raise UsageError(
            f"`encode` writes a new file, and {out} is there: name another one, or replace it "
            "with --overwrite."
        )
