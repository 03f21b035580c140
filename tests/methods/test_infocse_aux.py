"""Condenser heads, auxiliary networks, and where their gradients may go."""

from dataclasses import replace

import pytest
import torch

from sentemb_core.config.methods import InfoCSEAux
from sentemb_core.errors import RecipeError
from sentemb_core.methods.autoencoders import filled_in
from sentemb_core.methods.condenser import condensed
from sentemb_core.methods.diffcse import Generator
from sentemb_core.methods.infocse_aux import AuxiliaryNetwork, aggregated, infocse_aux
from sentemb_core.methods.parts.copies import FrozenCopy
from sentemb_core.methods.parts.masked_language import MaskFiller, masked_language
from sentemb_core.methods.parts.transformer_layers import embedded, token_table
from tests import tiny
from tests.methods import samples


def auxiliary(encoder, **options) -> AuxiliaryNetwork:
    return AuxiliaryNetwork(encoder, None, **options)


def test_what_stood_at_the_first_place_has_no_effect(encoder):
    filler, rows = MaskFiller(encoder), samples.masked_rows(encoder)
    early = rows.reading.layers[1]
    other = early.clone()
    other[:, 0] += 1
    states = filler(rows.reading.pooled, early, rows.mask)
    torch.testing.assert_close(
        filler(rows.reading.pooled, other, rows.mask), states, rtol=0, atol=0
    )
    assert filler(rows.reading.pooled + 1, early, rows.mask).ne(states).all()


def test_an_unmasked_first_token_has_no_effect_on_the_mlm_autoencoder(encoder):
    who = samples.learner(encoder, decoder=MaskFiller(encoder))
    plain = samples.masked_rows(encoder)
    changed = samples.masked_rows(encoder, inputs=[[9, *row[1:]] for row in samples.MASKED])
    changed.targets.copy_(plain.targets)
    assert filled_in(who, changed).item() == filled_in(who, plain).item()


@pytest.mark.parametrize("detach", [True, False])
def test_the_vector_is_the_only_way_to_the_encoder(encoder, detach):
    who = samples.learner(encoder, auxiliary=auxiliary(encoder, detach=detach))
    rows = samples.masked_rows(encoder)
    (at_vector,) = torch.autograd.grad(
        aggregated(who, rows), rows.reading.pooled, retain_graph=True
    )
    aggregated(who, rows).backward(retain_graph=True)
    found = [weight.grad.clone() for weight in encoder.parameters()]
    encoder.zero_grad()
    rows.reading.pooled.backward(at_vector)
    for ours, through_vector in zip(found, encoder.parameters(), strict=True):
        torch.testing.assert_close(ours, through_vector.grad)
    assert at_vector.abs().max() > 0


def test_the_head_of_a_condenser_stage_is_taken_over(encoder):
    trained = MaskFiller(encoder)
    head = trained.state_dict()
    network, generator = AuxiliaryNetwork(encoder, head), Generator(encoder, head)
    for name, weight in network.filler.state_dict().items():
        torch.testing.assert_close(weight, head[name], rtol=0, atol=0)
    torch.testing.assert_close(generator.language.dense.weight, head["language.dense.weight"])
    rows = samples.masked_rows(encoder)
    early = network.lower.read(rows.inputs, rows.mask, layers=True).layers[-1]
    torch.testing.assert_close(
        network.loss(rows),
        trained.loss(rows.reading.pooled, early, rows.mask, rows.targets, token_table(encoder)),
    )


def test_a_random_head_stays_random_where_a_trained_one_lies(encoder):
    """The ablation of infocse, Table 4: it would equal the arm it is compared with otherwise."""
    trained = MaskFiller(encoder).state_dict()
    method = infocse_aux(InfoCSEAux(random_head=True), tiny.bert(), trained)
    network = method.networks(encoder)["auxiliary"]
    assert not torch.equal(
        network.filler.state_dict()["language.dense.weight"], trained["language.dense.weight"]
    )


@pytest.mark.parametrize("network", [AuxiliaryNetwork, Generator])
def test_a_head_of_another_shape_is_refused(encoder, network):
    with pytest.raises(RecipeError, match="head_layers"):
        network(encoder, {"dense.weight": torch.zeros(3, 3)})
    narrower = MaskFiller(encoder).state_dict()
    narrower["language.bias"] = narrower["language.bias"][:-1]
    with pytest.raises(RecipeError, match="head_layers"):
        network(encoder, narrower)


def test_a_head_of_other_depth_is_refused(encoder):
    with pytest.raises(RecipeError, match=r"layers\.1"):
        AuxiliaryNetwork(encoder, MaskFiller(encoder, layers=1).state_dict())


def test_bare_embeddings_are_those_that_the_encoder_reads(encoder):
    rows = samples.masked_rows(encoder)
    torch.testing.assert_close(embedded(encoder, rows.ids), rows.reading.layers[0])


class Embeddings(FrozenCopy):
    """A copy of which no layer is read."""

    def read(self, *rows, **how):
        reading = super().read(*rows, **how)
        return replace(reading, layers=reading.layers[:1])


def test_the_mlm_autoencoder_is_the_auxiliary_network_over_no_layers(encoder):
    network = auxiliary(encoder)
    network.lower = Embeddings(encoder)
    who = samples.learner(encoder, auxiliary=network, decoder=network.filler)
    found = []
    for loss in (aggregated, filled_in):
        rows = samples.masked_rows(encoder)
        value = loss(who, rows)
        learning = [rows.reading.pooled, *network.filler.parameters()]
        found.append((value, *torch.autograd.grad(value, learning)))
    assert found[0][0] > 1
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_the_condenser_teaches_early_layers_and_late_ones(encoder):
    who = samples.learner(encoder, condenser=MaskFiller(encoder))
    rows = samples.masked_rows(encoder, ids=samples.MASKED, targets=samples.SENTENCES)
    condensed(1)(who, rows).backward()
    found = samples.gradients(encoder)
    for layer in (0, 1):
        assert found[f"backbone.encoder.layer.{layer}.output.dense.weight"] > 0


def test_the_late_loss_shares_the_head_of_the_condenser(encoder):
    filler = MaskFiller(encoder)
    who = samples.learner(encoder, condenser=filler)
    rows = samples.masked_rows(encoder, ids=samples.MASKED)
    masked_language("condenser.language")(who, rows).backward()
    assert samples.learns(filler.language)
    assert not samples.learns(filler.layers)
