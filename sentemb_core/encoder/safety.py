"""What is refused before anything in a model folder is read: pickles, foreign code, no model."""

from pathlib import Path

from sentemb_core.encoder.json_files import read_json
from sentemb_core.errors import MissingEncoderError, UnsafeModelError

PICKLED = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib"}
"""Endings of files whose reading can run code."""

KNOWN_CODE = "sentence_transformers."


def refuse_pickles(folder: Path, *, unless_beside_safetensors: bool = False) -> None:
    """Refuse a folder with pickled weights.

    Args:
        folder: A model folder.
        unless_beside_safetensors: Published models often carry their weights in both forms; the
            pickle is then left unread.

    Raises:
        UnsafeModelError: Naming the files.
    """
    found = sorted(path for path in folder.rglob("*") if path.suffix in PICKLED)
    if not found or (unless_beside_safetensors and any(folder.glob("*.safetensors"))):
        return
    names = ", ".join(str(path.relative_to(folder)) for path in found[:5])
    raise UnsafeModelError(
        f"Weights are read from safetensors alone, for a pickle can run code; {folder} holds "
        f"{names}. Remove what is not needed, or save the model again with safetensors."
    )


def refuse_code(folder: Path) -> None:
    """Refuse a folder that names Python code of its own.

    Raises:
        UnsafeModelError: Naming the file and what it names.
    """
    for name in ("config.json", "tokenizer_config.json"):
        if "auto_map" in read_json(folder / name):
            raise UnsafeModelError(
                f"Code that comes with a model is never run, and {folder / name} names some "
                "(auto_map). Take an encoder whose architecture transformers itself knows."
            )
    for entry in read_json(folder / "modules.json", default=[]):
        if not str(entry.get("type")).startswith(KNOWN_CODE):
            raise UnsafeModelError(
                f"Code that comes with a model is never run; {folder / 'modules.json'} names "
                f"{entry.get('type')!r}. Modules must be classes of {KNOWN_CODE}*"
            )


def require_weights(folder: Path) -> None:
    """See that a folder is one of an encoder.

    Raises:
        MissingEncoderError: It is not.
    """
    if not any(folder.glob("*.safetensors")):
        raise MissingEncoderError(
            f"An encoder's weights lie in a safetensors file, and {folder} has none. Check the "
            "path; a model published as a pickle alone must be saved again as safetensors."
        )
