"""The queue of past vectors."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.methods.esimcse import Queue


@settings(deadline=None, max_examples=50)
@given(size=st.integers(0, 7), pushes=st.lists(st.integers(0, 9), max_size=6))
def test_the_newest_stay_in_order(size, pushes):
    queue, line = Queue(size, 2), []
    for count in pushes:
        new = [float(len(line) + k + 1) for k in range(count)]
        line += new
        queue.push(torch.tensor(new).reshape(-1, 1).expand(-1, 2))
        assert queue.keys[:, 0].tolist() == line[max(0, len(line) - size) :]


def test_a_checkpoint_keeps_the_queue():
    queue, fresh = Queue(5, 3), Queue(5, 3)
    queue.push(torch.randn(3, 3))
    fresh.load_state_dict(queue.state_dict())
    assert len(fresh.keys) == 3
    torch.testing.assert_close(fresh.keys, queue.keys)
    fresh.push(torch.ones(4, 3))
    assert len(fresh.keys) == 5
    torch.testing.assert_close(fresh.keys[0], queue.keys[2])


def test_nothing_in_the_queue_learns():
    queue, vectors = Queue(4, 2), torch.randn(2, 2, requires_grad=True)
    queue.push(vectors)
    assert not queue.keys.requires_grad
    assert not list(queue.parameters())
