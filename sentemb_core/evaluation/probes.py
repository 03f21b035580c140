"""Logistic regressions on frozen features, their penalty picked as SentEval picks it.

SentEval's scikit-learn branch (Conneau and Kiela 2018, senteval/tools/validation.py) in three
forms: nested folds where nothing is split, folds of the train part where there is a test part, a
dev part where there is one. Folds are stratified, shuffled with its seed, and searched over its
values of C, the inverse weight of the l2 penalty. At equal accuracy the smaller C is taken.

What differs from SentEval, on purpose:
- The solver is Newton's with conjugate gradients and does not penalise the intercept; SentEval's
  liblinear does. It is run until another digit changes no prediction, so a warm start along the
  values of C saves time and nothing else. No early stop, hence no patience that is never reset.
  Several classes share one softmax; liblinear holds each against all others.
- Accuracies are not rounded before they are compared.
- Examples stay in the order of their file; SentEval sorts them by length before it draws folds.
"""

import importlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64

from sentemb_core.errors import BadDataError, UsageError
from sentemb_core.progress import log_progress

SEED = 1111
"""Of the folds: SentEval's own."""

FOLDS = 10
"""As published; 5 is SentEval's quick mode."""

SMALL_GRID = tuple(2.0**k for k in range(-2, 4))
"""Values of C of nested folds and of a dev part."""

WIDE_GRID = tuple(2.0**k for k in range(-1, 6))
"""Values of C of folds of the train part."""

Rows = Int64[np.ndarray, "_"]
Features = Float32[np.ndarray, "n width"]
Classes = Int64[np.ndarray, " n"]
Scores = Float64[np.ndarray, " n"]


@dataclass(frozen=True)
class Predictions:
    """What a probe said of examples it was not trained on.

    Attributes:
        rows: The test examples, ascending.
        values: The class or the score of each.
        dev: Mean accuracy, or correlation, of the chosen C where it was chosen.
    """

    rows: Int64[np.ndarray, " test"]
    values: Float64[np.ndarray, " test"]
    dev: float


def nested_predictions(features: Features, label: Classes, folds: int = FOLDS) -> Predictions:
    """Every example by a probe of the other folds, whose C inner folds of these have picked.

    Raises:
        BadDataError: A class has fewer than `folds` + 2 examples: an inner fold would lack it.
    """
    _require_members(label, folds + 2)
    values, dev = np.empty(len(label)), np.empty(folds)
    update = log_progress("folds probed", folds)
    for fold, (train, test) in enumerate(stratified_folds(label, folds)):
        update(fold)
        accuracy = _fold_accuracy(features[train], label[train], SMALL_GRID, folds)
        best = SMALL_GRID[int(accuracy.argmax())]
        probe = next(_probes(features[train], label[train], [best]))
        values[test], dev[fold] = _classes(probe, features[test]), accuracy.max()
    return Predictions(np.arange(len(label)), values, float(dev.mean()))


def predictions_by_folds(
    features: Features, label: Classes, train: Rows, test: Rows, folds: int = FOLDS
) -> Predictions:
    """The test rows by a probe of the train rows, whose C folds of these have picked.

    Raises:
        BadDataError: A class has fewer than `folds` examples to train on, or none.
    """
    _require_members(label[train], folds)
    _require_trained(label, train, test)
    accuracy = _fold_accuracy(features[train], label[train], WIDE_GRID, folds)
    best = WIDE_GRID[int(accuracy.argmax())]
    probe = next(_probes(features[train], label[train], [best]))
    return Predictions(test, _classes(probe, features[test]), float(accuracy.max()))


def predictions_by_dev(
    features: Features, label: Classes, train: Rows, dev: Rows, test: Rows
) -> Predictions:
    """The test rows by the probe of the train rows that is most often right on the dev rows.

    Raises:
        BadDataError: The train rows hold one class, or lack one of the test rows.
    """
    _require_members(label[train], 1)
    _require_trained(label, train, test)
    probes = _probes(features[train], label[train], SMALL_GRID)
    told = ((_classes(probe, features[dev]), _classes(probe, features[test])) for probe in probes)
    return _best_on_dev(told, label[dev].astype(np.float64), test, _accuracy)


def score_predictions(
    features: Features, score: Scores, train: Rows, dev: Rows, test: Rows
) -> Predictions:
    """Scores of the test rows: SentEval's relatedness, as its source has it (Tai et al. 2015).

    A score between two whole numbers is a distribution over the two, the probe is trained to give
    it (cross-entropy, as Tai et al. do; SentEval squares the errors), and the prediction is its
    expectation. C is the one whose predictions correlate best on the dev rows.

    Raises:
        BadDataError: The scores of the train rows lie on one whole number.
    """
    rows, whole, weight = whole_scores(score[train])
    _require_members(whole, 1)
    probes = _probes(features[train][rows], whole, SMALL_GRID, weight)
    told = ((_expected(probe, features[dev]), _expected(probe, features[test])) for probe in probes)
    return _best_on_dev(told, score[dev], test, pearson)


