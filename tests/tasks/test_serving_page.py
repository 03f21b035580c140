"""What docs/serving.md has a service and a person type, as it is printed there."""

import json
import re

import pyarrow.parquet as pq
import pytest

from sentemb_core.cli_inputs import documents_of
from sentemb_core.config.run import CorpusConfig
from sentemb_core.document_vectors import write_vectors
from sentemb_core.encoder.checkpoint import save_encoder
from sentemb_core.errors import UnsafeModelError
from sentemb_core.evaluation.gate import GateDecision
from tasks.mlflow_client import mlflow_client
from tasks.registry import promote, register
from tests.repository import ROOT
from tests.tiny import static

PAGE = (ROOT / "docs/serving.md").read_text("utf-8")

LOADS, READS, GOES_BACK = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)

PLANTED = """
from pathlib import Path
from sentence_transformers.models import StaticEmbedding
Path(__file__).with_name("ran").touch()
Planted = StaticEmbedding
"""


@pytest.fixture
def home(tracked_home):
    return tracked_home


@pytest.fixture
def made(home, tmp_path):
    """A way to the versions a, b and c of one name."""
    save_encoder(static(), tmp_path / "encoder", "A card.")
    return lambda which: register(tmp_path / "encoder", "news", fingerprint=which)


def judged(version, better=True):
    """What becomes of a version that is, or is not, better than the champion."""
    told = GateDecision(promote=better, reason="judged", difference=0.0, low=0.0, high=0.0)
    return promote(version, lambda _: told)


def champion(home):
    return int(mlflow_client(home).get_model_version_by_alias("news", "champion").version)


@pytest.fixture
def typed(home, monkeypatch):
    """A way to the names of a snippet that ran in this home; MLflow then knows no address of it."""
    import mlflow
    from mlflow.tracking._tracking_service import utils

    def ran(snippet, **names):
        names |= {"mlflow": mlflow}
        with monkeypatch.context() as patched:
            patched.setattr(utils, "_tracking_uri", None)
            patched.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home}/mlflow.db")
            exec(snippet.replace("/home/me/.sentemb", str(home)), names)
        return names

    return ran


def test_a_service_loads_the_champion(home, made, typed):
    judged(made("a"))
    assert typed(LOADS)["encoder"].encode(["w5 w6"]).shape[0] == 1


def test_a_service_reads_a_document_as_an_index_has_it(home, made, typed, tmp_path):
    judged(made("a"))
    text = f"Of {' '.join(f'w{k}' for k in range(4, 30))}. W5 w6! W5 w6! Here w7 w8?\n\nAnd w9"
    source = tmp_path / "documents.jsonl"
    source.write_text(json.dumps({"text": text}))
    with documents_of(CorpusConfig(source=str(source))) as folder:
        write_vectors(static(), folder, tmp_path / "index.parquet", "document")
    (kept,) = pq.read_table(tmp_path / "index.parquet")["embedding"].to_pylist()
    encoder = typed(LOADS)["encoder"]
    assert typed(READS, encoder=encoder, text=text)["document"] == pytest.approx(kept, abs=1e-5)
    assert encoder.encode(text) @ kept < 0.99


def test_a_service_runs_no_code_that_somebody_put_into_the_registry(home, made, typed):
    judged(made("a"))
    (folder,) = home.glob("mlartifacts/*/artifacts/model/model.sentence_transformer")
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "planted.Planted"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "planted.py").write_text(PLANTED)
    with pytest.raises(ValueError, match="trust_remote_code"):
        typed(LOADS)
    assert not list(home.rglob("ran"))


def test_a_version_that_a_person_took_down_is_not_promoted_again(home, made, typed):
    first, second = made("a"), made("b")
    judged(first)
    judged(second)
    typed(GOES_BACK)
    assert champion(home) == first.version
    for _ in range(2):
        again = promote(made("b"), lambda _: pytest.fail("judged"))
        assert (again.alias, again.before.uri) == ("challenger", first.uri)
        assert "a person took it down" in again.reason
    assert champion(home) == first.version


