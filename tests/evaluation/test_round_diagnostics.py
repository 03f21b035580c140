"""Diagnostics of a round: pairs by the annotator's cosines, vectors before and after."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.annotation.clusters import Clusters, write_labels
from sentemb_core.annotation.embeddings import Embeddings
from sentemb_core.annotation.pairs import Pairs, write_pairs
from sentemb_core.evaluation.round_diagnostics import diagnostics, distinct
from sentemb_core.evaluation.round_values import Pair
from sentemb_core.shards import save_vectors
from tests.evaluation.conftest import Prepared


def kept(folder: Path, vectors: np.ndarray) -> Embeddings:
    folder.mkdir()
    save_vectors(folder / "embeddings-00000.arrow", vectors.astype(np.float32))
    return Embeddings(folder)


def test_diagnostics_show_a_collapse_by_document(titled: Prepared, tmp_path: Path):
    corpus = titled.corpus
    (shard,) = corpus.shards
    write_labels(np.zeros(len(corpus), np.int32), shard, tmp_path)
    write_pairs(corpus, tmp_path, None, 0, tmp_path)
    pairs, clusters = Pairs.open(tmp_path, corpus), Clusters(tmp_path)
    drawn = np.random.default_rng(0).standard_normal((len(corpus), 16))
    before, after = (
        kept(tmp_path / "a", drawn),
        kept(tmp_path / "b", np.eye(16)[corpus.document_of]),
    )
    found = diagnostics(corpus, pairs, clusters, (clusters, pairs), before, after, seed=0)

    unit = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    i, j = pairs.shard(0)
    cosines = (unit[i] * unit[j]).sum(axis=1)
    assert found.cosine == pytest.approx(cosines.tolist(), abs=1e-6)
    assert found.before.alignment == pytest.approx((2 - 2 * cosines).mean(), abs=1e-6)
    assert [pair.cosine for pair in (found.best[0], found.worst[0])] == pytest.approx(
        [cosines.max(), cosines.min()], abs=1e-6
    )
    assert found.best == sorted(found.best, key=lambda pair: -pair.cosine)
    assert found.worst == sorted(found.worst, key=lambda pair: pair.cosine)
    assert (found.after.positives[-1], found.after.alignment) == (len(pairs), 0)
    assert found.after.negatives[20] == sum(found.after.negatives) > 0, "at right angles"
    assert (found.churn, found.before.shape != found.after.shape) == (1, True)
    assert (found.new_share, found.gone_share) == (0, 0)


PAIRS = st.lists(
    st.builds(
        Pair,
        left=st.sampled_from("abcde"),
        right=st.sampled_from("abcde"),
        cosine=st.floats(-1, 1),
        jaccard=st.floats(0, 1),
    )
)


@given(PAIRS)
def test_distinct_pairs_repeat_no_sentence(pairs):
    kept = distinct(pairs)
    sentences = [text for pair in kept for text in {pair.left, pair.right}]
    assert len(sentences) == len(set(sentences))
    assert kept[:1] == pairs[:1]
    assert all({pair.left, pair.right} & set(sentences) for pair in pairs)
