"""What holds of every loss of single rows: slow loops, padding, batch size, precision."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import pytest
import torch
from torch import Tensor

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.autoencoders import CausalDecoder, filled_in, rewritten
from sentemb_core.methods.condenser import condensed
from sentemb_core.methods.diffcse import Discriminator
from sentemb_core.methods.infocse_aux import AuxiliaryNetwork, aggregated
from sentemb_core.methods.parts import masked_language as language_head
from sentemb_core.methods.parts.masked_language import LanguageHead, MaskFiller, masked_language
from sentemb_core.methods.parts.method import Learner, Rows, SampleLoss
from sentemb_core.methods.parts.transformer_layers import token_table
from sentemb_core.methods.parts.views import IGNORED
from tests import tiny
from tests.methods import samples, slow


@dataclass
class Case:
    """One loss: how its learner is built, how rows look, and what a slow loop finds in a row."""

    loss: SampleLoss
    networks: Callable[[Encoder], dict[str, torch.nn.Module]]
    slowly: Callable[[Learner, list[int], list[int], list[int]], Tensor]
    masked_ids: bool = False
    all_targets: bool = False


def replaced(_ids: Tensor, _mask: Tensor, _inputs: Tensor) -> Tensor:
    """A stand-in for a generator: some tokens are others."""
    return _ids + (_ids % 3 == 0).long() * _mask


def surprises(head, states, table, targets) -> Tensor:
    pairs = zip(states, targets, strict=True)
    return sum(slow.surprise(head, state, table, t) for state, t in pairs if t != IGNORED)


def filled(filler, first, early, table, targets) -> Tensor:
    states = [first, *early[1:]]
    for module in filler.layers:
        states = slow.layer(module, states)
    return surprises(filler.language, states, table, targets)


def slow_masked_language(who, ids, _inputs, targets):
    last = slow.read(who.encoder, ids)[-1]
    return surprises(who.networks["language"], last, token_table(who.encoder), targets)


def slow_condensed(who, ids, _inputs, targets):
    layers = slow.read(who.encoder, ids)
    table = token_table(who.encoder)
    return filled(who.networks["condenser"], layers[-1][0], layers[1], table, targets)


def slow_aggregated(who, ids, inputs, targets):
    network = who.networks["auxiliary"]
    first = slow.read(who.encoder, ids)[-1][0]
    early = slow.read(network.lower, inputs)[-1]
    return filled(network.filler, first, early, token_table(network.lower), targets)


def slow_filled_in(who, ids, inputs, targets):
    first = slow.read(who.encoder, ids)[-1][0]
    early = slow.embeddings(who.encoder, inputs)
    return filled(who.networks["decoder"], first, early, token_table(who.encoder), targets)


def slow_rewritten(who, ids, _inputs, targets):
    decoder, table = who.networks["decoder"], token_table(who.encoder)
    vector = slow.read(who.encoder, ids)[-1][0]
    layers = who.encoder.backbone.encoder.layer if decoder.layers is None else decoder.layers
    states = slow.embeddings(who.encoder, targets)
    for module, memory in zip(layers, decoder.memory, strict=True):
        states = slow.layer(module, states, "past", memory, vector)
    return surprises(decoder.language, states[:-1], table, targets[1:])


def slow_replaced_tokens(who, ids, _inputs, _targets):
    judge = who.networks["discriminator"]
    vector = slow.read(who.encoder, ids)[-1][0]
    edited = [token + (token % 3 == 0) for token in ids]
    total = 0
    for state, new, old in zip(
        slow.read(judge.encoder, edited, first=vector)[-1], edited, ids, strict=True
    ):
        logits = slow.linear(judge.classifier, state)
        total = total + logits.exp().sum().log() - logits[int(new != old)]
    return total


def edit_losses(who, rows):
    """Of DiffCSE, row by row: on raw vectors nothing of the batch enters."""
    judge = who.networks["discriminator"]
    return judge.loss(rows.reading.pooled, rows.ids, rows.mask, rows.inputs)


CASES = {
    "masked_language": Case(
        masked_language(),
        lambda e: {"language": LanguageHead(e)},
        slow_masked_language,
        masked_ids=True,
    ),
    "condensed": Case(
        condensed(skip_from=1),
        lambda e: {"condenser": MaskFiller(e)},
        slow_condensed,
        masked_ids=True,
    ),
    "aggregated": Case(
        aggregated,
        lambda e: {"auxiliary": AuxiliaryNetwork(e, None)},
        slow_aggregated,
    ),
    "aggregated, learning": Case(
        aggregated,
        lambda e: {"auxiliary": AuxiliaryNetwork(e, None, detach=False)},
        slow_aggregated,
    ),
    "filled_in": Case(filled_in, lambda e: {"decoder": MaskFiller(e)}, slow_filled_in),
    "rewritten": Case(
        rewritten,
        lambda e: {"decoder": CausalDecoder(e)},
        slow_rewritten,
        all_targets=True,
    ),
    "rewritten, tied": Case(
        rewritten,
        lambda e: {"decoder": CausalDecoder(e, layers=None)},
        slow_rewritten,
        all_targets=True,
    ),
    "replaced_tokens": Case(
        edit_losses,
        lambda e: {"discriminator": Discriminator(e, replaced)},
        slow_replaced_tokens,
    ),
}


@pytest.fixture(params=CASES)
def case(request) -> Case:
    return CASES[request.param]


def learner_of(case: Case, *, dropout: float = 0.0, pooling: str = "cls_before_pooler") -> Learner:
    torch.manual_seed(0)
    encoder = samples.encoder(dropout=dropout, pooling=pooling)
    for name, weight in encoder.named_parameters():  # away from what is zero at the start
        if name.endswith("bias"):
            torch.nn.init.normal_(weight, std=0.1)
    return samples.learner(encoder, **case.networks(encoder))


def texts_of(case: Case) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Ids, inputs and targets of every row, without padding."""
    ids = samples.MASKED if case.masked_ids else samples.SENTENCES
    pairs = zip(samples.MASKED, samples.SENTENCES, strict=True)
    targets = (
        samples.SENTENCES if case.all_targets else [samples.targets_of(*pair) for pair in pairs]
    )
    return ids, samples.MASKED, targets


