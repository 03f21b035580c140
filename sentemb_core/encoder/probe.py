"""Whether a foreign tokenizer and configuration stay within bounds, tried in a child process.

A few kilobytes of settings can ask for gigabytes, for minutes, or for more weights than their file
holds. The child has limits of memory and time. A folder that passed is not tried again on this
machine, nor is a folder that `checkpoint.save_encoder` wrote.

    python -m sentemb_core.encoder.probe FOLDER
"""

import hashlib
import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sentemb_core.encoder.folder_files import first_folder, is_static, read_json
from sentemb_core.encoder.safety import damaged
from sentemb_core.errors import BadDataError
from sentemb_core.redaction import first_line
from sentemb_core.types import Json

WEIGHTS = "*.safetensors"

SETTINGS = ("*.json", "*.txt", "*.model", "vocab.*")
"""Names of the files that a tokenizer and a configuration are read from."""

READING_SECONDS = 60
"""CPU time to read a tokenizer or a configuration. A vocabulary of 262,144 tokens takes 3."""

PATIENCE = 600
"""Seconds by the clock, on a busy machine or a stalled disk."""

MEMORY = 4 << 30
"""Bytes beyond those of the child after its imports."""

TEXT_SECONDS = 2
"""CPU time of the sample texts. Tokenizers of published models take less than a hundredth."""

GROWTH, FRAME = 20, 100
"""Tokens, or characters after normalisation, a byte of text, and a text besides. The longest
expansion of Unicode is 18 characters."""

TOO_MUCH = (
    f"reading it takes more than {READING_SECONDS} s, a short text more than {TEXT_SECONDS} s, or "
    f"all of it more than {MEMORY >> 30} GiB"
)

SLACK = 10_000_000
"""Values that a configuration may describe beyond those stored: a pooler, tables of positions."""

