"""An encoder's folder as an MLflow model: the same bytes, with the files that MLflow reads.

    model/MLmodel, model/requirements.txt, model/canaries.parquet,
    model/model.sentence_transformer/<the encoder's files>

This is the layout of MLflow's sentence-transformers flavor, written without the flavor. The flavor
would load the encoder (with an optional dependency and half a minute to infer requirements), save
other bytes, and record the absolute path of its source. MLflow's own loaders read the result, but
they trust code in a model folder (trust_remote_code, always on). Ours are
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
"""Input: texts. Output: one vector per text."""

REQUIREMENTS = ("sentence-transformers", "transformers", "tokenizers", "torch", "safetensors")


def model_ref(folder: Path) -> ArtifactRef:
    """Return the store's reference of these files, computed from their bytes.

    Raises:
        UnsafeModelError: a link, a device or an unsafe file name.
    """
    try:
        names = list_files(folder)
    except UsageError as error:
        raise UnsafeModelError(f"{folder} is not a model folder: {error}") from error
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
    """Refuse pickled weights and code, before anything is loaded.

    Raises:
        UnsafeModelError: with the files.
    """
    from sentemb_core.encoder.safety import refuse_code, refuse_pickles

    refuse_pickles(folder)
    refuse_code(folder)


def upload_model(
    client: "MlflowClient", run_id: str, folder: Path, canaries: Sequence[str]
) -> dict[str, str]:
    """Log an encoder's folder, with canaries if there are any, as the model of a run.

    Returns:
        The version's tag with the digest of the canaries.
    """
    tags: dict[str, str] = {}
    client.log_artifacts(run_id, str(folder), f"{MODEL}/{ENCODER}")
    with tempfile.TemporaryDirectory() as drafts:
        write_description(Path(drafts))
        if canaries:
            tags["canaries"] = canaries_digest(folder, canaries, Path(drafts) / CANARIES)
        client.log_artifacts(run_id, drafts, MODEL)
    return tags


def canaries_digest(folder: Path, sentences: Sequence[str], path: Path) -> str:
    """Write the canaries of the encoder in a folder and return their SHA-256."""
    from sentemb_core.encoder.checkpoint import load_encoder
    from sentemb_core.evaluation.canary import write_canaries

    write_canaries(load_encoder(folder), sentences, path)
    return file_digest(path, fresh=True)


def write_description(folder: Path) -> None:
    """Write MLmodel and requirements.txt, without any path of this machine."""
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
    # JSON is valid YAML; MLflow's own writer needs seconds of imports
    description = json.dumps({"flavors": flavors, "signature": SIGNATURE}, indent=1)
    (folder / "MLmodel").write_text(description, encoding="utf-8")
