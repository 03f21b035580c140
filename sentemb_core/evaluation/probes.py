"""Logistic regression on frozen features, with SentEval's choice of the penalty.

As SentEval's scikit-learn branch (Conneau and Kiela 2018, senteval/tools/validation.py): nested
folds for a set without parts, folds of the train part for a set with a test part, the dev part if
there is one. Folds are stratified and shuffled with SentEval's seed. C, the inverse weight of the
l2 penalty, is chosen from SentEval's values; at equal accuracy the smaller C.

Deliberate differences from SentEval:
- The solver is Newton-CG, which does not penalise the intercept; SentEval's liblinear does. It runs
  until more digits change no prediction, so a warm start along the values of C only saves time.
  There is no early stopping. Several classes share one softmax; liblinear is one-vs-rest.
- Accuracies are compared without rounding.
- Examples keep the order of their file; SentEval sorts them by length before it draws folds.
"""

import importlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64

from sentemb_core.errors import BadDataError, UsageError
from sentemb_core.evaluation.sts import pearson
from sentemb_core.progress import log_progress

SEED = 1111
"""SentEval's seed of the folds."""

FOLDS = 10
"""As in published results; 5 is SentEval's quick mode."""

SMALL_GRID = tuple(2.0**k for k in range(-2, 4))
"""Values of C for nested folds and for a dev part."""

WIDE_GRID = tuple(2.0**k for k in range(-1, 6))
"""Values of C for folds of the train part."""

Rows = Int64[np.ndarray, "_"]
Features = Float32[np.ndarray, "n width"]
Classes = Int64[np.ndarray, " n"]
Scores = Float64[np.ndarray, " n"]


@dataclass(frozen=True)
class Predictions:
    """A probe's predictions for examples outside its training set.

    Attributes:
        rows: The test examples, ascending.
        values: The predicted class or score of each.
        dev: Mean accuracy, or correlation, of the chosen C on the data that chose it.
    """

    rows: Int64[np.ndarray, " test"]
    values: Float64[np.ndarray, " test"]
    dev: float


def nested_predictions(features: Features, label: Classes, folds: int = FOLDS) -> Predictions:
    """Predict every example with a probe of the other folds; inner folds choose its C.

    Raises:
        BadDataError: a class has fewer than `folds` + 2 examples, so an inner fold would lack it.
    """
    _require_members(label, folds + 2)
    values, dev = np.empty(len(label)), np.empty(folds)
    update = log_progress("folds probed", folds)
    for fold, (train, test) in enumerate(stratified_folds(label, folds)):
        update(fold)
        probe, dev[fold] = _probe_by_folds(features[train], label[train], SMALL_GRID, folds)
        values[test] = _classes(probe, features[test])
    return Predictions(np.arange(len(label)), values, float(dev.mean()))


def predictions_by_folds(
    features: Features, label: Classes, train: Rows, test: Rows, folds: int = FOLDS
) -> Predictions:
    """Predict the test rows with a probe of the train rows; folds of the train rows choose its C.

    Raises:
        BadDataError: a class has fewer than `folds` examples to train on, or none.
    """
    _require_members(label[train], folds)
    _require_trained(label, train, test)
    probe, dev = _probe_by_folds(features[train], label[train], WIDE_GRID, folds)
    return Predictions(test, _classes(probe, features[test]), dev)


def predictions_by_dev(
    features: Features, label: Classes, train: Rows, dev: Rows, test: Rows
) -> Predictions:
    """Predict the test rows with the probe of the train rows that is most accurate on the dev rows.

    Raises:
        BadDataError: the train rows have one class only, or lack a class of the test rows.
    """
    _require_members(label[train], 1)
    _require_trained(label, train, test)
    probes = _probes(features[train], label[train], SMALL_GRID)
    pairs = ((_classes(probe, features[dev]), _classes(probe, features[test])) for probe in probes)
    return _best_on_dev(pairs, label[dev].astype(np.float64), test, _accuracy)


def score_predictions(
    features: Features, score: Scores, train: Rows, dev: Rows, test: Rows
) -> Predictions:
    """Predict scores of the test rows as SentEval's relatedness tasks do (Tai et al. 2015).

    A score between two whole numbers becomes a distribution over the two. The probe learns this
    distribution (by cross-entropy as in Tai et al.; SentEval uses squared errors) and predicts its
    expectation. C is chosen by the correlation on the dev rows.

    Raises:
        BadDataError: the scores of the train rows lie on one whole number.
    """
    rows, whole, weight = whole_scores(score[train])
    _require_members(whole, 1)
    probes = _probes(features[train][rows], whole, SMALL_GRID, weight)
    pairs = (
        (_expected(probe, features[dev]), _expected(probe, features[test])) for probe in probes
    )
    return _best_on_dev(pairs, score[dev], test, pearson)


