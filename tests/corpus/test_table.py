"""documents.parquet, read a few documents at a time."""

from pathlib import Path

import pytest

from sentemb_core.corpus.table import sentence_count, vocabulary_texts
from tests.corpus.token_caches import cache


@pytest.mark.parametrize("most", [1, 5, 100, 599, 600])
def test_a_vocabulary_is_learnt_from_every_kth_sentence_of_a_larger_corpus(
    tmp_path: Path, most: int
) -> None:
    cache(tmp_path, [[f"A {d} {k}" for k in range(1 + d % 5)] for d in range(200)])
    documents = tmp_path / "documents.parquet"
    everything = list(vocabulary_texts(documents))
    assert sentence_count(documents) == len(everything) == 600
    assert list(vocabulary_texts(documents, most)) == everything[:: -(-600 // most)]
