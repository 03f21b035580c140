"""BM25 against the formula, written out in plain Python, and against numbers worked out by hand."""

import json
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.retrieval import bm25
from sentemb_core.retrieval.bm25 import BM25, ENGLISH, LUCENE, PRODUCT_THESIS, Form, StoredBM25
from sentemb_core.tokenize import words as every_word

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "bm25.json").read_text("utf-8"))
FORMS = [LUCENE, PRODUCT_THESIS, Form(idf="log"), Form(tf="relative"), Form(k1=0.9, b=0.4)]
TEXTS = st.lists(
    st.lists(st.sampled_from(list("abcde")), max_size=8).map(" ".join), min_size=1, max_size=8
)


def oracle(query: str, texts: list[str], form: Form) -> list[float]:
    """The sum of the module's docstring, term by term."""
    split = [text.split() for text in texts]
    mean = sum(map(len, split)) / len(split) or 1
    total = [0.0] * len(texts)
    for word, qtf in Counter(query.split()).items():
        df = sum(word in words for words in split)
        lucene = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        idf = lucene if form.idf == "lucene" else math.log(len(texts) / max(df, 1))
        for n, words in enumerate(split):
            tf = words.count(word)
            if tf:
                tf = tf if form.tf == "raw" else tf / len(words)
                length = form.k1 * (1 - form.b + form.b * len(words) / mean)
                query = qtf if form.k3 is None else qtf * (form.k3 + 1) / (qtf + form.k3)
                total[n] += idf * tf * (form.k1 + 1) / (tf + length) * query
    return total


@pytest.mark.parametrize("form", FORMS[:3], ids=lambda form: f"{form.tf} {form.idf}")
def test_scores_have_their_hand_values(form: Form):
    scores = BM25(GOLDEN["texts"], form).scores([GOLDEN["query"]])
    assert scores[0] == pytest.approx(GOLDEN[f"{form.tf} {form.idf}"], abs=1e-6)


@given(texts=TEXTS, queries=TEXTS, form=st.sampled_from(FORMS))
def test_scores_equal_the_formula(texts: list[str], queries: list[str], form: Form):
    scores = BM25(texts, form).scores(queries)
    expected = np.array([oracle(query, texts, form) for query in queries])
    assert scores == pytest.approx(expected, abs=1e-9)


@given(texts=TEXTS, queries=TEXTS, form=st.sampled_from(FORMS), size=st.sampled_from([1, 3]))
def test_blocks_change_nothing(texts: list[str], queries: list[str], form: Form, size: int):
    whole = BM25(texts, form).scores(queries)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25, "TEXTS", size)
        patch.setattr(bm25, "BLOCK", size)
        assert (BM25(texts, form).scores(queries) == whole).all()


def test_word_of_all_texts_counts_0_in_the_thesis_form():
    texts = ["the end", "the tax forms"]
    assert BM25(texts, PRODUCT_THESIS).scores(["the"]).tolist() == [[0, 0]]
    assert (BM25(texts).scores(["the"]) > 0).all()


def test_stop_words_do_not_count():
    texts = ["the end of the world", "tax forms", "of the to"]
    bare = ["end world", "tax forms", ""]
    found = BM25(texts, stop_words=ENGLISH).scores(["the end of tax", "The OF"])
    assert found.tolist() == BM25(bare).scores(["end tax", ""]).tolist()


def test_repeated_query_words_saturate():
    index = BM25(["the end", "tax forms"])
    once, often = index.scores(["the", "the " * 100])[:, 0]
    assert once < often < 9 * once


def test_repeated_query_words_count_linearly_in_the_thesis_form():
    texts = ["red shoe", "blue shoe", "red red hat", "green hat"]
    scores = BM25(texts, PRODUCT_THESIS).scores(["red red red shoe"])
    assert scores[0] == pytest.approx([1.9062, 0.4765, 1.4076, 0], abs=5e-5)


def test_words_are_lowercased_in_any_script():
    index = BM25(["Überstunden, bitte!", "北京 2024"])
    assert (index.scores(["überstunden", "北京", "!?", "unknown"]) > 0).tolist() == [
        [True, False],
        [False, True],
        [False, False],
        [False, False],
    ]


@pytest.mark.parametrize("form", FORMS)
def test_texts_without_a_word_score_0(form: Form):
    assert BM25(["...", ""], form).scores(["a", "..."]).tolist() == [[0, 0], [0, 0]]


def test_vocabulary_follows_the_first_appearance():
    assert list(BM25(["b a", "c a"]).vocabulary) == ["", "b", "a", "c"]


def test_score_rows_equal_scores():
    index, queries = BM25(["a b", "b c", "c"]), ["a", "b c", "c c"]
    rows = index.score_rows(queries)
    assert rows(np.array([2, 0, 2])) == pytest.approx(index.scores(queries)[[2, 0, 2]])


def test_index_logs_nothing(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture):
    with caplog.at_level(0):
        BM25(["a b", "c"]).scores(["a"])
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_bm25s_does_not_start_jax(tmp_path: Path):
    """Where it is installed: on a GPU it would take most of the memory."""
    (tmp_path / "jax").mkdir()
    begun = tmp_path / "begun"
    (tmp_path / "jax" / "__init__.py").write_text(f"open({str(begun)!r}, 'w').close()")
    (tmp_path / "jax" / "lax.py").write_text("def top_k(scores, k): return scores, k")
    places = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path.cwd())])}
    for module, begins in (("sentemb_core.retrieval.bm25", False), ("bm25s", True)):
        asked = f"import {module}, sys; assert ('jax' in sys.modules) is {begins}"
        subprocess.run([sys.executable, "-c", asked], check=True, env=places)
        assert begun.exists() is begins


@given(texts=TEXTS, queries=TEXTS)
def test_a_stored_index_gives_the_same_scores(texts: list[str], queries: list[str]):
    index = BM25(texts)
    with TemporaryDirectory() as name:
        index.save(Path(name))
        stored = StoredBM25(Path(name), every_word)
        scores = np.array([stored.scores(query) for query in queries])
    assert scores == pytest.approx(index.scores(queries), abs=1e-5)
