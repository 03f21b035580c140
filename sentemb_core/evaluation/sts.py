"""Semantic textual similarity: does the cosine order pairs of sentences as people do?

Spearman's correlation of cosine and gold score, without a regressor, as SimCSE's fork of SentEval
has it. A set may have subsets. SimCSE and the papers after it report `all`, one correlation over
all pairs; SentEval itself reports `mean` and `wmean` over the subsets, and the three lie up to two
points apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float32, Float64
from scipy.stats import rankdata

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import BadDataError, ConstantScoresError
from sentemb_core.evaluation.parquet import refuse_rows, require_texts, table_of
from sentemb_core.evaluation.random_encoder import DIM, random_vectors, text_hashes
from sentemb_core.evaluation.task_result import TaskResult
from sentemb_core.evaluation.vectors import encode_texts


@dataclass(frozen=True)
class StsPairs:
    """Pairs of sentences with a score of people, each in a subset of its set."""

    first: list[str]
    second: list[str]
    gold: Float64[np.ndarray, " pairs"]
    subset: list[str]

    def __len__(self) -> int:
        return len(self.gold)


@dataclass(frozen=True)
class StsScores:
    """Spearman correlations, -1 to 1 (tables print them times 100).

    all: over the pairs of all subsets together; the number of the papers.
    mean, wmean: of the subsets' correlations, plain and weighted by their pairs.
    """

    all: float
    mean: float
    wmean: float
    pairs: int
    subsets: dict[str, float]


def read_sts(*paths: Path) -> StsPairs:
    """Pairs of Parquet files with the columns sentence1, sentence2, score and perhaps subset.

    Sentences should be in SentEval's form, tokenised and lowercased, to compare with published
    numbers: on the text as it was written MiniLM has 0.01 more on STS14. Pairs without a score, or
    with NaN, are left out, as SentEval does. Without a column `subset` a file is one.

    Args:
        paths: Several make one set: SICK-R is its test file, or all three.

    Raises:
        UnreadableSourceError: A file is not there or not Parquet.
        MissingColumnError: A column is not in a file.
        BadDataError: A score is no number or infinite, a scored pair lacks a sentence, or fewer
            than two pairs are left.
        ConstantScoresError: E503, all scores are alike.
    """
    rows = [row for path in paths for row in _rows(path)]
    if len(rows) < 2:
        raise BadDataError(
            f"A correlation needs two scored pairs at least; {len(rows)} found in "
            f"{', '.join(map(str, paths))}: check the column score."
        )
    first, second, gold, subset = (list(column) for column in zip(*rows, strict=True))
    if len({*gold}) == 1:
        raise ConstantScoresError(
            f"A correlation needs scores that differ; all {len(gold)} are {gold[0]} in "
            f"{', '.join(map(str, paths))}: check the column score."
        )
    return StsPairs(first, second, np.array(gold, np.float64), subset)


def sts_result(name: str, pairs: StsPairs, similarity: Float64[np.ndarray, " pairs"]) -> TaskResult:
    """Spearman `all`, with `mean` and `wmean` beside it; the units are pairs: similarity, gold."""
    scores = sts_scores(similarity, pairs)
    return TaskResult(
        task=name,
        main="spearman",
        measures={"spearman": scores.all, "mean": scores.mean, "wmean": scores.wmean},
        units=np.stack([similarity, pairs.gold], axis=1),
        statistic="spearman",
    )


def similarities(encoder: Encoder, pairs: StsPairs) -> Float64[np.ndarray, " pairs"]:
    """The encoder's cosine of each pair, whatever its own similarity.

    Sentences are cut at `encoder.max_length`: published numbers let it be the model's own limit.
    """
    vectors = encode_texts(encoder, [*pairs.first, *pairs.second], "pairs of sentences")
    return cosines(vectors[: len(pairs)], vectors[len(pairs) :])


def random_similarities(pairs: StsPairs, seed: int) -> Float64[np.ndarray, " pairs"]:
    """The cosine of each pair where every distinct text has a random direction."""
    first, second = (
        random_vectors(text_hashes(texts), DIM, seed) for texts in (pairs.first, pairs.second)
    )
    return cosines(first, second)


def sts_scores(similarity: Float64[np.ndarray, " pairs"], pairs: StsPairs) -> StsScores:
    """Correlations of these similarities with the gold scores."""
    subset = np.array(pairs.subset)
    names, counts = np.unique(subset, return_counts=True)
    single = np.array([spearman(similarity[subset == n], pairs.gold[subset == n]) for n in names])
    return StsScores(
        all=spearman(similarity, pairs.gold),
        mean=float(single.mean()),
        wmean=float(np.average(single, weights=counts)),
        pairs=len(pairs),
        subsets=dict(zip(names.tolist(), single.tolist(), strict=True)),
    )


def cosines(
    first: Float32[np.ndarray, "pairs dim"], second: Float32[np.ndarray, "pairs dim"]
) -> Float64[np.ndarray, " pairs"]:
    """Cosine of each pair of rows; 0 where one of them is zero, as in SentEval.

    Six decimals, for the vectors' float32 holds no more: equal sentences have equal cosines.
    """
    products = np.einsum("pd,pd->p", first, second, dtype=np.float64)
    lengths = np.linalg.norm(first.astype(np.float64), axis=1) * np.linalg.norm(
        second.astype(np.float64), axis=1
    )
    found = np.divide(products, lengths, out=np.zeros(len(products)), where=lengths > 0)
    return found.round(6)


def spearman(first: Float64[np.ndarray, " n"], second: Float64[np.ndarray, " n"]) -> float:
    """Pearson's correlation of mean ranks; 0 where one side does not vary and orders nothing."""
    ranks = np.stack([rankdata(first), rankdata(second)])
    ranks -= ranks.mean(axis=1, keepdims=True)
    product, lengths = ranks[0] @ ranks[1], np.linalg.norm(ranks, axis=1).prod()
    return float(product / lengths) if lengths > 0 else 0.0


def _rows(path: Path) -> Sequence[tuple[str, str, float, str]]:
    """Both sentences, score and subset of every pair that has a score."""
    wanted = ("sentence1", "sentence2", "score")
    table = table_of(path, "A set of pairs", wanted)
    if not _is_number(table.schema.field("score").type):
        raise BadDataError(
            f"A score is a number; the column score of {path} holds "
            f"{table.schema.field('score').type}: write it as float, without a score as null."
        )
    score = np.array(table["score"].cast("float64").to_pylist(), np.float64)  # without one: NaN
    scored = np.flatnonzero(~np.isnan(score))
    infinite = scored[np.isinf(score[scored])]
    refuse_rows(path, "score", "a finite number, or none,", infinite.tolist())
    texts = (*wanted[:2], *(["subset"] if "subset" in table.column_names else []))
    require_texts(table, path, texts, scored.tolist())
    table = table.take(scored)
    first, second, *subset = (table[name].to_pylist() for name in texts)
    subsets = subset[0] if subset else [path.stem] * len(table)
    return list(zip(first, second, score[scored].tolist(), subsets, strict=True))


def _is_number(kind: Any) -> bool:
    types: Any = pa.types
    known = types.is_integer, types.is_floating, types.is_decimal, types.is_null
    return any(of(kind) for of in known)
