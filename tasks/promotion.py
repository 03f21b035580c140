"""Promotion: the gate makes a registered version the champion, or the challenger; and rollback.

Aliases: `champion` serves now, `previous` served before it, `challenger` is the last candidate that
the gate refused.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from sentemb_core.errors import RegistryError
from sentemb_core.evaluation.gate import PROMOTED, GateDecision
from sentemb_core.types import Value
from tasks.registered_encoders import find_encoder
from tasks.registry import (
    ModelVersion,
    alternatives,
    find_version,
    lookup,
    registry_client,
    writing_client,
)
from tasks.verdict import reconciled

if TYPE_CHECKING:
    from mlflow import MlflowClient

STOOD = "stood"
"""Tag of a version that was champion, until the gate replaces it.

A version with this tag that is not champion was taken down by a person; the gate does not undo it.
"""

VERDICT = "test_split_verdict"
"""Tag of a version: whether to use it by the test split alone; the gate may decide otherwise."""

TAKEN_DOWN = (
    "Not compared: it was the champion, and a person took it down. To restore it, set the alias "
    "champion by hand (docs/serving.md)."
)

IS_CHAMPION = "It is the champion."

Alias = Literal["champion", "challenger"]


class Promotion(Value):
    """A candidate's new alias, the reason for it, and the champion until then (`before`)."""

    version: ModelVersion
    alias: Alias
    reason: str
    before: ModelVersion | None


def promote(
    version: ModelVersion, decide: Callable[[ModelVersion | None], GateDecision]
) -> Promotion:
    """Make a version the champion if the gate decides so, else the challenger.

    The champion itself, and a version that a person took down, are not compared.

    Args:
        version: The candidate.
        decide: The gate's decision against the present champion (None if there is none). It is
            called while the registry is locked, so it must not write to the registry. It is called
            again if a person sets the alias meanwhile.
    """
    with writing_client() as client:
        while True:
            champion = lookup(client, version.name, "champion")
            if settled := settled_promotion(client, version, champion):
                return settled
            decision = decide(champion)  # takes minutes, in which a person may set the alias
            now = lookup(client, version.name, "champion")
            if (now and now.version) == (champion and champion.version):
                break
        number = str(version.version)
        alias: Alias = "champion" if decision.promote else "challenger"
        client.set_model_version_tag(version.name, number, "gate", decision.reason)
        describe(client, version, decision.reason, champion=decision.promote)
        if decision.promote:
            if champion:
                client.set_registered_model_alias(version.name, "previous", str(champion.version))
                client.delete_model_version_tag(version.name, str(champion.version), STOOD)
            drop_challenger(client, version)
        client.set_registered_model_alias(version.name, alias, number)
        if decision.promote:  # last, so that a process killed before has taken no version down
            client.set_model_version_tag(version.name, number, STOOD, "yes")
            if champion:
                replaced = f"{version.uri} replaced it as the champion."
                describe(client, champion, f"{replaced} {reason_then(champion)}")
    return Promotion(version=version, alias=alias, reason=decision.reason, before=champion)


def describe(
    client: "MlflowClient", version: ModelVersion, state: str, *, champion: bool | None = None
) -> None:
    """Write what became of a version as its description on MLflow's pages.

    `champion`: whether it is the champion; None if it was one, or was not compared.
    """
    run, verdict = version.tags.get("run"), version.tags.get(VERDICT)
    state += f" On the test split: {reconciled(verdict, champion=champion)}" if verdict else ""
    page = f" Run {run}: reports/{run}/report.html." if run else ""
    client.update_model_version(version.name, str(version.version), state + page)


def describe_champion(client: "MlflowClient", champion: ModelVersion) -> None:
    """Correct the description of a champion whose alias a person set."""
    entity = client.get_model_version(champion.name, str(champion.version))
    if not (entity.description or "").startswith((PROMOTED, IS_CHAMPION)):
        describe(client, champion, f"{IS_CHAMPION} {reason_then(champion)}", champion=True)


def reason_then(version: ModelVersion) -> str:
    """Return the gate's last decision on a version, marked as past."""
    return version.tags.get("gate", "").replace(PROMOTED, "When it was promoted:", 1)


def drop_challenger(client: "MlflowClient", version: ModelVersion) -> None:
    """Delete the alias `challenger` if it is on this version."""
    challenger = lookup(client, version.name, "challenger")
    if challenger and challenger.version == version.version:
        client.delete_registered_model_alias(version.name, "challenger")


def settled_promotion(
    client: "MlflowClient", version: ModelVersion, champion: ModelVersion | None
) -> Promotion | None:
    """Return the outcome of a candidate that is not compared; None if the gate must decide."""
    number = str(version.version)
    if champion and STOOD not in champion.tags:
        client.set_model_version_tag(version.name, str(champion.version), STOOD, "yes")
    if champion:
        describe_champion(client, champion)
    if champion and champion.version == version.version:
        reason = reason_then(champion)
        return Promotion(version=champion, alias="champion", reason=reason, before=champion)
    candidate = lookup(client, version.name, None, number)
    if candidate and STOOD in candidate.tags:
        client.set_registered_model_alias(version.name, "challenger", number)
        describe(client, candidate, TAKEN_DOWN)
        return Promotion(version=version, alias="challenger", reason=TAKEN_DOWN, before=champion)
    return None


def rollback(name: str) -> tuple[ModelVersion, ModelVersion | None]:
    """Make the previous champion the champion again; return it and the version it takes down.

    The gate never promotes the version that is taken down. The alias `previous` is deleted, so a
    repeated call is refused and changes nothing. The registry is not locked: the gate, which may
    decide meanwhile, notices the new champion and decides again.

    Raises:
        RegistryError: there is no `previous`, or it is the champion.
        UnsafeModelError: the files of the previous champion are damaged.
    """
    address = f"models:/{name}@previous"
    find_encoder(address)  # its files are verified before anything moves
    previous = find_version(address)
    number = str(previous.version)
    with registry_client() as client:
        champion = lookup(client, name, "champion")
        if champion and champion.version == previous.version:
            raise RegistryError(
                f"A rollback needs a previous champion; {address} is the champion already"
                f"{alternatives(name)} Set the alias champion by hand (docs/serving.md)."
            )
        if champion:  # first, so that the gate cannot promote it again
            client.set_model_version_tag(name, str(champion.version), STOOD, "yes")
        client.set_registered_model_alias(name, "champion", number)
        client.set_model_version_tag(name, number, STOOD, "yes")
        client.delete_registered_model_alias(name, "previous")
        drop_challenger(client, previous)
        state = f"{IS_CHAMPION} A rollback restored it. {reason_then(previous)}"
        describe(client, previous, state, champion=True)
        if champion:
            taken = (
                f"A rollback to {previous.uri} took it down; the gate does not promote it again."
            )
            describe(client, champion, f"{taken} {reason_then(champion)}")
    return previous, champion
