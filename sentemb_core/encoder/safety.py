"""Checks of a model folder before anything in it is loaded.

Nothing from outside, no pickle, no code; weights and a tokenizer of a known kind. Imports neither
torch nor transformers.
"""

import json
import os
import re
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from sentemb_core.encoder.folder_files import (
    first_folder,
    module_paths,
    read_json,
    refuse_pointer,
)
from sentemb_core.encoder.names import HEAD_FILE
from sentemb_core.errors import (
    BadDataError,
    MissingEncoderError,
    SentembError,
    UnsafeModelError,
    UsageError,
)
from sentemb_core.redaction import first_line

PICKLED = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib"}
"""Endings of files that can run code when they are loaded."""

SETTINGS = ("*config*.json", "modules.json", "retriever.json", "*.index.json")
"""Files in which a model may name other files; vocabularies hold texts only."""

NOTES = {"_name_or_path", "name_or_path", "special_tokens_map_file", "tokenizer_file"}
"""Entries in which published models note where they were trained. Nothing opens these paths."""

TEXTS = re.compile(
    r".*_tokens?|added_tokens_decoder|prompts|chat_template|(default_)?prompt_name|id2label|"
    r"label2id|task_specific_params"
)
"""Entries of texts, which may look like paths."""

ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")

OTHER_FORMATS = {".onnx": "ONNX", ".gguf": "GGUF", ".h5": "TensorFlow", ".msgpack": "Flax"}

TOKENIZERS = ("tokenizer.json", "vocab.*", "*.model")
"""Names of files that hold a vocabulary."""

OUTSIDE = re.compile(r"[/\\~]|[A-Za-z]:[/\\]|file:|(.*[/\\])?\.\.([/\\].*)?$", re.DOTALL)
"""An absolute path, or one with the part `..`."""


@contextmanager
def reading(folder: Path) -> Generator[None]:
    """Raise what goes wrong in the block as an error of this folder; errors of ours stay.

    Raises:
        BadDataError: A file is damaged or incomplete.
    """
    try:
        yield
    except SentembError:
        raise
    except BaseException as error:  # every file format has errors of its own
        if isinstance(error, Exception) or is_panic(error):
            raise damaged(folder, first_line(error)) from error
        raise


@contextmanager
def tokenising() -> Generator[None]:
    """Raise a tokenizer's panic over a text in the block as an error of ours.

    Raises:
        BadDataError: The tokenizer gave up.
    """
    try:
        yield
    except BaseException as error:
        if not is_panic(error):
            raise
        raise BadDataError(
            f"A tokenizer reads every text; this one gave up: {first_line(error).rstrip('.')}. "
            "Take another encoder, or save this one with another tokenizer."
        ) from error


def damaged(folder: Path, reason: str) -> BadDataError:
    """Return the error of a model folder that cannot be read."""
    return BadDataError(
        f"The encoder in {folder} is damaged or incomplete: {reason.rstrip('.')}. Copy or save it "
        "again."
    )


def is_panic(error: BaseException) -> bool:
    """Whether a library in Rust gave up. Such an exception is no `Exception`."""
    return type(error).__name__ == "PanicException"


def is_special(path: Path) -> bool:
    """Return whether a path is a FIFO, a device or a socket: to open it may wait for ever."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # absent, or no path
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def require_ordinary(path: Path) -> None:
    """Check before opening that a path is no FIFO, device or socket.

    Raises:
        OSError: it is.
    """
    if is_special(path):
        raise OSError("it is a FIFO, a device or a socket")


def refuse_outside(folder: Path) -> None:
    """Refuse a folder whose settings or links lead out of it.

    A snapshot in a cache of Hugging Face consists of links into the model's own `blobs`.

    Raises:
        UnsafeModelError: With the file, and the entry or the place that it leads to.
    """
    root = folder.resolve()
    for path in sorted(root.rglob("*")):  # which does not enter a linked folder
        if path.is_symlink():
            _refuse_link(path, root)
        if is_special(path):
            raise UnsafeModelError(
                f"A model folder has files alone; {path} is a FIFO, a device or a socket. Copy the "
                "encoder again."
            )
        if path.is_file() and any(fnmatch(path.name, pattern) for pattern in SETTINGS):
            for key, text in _named_paths(path):
                if OUTSIDE.match(text):
                    raise UnsafeModelError(
                        "The settings of a model name files of its own folder, by relative paths "
                        f"without '..'; {folder / path.relative_to(root)} has {key} = "
                        f"{text[:200]!r}. Correct the entry in a copy of the folder, or save the "
                        "model again."
                    )
    for path, key, value in _tokenizer_inputs(first_folder(root)):
        raise UnsafeModelError(
            "A tokenizer is read from the files of its folder, and they hold its vocabulary; "
            f"{path} has {key} = {value[:200]}. Save the tokenizer again."
        )


def _tokenizer_inputs(root: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield entries that transformers takes for the path of a vocabulary: file, key and value."""
    settings = root / "tokenizer_config.json"
    if inputs := read_json(settings).get("init_inputs"):
        yield settings, "init_inputs", str(inputs)
    for path in sorted(root.glob("tokenizer*.json")):
        model = read_json(path).get("model")
        for key in ("vocab", "merges"):
            if isinstance(model, dict) and isinstance(model.get(key), str):
                yield path, f"model.{key}", model[key]


