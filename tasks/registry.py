"""Registered models: registered once, promoted by the gate alone, opened only if they are safe.

A version's files lie in MLflow (`mlflow_model.py`) and its tags name them by the digest they have
in our store. Aliases: `champion` is what serves, `previous` what served before it, `challenger`
the last candidate that the gate refused. One file lock serialises writers of a home; without it
24 versions that six processes wanted became 34, and a worse model ended as champion. It covers one
machine: more than one that write to one server need a queue of their own.
"""

import hashlib
import logging
import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from sentemb_core.errors import MissingEncoderError, RegistryError, UnsafeModelError, UsageError
from sentemb_core.evaluation.gate import GateVerdict
from sentemb_core.redaction import redacted
from sentemb_core.store.disk import remove, unique
from sentemb_core.store.locks import file_lock
from sentemb_core.store.objects import Store, canonical, file_digest
from sentemb_core.types import ArtifactRef, Json
from tasks.mlflow_client import experiment_id, mlflow_client, set_environment, tracking_uri
from tasks.mlflow_model import (
    CANARIES,
    ENCODER,
    MODEL,
    model_ref,
    refuse_unsafe,
    upload_model,
)
from tasks.spool import first_line
from tasks.tracking import dotted

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion as Entity

    from sentemb_core.evaluation.canary import Canaries, Comparison

log = logging.getLogger(__name__)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
URI = re.compile(rf"models:/(?P<name>{NAME.pattern})(@(?P<alias>[\w-]+)|/(?P<version>[0-9]+))")

ABSENT = {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}
"""What MLflow answers where there is no such model, version (the first) or alias (the second)."""

Alias = Literal["champion", "challenger"]


class ModelVersion(BaseModel):
    """One version of a registered model, and the encoder it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: int
    artifact: ArtifactRef
    tags: dict[str, str]

    @property
    def uri(self) -> str:
        return f"models:/{self.name}/{self.version}"


class Promotion(BaseModel):
    """What became of a candidate, and why, in words; `before` was the champion until then."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: ModelVersion
    alias: Alias
    reason: str
    before: ModelVersion | None