SAMPLES = (
    "The agency pays a benefit each month; claims (form 1-800-A) cost $3.50 in 1999, e.g. by mail.",
    "Crème brûlée straße Привет שלום مرحبا हिन्दी ไทย 你好世界 ひらがな 한국어 😀\ufdfa\u200b",
    *(unit * (60 // len(unit)) for unit in ("a", "A", "1", " ", ".", "ab", "a ", "\n", "é", "好")),
    "a" * 40 + "!",
)


def require_bounded(folder: Path) -> None:
    """Try the tokenizer and the configuration of a folder, unless these files are known.

    Raises:
        BadDataError: They take too much memory or time, a text becomes too long, or the
            configuration describes more weights than the folder holds.
    """
    known = _cache() / _digest(folder)
    if known.exists():
        return
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    single = dict.fromkeys(("OMP_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
    hidden = {"CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false"}
    found = ""
    with suppress(subprocess.TimeoutExpired):
        found = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", __name__, str(folder.absolute())],
            env={**os.environ, **single, **hidden, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
            text=True,
        ).stdout
    fault = json.loads(found) if found else {"bound": TOO_MUCH}
    if "damage" in fault:
        raise damaged(folder, fault["damage"])
    if "bound" in fault:
        raise BadDataError(
            "A tokenizer and a configuration need little memory and time, and the configuration "
            f"describes the weights beside it; in {folder}, {fault['bound']}. Copy the model "
            "again, or take another one."
        )
    _note(known)


def note_bounded(folder: Path) -> None:
    """Note that the files of this folder need no trial: this process wrote them."""
    _note(_cache() / _digest(folder))


def _note(known: Path) -> None:
    with suppress(OSError):  # without a place to note it, it is tried again
        known.parent.mkdir(parents=True, exist_ok=True)
        known.touch()


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "sentemb" / "bounded"


def _digest(folder: Path) -> str:
    """SHA-256 of everything that the trial reads: settings, shapes of weights, libraries."""
    digest = hashlib.sha256()
    for name in ("tokenizers", "transformers"):
        digest.update(f"{name} {version(name)}\n".encode())
    root = first_folder(folder)
    names = {path for pattern in SETTINGS for path in root.glob(pattern) if path.is_file()}
    for path in sorted(names | {folder / "modules.json"}):
        if path.is_file():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder)} {len(content)}\n".encode())
            digest.update(content)
    for path in sorted(root.glob(WEIGHTS)):
        digest.update(_header(path))
    return digest.hexdigest()


def _header(weights: Path) -> bytes:
    """The description of the tensors in a file of safetensors, or as much as there is of it."""
    with weights.open("rb") as file:
        start = file.read(8)
        size = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        return start + file.read(min(size, 100_000_000))  # the format's own limit


def main() -> None:
    """Print what is wrong with a folder, as JSON; nothing if a limit ends this process."""
    folder = Path(sys.argv[1])
    print(json.dumps(found_in(folder, limit=True)))  # noqa: T201


def found_in(folder: Path, *, limit: bool = False) -> Json:
    """Return `bound` or `damage` with what is wrong with a folder; empty if nothing is.

    With `limit`, this process ends at its limits of memory and time from here on.
    """
    try:
        bound = _bound(folder, _limit if limit else lambda _: None)
    except MemoryError:
        return {"bound": TOO_MUCH}
    except BaseException as error:
        return {"damage": first_line(error)}
    return {"bound": bound} if bound else {}


def _bound(folder: Path, limit: Callable[[int], None]) -> str:
    """What exceeds its bounds; empty if nothing does. `limit` gets the seconds of what follows."""
    root = first_folder(folder)
    if is_static(folder):
        from tokenizers import Tokenizer

        limit(READING_SECONDS)
        tokenizer = Tokenizer.from_file(str(root / "tokenizer.json"))
    else:
        from sentemb_core.encoder.checkpoint import read_tokenizer  # imports torch

        limit(READING_SECONDS)
        tokenizer = read_tokenizer(root).backend_tokenizer
    limit(TEXT_SECONDS + 1)
    if found := _bound_of_tokenizer(tokenizer):
        return found
    limit(READING_SECONDS)
    return "" if is_static(folder) else _bound_of_shape(root)


def _limit(seconds: int) -> None:
    """End this process after so many seconds of CPU time more, or above `MEMORY`."""
    import resource

    spent = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    limits = {resource.RLIMIT_CPU: int(spent) + seconds, resource.RLIMIT_CORE: 0}
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limits[resource.RLIMIT_AS] = pages * resource.getpagesize() + MEMORY
    for kind, limit in limits.items():
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (limit if hard < 0 else min(limit, hard), hard))


def _bound_of_tokenizer(tokenizer: Any) -> str:
    tokenizer.no_truncation()
    tokenizer.no_padding()
    description = json.loads(tokenizer.to_str())
    patterns = "".join(_patterns([description["normalizer"], description["pre_tokenizer"]]))
    start = time.process_time()
    for text in (*SAMPLES, patterns[:1000]):
        normalised = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
        longest = max(len(normalised), len(tokenizer.encode(text).ids))
        size = len(text.encode())
        if longest > GROWTH * size + FRAME:
            return f"a text of {size:,} bytes becomes {longest:,} tokens or characters"
        if (spent := time.process_time() - start) > TEXT_SECONDS:
            return f"the tokenizer takes {spent:.1f} s for a text of {size:,} bytes"
    return ""


def _patterns(description: Any) -> Iterator[str]:
    """Yield the texts that a normaliser replaces and at which a tokenizer splits."""
    if isinstance(description, dict):
        for key, value in description.items():
            if isinstance(value, str) and key in ("String", "Regex", "content", "replacement"):
                yield value
            yield from _patterns(value)
    elif isinstance(description, list):
        for each in description:
            yield from _patterns(each)


def _bound_of_shape(root: Path) -> str:
    """Compare the transformer that config.json describes with the sizes of the stored tensors."""
    import torch
    from transformers import AutoConfig

    from sentemb_core.encoder.checkpoint import family

    stored = dict(_stored(root))
    config: Any = AutoConfig.from_pretrained(root, trust_remote_code=False)
    layers = getattr(config, "num_hidden_layers", 0)
    if isinstance(layers, int) and layers > len(stored):
        return f"config.json describes {layers:,} layers, and {len(stored):,} tensors are stored"
    with torch.device("meta"):
        model = family(read_json(root / "config.json")).from_config(config)
    needed = sum(each.numel() for each in (*model.parameters(), *model.buffers()))
    held = min(sum(stored.values()), sum(path.stat().st_size for path in root.glob(WEIGHTS)))
    if needed > 2 * held + SLACK:
        return f"config.json describes {needed:,} values, and {held:,} are stored"
    return ""


def _stored(root: Path) -> Iterator[tuple[str, int]]:
    """Yield the tensors in the files of weights, with their numbers of values."""
    for path in root.glob(WEIGHTS):
        header: Json = json.loads(_header(path)[8:])
        for name, entry in header.items():
            if name != "__metadata__":
                size = 1
                for length in entry["shape"]:
                    size *= length
                yield f"{path.name} {name}", size


if __name__ == "__main__":
    main()
