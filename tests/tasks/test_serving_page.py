"""The snippets of docs/serving.md, run as they are printed there."""

import json
import re

import pyarrow.parquet as pq
import pytest

from sentemb_core.cli_inputs import open_documents
from sentemb_core.config.run import CorpusConfig
from sentemb_core.document_vectors import write_vectors
from sentemb_core.encoder.checkpoint import save_encoder
from sentemb_core.errors import RegistryError, UnsafeModelError
from sentemb_core.evaluation.gate import GateDecision
from tasks.promotion import IS_CHAMPION, TAKEN_DOWN, promote, rollback
from tasks.registry import register
from tasks.servers import mlflow_client
from tests.repository import ROOT
from tests.tiny import static

pytestmark = pytest.mark.usefixtures("tracked_home")

PAGE = (ROOT / "docs/serving.md").read_text("utf-8")

LOADS, READS, GOES_BACK = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)

PLANTED = """
from pathlib import Path
from sentence_transformers.models import StaticEmbedding
Path(__file__).with_name("ran").touch()
Planted = StaticEmbedding
"""


@pytest.fixture
def made(home, tmp_path):
    """A function that registers the versions a, b and c of one name."""
    save_encoder(static(), tmp_path / "encoder", "A card.")
    return lambda which: register(tmp_path / "encoder", "news", fingerprint=which)


def decision(better):
    return GateDecision(promote=better, reason="compared", difference=0.0, low=0.0, high=0.0)


def compared(version, better=True):
    """The promotion of a version that is, or is not, better than the champion."""
    return promote(version, lambda _: decision(better))


@pytest.fixture
def replaced(made):
    """Two versions; the second one replaced the first one as the champion."""
    first, second = made("a"), made("b")
    compared(first)
    compared(second)
    return first, second


def champion(home):
    return int(mlflow_client(home).get_model_version_by_alias("news", "champion").version)


@pytest.fixture
def typed(home, monkeypatch):
    """A function that runs a snippet in this home and returns its names."""
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
    compared(made("a"))
    assert typed(LOADS)["encoder"].encode(["w5 w6"]).shape[0] == 1


def test_a_service_encodes_documents_as_an_index_does(home, made, typed, tmp_path):
    compared(made("a"))
    text = f"Of {' '.join(f'w{k}' for k in range(4, 30))}. W5 w6! W5 w6! Here w7 w8?\n\nAnd w9"
    source = tmp_path / "documents.jsonl"
    source.write_text(json.dumps({"text": text}))
    with open_documents(CorpusConfig(source=str(source))) as folder:
        write_vectors(static(), folder, tmp_path / "index.parquet", "document")
    (kept,) = pq.read_table(tmp_path / "index.parquet")["embedding"].to_pylist()
    encoder = typed(LOADS)["encoder"]
    assert typed(READS, encoder=encoder, text=text)["document"] == pytest.approx(kept, abs=1e-5)
    assert encoder.encode(text) @ kept < 0.99


def test_a_service_runs_no_code_of_the_registry(home, made, typed):
    compared(made("a"))
    (folder,) = home.glob("mlartifacts/*/artifacts/model/model.sentence_transformer")
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "planted.Planted"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "planted.py").write_text(PLANTED)
    with pytest.raises(ValueError, match="trust_remote_code"):
        typed(LOADS)
    assert not list(home.rglob("ran"))


def test_version_taken_down_by_a_person_stays_down(home, made, typed, replaced):
    first, _ = replaced
    typed(GOES_BACK)
    assert champion(home) == first.version
    for _ in range(2):
        again = promote(made("b"), lambda _: pytest.fail("compared"))
        assert (again.alias, again.before.uri) == ("challenger", first.uri)
        assert again.reason == TAKEN_DOWN
    assert champion(home) == first.version
    third = compared(made("c"))
    assert third.alias == "champion"
    assert compared(made("b")).alias == "challenger"
    assert champion(home) == third.version.version


def test_champion_set_and_taken_down_by_a_person_stays_down(home, made):
    first, second = made("a"), made("b")
    client = mlflow_client(home)
    compared(first)
    compared(second, better=False)
    client.set_registered_model_alias("news", "champion", str(second.version))
    compared(second)
    client.set_registered_model_alias("news", "champion", str(first.version))
    assert compared(second).alias == "challenger"


def test_setting_the_alias_by_hand_restores_a_version(home, made, typed, replaced):
    _, second = replaced
    typed(GOES_BACK)
    client = mlflow_client(home)
    client.set_registered_model_alias("news", "champion", str(second.version))
    assert compared(second).alias == "champion"
    compared(made("c"))
    assert compared(second).alias == "champion", "the gate had replaced it, so it is compared again"


def test_interrupted_promotion_takes_no_version_down(home, made, monkeypatch):
    first, second = made("a"), made("b")
    compared(first)
    client, set_alias = mlflow_client(home), mlflow_client(home).set_registered_model_alias

    def breaks(name, alias, number):
        return 1 / 0 if alias == "champion" else set_alias(name, alias, number)

    with monkeypatch.context() as patched:
        patched.setattr(client, "set_registered_model_alias", breaks)
        with pytest.raises(ZeroDivisionError):
            compared(second)
    assert compared(first).alias == "champion"
    assert compared(second).alias == "champion"