def _refuse_link(path: Path, root: Path) -> None:
    target = Path(os.path.realpath(path))  # of links in a circle: one of them
    blobs = _own_blobs(root)
    if target.is_relative_to(root) or (blobs and target.is_file() and target.parent == blobs):
        return
    raise UnsafeModelError(
        "A link in a model folder leads to a file of this folder (or, in a cache of Hugging Face, "
        f"to a blob of the same model); {path} leads to {target}. Copy the folder with its files: "
        "`cp -rL` replaces links by files."
    )


def _own_blobs(root: Path) -> Path | None:
    """Return the folder of blobs beside the snapshot that this folder is in, if it is in one."""
    for folder in (root, *root.parents):
        model = folder.parent.parent
        if folder.parent.name == "snapshots" and model.name.startswith("models--"):
            return model / "blobs"
    return None


def _named_paths(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the texts in a JSON file, with their keys, except notes and entries of texts."""
    try:
        waiting: list[tuple[str, Any]] = [("", json.loads(file.read_text(encoding="utf-8")))]
    except (ValueError, RecursionError):  # its reader names the fault
        return
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, list):
            waiting += [(key, each) for each in value]
        elif isinstance(value, dict):
            waiting += [
                (name, each)
                for name, each in value.items()
                if name not in NOTES and not TEXTS.fullmatch(name)
            ]


def refuse_pickles(folder: Path, *, unless_beside_safetensors: bool = False) -> None:
    """Refuse a folder with pickled weights.

    With `unless_beside_safetensors`, pickles beside safetensors are accepted, as many published
    models have both. They are never read.

    Raises:
        UnsafeModelError: With the names of the files.
    """
    found = sorted(path for path in folder.rglob("*") if path.suffix in PICKLED)
    if not found or (unless_beside_safetensors and any(first_folder(folder).glob("*.safetensors"))):
        return
    names = ", ".join(str(path.relative_to(folder)) for path in found[:5])
    raise UnsafeModelError(
        "Weights are read from safetensors only, because a pickle can run code. "
        f"{folder} holds {names}. Remove these files, or save the model again with safetensors."
    )


def refuse_code(folder: Path) -> None:
    """Refuse a folder that names Python code of its own.

    Raises:
        UnsafeModelError: With the file and the code that it names.
        BadDataError: A file of settings is broken.
    """
    for path in {folder, first_folder(folder)}:
        for name in ("config.json", "tokenizer_config.json"):
            for key, value in read_json(path / name).items():
                kernel = key.endswith("_implementation") and "/" in str(value)
                if key == "auto_map" or kernel:
                    raise UnsafeModelError(
                        f"Code that comes with a model is never run, and {path / name} names some "
                        f"({key}: {str(value)[:80]}). Take an encoder whose architecture is part "
                        "of transformers."
                    )


def require_weights(folder: Path) -> None:
    """Refuse a folder without weights in safetensors, or with weights of a kind that is not read.

    Raises:
        MissingEncoderError: There are no weights, or they are in another format or not fetched.
        UsageError: They are of an adapter, quantised, or of an unknown first module.
        BadDataError: A file of settings is broken.
    """
    root = first_folder(folder)
    _refuse_kinds(folder, root)
    if any(path.name != HEAD_FILE for path in root.glob("*.safetensors")):
        return
    formats = sorted({OTHER_FORMATS.get(path.suffix, "") for path in folder.rglob("*")} - {""})
    found = f"weights for {' and '.join(formats)} only" if formats else "none"
    raise MissingEncoderError(
        f"An encoder's weights are a safetensors file, and {root} has {found}. Check the path. "
        "A model that is published in another format only must be saved again as safetensors."
    )


def _refuse_kinds(folder: Path, root: Path) -> None:
    """Refuse weights that would be ignored, or read wrongly."""
    kinds = [kind for kind, _ in module_paths(folder)]
    if kinds and kinds[0] not in ("Transformer", "StaticEmbedding"):
        raise UsageError(
            "The first module of an encoder is a Transformer or a StaticEmbedding; "
            f"{folder / 'modules.json'} has {kinds[0]!r}. Take another encoder."
        )
    for path in sorted(folder.rglob("*")):
        if path.name in ADAPTER_FILES:
            raise UsageError(
                f"An adapter such as LoRA is merged into its model before it is read; {path} is "
                "not. Merge it (`merge_and_unload()` of peft) and save the model, or remove the "
                "adapter's files from a copy of the folder to use the model without it."
            )
        if path.suffix in (".model", ".safetensors", ".txt") and path.is_file():
            refuse_pointer(path)
    if stated := read_json(root / "config.json").get("quantization_config"):
        raise UsageError(
            f"An encoder's weights are float32, float16 or bfloat16; {root / 'config.json'} has "
            f"quantization_config with {str(stated.get('quant_method'))!r}. Take the model "
            "before it was quantised, or save it again after `model.dequantize()`."
        )


def require_tokenizer(folder: Path) -> None:
    """Refuse a folder without a vocabulary; transformers would read each word as unknown.

    Raises:
        MissingEncoderError: There is no file of a tokenizer.
    """
    root = first_folder(folder)
    if not any(path.is_file() for pattern in TOKENIZERS for path in root.glob(pattern)):
        raise MissingEncoderError(
            f"An encoder has the files of its tokenizer ({', '.join(TOKENIZERS)}); {root} has "
            "no such file. Copy them from the model that it was trained from, or download it again."
        )
