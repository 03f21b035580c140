"""Frozen copies, momentum copies, twins."""

import inspect

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.parts.copies import FrozenCopy, MomentumCopy, twin
from sentemb_core.methods.parts.transformer_layers import skip_layer
from tests import tiny
from tests.methods import samples

IDS = torch.tensor([[2, 7, 8, 3], [2, 9, 10, 3]])
TABLE = "backbone.embeddings.word_embeddings"


def moved(module: nn.Module, by: float = 0.1) -> None:
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(by)


@pytest.mark.parametrize("start", [tiny.static, lambda: samples.encoder(pooling="mean")])
def test_copies_read_as_their_original(start):
    encoder = start()
    for other in (FrozenCopy(encoder), MomentumCopy(encoder, 0.9), twin(encoder)):
        torch.testing.assert_close(other(IDS), encoder(IDS), rtol=0, atol=0)
        assert (other.pooling, other.similarity) == ("mean", "cosine")
        assert other.max_length == encoder.max_length


def test_frozen_copies_never_change_and_never_drop_out():
    encoder = samples.encoder(dropout=0.5)
    networks = nn.ModuleDict(
        {"frozen": FrozenCopy(encoder), "momentum": MomentumCopy(encoder, 0.0)}
    )
    before = encoder(IDS)
    networks.train()
    assert not any(module.training for module in networks["frozen"].modules())
    assert not any(weight.requires_grad for weight in networks.parameters())
    moved(encoder)
    for copied in networks.values():
        torch.testing.assert_close(copied(IDS), before, rtol=0, atol=0)
    assert all(weight.requires_grad for weight in encoder.parameters())


def test_what_is_named_as_shared_lies_in_one_memory():
    encoder = samples.encoder()
    copied = dict(FrozenCopy(encoder, shared=(TABLE,)).named_parameters())
    for name, weight in encoder.named_parameters():
        assert (weight.data_ptr() == copied[name].data_ptr()) == name.startswith(TABLE), name
        assert weight.requires_grad
        assert not copied[name].requires_grad


def test_frozen_layers_behind_the_pooling_are_shared_too():
    encoder = samples.encoder()
    encoder.layers = nn.Sequential(nn.Linear(16, 6).requires_grad_(requires_grad=False))
    copied = FrozenCopy(encoder)
    assert copied.layers[0].weight.data_ptr() == encoder.layers[0].weight.data_ptr()
    assert not [name for name in copied.state_dict() if name.startswith("layers")]


def test_a_copy_of_a_frozen_copy_adds_nothing_to_memory_or_checkpoint():
    first = FrozenCopy(samples.encoder())
    second = FrozenCopy(first, layers=1)
    lent = {weight.data_ptr() for weight in first.parameters()}
    assert {weight.data_ptr() for weight in second.parameters()} <= lent
    assert len(second.shared) == len(list(second.parameters())) > 0
    assert not second.state_dict()


def test_the_momentum_copy_of_a_frozen_part_has_its_own_memory():
    frozen = FrozenCopy(samples.encoder())
    before = frozen(IDS)
    other = MomentumCopy(frozen, 0.5, "random")
    assert other(IDS).ne(before).any()
    torch.testing.assert_close(frozen(IDS), before, rtol=0, atol=0)


@pytest.mark.parametrize("shared", [(), (TABLE,), ("",)])
def test_a_checkpoint_holds_no_weight_twice_and_restores_the_copy(shared):
    encoder, fresh = samples.encoder(), samples.encoder(seed=1)
    networks = nn.ModuleDict({"frozen": FrozenCopy(encoder, shared=shared)})
    state = {f"encoder.{name}": weight for name, weight in encoder.state_dict().items()}
    state |= {f"networks.{name}": weight for name, weight in networks.state_dict().items()}
    found = load(save(state))  # safetensors refuses tensors that share memory
    names = [name for name in found if name.startswith("networks.")]
    assert len(names) == len(encoder.state_dict()) * (shared != ("",)) - len(shared[:1]) * (
        shared == (TABLE,)
    )
    again = nn.ModuleDict({"frozen": FrozenCopy(fresh, shared=shared)})
    fresh.load_state_dict({k.removeprefix("encoder."): v for k, v in found.items() if k[0] == "e"})
    again.load_state_dict({k.removeprefix("networks."): found[k] for k in names})
    torch.testing.assert_close(again["frozen"](IDS), encoder(IDS), rtol=0, atol=0)