def stratified_folds(label: Classes, folds: int) -> list[tuple[Rows, Rows]]:
    """Train and test rows of each fold, every class spread evenly over the folds; always alike."""
    splitter = _sklearn("model_selection").StratifiedKFold(folds, shuffle=True, random_state=SEED)
    return list(splitter.split(label[:, None], label))


def whole_scores(
    score: Scores,
) -> tuple[Int64[np.ndarray, " m"], Int64[np.ndarray, " m"], Float64[np.ndarray, " m"]]:
    """Rows, whole numbers and weights: each score once or twice, 3.2 as 0.8 of 3 and 0.2 of 4."""
    floor = np.floor(score)
    above = np.flatnonzero(score > floor)
    rows = np.concatenate([np.arange(len(score)), above])
    whole = np.concatenate([floor, floor[above] + 1]).astype(np.int64)
    return rows, whole, 1 - np.abs(score[rows] - whole)


def pearson(first: Scores, second: Scores) -> float:
    """Pearson's correlation; 0 where one side does not vary."""
    pair = np.stack([first - first.mean(), second - second.mean()])
    lengths = float(np.linalg.norm(pair, axis=1).prod())
    return float(pair[0] @ pair[1]) / lengths if lengths > 0 else 0.0


def _best_on_dev(
    told: Iterable[tuple[Scores, Scores]],
    gold: Scores,
    test: Rows,
    agreement: Callable[[Scores, Scores], float],
) -> Predictions:
    """Of what each probe told of the dev and the test rows, the test rows of the best on dev."""
    found = [(agreement(on_dev, gold), on_test) for on_dev, on_test in told]
    dev, values = max(found, key=lambda pair: pair[0])
    return Predictions(test, values, dev)


def _fold_accuracy(
    features: Features, label: Classes, grid: Sequence[float], folds: int
) -> Float64[np.ndarray, " grid"]:
    """Mean accuracy over folds of each value of C; equal ones are equal to the last digit."""
    right = [
        [probe.score(features[test], label[test]) for probe in _probes(x, label[train], grid)]
        for train, test in stratified_folds(label, folds)
        for x in [features[train]]
    ]
    return np.array(right, np.float64).mean(axis=0).round(12)


def _probes(
    features: Features, label: Classes, grid: Sequence[float], weight: Scores | None = None
) -> Iterator[Any]:
    """One probe, fitted anew for each value of C: read it before asking for the next."""
    probe = _sklearn("linear_model").LogisticRegression(
        solver="newton-cg", tol=1e-5, max_iter=1000, warm_start=True
    )
    for strength in grid:
        with warnings.catch_warnings():
            # where float32 has no digit left to gain, the search for one gives up, rightly
            warnings.filterwarnings("ignore", ".*line search")
            probe.set_params(C=strength).fit(features, label, weight)
        yield probe


def _classes(probe: Any, features: Features) -> Scores:
    return probe.predict(features).astype(np.float64)


def _expected(probe: Any, features: Features) -> Scores:
    """Six decimals, for float32 holds no more: equal pairs have equal predictions."""
    chances = probe.predict_proba(features).astype(np.float64)
    return (chances @ probe.classes_).round(6)


def _accuracy(found: Scores, gold: Scores) -> float:
    return float((found == gold).mean())


def _require_members(label: Classes, least: int) -> None:
    classes, counts = np.unique(label, return_counts=True)
    if len(classes) < 2 or counts.min() < least:
        raise BadDataError(
            f"A probe needs two classes and {least} examples of each to be trained on; found "
            f"{len(classes)} of {counts.tolist()} examples: give more examples or fewer folds."
        )


def _require_trained(label: Classes, train: Rows, test: Rows) -> None:
    unseen = np.setdiff1d(label[test], label[train])
    if len(unseen):
        rows = int(np.isin(label[test], unseen).sum())
        raise BadDataError(
            f"A probe can name the classes that it was trained on; {rows} of {len(test)} test "
            f"examples are of {len(unseen)} others: check the classes of the parts."
        )


def _sklearn(module: str) -> Any:
    try:
        return importlib.import_module(f"sklearn.{module}")
    except ImportError as error:
        raise UsageError(
            "Transfer tasks are probed by scikit-learn, which is not installed: pip install "
            "'sentemb[eval]'."
        ) from error