def fingerprint_of(data: str, parent: str, config: Json, round_: int, encoder: str) -> str:
    """SHA-256 of what a model was made from, and of what came of it.

    The corpus's digest, the parent's, settings and round do not tell the code, the libraries and
    the device of a training: the encoder's own digest does.
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
    """The version of this fingerprint, made from a model folder if there is none yet.

    Args:
        folder: What `SentenceTransformer(folder)` loads; it is copied as it is.
        name: Letters, digits, `-` and `_`, at most 64.
        fingerprint: Of all that the model was made from, and of itself (`fingerprint_of`).
        metrics: Shown beside the version.
        tags: Parent, round, run, digests.
        canaries: Sentences whose vectors are kept beside the encoder (`canaries_of`).

    Raises:
        UsageError: a name that is not plain.
        UnsafeModelError: pickles, code or links in the folder.
        RegistryError: MLflow cannot be reached.
    """
    if not NAME.fullmatch(name):
        raise UsageError(
            f"A model's name has 1-64 letters, digits, '_' or '-' and begins with a letter or a "
            f"digit; found {ascii(name)[:80]}."
        )
    refuse_unsafe(folder)
    told = {
        **{key: redacted(str(value)) for key, value in dotted(tags or {})},
        "fingerprint": fingerprint,
        **{f"artifact.{key}": str(value) for key, value in model_ref(folder)},
    }
    home = Store.default().root
    with writing(home), readable(home) as client:
        query = f"name = '{name}' and tags.fingerprint = '{fingerprint}'"
        if known := client.search_model_versions(query):
            return version_of(known[0])
        run = client.create_run(experiment_id(home), run_name=f"register {name}", tags=told)
        told |= upload_model(client, run.info.run_id, folder, canaries)
        for key, value in dotted(metrics or {}):
            client.log_metric(run.info.run_id, key, value)
        client.set_terminated(run.info.run_id)
        if not client.search_registered_models(f"name = '{name}'"):
            client.create_registered_model(name)
        source = f"{run.info.artifact_uri}/{MODEL}"
        return version_of(client.create_model_version(name, source, run.info.run_id, told))


def promote(
    version: ModelVersion, judge: Callable[[ModelVersion | None], GateVerdict]
) -> Promotion:
    """Make a version the champion if the gate agrees, else the challenger.

    Args:
        version: The candidate. The champion itself is left as it is, unjudged.
        judge: The gate's verdict against the champion of now (none at the first landing). It is
            asked while the registry is locked, and must not write to it.

    Raises:
        RegistryError: MLflow cannot be reached.
    """
    home = Store.default().root
    with writing(home), readable(home) as client:
        champion = one_version(client, version.name, "champion")
        if champion and champion.version == version.version:
            verdict_then = champion.tags.get("verdict", "")
            reason = verdict_then.replace("Promoted:", "When it was promoted:", 1)
            return Promotion(version=champion, alias="champion", reason=reason, before=champion)
        verdict = judge(champion)
        alias: Alias = "champion" if verdict.promote else "challenger"
        number = str(version.version)
        client.set_model_version_tag(version.name, number, "verdict", verdict.reason)
        if verdict.promote:
            if champion:
                client.set_registered_model_alias(version.name, "previous", str(champion.version))
            challenger = one_version(client, version.name, "challenger")
            if challenger and challenger.version == version.version:
                client.delete_registered_model_alias(version.name, "challenger")
        client.set_registered_model_alias(version.name, alias, number)
    return Promotion(version=version, alias=alias, reason=verdict.reason, before=champion)


def resolve(uri: str) -> Path:
    """The verified folder of a model: `models:/NAME@ALIAS`, `models:/NAME/VERSION` or a path.

    A registered model is served from our store; what the store does not hold is fetched from
    MLflow, and must have the digest that it was registered with.

    Raises:
        RegistryError: no such model, version or alias, or MLflow cannot be reached.
        MissingEncoderError: no such folder.
        UnsafeModelError: other bytes than those registered; pickles, code or links.
    """
    from sentemb_core.encoder.safety import require_weights

    if uri.startswith("models:"):
        version = find_version(uri)
        store = Store.default()
        if not store.holds(version.artifact):
            fetch(version, store)
        folder = store.path(version.artifact)
    else:
        folder = Path(uri)
        if not folder.is_dir():
            raise MissingEncoderError(
                f"A model is a folder, models:/NAME@ALIAS or models:/NAME/VERSION; {uri!r} is none."
                + (f" Of the registry it is models:/{uri}@champion." if NAME.fullmatch(uri) else "")
            )
        require_weights(folder)
    refuse_unsafe(folder)
    return folder


def fetch(version: ModelVersion, store: Store) -> None:
    """Bring a version's files into the store, if they are those that were registered."""
    drafts = store.tmp / unique("download")
    try:
        folder = downloaded(version, ENCODER, drafts)
        found = model_ref(folder)
        if found != version.artifact:
            raise UnsafeModelError(
                f"The files of {version.uri} in MLflow are not those that were registered: digest "
                f"{found.digest[:12]}, registered {version.artifact.digest[:12]}. Do not use them; "
                "register the model again."
            )
        refuse_unsafe(folder)
        with store.writing("model") as draft:
            shutil.copytree(folder, draft.path, dirs_exist_ok=True)
    finally:
        remove(drafts)


def downloaded(version: ModelVersion, item: str, drafts: Path) -> Path:
    """A file or folder of a version: a local registry's own, or a server's copied below `drafts`.

    Raises:
        RegistryError: MLflow cannot be reached.
    """
    home = Store.default().root
    with readable(home) as client:
        from mlflow.artifacts import download_artifacts

        source = client.get_model_version_download_uri(version.name, str(version.version))
        local = None if source.startswith("file:") else str(drafts)
        uri = tracking_uri(home)
        return Path(download_artifacts(f"{source}/{item}", dst_path=local, tracking_uri=uri))


def canaries_of(uri: str) -> "Canaries":
    """What the version's encoder made of a few sentences when it was registered.

    `sentemb_core.evaluation.canary.compare` tells by them whether an index is this version's.

    Raises:
        RegistryError: no such version, or one without canaries.
        UnsafeModelError: other bytes than those registered.
    """
    from sentemb_core.evaluation.canary import read_canaries

    version = find_version(uri)
    digest = version.tags.get("canaries")
    if digest is None:
        raise RegistryError(
            f"{version.uri} was registered without canaries: run the pipeline again, or compare "
            "vectors with those of its encoder (`python -m flows encode`)."
        )
    with tempfile.TemporaryDirectory() as drafts:
        path = downloaded(version, CANARIES, Path(drafts))
        if file_digest(path, fresh=True) != digest:
            raise UnsafeModelError(
                f"The canaries of {version.uri} in MLflow are not those that were registered: do "
                "not decide by them."
            )
        return read_canaries(path)


def check_comparable(what: Path) -> None:
    """Look for an index's columns before MLflow is asked, which takes seconds to load.

    Raises:
        UsageError: It is no index of sentences, nor a folder.
    """
    from sentemb_core.evaluation.sentence_index import check_index

    if not what.is_dir():
        check_index(what)


