"""Logits made piece by piece: the same loss and the same gradients, in less memory."""

import pytest
import torch

from sentemb_core.methods.parts import masked_language as language_head
from sentemb_core.methods.parts.masked_language import LanguageHead
from sentemb_core.methods.parts.transformer_layers import token_table
from sentemb_core.methods.parts.views import IGNORED
from tests.heads import made


def told(head: LanguageHead, table: torch.Tensor, dtype: torch.dtype) -> list[torch.Tensor]:
    """Loss, and its gradient at the states, the table and the head's own weights."""
    generator = torch.Generator().manual_seed(3)
    states = torch.randn(4, 9, table.shape[1], generator=generator).requires_grad_()
    targets = torch.randint(len(table), (4, 9), generator=generator)
    targets[:, ::3] = IGNORED
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        loss = head.loss(states, targets, table)
    gradients = torch.autograd.grad(loss, [states, table, *head.parameters()])
    return [loss.detach(), *gradients]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 5, 23])
def test_pieces_give_the_loss_and_gradients_of_the_whole(monkeypatch, rows, dtype):
    torch.manual_seed(1)  # how far sums in bfloat16 drift hangs on the weights
    encoder = made.encoder()
    head, table = LanguageHead(encoder), token_table(encoder)
    whole = told(head, table, dtype)
    monkeypatch.setattr(language_head, "AT_ONCE", rows * len(table))
    exact = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 0.02, "atol": 0.02}
    torch.testing.assert_close(told(head, table, dtype), whole, **exact)


def test_no_more_logits_than_allowed_exist_at_a_time(monkeypatch):
    encoder = made.encoder()
    head, table = LanguageHead(encoder), token_table(encoder)
    monkeypatch.setattr(language_head, "AT_ONCE", 5 * len(table))
    seen: list[int] = []
    head.register_forward_hook(lambda _, __, logits: seen.append(len(logits)))
    told(head, table, torch.float32)
    assert sorted(seen) == sorted([5, 5, 5, 5, 4] * 2)  # and again for the gradient


def test_nothing_to_tell_costs_nothing():
    encoder = made.encoder()
    head, table = LanguageHead(encoder), token_table(encoder)
    states = torch.randn(2, 3, table.shape[1], requires_grad=True)
    loss = head.loss(states, torch.full((2, 3), IGNORED), table)
    loss.backward()
    assert loss.item() == 0
    assert not states.grad.any()


def test_logits_are_float32_whatever_the_states_are():
    encoder = made.encoder()
    head, table = LanguageHead(encoder), token_table(encoder)
    with torch.autocast("cpu", torch.bfloat16):
        logits = head(torch.randn(3, table.shape[1]), table)
    assert logits.dtype == torch.float32