def stratified_folds(label: Classes, folds: int) -> list[tuple[Rows, Rows]]:
    """Return train and test rows of each fold, with every class spread evenly over the folds."""
    splitter = _sklearn("model_selection").StratifiedKFold(folds, shuffle=True, random_state=SEED)
    return list(splitter.split(label[:, None], label))


def whole_scores(
    score: Scores,
) -> tuple[Int64[np.ndarray, " m"], Int64[np.ndarray, " m"], Float64[np.ndarray, " m"]]:
    """Return rows, whole numbers and weights; 3.2 becomes 3 with weight 0.8 and 4 with 0.2."""
    floor = np.floor(score)
    above = np.flatnonzero(score > floor)
    rows = np.concatenate([np.arange(len(score)), above])
    whole = np.concatenate([floor, floor[above] + 1]).astype(np.int64)
    return rows, whole, 1 - np.abs(score[rows] - whole)


def _best_on_dev(
    predictions: Iterable[tuple[Scores, Scores]],
    gold: Scores,
    test: Rows,
    agreement: Callable[[Scores, Scores], float],
) -> Predictions:
    """Return the test predictions of the probe with the best dev predictions."""
    scored = [(agreement(on_dev, gold), on_test) for on_dev, on_test in predictions]
    dev, values = max(scored, key=lambda pair: pair[0])
    return Predictions(test, values, dev)


def _probe_by_folds(
    features: Features, label: Classes, grid: Sequence[float], folds: int
) -> tuple[Any, float]:
    """Return the probe with the best mean accuracy over folds, and that accuracy.

    Accuracies are rounded so that ties are exact.
    """
    right = [
        [probe.score(features[test], label[test]) for probe in _probes(x, label[train], grid)]
        for train, test in stratified_folds(label, folds)
        for x in [features[train]]
    ]
    accuracy = np.array(right, np.float64).mean(axis=0).round(12)
    best = grid[int(accuracy.argmax())]
    return next(_probes(features, label, [best])), float(accuracy.max())


def _probes(
    features: Features, label: Classes, grid: Sequence[float], weight: Scores | None = None
) -> Iterator[Any]:
    """Yield one probe, fitted again for each value of C; read it before the next one."""
    probe = _sklearn("linear_model").LogisticRegression(
        solver="newton-cg", tol=1e-5, max_iter=1000, warm_start=True
    )
    for strength in grid:
        with warnings.catch_warnings():
            # at the precision of float32 the line search finds no improvement, as expected
            warnings.filterwarnings("ignore", ".*line search")
            probe.set_params(C=strength).fit(features, label, weight)
        yield probe


def _classes(probe: Any, features: Features) -> Scores:
    return probe.predict(features).astype(np.float64)


def _expected(probe: Any, features: Features) -> Scores:
    """Return expectations rounded to float32's precision: equal pairs, equal predictions."""
    chances = probe.predict_proba(features).astype(np.float64)
    return (chances @ probe.classes_).round(6)


def _accuracy(values: Scores, gold: Scores) -> float:
    return float((values == gold).mean())


def _require_members(label: Classes, least: int) -> None:
    classes, counts = np.unique(label, return_counts=True)
    if len(classes) < 2 or counts.min() < least:
        raise BadDataError(
            f"A probe needs two classes with {least} training examples each; found {len(classes)} "
            f"with {counts.tolist()} examples. Give more examples or fewer folds."
        )


def _require_trained(label: Classes, train: Rows, test: Rows) -> None:
    unseen = np.setdiff1d(label[test], label[train])
    if len(unseen):
        rows = int(np.isin(label[test], unseen).sum())
        raise BadDataError(
            f"A probe predicts classes of its training set; {rows} of {len(test)} test examples "
            f"have {len(unseen)} other classes. Check the classes of the parts."
        )


def _sklearn(module: str) -> Any:
    try:
        return importlib.import_module(f"sklearn.{module}")
    except ImportError as error:
        raise UsageError(
            "Transfer tasks need scikit-learn, which is not installed. Run pip install "
            "'sentemb[eval]'."
        ) from error
