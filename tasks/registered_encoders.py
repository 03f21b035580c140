"""A registered encoder's folder and canaries, opened only if they are what was registered."""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sentemb_core.config.run import RunConfig
from sentemb_core.encoder.names import is_encoder_folder
from sentemb_core.errors import MissingEncoderError, RegistryError, UnsafeModelError, UsageError
from sentemb_core.retriever.folder import RETRIEVER
from sentemb_core.store.disk import remove, unique
from sentemb_core.store.objects import Store, file_digest
from tasks.registry import (
    CANARIES,
    ENCODER,
    NAME,
    ModelVersion,
    downloaded,
    find_version,
    model_ref,
    refuse_unsafe,
)

if TYPE_CHECKING:
    from sentemb_core.evaluation.canary import Canaries, Match

Config = TypeVar("Config", bound=RunConfig)


def find_encoder(uri: str) -> Path:
    """Return the verified folder of models:/NAME@ALIAS, models:/NAME/VERSION or a path.

    A registered model is opened from our store. What the store lacks is fetched from MLflow, and
    must have the registered digest.

    Raises:
        RegistryError: no such model, version or alias, or MLflow cannot be reached.
        MissingEncoderError: no such folder.
        UnsafeModelError: other bytes than the registered ones; pickles, code or links.
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
            hint = f" For the registry write models:/{uri}@champion." if NAME.fullmatch(uri) else ""
            raise MissingEncoderError(
                f"A model is a folder, models:/NAME@ALIAS or models:/NAME/VERSION; found {uri!r}."
                f"{hint}"
            )
        if not (folder / RETRIEVER).is_file():  # a retriever may have words alone
            require_weights(folder)
    refuse_unsafe(folder)
    return folder


def is_saved_encoder(name: str) -> bool:
    """Whether it is a registered model, or a folder that lists its modules or its parts."""
    return name.startswith("models:") or (
        is_encoder_folder(name)
        and any((Path(name) / file).is_file() for file in ("modules.json", RETRIEVER))
    )


def local_name(name: str) -> str:
    """Return the verified folder of a registered encoder; every other name unchanged."""
    return str(find_encoder(name)) if name.startswith("models:") else name


def pinned_name(name: str) -> str:
    """Return models:/NAME/VERSION for models:/NAME@ALIAS; every other name unchanged.

    An alias moves before a run is resumed, a version does not.
    """
    return find_version(name).uri if name.startswith("models:") else name


def with_local_encoders(config: Config) -> Config:
    """Return the settings with the verified folders of registered encoders (`local_name`)."""
    parts = {part: getattr(config, part, None) for part in ("encoder", "annotator")}
    return config.model_copy(
        update={
            part: encoder.model_copy(update={"name": local_name(encoder.name)})
            for part, encoder in parts.items()
            if encoder
        }
    )


def fetch(version: ModelVersion, store: Store) -> None:
    """Copy a version's files into the store, if they are the registered ones."""
    drafts = store.tmp / unique("download")
    try:
        folder = downloaded(version, ENCODER, drafts)
        artifact = model_ref(folder)
        if artifact != version.artifact:
            raise UnsafeModelError(
                f"The files of {version.uri} in MLflow must have the registered digest "
                f"{version.artifact.digest[:12]}; found {artifact.digest[:12]}. Do not use them: "
                f"`python -m flows register {version.tags.get('run', 'RUN')}` makes a new version "
                "of its encoder; then set the alias by hand (docs/serving.md)."
            )
        refuse_unsafe(folder)
        with store.writing("model") as draft:
            shutil.copytree(folder, draft.path, dirs_exist_ok=True)
    finally:
        remove(drafts)


def canaries_of(uri: str) -> "Canaries":
    """Return a few sentences with the vectors that the version's encoder had at registration.

    They show whether an index belongs to this version. E702 without them, E402 for other bytes.
    """
    from sentemb_core.evaluation.canary import read_canaries

    version = find_version(uri)
    digest = version.tags.get("canaries")
    if digest is None:
        raise RegistryError(
            f"{version.uri} was registered without canaries. Run the pipeline again, or compare "
            "vectors with those of its encoder (`python -m flows encode`)."
        )
    with tempfile.TemporaryDirectory() as drafts:
        path = downloaded(version, CANARIES, Path(drafts))
        if file_digest(path, fresh=True) != digest:
            raise UnsafeModelError(
                f"The canaries of {version.uri} in MLflow must have the registered digest; they "
                "differ. Do not use them: use another version, or compare vectors with those of "
                "its encoder (`python -m flows encode`)."
            )
        return read_canaries(path)


def check_comparable(path: Path) -> None:
    """Check (E001) an index's columns before MLflow is loaded, which takes seconds."""
    from sentemb_core.evaluation.canary import check_index
    from sentemb_core.retriever.index_files import is_index_folder

    if not path.is_dir() or is_index_folder(path):
        check_index(path)


def compare_with(uri: str, path: Path) -> "Match":
    """Compare an index, or the encoder in a folder, with a version's canaries.

    An index of other documents contains no canary; then the version's encoder encodes a few of its
    sentences.
    """
    from sentemb_core.evaluation.canary import match_encoder, match_index, match_vectors

    canaries = canaries_of(uri)
    if path.is_dir():
        from sentemb_core.encoder.batching import embed_texts
        from sentemb_core.encoder.checkpoint import load_encoder

        vectors = embed_texts(
            load_encoder(find_encoder(str(path))), canaries.sentences, role="sentence"
        )
        return match_vectors(canaries, canaries.sentences, vectors)
    try:
        return match_index(canaries, path)
    except UsageError:  # it contains no canary: `check_comparable` has seen that it is an index
        from sentemb_core.encoder.checkpoint import load_encoder

        return match_encoder(load_encoder(find_encoder(uri)), path)
