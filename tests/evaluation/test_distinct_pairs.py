"""What a report shows of a round's pairs: no sentence twice."""

from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.evaluation.round_diagnostics import Pair, distinct

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
def test_a_sentence_stands_in_one_pair_and_whatever_is_left_out_meets_one_that_came_before(pairs):
    kept = distinct(pairs)
    sentences = [text for pair in kept for text in {pair.left, pair.right}]
    assert len(sentences) == len(set(sentences))
    assert kept[:1] == pairs[:1]
    assert all({pair.left, pair.right} & set(sentences) for pair in pairs)
