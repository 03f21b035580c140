"""Transfer: what a linear probe reads from frozen vectors (SentEval; Conneau and Kiela 2018).

What is split decides the protocol, as in SentEval: nothing (MR, CR), nested folds; train and test
(MRPC), folds of the train part; train, dev and test (SST2, SICK-E, probing), the dev part. Scores
instead of classes (SICK-R, STS-B) are regressed. `probes` has the search for the penalty and what
it does otherwise than SentEval; here three things differ:
- Vectors are what the encoder gives (length 1 for cosine; the papers probe them before that),
  divided by one number, so that their mean squared distance from their mean is 1. SentEval does
  not, and its fixed values of C then hold short vectors back: a random static table with vectors
  of length 0.2 has 0.69 on CR as they are and 0.71 divided, MiniLM 0.83 both ways (5 folds). No
  coordinate is standardised on its own.
- Accuracy is over all test examples; SentEval averages its folds, which differ by one example.
- SNLI is probed as SICK-E is; SentEval puts u and v themselves beside |u - v| and u * v.
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
    pearson,
    predictions_by_dev,
    predictions_by_folds,
    score_predictions,
)
from sentemb_core.evaluation.sts import spearman
from sentemb_core.evaluation.task_result import TaskResult
from sentemb_core.evaluation.vectors import Embed, encode_texts

Gold = Literal["classes", "scores"]

LEAST_SPREAD = 1e-4
"""Against the vectors' own length: what lies below is rounding, and is not enlarged to a signal."""


@dataclass(frozen=True)
class TransferTask:
    """Examples of one text or two, with a class or a score each.

    Attributes:
        name: As in the suite.
        first: Of every example the text, or the first of two.
        gold: The classes, counted from 0, or the scores.
        second: The second texts; none where an example is one text.
        split: train, dev or test of every example; none where folds are drawn.
        kind: What `gold` is.

    Raises:
        BadDataError: Other parts than none, train and test, or all three (scores want all three).
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
                f"{', '.join(sorted(parts)) or 'none'}: check which part each example names."
            )

    def __len__(self) -> int:
        return len(self.gold)


def transfer_result(encoder: Encoder, task: TransferTask) -> TaskResult:
    """How well a linear probe of the encoder's frozen vectors does.

    Of classes the main measure is `accuracy`, a unit a test example: whether it was right. Of
    scores it is `spearman`, a unit a test pair: prediction and gold. Beside it stand `dev`, the
    accuracy (of scores, Pearson's correlation) where the penalty was picked; `majority`, the share
    of the largest class of the test part; of two classes `f1`, of the second; of scores `pearson`.

    Texts are cut at `encoder.max_length`: long reviews want an encoder loaded with a long one.

    Args:
        encoder: Its weights stay as they are.
        task: As `transfer_files` reads it.

    Raises:
        BadDataError: A class has too few examples for the folds, or none to train on.
        BadEmbeddingError: As `encode`.
        UsageError: scikit-learn is not installed.
    """
    what = f"texts of {task.name}"
    features = task_features(lambda texts: encode_texts(encoder, texts, what), task)
    return probe_result(features, task)


def probe_result(
    features: Float32[np.ndarray, "n width"], task: TransferTask, folds: int = FOLDS
) -> TaskResult:
    """`transfer_result` from one row of features an example.

    `folds` are those of tasks without a dev part; 5 is SentEval's quick mode.
    """
    found = _predictions(features, task, folds)
    gold = task.gold[found.rows]
    if task.kind == "scores":
        measures = {
            "spearman": spearman(found.values, gold),
            "pearson": pearson(found.values, gold),
            "dev": found.dev,
        }
        units = np.stack([found.values, gold], axis=1)
        return TaskResult(task.name, "spearman", measures, units, "spearman")
    right = (found.values == gold).astype(np.float64)
    measures = {"accuracy": float(right.mean()), "dev": found.dev, "majority": _majority(gold)}
    if task.gold.max() == 1:
        measures["f1"] = f1(found.values == 1, gold == 1)
    return TaskResult(task.name, "accuracy", measures, right[:, None])


def task_features(embed: Embed, task: TransferTask) -> Float32[np.ndarray, "n width"]:
    """An example's vector, or of two vectors u and v [|u - v|, u * v], at unit spread."""
    if task.second is None:
        return at_unit_spread(embed([*task.first]))
    both = at_unit_spread(embed([*task.first, *task.second]))
    u, v = both[: len(task)], both[len(task) :]
    return np.concatenate([np.abs(u - v), u * v], axis=1)


def at_unit_spread(vectors: Float32[np.ndarray, "n dim"]) -> Float32[np.ndarray, "n dim"]:
    """Divided by the root of their mean squared distance from their mean.

    One number from all examples and no label: vectors that are all alike stay so.
    """
    spread = float(np.sqrt(vectors.var(axis=0, dtype=np.float64).sum()))
    length = float(np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1).mean()))
    divisor = max(spread, LEAST_SPREAD * length)
    return vectors / np.float32(divisor) if divisor > 0 else vectors


def f1(found: Bool[np.ndarray, " n"], gold: Bool[np.ndarray, " n"]) -> float:
    """Harmonic mean of precision and recall of what is True; 0 where nothing is found right."""
    together = int((found & gold).sum())
    return 2 * together / max(1, int(found.sum()) + int(gold.sum()))


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


def _majority(gold: Float64[np.ndarray, " n"]) -> float:
    return float(np.unique(gold, return_counts=True)[1].max() / len(gold))