def test_nor_is_it_once_the_gate_has_put_a_third_in_the_place_of_the_restored(home, made, typed):
    for which in "ab":
        judged(made(which))
    typed(GOES_BACK)
    third = judged(made("c"))
    assert third.alias == "champion"
    assert judged(made("b")).alias == "challenger"
    assert champion(home) == third.version.version


def test_a_champion_that_a_person_had_set_and_took_down_stays_down(home, made):
    first, second = made("a"), made("b")
    client = mlflow_client(home)
    judged(first)
    judged(second, better=False)
    client.set_registered_model_alias("news", "champion", str(second.version))
    judged(second)
    client.set_registered_model_alias("news", "champion", str(first.version))
    assert judged(second).alias == "challenger"


def test_who_sets_it_back_by_hand_lifts_that(home, made, typed):
    first, second = made("a"), made("b")
    judged(first)
    judged(second)
    typed(GOES_BACK)
    client = mlflow_client(home)
    client.set_registered_model_alias("news", "champion", str(second.version))
    assert judged(second).alias == "champion"
    judged(made("c"))
    assert judged(second).alias == "champion", "the gate had replaced it, and judges it now"


def test_a_promotion_that_a_server_broke_off_has_taken_nobody_down(home, made, monkeypatch):
    first, second = made("a"), made("b")
    judged(first)
    client, set_alias = mlflow_client(home), mlflow_client(home).set_registered_model_alias

    def breaks(name, alias, number):
        return 1 / 0 if alias == "champion" else set_alias(name, alias, number)

    with monkeypatch.context() as patched:
        patched.setattr(client, "set_registered_model_alias", breaks)
        with pytest.raises(ZeroDivisionError):
            judged(second)
    assert judged(first).alias == "champion"
    assert judged(second).alias == "champion"


def test_who_goes_back_while_the_gate_is_asked_is_not_overruled(home, made, typed):
    first, second, third = (made(which) for which in "abc")
    judged(first)
    judged(second)
    asked = []

    def judge(rival):
        if not asked:
            typed(GOES_BACK)
        asked.append(rival.version)
        better = rival.version == second.version
        return GateDecision(promote=better, reason="judged", difference=0.0, low=0.0, high=0.0)

    told = promote(third, judge)
    assert asked == [second.version, first.version]
    assert (told.alias, told.before.uri, champion(home)) == ("challenger", first.uri, first.version)
    assert promote(second, lambda _: pytest.fail("judged")).alias == "challenger"


def test_a_candidate_that_a_person_sets_while_the_gate_is_asked_is_the_champion(home, made):
    first, second = made("a"), made("b")
    judged(first)
    client = mlflow_client(home)

    def judge(_):
        client.set_registered_model_alias("news", "champion", str(second.version))
        return GateDecision(promote=False, reason="judged", difference=0.0, low=0.0, high=0.0)

    assert promote(second, judge).alias == "champion"
    assert champion(home) == second.version


def test_a_champion_that_is_not_ours_is_told_with_the_way_out_of_the_page(home, made, tmp_path):
    first, client = made("a"), mlflow_client(home)
    theirs = client.create_model_version("news", (tmp_path / "encoder").as_uri())
    client.set_registered_model_alias("news", "champion", theirs.version)
    with pytest.raises(UnsafeModelError, match=r"no digest.* set it .* or delete it") as raised:
        judged(first)
    call = "delete_registered_model_alias('news', ALIAS)"
    assert call in str(raised.value)
    assert call.replace("'", '"').replace("ALIAS", '"champion"') in PAGE
    client.delete_registered_model_alias("news", "champion")
    assert judged(first).alias == "champion"


def test_one_that_the_gate_replaced_returns_only_if_it_is_better_than_the_champion(home, made):
    first, second = made("a"), made("b")
    judged(first)
    judged(second)
    assert judged(first, better=False).alias == "challenger"
    assert champion(home) == second.version
    assert judged(first).alias == "champion"