@pytest.mark.parametrize("lower", [lambda e: FrozenCopy(e, layers=1), lambda e: twin(e, layers=1)])
def test_the_lower_layers_give_the_states_of_that_layer(lower):
    encoder = samples.encoder()
    states = lower(encoder).read(IDS, layers=True).layers
    assert len(states) == 2
    torch.testing.assert_close(states[-1], encoder.read(IDS, layers=True).layers[1])
    assert len(encoder.backbone.encoder.layer) == 2


def test_a_twin_learns_by_itself():
    encoder = samples.encoder()
    other = twin(FrozenCopy(encoder))
    other(IDS).sum().backward()
    assert samples.learns(other)
    assert not samples.learns(encoder)
    pointers = {weight.data_ptr() for weight in encoder.parameters()}
    assert pointers.isdisjoint({weight.data_ptr() for weight in other.parameters()})


def test_a_momentum_copy_is_the_exponential_average_of_what_it_followed():
    encoder = samples.encoder()
    other = MomentumCopy(encoder, 0.75)
    expected = [weight.detach().clone() for weight in encoder.parameters()]
    for step in range(4):
        moved(encoder, 0.1 * step)
        other.follow(encoder)
        expected = [
            0.75 * old + 0.25 * new for old, new in zip(expected, encoder.parameters(), strict=True)
        ]
    for own, right in zip(other.parameters(), expected, strict=True):
        torch.testing.assert_close(own, right)
        assert not own.requires_grad


def test_buffers_follow_too():
    encoder = samples.encoder()
    encoder.register_buffer("unrelated", torch.zeros(1))
    encoder.backbone.register_buffer("scale", torch.zeros(1))
    encoder.backbone.register_buffer("count", torch.tensor(0))
    del encoder.unrelated
    other = MomentumCopy(encoder, 0.75)
    encoder.backbone.scale += 4
    encoder.backbone.count += 4
    other.follow(encoder)
    assert (other.backbone.scale.item(), other.backbone.count.item()) == (1.0, 4)


def test_half_of_the_layers_lie_below_the_skip_unless_asked():
    encoder = samples.encoder()
    assert skip_layer(encoder) == 1
    assert skip_layer(twin(encoder, layers=2), 1) == 1


@pytest.mark.parametrize(("asked", "depth"), [(0, 2), (2, 2), (6, 2), (None, 1)])
def test_a_skip_without_a_layer_below_and_one_above_is_refused(asked, depth):
    with pytest.raises(RecipeError, match=rf"skip_from {asked or 0} and {depth} "):
        skip_layer(twin(samples.encoder(), layers=depth), asked)


def test_a_static_table_has_no_layers_to_sit_on():
    with pytest.raises(RecipeError, match="StaticTable"):
        skip_layer(tiny.static())


def test_parts_are_all_arguments_of_an_encoder():
    encoder = samples.encoder()
    wanted = inspect.signature(Encoder).parameters
    assert list(encoder.parts(encoder.backbone, None)) == list(wanted)


def test_without_momentum_a_copy_equals_the_encoder_after_every_step():
    encoder = samples.encoder()
    other = MomentumCopy(encoder, 0.0, "random")
    for _ in range(3):
        moved(encoder)
        other.follow(encoder)
        for own, its in zip(other.parameters(), encoder.parameters(), strict=True):
            assert own.equal(its)
