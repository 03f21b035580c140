"""An encoder's folder as an MLflow model: the very same bytes, and beside them what MLflow reads.

    model/MLmodel, model/requirements.txt, model/canaries.parquet,
    model/model.sentence_transformer/<the encoder's files>

This is the layout of MLflow's sentence-transformers flavor, written without it: the flavor would
load the encoder (an optional dependency, half a minute to infer requirements), save it again as
other bytes, and note the absolute path it came from. MLflow's own loaders read the result, but
they trust code in a model folder (trust_remote_code, no way out); ours are
`registered_encoders.find_encoder` and plain `SentenceTransformer(folder)`.
"""

import json
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sentemb_core.errors import UnsafeModelError, UsageError
from sentemb_core.store.machine import installed
from sentemb_core.store.objects import File, Manifest, file_digest, list_files
from sentemb_core.types import ArtifactRef

if TYPE_CHECKING:
    from mlflow import MlflowClient

MODEL = "model"
ENCODER = "model.sentence_transformer"
CANARIES = "canaries.parquet"

SIGNATURE = {
    "inputs": json.dumps([{"type": "string", "required": True}]),
    "outputs": json.dumps(
        [{"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, -1]}}]
    ),
    "params": None,
}
"""Texts in, one vector a text out."""

REQUIREMENTS = ("sentence-transformers", "transformers", "tokenizers", "torch", "safetensors")


def model_ref(folder: Path) -> ArtifactRef:
    """The name that the store gives to these files, computed from their bytes.

    Raises:
        UnsafeModelError: a link, a device or a file name that could lead elsewhere.
    """
    try:
        names = list_files(folder)
    except UsageError as error:
        raise UnsafeModelError(f"{folder} is no model folder: {error}") from error
    files = [
        File(
            path=name,
            size=(folder / name).stat().st_size,
            sha256=file_digest(folder / name, fresh=True),
        )
        for name in names
    ]
    return Manifest(kind="model", files=files).ref


def refuse_unsafe(folder: Path) -> None:
    """Refuse pickled weights and code of its own, before anything is loaded.

    Raises:
        UnsafeModelError: naming the files.
    """
    from sentemb_core.encoder.safety import refuse_code, refuse_pickles

    refuse_pickles(folder)
    refuse_code(folder)


def upload_model(
    client: "MlflowClient", run_id: str, folder: Path, canaries: Sequence[str]
) -> dict[str, str]:
    """Log an encoder's folder, and its canaries if there are any, as the model of a run.

    Returns:
        The tag that holds the digest of the canaries, for the version.
    """
    tags: dict[str, str] = {}
    client.log_artifacts(run_id, str(folder), f"{MODEL}/{ENCODER}")
    with tempfile.TemporaryDirectory() as drafts:
        write_description(Path(drafts))
        if canaries:
            tags["canaries"] = written_canaries(folder, canaries, Path(drafts) / CANARIES)
        client.log_artifacts(run_id, drafts, MODEL)
    return tags


def written_canaries(folder: Path, sentences: Sequence[str], path: Path) -> str:
    """SHA-256 of the canaries of the encoder in a folder, now written."""
    from sentemb_core.encoder.checkpoint import load_encoder
    from sentemb_core.evaluation.canary import write_canaries

    write_canaries(load_encoder(folder), sentences, path)
    return file_digest(path, fresh=True)


def write_description(folder: Path) -> None:
    """MLmodel and requirements.txt. No path of this machine enters."""
    versions = {name: installed(name) for name in REQUIREMENTS}
    pins = [f"{name}=={number}" for name, number in versions.items() if number]
    (folder / "requirements.txt").write_text("\n".join(pins) + "\n", encoding="utf-8")
    flavors = {
        "python_function": {
            "loader_module": "mlflow.sentence_transformers",
            "data": ENCODER,
            "python_version": platform.python_version(),
        },
        "sentence_transformers": {
            "sentence_transformers_version": versions["sentence-transformers"],
        },
    }
    # YAML, of which JSON is a part; MLflow's own writer needs seconds of imports
    description = json.dumps({"flavors": flavors, "signature": SIGNATURE}, indent=1)
    (folder / "MLmodel").write_text(description, encoding="utf-8")
