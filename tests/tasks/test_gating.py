"""The gate asks what no encoder before it was taught the answers of."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from sentemb_core.config.run import CorpusConfig, EncoderConfig, InfoCSEIDC, ValidationConfig
from sentemb_core.corpus.table import Document, DocumentWriter
from sentemb_core.corpus.validation_pool import ValidationPool, is_label, write_validation_pool
from sentemb_core.types import ArtifactRef
from tasks import gate as gating
from tasks.mlflow_model import model_ref
from tasks.model_versions import ModelVersion
from tasks.registry import Alias, Promotion
from tasks.run_result import RowKind

CORPUS = CorpusConfig(source="d.jsonl")


def ref(digit: str = "0") -> ArtifactRef:
    return ArtifactRef(kind="model", digest=64 * digit, size=1)


REF = ref()


@pytest.fixture
def gate_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    with DocumentWriter(tmp_path / "documents.parquet") as writer:
        for k in range(300):
            writer.write(Document(f"d{k}", [f"It rains {k}.", "It snows."], f"Title {k}", k))
    write_validation_pool(tmp_path / "documents.parquet", ValidationConfig(), tmp_path)
    monkeypatch.setattr(gating, "artifact_path", lambda _: tmp_path)
    return ValidationPool.open(tmp_path).of_split("gate").query_doc_id


def champion(number: int = 1, **tags: str) -> ModelVersion:
    return ModelVersion(name="news", version=number, artifact=REF, tags=tags)


def kept(share: float) -> list[bool]:
    texts = cast(Any, SimpleNamespace(validation_pool=REF))
    return gating.never_learnt(share, texts).tolist()


def test_labels_that_an_encoder_learnt_from_do_not_judge(gate_ids: list[str]):
    told = kept(0.5)
    assert told == [not is_label(doc_id, 0.5) for doc_id in gate_ids]
    assert 0.3 < sum(told) / len(told) < 0.7


def test_without_labels_the_whole_split_judges(gate_ids: list[str]):
    assert kept(0.0) == [True] * len(gate_ids)


@pytest.fixture
def fine_tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder of an encoder that is registered twice, once after labels of 30 %."""
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    taught = champion(label_share="0.3").model_copy(update={"artifact": model_ref(folder)})
    found = [champion(label_share="0.9"), taught, taught.model_copy(update={"tags": {}})]
    monkeypatch.setattr(gating, "versions", lambda: found)
    return str(folder)


def test_a_start_encoder_as_a_hub_leaves_it_is_no_registered_version(fine_tuned: str):
    config = InfoCSEIDC(corpus=CORPUS, encoder=EncoderConfig(name=fine_tuned))
    assert gating.share_before(config) == 0.3
    (Path(fine_tuned) / ".gitattributes").touch()
    assert gating.share_before(config) == 0.0


@pytest.mark.parametrize(
    ("champion_learnt", "asked"), [("0.0", 0.3), ("0.5", 0.5)], ids=["start", "champion"]
)
def test_the_gate_asks_what_neither_start_nor_champion_has_learnt(
    fine_tuned: str,
    champion_learnt: str,
    asked: float,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    shares: list[float] = []

    def all_of_them(share: float, _: Any) -> Any:
        shares.append(share)
        return np.full(200, True)

    monkeypatch.setattr(gating, "never_learnt", all_of_them)
    monkeypatch.setattr(gating, "gate_ranks", lambda _: np.ones(200, np.int64))
    monkeypatch.setattr(gating, "champion_ranks", lambda *_: np.ones(200, np.int64))
    monkeypatch.setattr(gating, "collapsed", lambda *_: False)
    training = cast(Any, SimpleNamespace(rows=[SimpleNamespace(scores=None)], best=0, texts=None))
    config = InfoCSEIDC(corpus=CORPUS, encoder=EncoderConfig(name=fine_tuned))
    gating.gate_verdict(config, training, champion(label_share=champion_learnt))
    assert shares == [asked]
    assert "labels of 30 % of all documents" in caplog.text
    assert "validation.label_share=0.3" in caplog.text


@pytest.mark.parametrize(
    ("ahead", "collapsed", "promoted"),
    [("fair", False, True), ("learnt", False, False), ("fair", True, False)],
)
def test_an_encoder_wins_on_fair_queries_and_unless_it_collapsed(
    monkeypatch: pytest.MonkeyPatch, ahead: str, collapsed: bool, promoted: bool
):
    fair = np.arange(200) < 100
    ranks = {"best": np.where(fair == (ahead == "fair"), 1, 9), "rival": np.full(200, 9)}
    monkeypatch.setattr(gating, "never_learnt", lambda *_: fair)
    monkeypatch.setattr(gating, "gate_ranks", ranks.__getitem__)
    monkeypatch.setattr(gating, "champion_ranks", lambda *_: ranks["rival"])
    monkeypatch.setattr(gating, "collapsed", lambda *_: collapsed)
    rows = [SimpleNamespace(scores=name) for name in ranks]
    training = cast(Any, SimpleNamespace(rows=rows[::-1], best=1, texts=None))
    assert gating.gate_verdict(InfoCSEIDC(corpus=CORPUS), training, champion()).promote is promoted


def test_a_champion_is_read_with_its_own_tokens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gating, "resolve", lambda _: None)
    monkeypatch.setattr(gating, "tokenise_sentences", lambda *told: told)
    monkeypatch.setattr(gating, "validate_encoder", lambda *told: told)
    monkeypatch.setattr(gating, "gate_ranks", lambda scores: scores)
    texts = cast(Any, SimpleNamespace(documents="d", validation_pool="b", sentences="the run's"))
    assert gating.champion_ranks(champion(), texts) == (REF, ("d", "b", REF), "b")