def compare_with(uri: str, what: Path) -> "Comparison":
    """Hold an index, or the encoder in a folder, against a version's canaries.

    Raises:
        RegistryError, UnsafeModelError: As `canaries_of`; as `resolve`, of a folder.
        UsageError: As `canary.compare`, of an index.
    """
    from sentemb_core.evaluation.canary import compare, compared

    canaries = canaries_of(uri)
    if not what.is_dir():
        return compare(canaries, what)
    from sentemb_core.encoder.batching import embed_texts
    from sentemb_core.encoder.checkpoint import load_encoder

    vectors = embed_texts(load_encoder(resolve(str(what))), canaries.sentences)
    return compared(canaries, canaries.sentences, vectors)


def find_version(uri: str) -> ModelVersion:
    """What a `models:/` address names.

    Raises:
        RegistryError: nothing, and what there is; or MLflow cannot be reached.
    """
    asked = URI.fullmatch(uri)
    if not asked:
        raise RegistryError(
            f"A registered model is models:/NAME@ALIAS or models:/NAME/VERSION, found "
            f"{ascii(uri)[:120]}."
        )
    home = Store.default().root
    if has_registry(home):
        with readable(home) as client:
            if found := one_version(client, asked["name"], asked["alias"], asked["version"]):
                return found
    raise RegistryError(f"The registry has no {uri}. It has: {contents()}.")


def contents() -> str:
    """All models with their versions and aliases, in a line."""
    home = Store.default().root
    if not has_registry(home):
        return "nothing yet"
    numbers: dict[str, list[int]] = {}
    for version in versions():
        numbers.setdefault(version.name, []).append(version.version)
    with readable(home) as client:
        models = list(pages(client.search_registered_models))
    told = [
        f"models:/{model.name} with versions {sorted(numbers.get(model.name, []))}"
        + "".join(f", @{alias} = {number}" for alias, number in sorted(model.aliases.items()))
        for model in models
    ]
    return "; ".join(told) or "nothing yet"


def versions() -> list[ModelVersion]:
    """Registered versions that are encoders of ours, newest first."""
    home = Store.default().root
    if not has_registry(home):
        return []
    with readable(home) as client:
        found = list(pages(client.search_model_versions))
    return [version_of(entity) for entity in found if "artifact.digest" in entity.tags]


def registered_artifacts() -> list[ArtifactRef]:
    """The encoder of every registered version: what `gc` must keep."""
    return [version.artifact for version in versions()]


def has_registry(home: Path) -> bool:
    """Whether there is anything to ask; a local database is made by the first writer."""
    uri = tracking_uri(home)
    return not uri.startswith("sqlite:") or Path(uri.removeprefix("sqlite:///")).exists()


def one_version(
    client: "MlflowClient", name: str, alias: str | None, number: str | None = None
) -> ModelVersion | None:
    """The version that an alias points at, or that has a number, if it is there."""
    from mlflow.exceptions import MlflowException

    try:
        if alias:
            return version_of(client.get_model_version_by_alias(name, alias))
        return version_of(client.get_model_version(name, str(number)))
    except MlflowException as error:
        if error.error_code in ABSENT:
            return None
        raise


def version_of(entity: "Entity") -> ModelVersion:
    """A version as MLflow has it.

    Raises:
        UnsafeModelError: it was not registered by us, so nothing says what its files must be.
    """
    try:
        artifact = {key: entity.tags[f"artifact.{key}"] for key in ArtifactRef.model_fields}
    except KeyError:
        raise UnsafeModelError(
            f"Version {entity.version} of {entity.name!r} carries no digest, so nothing says what "
            "its files must be: register it with `python -m flows register`."
        ) from None
    return ModelVersion(
        name=entity.name,
        version=int(entity.version),
        artifact=ArtifactRef.model_validate(artifact),
        tags=dict(entity.tags),
    )


def pages(search: Callable[..., Any]) -> Iterator[Any]:
    """All results of a search that MLflow answers in pages."""
    token = None
    while True:
        page = search(page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def writing(home: Path) -> AbstractContextManager[None]:
    """Nobody else of this home writes to the registry meanwhile."""
    return file_lock(home / "locks" / "registry.lock")


@contextmanager
def readable(home: Path) -> "Generator[MlflowClient, None, None]":
    """MLflow's client; what it raises becomes an error that says what cannot be reached."""
    set_environment()
    from mlflow.exceptions import MlflowException

    try:
        yield mlflow_client(home)
    except MlflowException as error:
        raise RegistryError(
            f"The model registry at {redacted(tracking_uri(home))} cannot be used: "
            f"{first_line(error).rstrip('.')}. Is its server up (MLFLOW_TRACKING_URI)?"
        ) from error
