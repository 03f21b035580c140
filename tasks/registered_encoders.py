"""A registered encoder's folder and canaries, opened only if they are what was registered."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sentemb_core.config.run import RunConfig
from sentemb_core.errors import MissingEncoderError, RegistryError, UnsafeModelError, UsageError
from sentemb_core.store.disk import remove, unique
from sentemb_core.store.objects import Store, file_digest
from tasks.mlflow_client import tracking_uri
from tasks.mlflow_model import CANARIES, ENCODER, MODEL, model_ref, refuse_unsafe
from tasks.model_versions import NAME, ModelVersion, find_version, readable

if TYPE_CHECKING:
    from sentemb_core.evaluation.canary import Canaries, Match

Run = TypeVar("Run", bound=RunConfig)


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


def encoder_at(name: str) -> str:
    """The verified folder of a registered encoder; any other name of one as it is.

    Raises:
        RegistryError, UnsafeModelError: As `resolve`.
    """
    return str(resolve(name)) if name.startswith("models:") else name


def version_at(name: str) -> str:
    """A registered encoder by its version; any other name of one as it is.

    Raises:
        RegistryError: As `resolve`.
    """
    return find_version(name).uri if name.startswith("models:") else name


def pinned(config: Run) -> Run:
    """The run with versions for aliases, which move on before it is resumed or repeated.

    Raises:
        RegistryError: As `resolve`.
    """
    return renamed(config, version_at)


def located(config: Run) -> Run:
    """The run with folders for registered encoders, where files are looked at.

    Raises:
        RegistryError, UnsafeModelError: As `resolve`.
    """
    return renamed(config, encoder_at)


def renamed(config: Run, name: Callable[[str], str]) -> Run:
    """With another name for each encoder that is given."""
    named = {part: getattr(config, part, None) for part in ("encoder", "annotator")}
    return config.model_copy(
        update={
            part: one.model_copy(update={"name": name(one.name)})
            for part, one in named.items()
            if one
        }
    )


def fetch(version: ModelVersion, store: Store) -> None:
    """Bring a version's files into the store, if they are those that were registered."""
    drafts = store.tmp / unique("download")
    try:
        folder = downloaded(version, ENCODER, drafts)
        found = model_ref(folder)
        if found != version.artifact:
            raise UnsafeModelError(
                f"The files of {version.uri} in MLflow are not those that were registered: digest "
                f"{found.digest[:12]}, registered {version.artifact.digest[:12]}. Do not use them: "
                f"`python -m flows register {version.tags.get('run', 'RUN')}` makes a new version "
                "of its encoder; an alias is set to that by hand (docs/serving.md)."
            )
        refuse_unsafe(folder)
        with store.writing("model") as draft:
            shutil.copytree(folder, draft.path, dirs_exist_ok=True)
    finally:
        remove(drafts)


def is_intact(version: ModelVersion) -> bool:
    """Whether MLflow has the files that were registered, byte by byte.

    Raises:
        RegistryError: MLflow cannot be reached.
    """
    store = Store.default()
    drafts = store.tmp / unique("download")
    with readable(store.root) as client:
        run = str(client.get_model_version(version.name, str(version.version)).run_id)
        if not client.list_artifacts(run, f"{MODEL}/{ENCODER}"):
            return False
    try:
        return model_ref(downloaded(version, ENCODER, drafts)) == version.artifact
    except UnsafeModelError:  # a link among them, say
        return False
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
    from sentemb_core.evaluation.canary import check_index

    if not what.is_dir():
        check_index(what)


def compare_with(uri: str, what: Path) -> "Match":
    """Hold an index, or the encoder in a folder, against a version's canaries.

    An index of other documents, which has none of them, is held against the version's encoder.

    Raises:
        RegistryError, UnsafeModelError: As `canaries_of`; as `resolve`, of an encoder.
        UsageError: As `canary.compare_encoder`, of an index.
    """
    from sentemb_core.evaluation.canary import compare, compare_encoder, compared

    canaries = canaries_of(uri)
    if what.is_dir():
        from sentemb_core.encoder.batching import embed_texts
        from sentemb_core.encoder.checkpoint import load_encoder

        vectors = embed_texts(load_encoder(resolve(str(what))), canaries.sentences)
        return compared(canaries, canaries.sentences, vectors)
    try:
        return compare(canaries, what)
    except UsageError:  # none of them is in it, for `check_comparable` saw that it is an index
        from sentemb_core.encoder.checkpoint import load_encoder

        return compare_encoder(load_encoder(resolve(uri)), what)