def on_its_path(*kinds: str) -> Any:
    """A training whose best encoder came from rows of these kinds."""
    return SimpleNamespace(path=[SimpleNamespace(kind=kind) for kind in kinds])


def test_an_encoder_has_learnt_labels_if_any_on_its_path_was_fine_tuned():
    assert gating.learnt_labels(on_its_path("start", "fine-tuned", "round"))
    assert not gating.learnt_labels(on_its_path("start", "round"))


def registration(
    monkeypatch: pytest.MonkeyPatch,
    *,
    made: ArtifactRef = REF,
    documents: ArtifactRef = REF,
    kind: RowKind = "round",
    **settings: Any,
) -> dict[str, Any]:
    """With what a run is registered whose best encoder is `made`, by a row of this kind."""
    scores = SimpleNamespace(document_to_counterpart=SimpleNamespace(recall_at_5=0.5, mrr_at_10=0))
    told: dict[str, Any] = {}
    monkeypatch.setattr(gating, "artifact_path", lambda ref: ref)
    monkeypatch.setattr(gating, "scores_of", lambda _: {"test": scores})
    monkeypatch.setattr("sentemb_core.corpus.tokens.TokenCorpus.open", lambda _: None)
    monkeypatch.setattr("sentemb_core.evaluation.canary.drawn_sentences", lambda _: [])
    monkeypatch.setattr(gating, "register", lambda *_, **given: told.update(given))
    texts = SimpleNamespace(documents=documents, sentences=REF)
    row = SimpleNamespace(kind="start", label="start", scores=REF, encoder=REF)
    best = SimpleNamespace(kind=kind, label="round 1", scores=REF, encoder=made)
    rows = [row, best]
    training = SimpleNamespace(texts=texts, rows=rows, best=1, path=rows)
    config = InfoCSEIDC.model_validate({"corpus": CORPUS} | settings)
    gating.registered(config, cast(Any, training), REF, "run-1")
    return told


@pytest.mark.parametrize(
    "changed",
    [
        {"made": ref("1")},
        {"documents": ref("1")},
        {"control": False},
        {"postprocess": "whitening"},
    ],
)
def test_another_encoder_corpus_or_setting_is_another_version(
    changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    """The same documents and settings may give another: by other code, or on another device."""
    told = [registration(monkeypatch, **changes) for changes in ({}, {}, changed)]
    first, again, other = (one["fingerprint"] for one in told)
    assert first == again != other


def test_a_setting_that_older_versions_did_not_know_makes_no_version_while_it_is_unset(
    monkeypatch: pytest.MonkeyPatch,
):
    counted: list[dict[str, Any]] = []

    def fingerprint(data: str, parent: str, config: dict[str, Any], *_: object) -> str:
        counted.append(config)
        return ""

    monkeypatch.setattr(gating, "fingerprint_of", fingerprint)
    registration(monkeypatch)
    registration(monkeypatch, postprocess="flow")
    assert [config.get("postprocess") for config in counted] == [None, "flow"]
    assert "postprocess" not in counted[0]
    assert counted[0]["control"] is True


def test_where_the_start_encoder_lay_makes_no_version(monkeypatch: pytest.MonkeyPatch):
    one, other = (
        registration(monkeypatch, encoder=EncoderConfig(name=place))["fingerprint"]
        for place in ("/here", "/there")
    )
    assert one == other


@pytest.mark.parametrize(("kind", "share"), [("fine-tuned", 0.5), ("round", 0.0)])
def test_a_version_that_learnt_labels_is_tagged_with_their_share(
    kind: RowKind, share: float, monkeypatch: pytest.MonkeyPatch
):
    pool = ValidationConfig(label_share=0.5)
    assert registration(monkeypatch, kind=kind, validation=pool)["tags"]["label_share"] == share


def test_labels_are_handed_down_to_what_starts_from_their_encoder(
    fine_tuned: str, monkeypatch: pytest.MonkeyPatch
):
    told = registration(monkeypatch, encoder=EncoderConfig(name=fine_tuned))
    assert told["tags"]["label_share"] == 0.3


@pytest.mark.parametrize(
    ("alias", "before", "told"),
    [
        ("champion", None, "models:/news/2 is the champion now, the first of its name."),
        ("champion", 1, "models:/news/2 is the champion now; models:/news/1, which was, is @prev"),
        ("champion", 2, "models:/news/2 is the champion already, and nothing changes."),
        ("challenger", None, "models:/news/2 is registered as the challenger; there is no champi"),
        ("challenger", 1, "models:/news/2 is registered as the challenger; models:/news/1 stays "),
    ],
)
def test_what_serves_after_the_gate_is_said(alias: Alias, before: int | None, told: str):
    promotion = Promotion(
        version=champion(2),
        alias=alias,
        reason="Because.",
        before=champion(before) if before else None,
    )
    assert gating.standing_words(promotion).startswith(told)


def test_an_outcome_of_an_older_version_has_no_standing():
    landing = gating.GateOutcome.model_validate({"uri": "u", "alias": "champion", "reason": "Why."})
    assert landing.told == "Why."