def rows_of(case: Case, who: Learner, *, only: slice = slice(None), more_padding: int = 0) -> Rows:
    ids, inputs, targets = (part[only] for part in texts_of(case))
    return samples.masked_rows(who.encoder, ids, inputs, targets, more_padding=more_padding)


def all_gradients(loss: Tensor, who: Learner) -> list[Tensor]:
    weights = [w for m in who.modules for w in m.parameters() if w.requires_grad]
    found = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
    return list(found)


@pytest.mark.parametrize("which", CASES)
def test_loss_and_gradients_equal_a_slow_loop(which):
    case = CASES[which]
    who = learner_of(case)
    loss = case.loss(who, rows_of(case, who))
    expected = sum(case.slowly(who, *row) for row in zip(*texts_of(case), strict=True))
    assert loss.item() > 1
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    for ours, right in zip(all_gradients(loss, who), all_gradients(expected, who), strict=True):
        torch.testing.assert_close(ours, right, rtol=1e-3, atol=3e-5)


def test_a_loss_is_the_sum_of_its_rows_at_any_padding_and_precision(case):
    who = learner_of(case)
    whole = case.loss(who, rows_of(case, who))
    padded = case.loss(who, rows_of(case, who, more_padding=3))
    parts = [case.loss(who, rows_of(case, who, only=slice(k, k + 1))) for k in range(3)]
    with torch.autocast("cpu", torch.bfloat16):
        rounded = case.loss(who, rows_of(case, who))
    torch.testing.assert_close(padded, whole, rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(sum(parts), whole, rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(rounded.float(), whole, rtol=0.02, atol=0.0)


@pytest.mark.parametrize("which", [name for name in CASES if name != "replaced_tokens"])
def test_a_row_without_targets_gives_no_loss_and_no_gradient(which):
    case = CASES[which]
    who = learner_of(case)
    ids = [[2, 7, 8, 3]]
    nothing = case.loss(who, samples.masked_rows(who.encoder, ids, ids, [[IGNORED] * 4]))
    nothing.backward()
    assert nothing.item() == 0
    gradients = [w.grad for m in who.modules for w in m.parameters() if w.grad is not None]
    assert all(gradient.eq(0).all() for gradient in gradients)


@pytest.mark.parametrize("pooling", ["mean", "cls_before_pooler"])
def test_every_part_that_learns_gets_a_gradient(case, pooling):
    who = learner_of(case, dropout=0.1, pooling=pooling)
    for module in who.modules:
        module.train()
    loss = case.loss(who, rows_of(case, who))
    loss.backward()
    assert loss.isfinite()
    assert samples.learns(who.encoder)
    for name, weight in who.networks.named_parameters():
        assert (weight.grad is not None) == weight.requires_grad, name


def loss_and_gradients(
    head: LanguageHead, table: torch.Tensor, dtype: torch.dtype
) -> list[torch.Tensor]:
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
    encoder = samples.encoder()
    head, table = LanguageHead(encoder), token_table(encoder)
    whole = loss_and_gradients(head, table, dtype)
    monkeypatch.setattr(language_head, "AT_ONCE", rows * len(table))
    exact = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 0.02, "atol": 0.02}
    torch.testing.assert_close(loss_and_gradients(head, table, dtype), whole, **exact)


def test_no_more_logits_than_allowed_exist_at_a_time(monkeypatch):
    encoder = samples.encoder()
    head, table = LanguageHead(encoder), token_table(encoder)
    monkeypatch.setattr(language_head, "AT_ONCE", 5 * len(table))
    seen: list[int] = []
    head.register_forward_hook(lambda _, __, logits: seen.append(len(logits)))
    loss_and_gradients(head, table, torch.float32)
    assert sorted(seen) == sorted([5, 5, 5, 5, 4] * 2)  # and again for the gradient


@pytest.mark.parametrize("which", [name for name in CASES if name != "replaced_tokens"])
def test_a_fresh_network_has_the_loss_of_equal_chances(which):
    """About log V a target."""
    case = CASES[which]
    who = learner_of(case)
    rows = rows_of(case, who)
    targets = rows.targets[:, 1:] if case.all_targets else rows.targets
    count = (targets != IGNORED).sum()
    assert (case.loss(who, rows) / count).item() == pytest.approx(log(tiny.VOCABULARY), abs=0.2)


def test_logits_are_float32_whatever_the_states_are():
    encoder = samples.encoder()
    head, table = LanguageHead(encoder), token_table(encoder)
    with torch.autocast("cpu", torch.bfloat16):
        logits = head(torch.randn(3, table.shape[1]), table)
    assert logits.dtype == torch.float32
