"""Two homes behind one address: what one has computed, the other finds, verified."""

import hashlib
import json

import pytest

from sentemb_core.errors import CorruptArtifactError, SharedStoreError, UsageError
from sentemb_core.store import claims, records
from sentemb_core.store.disk import unique
from sentemb_core.store.maintenance import collect, fsck
from sentemb_core.store.objects import Manifest, Store
from sentemb_core.store.seals import canonical, sealed
from sentemb_core.store.shared import SharedStore
from sentemb_core.store.stages import Stage
from sentemb_core.types import ArtifactRef

in_memory = pytest.mark.parametrize("shared", ["memory"], indirect=True)


def folder(ref: ArtifactRef) -> str:
    return f"objects/sha256/{ref.digest[:2]}/{ref.digest}"


def test_a_second_machine_computes_nothing_and_copies_what_it_reads(chain, machine, shared):
    first = machine("a")
    result = chain.run_chain()
    second = machine("b")
    chain.RAN.clear()
    assert chain.run_chain() == result
    assert chain.RAN == []
    assert list(second.objects.glob("*/*")) == []
    copy = second.path(result.model)
    assert [path.name for path in second.objects.glob("*/*")] == [result.model.digest]
    assert (copy / "values.json").read_bytes() == (
        first.path(result.model) / "values.json"
    ).read_bytes()
    assert records.lineage(second, result.model) == records.lineage(first, result.model)
    assert fsck(second).healthy


@in_memory
def test_the_cache_is_removed_and_read_again(chain, machine, shared, grow_old):
    store = machine("home")
    result = chain.run_chain()
    grow_old()
    assert collect(store, [], 0).kept_objects == 0
    chain.RAN.clear()
    assert chain.run_chain() == result
    assert chain.RAN == []
    grow_old()
    assert collect(store, [], 0).counts["records"] == 0
    assert store.path(result.model).is_dir()


@in_memory
def test_results_from_before_are_copied_at_their_next_use(chain, machine, shared, monkeypatch):
    with monkeypatch.context() as alone:
        alone.delenv("SENTEMB_STORE")
        machine("a")
        result = chain.run_chain()
    machine("a")
    assert chain.run_chain() == result
    machine("b")
    chain.RAN.clear()
    assert chain.run_chain() == result
    assert chain.RAN == []


def flip(shared: SharedStore, name: str) -> None:
    content = bytearray(shared.read(name))
    content[0] ^= 1
    shared.write(name, bytes(content))


DAMAGES = {
    "flipped": flip,
    "truncated": lambda shared, name: shared.write(name, shared.read(name)[:-1]),
    "lost": SharedStore.remove,
}


@in_memory
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_broken_shared_file_is_named_unused_and_written_again(chain, machine, shared, damage):
    machine("a")
    result = chain.run_chain()
    file = f"{folder(result.model)}/data/values.json"
    DAMAGES[damage](shared, file)
    store = machine("b")
    assert chain.run_chain() == result
    with pytest.raises(CorruptArtifactError, match=f"{shared.url}/{file}"):
        store.path(result.model)
    assert list(store.objects.glob("*/*")) == []
    assert list(store.tmp.iterdir()) == []
    chain.RAN.clear()
    assert chain.run_chain() == result
    assert chain.RAN == ["train"]
    assert machine("c").path(result.model).is_dir()


@in_memory
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_broken_shared_manifest_is_a_miss_and_written_again(chain, machine, shared, damage):
    machine("a")
    result = chain.run_chain()
    DAMAGES[damage](shared, f"{folder(result.model)}/manifest.json")
    machine("b")
    chain.RAN.clear()
    assert chain.run_chain() == result
    assert chain.RAN == ["train"]
    assert machine("c").path(result.model).is_dir()


@in_memory
def test_a_poisoned_shared_record_is_a_miss_and_written_again(chain, machine, shared):
    machine("a")
    result = chain.run_chain()
    edges = chain.put("edges", ["a"], 1)
    name = f"records/train/{chain.TRAIN.key({'edges': edges, 'rate': 0.1}).digest}.json"
    record = json.loads(shared.read(name))["record"]
    other = chain.put("other").model_dump()
    for number, poison in enumerate(
        (
            b"junk",
            sealed(record | {"stage": "../../evil"}),
            sealed(record | {"result": record["result"] | {"model": other}}),
        )
    ):
        shared.write(name, poison)
        machine(f"b{number}")
        chain.RAN.clear()
        assert chain.run_chain() == result
        assert chain.RAN == ["train"]
        machine(f"c{number}")
        assert chain.run_chain() == result
        assert chain.RAN == ["train"]


