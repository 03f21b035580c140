"""The model registry: encoders are registered once, and found by address.

A version's tags name its files by their digest in our store. One file lock serialises the writers
of a home: without it, six processes that registered 24 versions made 34, and a worse model became
champion. It covers one machine.

MLflow holds the files in the layout of its sentence-transformers flavor:

    model/MLmodel, model/requirements.txt, model/canaries.parquet,
    model/model.sentence_transformer/<the encoder's files>

We write it without the flavor, which would load the encoder (half a minute), save other bytes, and
record the absolute path of its source. MLflow's own loaders read the result, but they trust code in
a model folder (trust_remote_code, always on). Ours are `registered_encoders.find_encoder` and plain
`SentenceTransformer(folder)`.
"""

import hashlib
import json
import platform
import re
import sqlite3
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from sentemb_core.errors import (
    RegistryDownError,
    RegistryError,
    SentembError,
    UnsafeModelError,
    UsageError,
)
from sentemb_core.formats import nearest
from sentemb_core.redaction import first_line, redacted
from sentemb_core.store.disk import remove, storage_errors, unique
from sentemb_core.store.locks import file_lock
from sentemb_core.store.machine import installed
from sentemb_core.store.objects import File, Manifest, Store, file_digest, list_files
from sentemb_core.store.seals import canonical
from sentemb_core.types import ArtifactRef, Json, Value
from tasks.servers import (
    address_of,
    experiment_id,
    known_registries,
    mlflow_client,
    note_registry,
    own_uri,
    set_environment,
    tracking_uri,
)
from tasks.tracking import dotted

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion as Entity
    from mlflow.entities.model_registry import RegisteredModel

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

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
URI = re.compile(rf"models:/(?P<name>{NAME.pattern})(@(?P<alias>[\w-]+)|/(?P<version>[0-9]+))")

ABSENT = {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}
"""MLflow's codes for an unknown model or version (the first) and an unknown alias (the second)."""

WEB = ("http", "https", "ftp", "sftp")
"""Schemes of addresses that MLflow would request for anybody who can write to the registry."""


class ModelVersion(Value):
    """One version of a registered model, and the artifact of its encoder."""

    name: str
    version: int
    artifact: ArtifactRef
    tags: dict[str, str]

    @property
    def uri(self) -> str:
        return f"models:/{self.name}/{self.version}"


def model_ref(folder: Path) -> ArtifactRef:
    """Return the store's reference of these files by their bytes; E402 for links and devices."""
    try:
        names = list_files(folder)
    except UsageError as error:
        raise UnsafeModelError(
            f"{folder} is not a model folder: {error} Copy its files into a new folder "
            "(`cp -rL` replaces links by files)."
        ) from error
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
    """Refuse (E402) files outside, pickled weights and code, before anything is loaded."""
    from sentemb_core.encoder.safety import reading, refuse_code, refuse_outside, refuse_pickles
    from sentemb_core.retriever.folder import TABLE

    with reading(folder):
        refuse_outside(folder)
        refuse_pickles(folder)
        for part in (folder, folder / TABLE):
            refuse_code(part)


def upload_model(
    client: "MlflowClient", run_id: str, folder: Path, canaries: Sequence[str]
) -> dict[str, str]:
    """Log an encoder's folder as the model of a run; return the tag of its canaries, if any."""
    from sentemb_core.encoder.checkpoint import load_encoder
    from sentemb_core.encoder.names import has_encoder
    from sentemb_core.evaluation.canary import write_canaries

    tags: dict[str, str] = {}
    client.log_artifacts(run_id, str(folder), f"{MODEL}/{ENCODER}")
    with tempfile.TemporaryDirectory() as drafts:
        write_description(Path(drafts))
        if canaries and has_encoder(str(folder)):
            path = Path(drafts) / CANARIES
            write_canaries(load_encoder(folder), canaries, path)
            tags["canaries"] = file_digest(path, fresh=True)
        client.log_artifacts(run_id, drafts, MODEL)
    return tags


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


