"""Transfer: linear probes on frozen vectors (SentEval; Conneau and Kiela 2018).

The parts of a set decide the protocol, as in SentEval: without parts (MR, CR) nested folds; with
train and test (MRPC) folds of the train part; with train, dev and test (SST2, SICK-E, probing) the
dev part. Scores instead of classes (SICK-R, STS-B) are regressed. `probes` chooses the penalty and
lists its own differences from SentEval. Here three things differ:
- Vectors are the encoder's output (length 1 for cosine; the papers probe them before that), divided
  by one number so that their mean squared distance from their mean is 1. SentEval does not divide,
  and its fixed values of C then penalise short vectors too much: on CR (5 folds) a random static
  table with vectors of length 0.2 has 0.69 as it is and 0.71 divided, MiniLM 0.83 both ways. No
  coordinate is standardised on its own.
- Accuracy is over all test examples; SentEval averages its folds, which differ by one example.
- SNLI is probed as SICK-E is; SentEval adds u and v themselves to |u - v| and u * v.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float32, Float64

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import BadDataError
from sentemb_core.evaluation.probes import (
    FOLDS,
    Predictions,
    nested_predictions,
    predictions_by_dev,
    predictions_by_folds,
    score_predictions,
)
from sentemb_core.evaluation.sts import pearson, spearman
from sentemb_core.evaluation.task_result import TaskResult
from sentemb_core.evaluation.vectors import Embed, encode_texts

Gold = Literal["classes", "scores"]

LEAST_SPREAD = 1e-4
"""Least spread relative to the vectors' length; a smaller spread is rounding, not a signal."""


@dataclass(frozen=True)
class TransferTask:
    """Examples of one text or two, with a class or a score each.

    Attributes:
        name: As in the suite.
        first: The text of every example, or the first of two.
        gold: The classes, counted from 0, or the scores.
        second: The second texts; None if an example is one text.
        split: train, dev or test for every example; None if folds are drawn.
        kind: Whether `gold` has classes or scores.

    Raises:
        BadDataError: the parts are not none, train and test, or all three (scores need all three).
    """

    name: str
    first: Sequence[str]
    gold: Float64[np.ndarray, " n"]
    second: Sequence[str] | None = None
    split: Sequence[str] | None = None
    kind: Gold = "classes"

    def __post_init__(self) -> None:
        parts = {*(self.split or ())}
        known = [{"train", "dev", "test"}]
        if self.kind == "classes":
            known += [{"train", "test"}, set[str]()]
        if parts not in known:
            raise BadDataError(
                f"A transfer task of {self.kind} has the parts "
                f"{' or '.join(', '.join(sorted(k)) or 'none' for k in known)}; {self.name} has "
                f"{', '.join(sorted(parts)) or 'none'}. Check the part of each example."
            )

    def __len__(self) -> int:
        return len(self.gold)


def transfer_result(encoder: Encoder, task: TransferTask) -> TaskResult:
    """Return the scores of a linear probe on the encoder's frozen vectors.

    For classes the main measure is `accuracy`; a unit is a test example, right or wrong. For scores
    it is `spearman`; a unit is a test pair with prediction and gold. Further measures:

    - `dev`: accuracy (or Pearson's correlation) on the data that chose the penalty.
    - `majority`: the share of the largest class of the test part.
    - `f1`: of the second of two classes.
    - `pearson`: for scores.

    Texts are cut at `encoder.text_length`; for long reviews load the encoder with a larger one.

    Raises:
        BadDataError: a class has too few examples for the folds, or none to train on.
        BadEmbeddingError: as `encode`.
        UsageError: scikit-learn is not installed.
    """
    what = f"texts of {task.name}"
    features = task_features(lambda texts: encode_texts(encoder, texts, what), task)
    return probe_result(features, task)


def probe_result(
    features: Float32[np.ndarray, "n width"], task: TransferTask, folds: int = FOLDS
) -> TaskResult:
    """Return `transfer_result` from one row of features per example.

    `folds` applies to tasks without a dev part; 5 is SentEval's quick mode.
    """
    predictions = _predictions(features, task, folds)
    gold = task.gold[predictions.rows]
    if task.kind == "scores":
        measures = {
            "spearman": spearman(predictions.values, gold),
            "pearson": pearson(predictions.values, gold),
            "dev": predictions.dev,
        }
        units = np.stack([predictions.values, gold], axis=1)
        return TaskResult(task.name, "spearman", measures, units, "spearman")
    right = (predictions.values == gold).astype(np.float64)
    measures = {
        "accuracy": float(right.mean()),
        "dev": predictions.dev,
        "majority": float(np.unique(gold, return_counts=True)[1].max() / len(gold)),
    }
    if task.gold.max() == 1:
        measures["f1"] = f1(predictions.values == 1, gold == 1)
    return TaskResult(task.name, "accuracy", measures, right[:, None])


def task_features(embed: Embed, task: TransferTask) -> Float32[np.ndarray, "n width"]:
    """Return each example's vector, or [|u - v|, u * v] of its two, at unit spread."""
    if task.second is None:
        return at_unit_spread(embed([*task.first]))
    both = at_unit_spread(embed([*task.first, *task.second]))
    u, v = both[: len(task)], both[len(task) :]
    return np.concatenate([np.abs(u - v), u * v], axis=1)


def at_unit_spread(vectors: Float32[np.ndarray, "n dim"]) -> Float32[np.ndarray, "n dim"]:
    """Return the vectors divided by the root of their mean squared distance from their mean.

    The divisor is one number from all examples, without labels. Equal vectors stay equal.
    """
    spread = float(np.sqrt(vectors.var(axis=0, dtype=np.float64).sum()))
    length = float(np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1).mean()))
    divisor = max(spread, LEAST_SPREAD * length)
    return vectors / np.float32(divisor) if divisor > 0 else vectors


def f1(predicted: Bool[np.ndarray, " n"], gold: Bool[np.ndarray, " n"]) -> float:
    """Return the harmonic mean of precision and recall; 0 without a true positive."""
    true_positives = int((predicted & gold).sum())
    return 2 * true_positives / max(1, int(predicted.sum()) + int(gold.sum()))


def _predictions(
    features: Float32[np.ndarray, "n width"], task: TransferTask, folds: int
) -> Predictions:
    split = np.array(task.split)
    train, dev, test = (np.flatnonzero(split == part) for part in ("train", "dev", "test"))
    if task.kind == "scores":
        return score_predictions(features, task.gold, train, dev, test)
    label = task.gold.astype(np.int64)
    if task.split is None:
        return nested_predictions(features, label, folds)
    if len(dev) == 0:
        return predictions_by_folds(features, label, train, test, folds)
    return predictions_by_dev(features, label, train, dev, test)
