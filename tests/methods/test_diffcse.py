"""Replaced token detection: generators, discriminators, and the loss on the batch's side."""

from math import log

import numpy as np
import pytest
import torch
from torch import nn

from sentemb_core.methods.diffcse import Discriminator, Generator, edit_detection
from sentemb_core.methods.parts.views import Batch, View
from tests.methods import samples, slow
from tests.methods.parts.test_masked_language import replaced


def generator(encoder, **options) -> Generator:
    return Generator(encoder, None, **options)


def view(ids=samples.SENTENCES, inputs=samples.MASKED) -> View:
    number = np.arange(len(ids))
    rows = [[np.array(row, dtype=np.int64) for row in rows] for rows in (ids, inputs)]
    return View(rows[0], number, number, number, inputs=rows[1])


def test_the_code_takes_the_likeliest_token_everywhere_but_at_the_first_place(encoder):
    found, rows = generator(encoder), samples.masked_rows(encoder)
    edited = found(rows.ids, rows.mask, rows.inputs)
    table = encoder.backbone.embeddings.word_embeddings.weight

    def likeliest(state):
        costs = [slow.surprise(found.language, state, table, k).item() for k in range(len(table))]
        return costs.index(min(costs))

    for row, sentence in enumerate(samples.SENTENCES):
        states = slow.read(encoder, samples.MASKED[row])[-1]
        padding = [0] * (rows.ids.shape[1] - len(sentence))
        assert edited[row].tolist() == [sentence[0], *map(likeliest, states[1:]), *padding]


def test_the_paper_draws_where_the_input_hides_a_token(encoder):
    found, rows = generator(encoder, sample="multinomial"), samples.masked_rows(encoder)
    nn.init.constant_(found.language.bias[40:42], 50.0)  # both far likelier than the rest
    hidden = rows.inputs == samples.MASK
    drawn = torch.stack([found(rows.ids, rows.mask, rows.inputs) for _ in range(60)])
    assert drawn[:, ~hidden].eq(rows.ids[~hidden]).all()
    assert all(set(tokens) == {40, 41} for tokens in drawn[:, hidden].T.tolist())


def test_with_nothing_hidden_nothing_is_drawn(encoder):
    found, rows = generator(encoder, sample="multinomial"), samples.masked_rows(encoder)
    assert found(rows.ids, rows.mask, rows.ids).equal(rows.ids)


def test_a_generator_learns_nothing(encoder):
    judge, rows = Discriminator(encoder, generator(encoder)), samples.masked_rows(encoder)
    judge.train()
    judge.loss(rows.reading.pooled, rows.ids, rows.mask, rows.inputs).backward()
    assert not any(weight.requires_grad for weight in judge.edit.parameters())
    assert set(samples.gradients(judge.edit).values()) == {None}
    assert samples.learns(judge.encoder)
    assert samples.learns(judge.classifier)
    assert samples.learns(encoder)  # by the vector


def test_a_discriminator_begins_with_the_weights_of_the_encoder(encoder):
    judge = Discriminator(encoder, replaced)
    for own, its in zip(judge.encoder.parameters(), encoder.parameters(), strict=True):
        assert own.equal(its)
        assert own.data_ptr() != its.data_ptr()
    rows = samples.masked_rows(encoder)
    first = rows.reading.layers[0][:, 0]
    torch.testing.assert_close(
        judge(first, rows.ids, rows.mask), judge.classifier(rows.reading.layers[-1])
    )


def test_the_vector_and_not_the_first_token_is_read(encoder):
    judge, rows = Discriminator(encoder, replaced), samples.masked_rows(encoder)
    other = rows.ids.clone()
    other[:, 0] = 44
    logits = judge(rows.reading.pooled, rows.ids, rows.mask)
    torch.testing.assert_close(judge(rows.reading.pooled, other, rows.mask), logits, rtol=0, atol=0)
    assert judge(rows.reading.pooled + 1, rows.ids, rows.mask).ne(logits).any()


def test_on_the_side_of_the_batch_the_loss_is_the_mean_over_real_tokens(encoder):
    judge, rows = Discriminator(encoder, replaced), samples.masked_rows(encoder)
    who = samples.learner(encoder, discriminator=judge)
    batch = Batch(
        {"one": view(), "other": view(samples.SENTENCES[:2], samples.MASKED[:2])}, pairs=3
    )
    vectors = {"one": rows.reading.pooled, "other": rows.reading.pooled[:2] + 1}
    loss, _ = edit_detection("one", "other")(vectors, batch, who)
    total = 0
    for name in vectors:
        for k, sentence in enumerate(batch.views[name].tokens):
            edited = [token + (token % 3 == 0) for token in sentence.tolist()]
            states = slow.read(judge.encoder, edited, first=vectors[name][k])[-1]
            for state, new, old in zip(states, edited, sentence.tolist(), strict=True):
                logits = slow.linear(judge.classifier, state)
                total = total + logits.exp().sum().log() - logits[int(new != old)]
    torch.testing.assert_close(loss, total / (15 + 10), rtol=1e-5, atol=1e-5)


def test_without_logits_every_real_token_costs_log_2(encoder):
    judge, rows = Discriminator(encoder, replaced), samples.masked_rows(encoder)
    nn.init.zeros_(judge.classifier.weight)
    loss = judge.loss(rows.reading.pooled, rows.ids, rows.mask, rows.inputs)
    assert (loss / rows.mask.sum()).item() == pytest.approx(log(2))