def find_version(uri: str) -> ModelVersion:
    """Return the version at a `models:/` address; E702 if it names nothing."""
    address = URI.fullmatch(uri)
    if not address:
        raise RegistryError(
            f"A registered model is models:/NAME@ALIAS or models:/NAME/VERSION; found "
            f"{ascii(uri)[:120]}."
        )
    if has_registry():
        name, alias, number = address["name"], address["alias"], address["version"]
        if version := version_in_database(name, alias, number):
            return version
        with registry_client() as client:
            version = lookup(client, name, alias, number)
        if version:
            return version
    raise RegistryError(f"The registry has no {uri}{alternatives(address['name'])}")


class StoredVersion(NamedTuple):
    """A version as MLflow's database has it."""

    name: str
    version: int
    tags: dict[str, str]


def version_in_database(name: str, alias: str | None, number: str | None) -> ModelVersion | None:
    """Return a version from the home's own database; None if MLflow must look for it.

    MLflow takes two CPU-seconds for its import.
    """
    home = Store.default().root
    if tracking_uri(home) != own_uri(home):
        return None
    address = f"{(home / 'mlflow.db').resolve().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            if alias:
                named = "SELECT version FROM registered_model_aliases WHERE name = ? AND alias = ?"
                number = (database.execute(named, (name, alias)).fetchone() or [None])[0]
            of = (name, number)
            state = (
                "SELECT status, current_stage FROM model_versions WHERE name = ? AND version = ?"
            )
            if database.execute(state, of).fetchone() != ("READY", "None"):
                return None
            tags = "SELECT key, value FROM model_version_tags WHERE name = ? AND version = ?"
            found = dict(database.execute(tags, of).fetchall())
    except sqlite3.Error:  # another version of MLflow, or a busy database
        return None
    return read_version(StoredVersion(name, int(str(number)), found))


def alternatives(name: str) -> str:
    """Return the end of a message: a model's versions and aliases, or the most similar name."""
    known: dict[str, RegisteredModel] = {}
    if has_registry():
        with registry_client() as client:
            known = {model.name: model for model in all_pages(client.search_registered_models)}
    if not known:
        home = Store.default().root
        own = tracking_uri(home) == own_uri(home)
        setting = "SENTEMB_HOME to the home" if own else "MLFLOW_TRACKING_URI to the registry"
        return (
            f": nothing is registered in {home if own else address_of(home)} yet. Register a model "
            f"first (`python -m flows run CORPUS --name {name}`), or set {setting} that has it."
        )
    if name not in known:
        end = nearest(name, known)
        return end if end.endswith("?") else f"{end}."
    numbers = sorted(version.version for version in versions() if version.name == name)
    aliases = sorted(known[name].aliases.items())
    parts = [f"versions {numbers}", *(f"@{alias} = {number}" for alias, number in aliases)]
    return f"; models:/{name} has {', '.join(parts)}."


def versions() -> list[ModelVersion]:
    """Return all versions that this program registered, newest first."""
    if not has_registry():
        return []
    with registry_client() as client:
        entities = list(all_pages(client.search_model_versions))
    return [read_version(entity) for entity in entities if "artifact.digest" in entity.tags]


def registered_artifacts() -> list[ArtifactRef]:
    """Return the encoder of every version, for `gc`; E001 if some are registered elsewhere."""
    home = Store.default().root
    today = address_of(home)
    if others := [address for address in known_registries(home) if address != today]:
        raise UsageError(
            f"`gc` keeps registered models and reads one registry, here {today}; found models of "
            f"this home in {' and '.join(others)}, too. Set MLFLOW_TRACKING_URI to that registry "
            "(unset it for the home's own). If it no longer exists, delete its line in "
            f"{home / 'registries.txt'}."
        )
    return [version.artifact for version in versions()]


def has_registry() -> bool:
    """Return whether there is a registry; the first writer makes a local database."""
    uri = tracking_uri(Store.default().root)
    return not uri.startswith("sqlite:") or Path(uri.removeprefix("sqlite:///")).exists()


