"""Models are registered once, and promoted by the gate alone.

A version's files lie in MLflow (`mlflow_model.py`) and its tags name them by the digest they have
in our store. Aliases: `champion` is what serves, `previous` what served before it, `challenger`
the last candidate that the gate refused. One file lock serialises writers of a home; without it
24 versions that six processes wanted became 34, and a worse model ended as champion. It covers one
machine: more than one that write to one server need a queue of their own.
"""

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sentemb_core.errors import UsageError
from sentemb_core.evaluation.gate import GateDecision
from sentemb_core.redaction import redacted
from sentemb_core.store.locks import file_lock
from sentemb_core.store.objects import Store, canonical
from sentemb_core.types import Json, Value
from tasks.mlflow_client import experiment_id
from tasks.mlflow_model import MODEL, model_ref, refuse_unsafe, upload_model
from tasks.model_versions import (
    NAME,
    ModelVersion,
    note_registry,
    one_version,
    readable,
    version_of,
)
from tasks.registered_encoders import is_intact
from tasks.tracking import dotted

if TYPE_CHECKING:
    from mlflow import MlflowClient

Alias = Literal["champion", "challenger"]

STOOD = "stood"
"""Tag of a version that was seen as champion, until the gate puts another in its place.

A version that has it and is no champion was taken down by a person, which the gate does not undo.
"""

TAKEN_DOWN = (
    "Not judged: it was the champion before, and a person took it down. Who wants it back sets "
    "the alias champion by hand (docs/serving.md)."
)


class Promotion(Value):
    """What became of a candidate, and why, in words; `before` was the champion until then."""

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
    """The version of this fingerprint, made from a model folder if MLflow has none that is whole.

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
        RegistryDownError: MLflow cannot be reached.
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
        known = client.search_model_versions(query, order_by=["version_number DESC"])
        note_registry(home)
        if whole := next(filter(is_intact, map(version_of, known)), None):
            return whole
        run = client.create_run(experiment_id(home), run_name=f"register {name}", tags=told)
        with terminated(client, run.info.run_id):
            told |= upload_model(client, run.info.run_id, folder, canaries)
            for key, value in dotted(metrics or {}):
                client.log_metric(run.info.run_id, key, value)
        if not client.search_registered_models(f"name = '{name}'"):
            client.create_registered_model(name)
        source = f"{run.info.artifact_uri}/{MODEL}"
        return version_of(client.create_model_version(name, source, run.info.run_id, told))


@contextmanager
def terminated(client: "MlflowClient", run_id: str) -> Generator[None, None, None]:
    """A run of MLflow that is over with the block, as FAILED if the block fails."""
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the first failure says more
            client.set_terminated(run_id, "FAILED")
        raise
    client.set_terminated(run_id)


def promote(
    version: ModelVersion, judge: Callable[[ModelVersion | None], GateDecision]
) -> Promotion:
    """Make a version the champion if the gate agrees, else the challenger.

    Args:
        version: The candidate. The champion itself is left as it is, unjudged, and so is one that
            a person took down.
        judge: The gate's verdict against the champion of now (none at the first landing). It is
            asked while the registry is locked, and must not write to it; and asked again if a
            person set the alias meanwhile.

    Raises:
        RegistryDownError: MLflow cannot be reached.
    """
    home = Store.default().root
    with writing(home), readable(home) as client:
        while True:
            champion = one_version(client, version.name, "champion")
            if settled := unjudged(client, version, champion):
                return settled
            verdict = judge(champion)  # takes minutes, in which a person may set the alias
            now = one_version(client, version.name, "champion")
            if (now and now.version) == (champion and champion.version):
                break
        number = str(version.version)
        alias: Alias = "champion" if verdict.promote else "challenger"
        client.set_model_version_tag(version.name, number, "verdict", verdict.reason)
        client.update_model_version(version.name, number, described(version, verdict))
        if verdict.promote:
            if champion:
                client.set_registered_model_alias(version.name, "previous", str(champion.version))
                client.delete_model_version_tag(version.name, str(champion.version), STOOD)
            challenger = one_version(client, version.name, "challenger")
            if challenger and challenger.version == version.version:
                client.delete_registered_model_alias(version.name, "challenger")
        client.set_registered_model_alias(version.name, alias, number)
        if verdict.promote:  # last: who is killed before has taken nobody down
            client.set_model_version_tag(version.name, number, STOOD, "yes")
    return Promotion(version=version, alias=alias, reason=verdict.reason, before=champion)


def unjudged(
    client: "MlflowClient", version: ModelVersion, champion: ModelVersion | None
) -> Promotion | None:
    """What becomes of a candidate that the gate is not asked about; None: it is."""
    number = str(version.version)
    if champion and STOOD not in champion.tags:
        client.set_model_version_tag(version.name, str(champion.version), STOOD, "yes")
    if champion and champion.version == version.version:
        verdict_then = champion.tags.get("verdict", "")
        reason = verdict_then.replace("Promoted:", "When it was promoted:", 1)
        return Promotion(version=champion, alias="champion", reason=reason, before=champion)
    candidate = one_version(client, version.name, None, number)
    if candidate and STOOD in candidate.tags:
        client.set_registered_model_alias(version.name, "challenger", number)
        return Promotion(version=version, alias="challenger", reason=TAKEN_DOWN, before=champion)
    return None


def described(version: ModelVersion, verdict: GateDecision) -> str:
    """What MLflow's page says of a version: the gate's words, and the run whose report has more."""
    run = version.tags.get("run")
    return f"{verdict.reason} Run {run}: reports/{run}/report.html." if run else verdict.reason


def writing(home: Path) -> AbstractContextManager[None]:
    """Nobody else of this home writes to the registry meanwhile."""
    return file_lock(home / "locks" / "registry.lock")
