"""A retriever as a folder: retriever.json, its encoders, and the map of its token vectors.

The root is the semantic encoder, which `SentenceTransformer(folder)` loads. A corpus table is in
the folder `table`; without a semantic encoder it is the root. A retriever of words alone has no
encoder. A folder without retriever.json is a retriever of its encoder's vectors.
"""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from sentemb_core.encoder.folder_files import read_json
from sentemb_core.encoder.safety import refuse_outside
from sentemb_core.errors import BadDataError
from sentemb_core.retriever.spec import RetrieverSpec, Vectors
from sentemb_core.types import Value

if TYPE_CHECKING:
    from sentemb_core.retriever.retriever import Retriever

RETRIEVER = "retriever.json"
TOKEN_MAP = "token_map.safetensors"
TABLE = "table"
"""Folder of the corpus table beside a semantic encoder."""

ROOT = ""
"""Folder of the first encoder."""

DENSE_ONLY = RetrieverSpec(vectors=(Vectors(folder=ROOT),))
"""A model that was saved before retrievers, or that any other program saved."""


class RetrieverFile(Value):
    """The content of retriever.json."""

    format: Literal[1] = 1
    spec: RetrieverSpec
    digests: dict[str, str]
    """SHA-256 by name: `encoder.encoder_digest` of each encoder, and the bytes of the token map."""


def save_retriever(retriever: "Retriever", folder: Path, card: str) -> None:
    """Write the retriever into `folder`, with `card` as its README.md."""
    from sentemb_core.encoder.checkpoint import save_encoder
    from sentemb_core.retriever.tokens import token_map_bytes

    folder.mkdir(parents=True, exist_ok=True)
    for name, encoder in retriever.encoders.items():
        save_encoder(encoder, folder / name, card)
    if token_map := retriever.used_token_map:
        (folder / TOKEN_MAP).write_bytes(token_map_bytes(token_map))
    (folder / "README.md").write_text(card, encoding="utf-8")
    stated = described(retriever).model_dump(mode="json")
    (folder / RETRIEVER).write_text(json.dumps(stated, indent=1) + "\n", encoding="utf-8")


def described(retriever: "Retriever") -> RetrieverFile:
    """Return what retriever.json states of a retriever."""
    from sentemb_core.encoder.checkpoint import encoder_digest
    from sentemb_core.retriever.tokens import token_map_bytes

    digests = {name: encoder_digest(encoder) for name, encoder in retriever.encoders.items()}
    if token_map := retriever.used_token_map:
        content = token_map_bytes(token_map)
        digests[TOKEN_MAP] = hashlib.sha256(content).hexdigest()
    return RetrieverFile(spec=retriever.spec, digests=digests)


def retriever_digest(retriever: "Retriever") -> str:
    """Return the SHA-256 of everything that a retriever's scores depend on."""
    stated = described(retriever).model_dump(mode="json")
    return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()


def retriever_file(folder: Path) -> RetrieverFile | None:
    """Return what retriever.json of a folder states; None without the file.

    Raises:
        BadDataError: the file is broken or of another form.
        UnsafeModelError: settings or links of the folder lead out of it.
    """
    if not (folder / RETRIEVER).is_file():
        return None
    refuse_outside(folder)
    try:
        return RetrieverFile.model_validate(read_json(folder / RETRIEVER))
    except ValidationError as error:
        first = error.errors()[0]
        raise BadDataError(
            f"{folder / RETRIEVER} states the parts of a retriever; "
            f"{'.'.join(map(str, first['loc']))}: {first['msg']}. Copy the retriever again, or "
            "open it with the version of sentemb that wrote it."
        ) from error


def load_retriever(folder: Path) -> "Retriever":
    """Return the retriever of a folder; of any other encoder's folder, its vectors alone.

    Raises:
        BadDataError: a part is missing, or has other bytes than retriever.json states.
        MissingEncoderError, UnsafeModelError, UsageError: as `checkpoint.load_encoder`.
    """
    from sentemb_core.encoder.checkpoint import load_encoder
    from sentemb_core.retriever.retriever import Retriever
    from sentemb_core.retriever.tokens import read_token_map

    stated = retriever_file(folder)
    if stated is None:
        return Retriever(DENSE_ONLY, {ROOT: load_encoder(folder)})
    spec = stated.spec
    needed = [each.folder or "model.safetensors" for each in spec.vectors]
    needed += [TOKEN_MAP] if spec.tokens else []
    if missing := [name for name in needed if not (folder / name).exists()]:
        raise BadDataError(
            f"A retriever has all parts that {RETRIEVER} states; {folder} lacks "
            f"{', '.join(missing)}. Copy the whole folder again."
        )
    encoders = {each.folder: load_encoder(folder / each.folder) for each in spec.vectors}
    token_map = read_token_map(folder / TOKEN_MAP) if spec.tokens else None
    retriever = Retriever(spec, encoders, token_map)
    found = described(retriever).digests
    if other := [name for name, digest in found.items() if stated.digests.get(name) != digest]:
        raise BadDataError(
            f"The parts of a retriever have the digests of {RETRIEVER}; in {folder} "
            f"{', '.join(name or 'the root encoder' for name in other)} has another. Copy the "
            "whole folder again."
        )
    return retriever