def fingerprint_of(data: str, parent: str, config: Json, round_: int, encoder: str) -> str:
    """Return the SHA-256 of everything that a model was made from, and of the encoder itself.

    The encoder's digest covers what the others leave open: code, libraries and device.
    """
    return hashlib.sha256(canonical([data, parent, config, round_, encoder])).hexdigest()


def register(
    folder: Path,
    name: str,
    *,
    fingerprint: str,
    metrics: Mapping[str, float] | None = None,
    tags: Mapping[str, Any] | None = None,
    canaries: Sequence[str] = (),
) -> ModelVersion:
    """Return the intact version of this fingerprint; make it from a model folder if there is none.

    Args:
        folder: Input of `SentenceTransformer(folder)`; it is copied unchanged.
        name: Letters, digits, `-` and `_`, at most 64.
        fingerprint: As `fingerprint_of`.
        metrics: Shown beside the version.
        tags: Parent, round, run, digests.
        canaries: Sentences whose vectors are kept beside the encoder (`canaries_of`).

    Raises:
        UsageError: the name has other characters.
        UnsafeModelError: pickles, code or links in the folder.
        RegistryDownError: MLflow cannot be reached, in all functions here.
    """
    if not NAME.fullmatch(name):
        raise UsageError(
            f"A model's name has 1 to 64 letters, digits, '_' or '-' and begins with a letter or a "
            f"digit; found {ascii(name)[:80]}."
        )
    refuse_unsafe(folder)
    all_tags = {
        **{key: redacted(str(value)) for key, value in dotted(tags or {})},
        "fingerprint": fingerprint,
        **{f"artifact.{key}": str(value) for key, value in model_ref(folder)},
    }
    home = Store.default().root
    with writing_client() as client:
        query = f"name = '{name}' and tags.fingerprint = '{fingerprint}'"
        known = client.search_model_versions(query, order_by=["version_number DESC"])
        note_registry(home)
        if intact := next(filter(is_intact, map(read_version, known)), None):
            return intact
        run = client.create_run(experiment_id(home), run_name=f"register {name}", tags=all_tags)
        with ending_run(client, run.info.run_id):
            all_tags |= upload_model(client, run.info.run_id, folder, canaries)
            for key, value in dotted(metrics or {}):
                client.log_metric(run.info.run_id, key, value)
        if not client.search_registered_models(f"name = '{name}'"):
            client.create_registered_model(name)
        source = f"{run.info.artifact_uri}/{MODEL}"
        return read_version(client.create_model_version(name, source, run.info.run_id, all_tags))


def is_intact(version: ModelVersion) -> bool:
    """Return whether MLflow has the registered files, byte by byte."""
    store = Store.default()
    drafts = store.tmp / unique("download")
    with registry_client() as client:
        run = str(client.get_model_version(version.name, str(version.version)).run_id)
        if not client.list_artifacts(run, f"{MODEL}/{ENCODER}"):
            return False
    try:
        return model_ref(downloaded(version, ENCODER, drafts)) == version.artifact
    except UnsafeModelError:  # such as a link among the files
        return False
    finally:
        remove(drafts)


def downloaded(version: ModelVersion, item: str, drafts: Path) -> Path:
    """Return a file or folder of a version: a local registry's own, or a server's copy."""
    uri = tracking_uri(Store.default().root)
    with registry_client() as client:
        from mlflow.artifacts import download_artifacts

        try:
            source = client.get_model_version_download_uri(version.name, str(version.version))
            _refuse_other_host(version, source, uri)
            local = None if source.startswith("file:") else str(drafts)
            found = Path(download_artifacts(f"{source}/{item}", dst_path=local, tracking_uri=uri))
        except SentembError:
            raise
        except (TypeError, ValueError) as error:  # of an odd address, or a server's odd answer
            raise _not_fetched(version, first_line(error)) from error
        if found.is_file() != (item == CANARIES):  # of some odd addresses MLflow copies nothing
            raise _not_fetched(version, f"{redacted(source)[:200]!r} has no {item}")
        return found


