"""The queue of past vectors."""

from itertools import groupby

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.methods.esimcse import Queue, repeated
from sentemb_core.methods.hicl import segments
from sentemb_core.training.gradients import GradientJob
from tests.methods.drawing import content_rows, framed, listed, seen
from tests.methods.recipes import made
from tests.methods.steps import batch_of


@given(size=st.integers(0, 7), pushes=st.lists(st.integers(0, 9), max_size=6))
def test_the_newest_stay_in_order(size, pushes):
    queue, line = Queue(size, 2), []
    for count in pushes:
        new = [float(len(line) + k + 1) for k in range(count)]
        line += new
        queue.push(torch.tensor(new).reshape(-1, 1).expand(-1, 2))
        assert queue.keys[:, 0].tolist() == line[max(0, len(line) - size) :]


def extra(rows, view):
    return [len(new) - len(old) - 2 for old, new in zip(rows, view.tokens, strict=True)]


@given(content_rows, st.floats(0, 1), st.sampled_from(["code", "paper"]), st.integers(0, 99))
def test_repetition_only_doubles_content_in_place(rows, rate, rule, seed):
    view = seen(repeated(framed(rows), rate, rule=rule), seed=seed)
    for old, new in zip(rows, listed(view.tokens), strict=True):
        assert [token for token, _ in groupby(new)] == [2, *old, 3]
        assert max(len(list(run)) for _, run in groupby(new)) <= 2
        assert (new[:2].count(2), new[-2:].count(3)) == (1, 1)


def test_no_repetition_makes_a_row_longer_than_an_encoder_has_positions():
    rows = [list(range(4, 34))] * 100 + [list(range(4, 44))]
    view = seen(repeated(framed(rows), 0.3, longest=36))
    assert {len(row) - 32 for row in view.tokens[:-1]} == {0, 1, 2, 3, 4}
    assert listed(view.tokens)[-1] == [2, *rows[-1], 3]


@pytest.mark.parametrize(
    ("rule", "length", "most"),
    [("code", 28, 8), ("code", 70, 9), ("paper", 30, 9), ("paper", 4, 2)],
)
def test_repetitions_reach_the_bound_of_their_rule_and_no_further(rule, length, most):
    rows = [list(range(4, 4 + length))] * 500
    view = seen(repeated(framed(rows), 0.3, rule=rule))
    assert set(extra(rows, view)) == set(range(most + 1))


def test_repetition_follows_slicing_so_that_slices_agree():
    text = framed([range(4, 70), range(4, 9)])
    plain = segments(text, 30)
    twice = seen(repeated(plain, 0.32))
    assert twice.owner.tolist() == seen(plain).owner.tolist() == [0, 0, 0, 1]
    assert twice.weight.tolist() == seen(plain).weight.tolist()


def test_the_queue_holds_the_momentum_encoders_anchors_under_the_head():
    settings = {"momentum": 0.5, "momentum_init": "random", "queue": 60}
    (method, who), batch = made("esimcse", **settings), batch_of("esimcse", settings)
    momentum = who.networks["momentum"]
    for module in who.modules:
        module.eval()
    before = [weight.clone() for weight in momentum.parameters()]
    rows = [torch.from_numpy(row)[None] for row in batch.views["anchor"].tokens]
    keys = torch.cat([who.head(momentum(row)) for row in rows])
    done = GradientJob(who, method, bfloat16=False, seed=0).run(batch, 0, None)
    method.after_step(who, done.vectors)
    torch.testing.assert_close(who.networks["queue"].keys, keys)
    for own, old, new in zip(momentum.parameters(), before, who.encoder.parameters(), strict=True):
        torch.testing.assert_close(own, (old + new) / 2)


def test_nothing_in_the_queue_learns():
    queue, vectors = Queue(4, 2), torch.randn(2, 2, requires_grad=True)
    queue.push(vectors)
    assert not queue.keys.requires_grad
    assert not list(queue.parameters())
