"""Registered models as MLflow has them: a version found by its address, and all there are."""

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentemb_core.errors import (
    RegistryDownError,
    RegistryError,
    SentembError,
    UnsafeModelError,
    UsageError,
)
from sentemb_core.formats import nearest
from sentemb_core.redaction import first_line, redacted
from sentemb_core.store.disk import storage_errors
from sentemb_core.store.objects import Store
from sentemb_core.types import ArtifactRef, Value
from tasks.mlflow_client import address_of, mlflow_client, set_environment, tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion as Entity
    from mlflow.entities.model_registry import RegisteredModel

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
URI = re.compile(rf"models:/(?P<name>{NAME.pattern})(@(?P<alias>[\w-]+)|/(?P<version>[0-9]+))")

ABSENT = {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}
"""What MLflow answers where there is no such model, version (the first) or alias (the second)."""


class ModelVersion(Value):
    """One version of a registered model, and the encoder it is."""

    name: str
    version: int
    artifact: ArtifactRef
    tags: dict[str, str]

    @property
    def uri(self) -> str:
        return f"models:/{self.name}/{self.version}"


def find_version(uri: str) -> ModelVersion:
    """What a `models:/` address names.

    Raises:
        RegistryError: nothing, and what it may have meant; or MLflow cannot be reached.
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
    raise RegistryError(f"The registry has no {uri}{alternatives(asked['name'])}.")


def alternatives(name: str) -> str:
    """What follows on `there is no URI`: what the model has, or the model that is most like it."""
    home = Store.default().root
    known: dict[str, RegisteredModel] = {}
    if has_registry(home):
        with readable(home) as client:
            known = {model.name: model for model in pages(client.search_registered_models)}
    if not known:
        return ": nothing is registered yet"
    if name not in known:
        return nearest(name, known)
    numbers = sorted(one.version for one in versions() if one.name == name)
    aliases = sorted(known[name].aliases.items())
    told = [f"versions {numbers}", *(f"@{alias} = {number}" for alias, number in aliases)]
    return f"; models:/{name} has {', '.join(told)}"


def versions() -> list[ModelVersion]:
    """Registered versions that are encoders of ours, newest first."""
    home = Store.default().root
    if not has_registry(home):
        return []
    with readable(home) as client:
        found = list(pages(client.search_model_versions))
    return [version_of(entity) for entity in found if "artifact.digest" in entity.tags]


def registered_artifacts() -> list[ArtifactRef]:
    """The encoder of every registered version: what `gc` must keep.

    Raises:
        UsageError: models of this home are registered elsewhere, too.
    """
    home = Store.default().root
    today, note = address_of(home), registries(home)
    if others := [address for address in noted(home) if address != today]:
        raise UsageError(
            f"`gc` keeps what is registered, and asks the registry of this shell alone: {today}. "
            f"Models of this home are registered in {' and '.join(others)}: set "
            "MLFLOW_TRACKING_URI to that (unset it for the home's own), or take its line out of "
            f"{note} if it is given up."
        )
    return [version.artifact for version in versions()]


def note_registry(home: Path) -> None:
    """Keep in the home in which registries its models are."""
    if (address := address_of(home)) not in noted(home):
        with registries(home).open("a", encoding="utf-8") as file:
            file.write(f"{address}\n")


def noted(home: Path) -> list[str]:
    """Registries of this home's models, as `address_of` names them."""
    note = registries(home)
    return note.read_text("utf-8").splitlines() if note.exists() else []


def registries(home: Path) -> Path:
    return home / "registries.txt"


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
            "its files must be: another program registered it. Use another version; if an "
            "alias is on this one, set it to another or delete it: "
            f"`MlflowClient().delete_registered_model_alias({entity.name!r}, ALIAS)` "
            "(docs/serving.md)."
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


@contextmanager
def readable(home: Path) -> "Generator[MlflowClient, None, None]":
    """MLflow's client; what it raises becomes an error that says what cannot be reached.

    A server's refusal of a file is an `OSError`, a missing library of its artifacts' place (S3
    wants boto3) an `ImportError`.
    """
    set_environment()
    from mlflow.exceptions import MlflowException

    try:
        with storage_errors(home):
            yield mlflow_client(home)
    except SentembError:  # some are kinds of OSError, and say more
        raise
    except (MlflowException, OSError, ImportError) as error:
        missing = isinstance(error, ImportError)
        raise RegistryDownError(
            f"The model registry at {redacted(tracking_uri(home))} cannot be used: "
            f"{first_line(error).rstrip('.')}. "
            + ("Install it here." if missing else "Is its server up (MLFLOW_TRACKING_URI)?")
        ) from error
