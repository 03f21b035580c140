"""Rollback: the previous champion serves again, at once, also while the gate decides."""

from sentemb_core.errors import RegistryError
from tasks.promotion import IS_CHAMPION, STOOD, describe, drop_challenger, reason_then
from tasks.registered_encoders import find_encoder
from tasks.registry import ModelVersion, alternatives, find_version, lookup, registry_client


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