def _not_fetched(version: ModelVersion, reason: str) -> RegistryDownError:
    return RegistryDownError(
        f"The files of {version.uri} cannot be fetched: {reason}. Is its source the storage of its "
        "registry, and an MLflow server there?"
    )


def _refuse_other_host(version: ModelVersion, source: str, registry: str) -> None:
    """Refuse (E402) a version whose files are on a web server other than its registry's."""
    place, own = urlsplit(source), urlsplit(registry)
    if place.scheme not in WEB or (place.hostname, place.port) == (own.hostname, own.port):
        return
    raise UnsafeModelError(
        "Files of a version are fetched from the storage of its registry, not from other web "
        f"servers; {version.uri} names {redacted(source)[:200]!r}. Do not use it: register the "
        "model again, and set the alias to the new version (docs/serving.md)."
    )


def lookup(
    client: "MlflowClient", name: str, alias: str | None, number: str | None = None
) -> ModelVersion | None:
    """Return the version with this alias, or else with this number, if it exists."""
    from mlflow.exceptions import MlflowException

    try:
        if alias:
            return read_version(client.get_model_version_by_alias(name, alias))
        return read_version(client.get_model_version(name, str(number)))
    except MlflowException as error:
        if error.error_code in ABSENT:
            return None
        raise


def read_version(entity: "Entity | StoredVersion") -> ModelVersion:
    """Return a version of MLflow as ours; E402 without a digest that protects its files."""
    stated = {key: entity.tags.get(f"artifact.{key}") for key in ArtifactRef.model_fields}
    try:
        artifact = ArtifactRef.model_validate(stated)
        number = int(entity.version)
        tags = dict(entity.tags)
        return ModelVersion(name=entity.name, version=number, artifact=artifact, tags=tags)
    except (TypeError, ValueError) as error:
        found = "a broken one" if all(stated.values()) else "none"
        raise UnsafeModelError(
            f"A version needs the digest of its files; version {entity.version} of {entity.name!r} "
            f"has {found}, so another program registered or changed it. Use another version. If an "
            "alias is on this one, set it to another version or delete it: "
            f"`MlflowClient().delete_registered_model_alias({entity.name!r}, ALIAS)` "
            "(docs/serving.md)."
        ) from error


def all_pages(search: Callable[..., Any]) -> Iterator[Any]:
    """Yield all results of a search that MLflow answers in pages."""
    token = None
    while True:
        page = search(page_token=token)
        yield from page
        token = page.token
        if not token:
            return


@contextmanager
def ending_run(client: "MlflowClient", run_id: str) -> Generator[None, None, None]:
    """End a run of MLflow with the block, as FAILED if the block fails."""
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the first failure is the one to report
            client.set_terminated(run_id, "FAILED")
        raise
    client.set_terminated(run_id)


@contextmanager
def registry_client() -> "Generator[MlflowClient, None, None]":
    """Yield MLflow's client, and raise its failures as errors that name the registry.

    A server that refuses a file raises `OSError`; a missing library for the place of the files
    (boto3 for S3) raises `ImportError`; a damaged database raises an error of SQLAlchemy.
    """
    set_environment()
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    home = Store.default().root
    try:
        with storage_errors(home):
            yield mlflow_client(home)
    except SentembError:  # some are also kinds of OSError, and name the cause better
        raise
    except (MlflowException, OSError, ImportError, SQLAlchemyError) as error:
        way_out = "Is its server up (MLFLOW_TRACKING_URI)?"
        if isinstance(error, ImportError):
            way_out = "Install it here."
        elif isinstance(error, SQLAlchemyError):
            way_out = "Restore the database from a copy, or move it away and register again."
        raise RegistryDownError(
            f"The model registry at {redacted(tracking_uri(home))} cannot be used: "
            f"{first_line(error).rstrip('.')}. {way_out}"
        ) from error


@contextmanager
def writing_client() -> "Generator[MlflowClient, None, None]":
    """Yield `registry_client` under the lock of this home's writers."""
    lock = Store.default().root / "locks" / "registry.lock"
    with file_lock(lock), registry_client() as client:
        yield client
