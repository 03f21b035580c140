"""The gate compares on queries whose answers no earlier encoder was taught."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from sentemb_core.config.run import CorpusConfig, EncoderConfig, InfoCSEIDC, ValidationConfig
from sentemb_core.corpus.table import Document, write_rows
from sentemb_core.corpus.validation_pool import (
    ValidationPool,
    is_label,
    write_validation_pool,
)
from sentemb_core.evaluation.gate import Queries
from sentemb_core.evaluation.validation_scores import Scorers, write_scores
from sentemb_core.retriever.folder import save_retriever
from sentemb_core.retriever.spec import RetrieverSpec
from sentemb_core.types import ArtifactRef, SearchTask
from tasks import gate
from tasks.artifacts import RowKind
from tasks.promotion import Alias, Promotion
from tasks.registry import ModelVersion, model_ref
from tests.retriever.made import retriever

CORPUS = CorpusConfig(source="d.jsonl")


def ref(digit: str = "0") -> ArtifactRef:
    return ArtifactRef(kind="model", digest=64 * digit, size=1)


REF = ref()


def champion(number: int = 1, **tags: str) -> ModelVersion:
    return ModelVersion(name="news", version=number, artifact=REF, tags=tags)


def test_learned_labels_are_left_out_of_the_gate_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_rows(
        tmp_path / "documents.parquet",
        (Document(f"d{k}", [f"It rains {k}.", "It snows."], f"Title {k}", k) for k in range(300)),
    )
    write_validation_pool(tmp_path / "documents.parquet", ValidationConfig(), tmp_path)
    monkeypatch.setattr(gate, "artifact_path", lambda _: tmp_path)
    ids = ValidationPool.open(tmp_path).of_split("gate").query_doc_id
    texts = cast(Any, SimpleNamespace(validation_pool=REF))
    expected = [not is_label(doc_id, 0.5) for doc_id in ids]
    half, queries = gate.unseen_queries(0.5, texts, "titles")
    assert half.tolist() == expected
    assert 0.3 < sum(expected) / len(expected) < 0.7
    assert (len(queries.unit), set(queries.way)) == (sum(expected), {0})
    assert gate.unseen_queries(0.0, texts, "titles")[0].all()
    both, queries = gate.unseen_queries(0.5, texts, None)
    assert both.tolist() == 2 * expected, "no direction asks about a label"
    assert queries.way.tolist() == [0] * sum(expected) + [1] * sum(expected)


@pytest.mark.parametrize("task", [None, "search", "titles"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_ranks_and_units_of_shared_titles_belong_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: SearchTask | None, share: float
):
    """An encoder finds exactly the titles and documents of odd numbers, in every direction."""
    write_rows(
        tmp_path / "documents.parquet",
        (Document(f"d{k}", [f"It rains {k}."], f"Title {k % 70}", k) for k in range(400)),
    )
    write_validation_pool(tmp_path / "documents.parquet", ValidationConfig(), tmp_path)
    pool = ValidationPool.open(tmp_path)
    number = np.array([int(text.split()[1]) for text in pool.candidate_text])
    own = np.eye(pool.n_candidates, dtype=np.float32)[pool.query_candidate]
    known = np.where(number[pool.query_candidate] % 2 == 1, 1.0, -1.0).astype(np.float32)
    scores = own * known[:, None]
    write_scores(
        pool,
        Scorers(scores.__getitem__, np.ascontiguousarray(scores.T).__getitem__),
        tmp_path,
    )
    monkeypatch.setattr(gate, "artifact_path", lambda _: tmp_path)
    texts = cast(Any, SimpleNamespace(validation_pool=REF))
    unseen, queries = gate.unseen_queries(share, texts, task)
    ranks = gate.gate_ranks(REF, task)
    assert len(ranks) == len(unseen)
    distinct = np.unique(pool.query_candidate[pool.queries("gate")])
    assert ((ranks[unseen] == 1) == (number[distinct[queries.unit]] % 2 == 1)).all()
    learned = {
        candidate
        for candidate, doc_id in zip(pool.query_candidate.tolist(), pool.query_doc_id, strict=True)
        if is_label(doc_id, share)
    }
    assert not learned & set(distinct[queries.unit].tolist())


@pytest.fixture
def fine_tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder of an encoder that is registered twice, once after labels of 30 %."""
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    taught = champion(label_share="0.3").model_copy(update={"artifact": model_ref(folder)})
    registered = [champion(label_share="0.9"), taught, taught.model_copy(update={"tags": {}})]
    monkeypatch.setattr(gate, "versions", lambda: registered)
    return str(folder)