def test_restoring_during_a_comparison_repeats_the_comparison(home, made, typed, replaced):
    (first, second), third = replaced, made("c")
    rivals = []

    def decide(rival):
        if not rivals:
            typed(GOES_BACK)
        rivals.append(rival.version)
        return decision(rival.version == second.version)

    promotion = promote(third, decide)
    assert rivals == [second.version, first.version]
    assert (promotion.alias, promotion.before.uri) == ("challenger", first.uri)
    assert champion(home) == first.version
    assert promote(second, lambda _: pytest.fail("compared")).alias == "challenger"


def test_candidate_set_by_hand_during_its_comparison_is_champion(home, made):
    first, second = made("a"), made("b")
    compared(first)
    client = mlflow_client(home)

    def decide(_):
        client.set_registered_model_alias("news", "champion", str(second.version))
        return decision(better=False)

    assert promote(second, decide).alias == "champion"
    assert champion(home) == second.version


def test_champion_of_another_program_is_refused_with_the_snippet_of_the_page(home, made, tmp_path):
    first, client = made("a"), mlflow_client(home)
    theirs = client.create_model_version("news", (tmp_path / "encoder").as_uri())
    client.set_registered_model_alias("news", "champion", theirs.version)
    with pytest.raises(UnsafeModelError, match="version 2 of 'news' has none") as raised:
        compared(first)
    call = "delete_registered_model_alias('news', ALIAS)"
    assert call in str(raised.value)
    assert call.replace("'", '"').replace("ALIAS", '"champion"') in PAGE
    client.delete_registered_model_alias("news", "champion")
    assert compared(first).alias == "champion"


def test_replaced_champion_returns_only_if_it_is_better(home, replaced):
    first, second = replaced
    assert compared(first, better=False).alias == "challenger"
    assert champion(home) == second.version
    assert compared(first).alias == "champion"


def text_of(home, version):
    return mlflow_client(home).get_model_version("news", str(version.version)).description


def test_rollback_restores_the_previous_champion_and_keeps_the_other_out(home, made, replaced):
    first, second = replaced
    compared(first, better=False)  # it is the challenger as well
    assert [one and one.uri for one in rollback("news")] == [first.uri, second.uri]
    aliases = mlflow_client(home).search_registered_models()[0].aliases
    assert {alias: int(number) for alias, number in aliases.items()} == {"champion": first.version}
    with pytest.raises(RegistryError, match=r"E702 .*models:/news@previous"):
        rollback("news")
    assert champion(home) == first.version
    assert promote(second, lambda _: pytest.fail("compared")).alias == "challenger"
    third = compared(made("c"))
    assert third.before is not None
    assert (third.alias, third.before.uri) == ("champion", first.uri)
    assert rollback("news")[0].uri == first.uri, "the second rollback, after another promotion"


def test_rollback_during_a_comparison_repeats_the_comparison(home, made, replaced):
    (first, _), third = replaced, made("c")
    rivals = []

    def decide(rival):
        if not rivals:
            rollback("news")
        rivals.append(rival.version)
        return decision(better=False)

    assert promote(third, decide).alias == "challenger"
    assert rivals == [2, 1]
    assert champion(home) == first.version


@pytest.mark.parametrize("name", ["nothing", "../x", "models:/news@champion", "", "news"])
def test_rollback_without_a_previous_champion_changes_nothing(home, made, name):
    first = made("a")
    compared(first)
    with pytest.raises(RegistryError, match="E702"):
        rollback(name)
    assert champion(home) == first.version


def test_rollback_is_refused_where_the_alias_was_set_by_hand(home, typed, replaced):
    first, second = replaced
    typed(GOES_BACK)
    with pytest.raises(RegistryError, match=rf"E702 .*@champion = {first.version}"):
        rollback("news")
    assert champion(home) == first.version
    assert second.version != first.version


def test_rollback_to_damaged_files_is_refused_before_anything_moves(home, replaced):
    _, second = replaced
    for file in home.glob("mlartifacts/*/artifacts/model/*/model.safetensors"):
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
    with pytest.raises(UnsafeModelError):
        rollback("news")
    assert champion(home) == second.version


def test_description_of_a_version_follows_what_became_of_it(home, made, replaced):
    first, second = replaced
    assert second.uri in text_of(home, first), "replaced by it"
    assert text_of(home, second) == "compared"
    rollback("news")
    assert second.uri not in text_of(home, first)
    assert first.uri in text_of(home, second), "taken down for it"
    assert IS_CHAMPION in text_of(home, first)
    promote(second, lambda _: pytest.fail("compared"))
    assert text_of(home, second) == TAKEN_DOWN
    mlflow_client(home).set_registered_model_alias("news", "champion", str(second.version))
    compared(made("c"), better=False)
    assert IS_CHAMPION in text_of(home, second), "a person set it"
