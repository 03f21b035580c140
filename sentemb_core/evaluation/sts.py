"""Semantic textual similarity: Spearman's correlation of cosines with people's scores of pairs.

Without a regressor, as in SimCSE's fork of SentEval. A set may have subsets. SimCSE and later
papers report `all`, one correlation over all pairs. SentEval itself reports `mean` and `wmean` over
the subsets. The three differ by up to two points.
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
from sentemb_core.evaluation.random_encoder import text_vectors
from sentemb_core.evaluation.task_result import TaskResult
from sentemb_core.evaluation.vectors import encode_texts


@dataclass(frozen=True)
class StsPairs:
    """Pairs of sentences, each with a gold score and the subset that it belongs to."""

    first: list[str]
    second: list[str]
    gold: Float64[np.ndarray, " pairs"]
    subset: list[str]

    def __len__(self) -> int:
        return len(self.gold)


def read_sts(*paths: Path) -> StsPairs:
    """Read Parquet files with the columns sentence1, sentence2, score and optionally subset.

    To compare with published numbers, sentences should be tokenised and lowercased as in SentEval:
    on the original text MiniLM has 0.01 more on STS14. Pairs without a score, or with NaN, are left
    out, as in SentEval. Without a column `subset` each file is a subset.

    Args:
        paths: Several files make one set: SICK-R is its test file, or all three.

    Raises:
        UnreadableSourceError: a file does not exist or is no Parquet.
        MissingColumnError: a file lacks a column.
        BadDataError: a score is no number or infinite, a scored pair lacks a sentence, or fewer
            than two pairs are left.
        ConstantScoresError: E503, all scores are equal.
    """
    rows = [row for path in paths for row in _rows(path)]
    if len(rows) < 2:
        raise BadDataError(
            f"A correlation needs two scored pairs; found {len(rows)} in "
            f"{', '.join(map(str, paths))}. Check the column score."
        )
    first, second, gold, subset = (list(column) for column in zip(*rows, strict=True))
    if len({*gold}) == 1:
        raise ConstantScoresError(
            f"A correlation needs different scores; all {len(gold)} are {gold[0]} in "
            f"{', '.join(map(str, paths))}. Check the column score."
        )
    return StsPairs(first, second, np.array(gold, np.float64), subset)


def sts_result(name: str, pairs: StsPairs, similarity: Float64[np.ndarray, " pairs"]) -> TaskResult:
    """Return Spearman's correlations with the gold scores, -1 to 1; a unit is a pair.

    `spearman` is over the pairs of all subsets together; papers report it. `mean` and `wmean` are
    means of the subsets' correlations, plain and weighted by their pairs.
    """
    subset = np.array(pairs.subset)
    names, counts = np.unique(subset, return_counts=True)
    single = np.array([spearman(similarity[subset == n], pairs.gold[subset == n]) for n in names])
    measures = {
        "spearman": spearman(similarity, pairs.gold),
        "mean": float(single.mean()),
        "wmean": float(np.average(single, weights=counts)),
    }
    units = np.stack([similarity, pairs.gold], axis=1)
    return TaskResult(name, "spearman", measures, units, "spearman")


def similarities(encoder: Encoder, pairs: StsPairs) -> Float64[np.ndarray, " pairs"]:
    """Return the encoder's cosine of each pair, also if its own similarity is another.

    Sentences are cut at `encoder.text_length`; for published numbers it is the model's own limit.
    """
    vectors = encode_texts(encoder, [*pairs.first, *pairs.second], "pairs of sentences")
    return cosines(vectors[: len(pairs)], vectors[len(pairs) :])


def random_similarities(pairs: StsPairs, seed: int) -> Float64[np.ndarray, " pairs"]:
    """Return the cosine of each pair if every distinct text has a random direction."""
    return cosines(text_vectors(pairs.first, seed), text_vectors(pairs.second, seed))


def cosines(
    first: Float32[np.ndarray, "pairs dim"], second: Float32[np.ndarray, "pairs dim"]
) -> Float64[np.ndarray, " pairs"]:
    """Return the cosine of each pair of rows; 0 if one row is zero, as in SentEval.

    Rounded to six decimals, the precision of float32, so equal sentences have equal cosines.
    """
    products = np.einsum("pd,pd->p", first, second, dtype=np.float64)
    lengths = np.linalg.norm(first.astype(np.float64), axis=1) * np.linalg.norm(
        second.astype(np.float64), axis=1
    )
    return np.divide(products, lengths, out=np.zeros(len(products)), where=lengths > 0).round(6)


def spearman(first: Float64[np.ndarray, " n"], second: Float64[np.ndarray, " n"]) -> float:
    """Return Pearson's correlation of mean ranks; 0 if one side is constant."""
    return pearson(rankdata(first), rankdata(second))


def pearson(first: Float64[np.ndarray, " n"], second: Float64[np.ndarray, " n"]) -> float:
    """Return Pearson's correlation; 0 if one side is constant."""
    pair = np.stack([first - first.mean(), second - second.mean()])
    lengths = float(np.linalg.norm(pair, axis=1).prod())
    return float(pair[0] @ pair[1]) / lengths if lengths > 0 else 0.0


def _rows(path: Path) -> Sequence[tuple[str, str, float, str]]:
    """Return both sentences, score and subset of every scored pair."""
    wanted = ("sentence1", "sentence2", "score")
    table = table_of(path, "A set of pairs", wanted)
    if not _is_number(table.schema.field("score").type):
        raise BadDataError(
            f"A score is a number; the column score of {path} holds "
            f"{table.schema.field('score').type}. Write it as float, and a missing score as null."
        )
    score = np.array(table["score"].cast("float64").to_pylist(), np.float64)  # null becomes NaN
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