def test_a_hub_checkout_with_hidden_files_is_no_registered_version(fine_tuned: str):
    config = InfoCSEIDC(corpus=CORPUS, encoder=EncoderConfig(name=fine_tuned))
    assert gate.start_share(config) == 0.3
    (Path(fine_tuned) / ".gitattributes").touch()
    assert gate.start_share(config) == 0.0


@pytest.mark.parametrize(("champion_share", "left_out"), [("0.0", 0.3), ("0.5", 0.5)])
def test_labels_of_start_and_champion_are_left_out(
    fine_tuned: str,
    champion_share: str,
    left_out: float,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    shares: list[float] = []

    def all_unseen(share: float, *_: Any) -> Any:
        shares.append(share)
        return np.full(200, True), Queries.of(200)

    monkeypatch.setattr(gate, "unseen_queries", all_unseen)
    monkeypatch.setattr(gate, "gate_ranks", lambda *_: np.ones(200, np.int64))
    monkeypatch.setattr(gate, "champion_scores", lambda *_: None)
    monkeypatch.setattr(gate, "has_collapsed", lambda *_: False)
    training = cast(
        Any,
        SimpleNamespace(rows=[SimpleNamespace(scores=None)], best=0, texts=None, retriever=None),
    )
    config = InfoCSEIDC(corpus=CORPUS, encoder=EncoderConfig(name=fine_tuned))
    gate.gate_decision(config, training, REF, champion(label_share=champion_share))
    assert shares == [left_out]
    ((percent, share),) = [record.args for record in caplog.records]
    assert (round(percent), share) == (30, 0.3)
    assert "validation.label_share=0.3" in caplog.text


@pytest.mark.parametrize(
    ("ahead", "collapsed", "promoted"),
    [("unseen", False, True), ("learned", False, False), ("unseen", True, False)],
)
def test_promotion_needs_a_gain_on_unseen_queries_and_no_collapse(
    monkeypatch: pytest.MonkeyPatch, ahead: str, collapsed: bool, promoted: bool
):
    unseen = np.arange(200) < 100
    ranks = {"best": np.where(unseen == (ahead == "unseen"), 1, 9), "champion": np.full(200, 9)}
    monkeypatch.setattr(gate, "unseen_queries", lambda *_: (unseen, Queries.of(100)))
    monkeypatch.setattr(gate, "gate_ranks", lambda scores, _: ranks[scores])
    monkeypatch.setattr(gate, "champion_scores", lambda *_: "champion")
    monkeypatch.setattr(gate, "has_collapsed", lambda *_: collapsed)
    rows = [SimpleNamespace(scores=name) for name in ("champion", "best")]
    training = cast(Any, SimpleNamespace(rows=rows, best=1, texts=None, retriever=None))
    decision = gate.gate_decision(InfoCSEIDC(corpus=CORPUS), training, REF, champion())
    assert decision.promote is promoted


def test_champion_is_tokenised_with_its_own_tokenizer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(gate, "artifact_path", lambda _: tmp_path)
    monkeypatch.setattr(gate, "find_encoder", lambda _: None)
    monkeypatch.setattr(gate, "tokenise_sentences", lambda *arguments: arguments)
    monkeypatch.setattr(gate, "validate_encoder", lambda *arguments: arguments)
    texts = cast(Any, SimpleNamespace(documents="d", validation_pool="pool", sentences="the run's"))
    assert gate.champion_scores(champion(), texts) == (REF, ("d", "pool", REF), "pool")


def registration(
    monkeypatch: pytest.MonkeyPatch,
    *,
    artifact: ArtifactRef = REF,
    documents: ArtifactRef = REF,
    kinds: tuple[RowKind, ...] = ("start", "round"),
    **settings: Any,
) -> dict[str, Any]:
    """Arguments of `register` for a run with this best encoder."""
    scores = SimpleNamespace(document_to_counterpart=SimpleNamespace(recall_at_5=0.5, mrr_at_10=0))
    arguments: dict[str, Any] = {}
    monkeypatch.setattr(gate, "artifact_path", lambda ref: ref)
    monkeypatch.setattr(gate, "scores_of", lambda _: {"test": scores})
    monkeypatch.setattr(gate, "answer_on", lambda *_: ("serve", "Use it."))
    monkeypatch.setattr("sentemb_core.corpus.tokens.TokenCorpus.open", lambda _: None)
    monkeypatch.setattr("sentemb_core.evaluation.canary.drawn_sentences", lambda _: [])
    monkeypatch.setattr(gate, "register", lambda *_, **given: arguments.update(given))
    rows = [SimpleNamespace(kind=kind, label=kind, scores=REF, encoder=REF) for kind in kinds]
    rows[-1].encoder = artifact
    texts = SimpleNamespace(documents=documents, sentences=REF)
    training = SimpleNamespace(
        texts=texts, rows=rows, best=len(rows) - 1, path=rows, retriever=None
    )
    config = InfoCSEIDC.model_validate({"corpus": CORPUS} | settings)
    outcome = SimpleNamespace(training=training, encoder=REF, run="run-1")
    gate.registered_version(config, cast(Any, outcome))
    return arguments


@pytest.mark.parametrize(
    "changed",
    [
        {"artifact": ref("1")},
        {"documents": ref("1")},
        {"control": False},
        {"postprocess": "whitening"},
    ],
)
def test_another_encoder_corpus_or_setting_is_another_version(
    changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    """The same documents and settings may give another encoder on another device."""
    calls = [registration(monkeypatch, **changes) for changes in ({}, {}, changed)]
    first, again, other = (arguments["fingerprint"] for arguments in calls)
    assert first == again != other


def test_location_of_the_start_encoder_makes_no_version(monkeypatch: pytest.MonkeyPatch):
    here, there = (
        registration(monkeypatch, encoder=EncoderConfig(name=name))["fingerprint"]
        for name in ("/here", "/there")
    )
    assert here == there


@pytest.mark.parametrize(
    ("kinds", "share"),
    [
        (("start", "fine-tuned"), 0.5),
        (("start", "fine-tuned", "round"), 0.5),
        (("start", "round"), 0.0),
    ],
)
def test_fine_tuned_versions_are_tagged_with_their_label_share(
    kinds: tuple[RowKind, ...], share: float, monkeypatch: pytest.MonkeyPatch
):
    pool = ValidationConfig(label_share=0.5)
    assert registration(monkeypatch, kinds=kinds, validation=pool)["tags"]["label_share"] == share


def test_label_share_is_inherited_from_the_start_encoder(
    fine_tuned: str, monkeypatch: pytest.MonkeyPatch
):
    arguments = registration(monkeypatch, encoder=EncoderConfig(name=fine_tuned))
    assert arguments["tags"]["label_share"] == 0.3


@pytest.mark.parametrize(
    ("alias", "before"),
    [("champion", None), ("champion", 1), ("champion", 2), ("challenger", None), ("challenger", 1)],
)
def test_serving_text_names_the_version_and_the_champion(alias: Alias, before: int | None):
    previous = champion(before) if before else None
    promotion = Promotion(version=champion(2), alias=alias, reason="Because.", before=previous)
    text = gate.serving_text(promotion)
    assert text.startswith("models:/news/2 is ")
    assert alias in text
    assert ("models:/news/1" in text) == (before == 1)


def of_retriever(monkeypatch: pytest.MonkeyPatch, **ranks: np.ndarray) -> Any:
    """A run whose retriever, start encoder and BM25 have these ranks on the gate split."""
    every = np.full(200, True), Queries.of(200)
    monkeypatch.setattr(gate, "unseen_queries", lambda *_: every)
    monkeypatch.setattr(gate, "gate_ranks", lambda scores, _: ranks[scores])
    monkeypatch.setattr(gate, "champion_scores", lambda *_: "champion")
    monkeypatch.setattr(gate, "has_collapsed", lambda *_: False)
    monkeypatch.setattr(gate, "opened", lambda version: version.artifact)
    start = SimpleNamespace(scores="start")
    retriever = SimpleNamespace(scores="retriever")
    return SimpleNamespace(rows=[start], best=0, texts=None, retriever=retriever, bm25="bm25")


@pytest.mark.parametrize(
    ("new_width", "widths", "promoted"),
    [(False, (8, 8), True), (False, (8, 16), False), (True, (8, 16), True), (False, (0, 8), False)],
)
def test_another_width_is_refused_unless_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, new_width: bool, widths: tuple[int, int], promoted: bool
):
    first, last = np.ones(200, np.int64), np.full(200, 50)
    run = of_retriever(monkeypatch, retriever=first, champion=last, start=last, bm25=last)
    known = {ref("1").digest: widths[0], ref("2").digest: widths[1]}
    monkeypatch.setattr(gate, "width_of", lambda model: known[model.digest])
    serving = champion().model_copy(update={"artifact": ref("2")})
    config = InfoCSEIDC.model_validate({"corpus": CORPUS, "gate": {"new_width": new_width}})
    decision = gate.gate_decision(config, run, ref("1"), serving)
    assert decision.promote is promoted
    assert ("gate.new_width" in decision.reason) is not promoted


@pytest.mark.parametrize(
    ("floors", "promoted"), [(["bm25", "start"], False), (["start"], True), ([], True)]
)
def test_a_retriever_below_word_search_is_promoted_only_without_that_floor(
    monkeypatch: pytest.MonkeyPatch, floors: list[str], promoted: bool
):
    first, last = np.ones(200, np.int64), np.full(200, 50)
    half = np.where(np.arange(200) < 100, 1, 50)
    run = of_retriever(monkeypatch, retriever=half, champion=last, start=last, bm25=first)
    config = InfoCSEIDC.model_validate({"corpus": CORPUS, "gate": {"floors": floors}})
    assert gate.gate_decision(config, run, REF, None).promote is promoted


def test_a_champion_is_read_as_a_retriever_if_it_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """A version that was registered before retrievers is an encoder alone."""
    save_retriever(retriever(RetrieverSpec(words="bm25")), tmp_path / "words", "A card.")
    (tmp_path / "encoder").mkdir()
    places = {ref("1").digest: tmp_path / "words", ref("2").digest: tmp_path / "encoder"}
    monkeypatch.setattr(gate, "artifact_path", lambda model: places[model.digest])
    monkeypatch.setattr(gate, "find_encoder", lambda _: None)
    monkeypatch.setattr(gate, "tokenise_sentences", lambda *_: "tokens")
    monkeypatch.setattr(gate, "validate_retriever", lambda *_: "as a retriever")
    monkeypatch.setattr(gate, "validate_encoder", lambda *_: "as an encoder")
    texts = cast(Any, SimpleNamespace(documents="d", validation_pool="pool"))
    found = [
        gate.champion_scores(champion().model_copy(update={"artifact": ref(digit)}), texts)
        for digit in "12"
    ]
    assert found == ["as a retriever", "as an encoder"]
    assert gate.width_of(ref("1")) == 0