@in_memory
def test_a_shared_manifest_leads_to_no_path_outside(chain, machine, shared, tmp_path):
    sha = "a" * 64
    for path in ("../../outside", "/outside", "a/../../outside", "a//b", ".hidden", ""):
        content = canonical(
            {"version": 1, "kind": "x", "files": [{"path": path, "size": 1, "sha256": sha}]}
        )
        with pytest.raises(ValueError, match="path"):
            Manifest.model_validate_json(content)
        ref = ArtifactRef(kind="x", digest=hashlib.sha256(content).hexdigest(), size=1)
        shared.write(f"{folder(ref)}/manifest.json", content)
        store = machine("b")
        assert not store.is_shared(ref)
        with pytest.raises(CorruptArtifactError):
            store.path(ref)
    assert not any(tmp_path.rglob("outside*"))


def chance(seed: int) -> ArtifactRef:
    """Return another artifact at each call; with seed 0, another machine is faster."""
    with Store.default().writing("noise") as draft:
        (draft.path / "noise").write_text(unique("noise"))
    if seed == 0:
        Chance.others.append(Chance.run_elsewhere())
    return draft.ref


class Chance:
    stage = Stage("chance", 1, chance)
    others: list[ArtifactRef]
    run_elsewhere = staticmethod(lambda: None)


@in_memory
def test_the_first_of_two_results_is_that_of_all_machines(machine, shared, monkeypatch):
    store = machine("a")

    def run_elsewhere() -> ArtifactRef:
        monkeypatch.setattr(Chance, "run_elsewhere", lambda: None)
        result = Chance.stage.run(machine("b"), {"seed": 0})
        machine("a")
        return result

    monkeypatch.setattr(claims, "LEASE", 0)  # the machines do not wait for each other
    monkeypatch.setattr(claims, "PAUSE", 0)
    monkeypatch.setattr(Chance, "others", [], raising=False)
    monkeypatch.setattr(Chance, "run_elsewhere", run_elsewhere)
    result = Chance.stage.run(store, {"seed": 0})
    (first,) = [ref for ref in Chance.others if ref]
    assert result == first
    assert Chance.stage.run(store, {"seed": 0}) == first


@in_memory
def test_a_refreshed_result_replaces_the_shared_one(machine, shared):
    store = machine("a")
    before = Chance.stage.run(store, {"seed": 1})
    assert Chance.stage.run(store, {"seed": 1}) == before
    after = Chance.stage.run(store, {"seed": 1}, refresh=True)
    assert after != before
    assert Chance.stage.run(machine("b"), {"seed": 1}) == after


FAULTS = {
    "full": ("put_file", OSError("QuotaExceeded")),
    "expired": ("cat_file", PermissionError("The provided token has expired.")),
    "unreachable": ("open", ConnectionError("canary-of-a-secret")),
}


@in_memory
@pytest.mark.parametrize("fault", FAULTS)
def test_a_refusal_has_a_code_and_loses_nothing(chain, machine, shared, monkeypatch, fault):
    machine("a")
    method, error = FAULTS[fault]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-of-a-secret")

    def refuse(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(shared._files, method, refuse)
        with pytest.raises(SharedStoreError) as caught:
            chain.run_chain()
    assert "canary" not in str(caught.value)
    computed = list(chain.RAN)
    result = chain.run_chain()
    assert [*computed, *("encode", "graph", "train")[len(computed) :]] == chain.RAN
    machine("b")
    assert chain.run_chain() == result
    assert len(chain.RAN) == 3


@in_memory
def test_a_store_that_overwrites_instead_of_creating_is_refused(shared, monkeypatch):
    opened = shared._files.open
    monkeypatch.setattr(shared._files, "open", lambda path, _: opened(path, "wb"))
    with pytest.raises(SharedStoreError):
        shared.create("records/x", b"1")
    assert shared.read("records/x") is None


def test_absent_credentials_and_buckets_are_refused(bucket, monkeypatch):
    with pytest.raises(SharedStoreError):
        SharedStore("s3://no-such-bucket/team").create("x", b"1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    with pytest.raises(SharedStoreError):
        SharedStore(bucket).read("x")


@pytest.mark.parametrize("url", ["nothing://x/y", "s3://id:canary@bucket/team"])
def test_an_address_that_cannot_be_opened_is_refused(url: str):
    with pytest.raises(UsageError) as caught:
        SharedStore(url).read("x")
    assert "canary" not in str(caught.value)
