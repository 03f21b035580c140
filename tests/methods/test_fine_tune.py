"""Fine-tuning against a loop over documents, and its mean against validation's."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.config.methods import FineTune
from sentemb_core.config.run import TrainingConfig
from sentemb_core.evaluation.diagnostics import directions
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.fine_tune import body, counterpart
from sentemb_core.methods.parts.views import negatives, positives
from sentemb_core.training.batches import sampler_for
from sentemb_core.training.gradients import GradientJob
from sentemb_core.training.loop import learner_of
from tests import tiny
from tests.methods.drawing import every_document, listed, numbered, words

EVERY = 9


def first_step(corpus, encoder, **settings):
    """Loss and vectors of a batch of every document, gradients on the encoder; and the batch."""
    config = TrainingConfig(
        method=FineTune(sentences=EVERY, **settings), batch_size=len(corpus.held_out)
    )
    method = method_for(config.method, encoder)
    batch = sampler_for(config, method, corpus).batch(0)
    learner = learner_of(method, encoder, seed=0)
    return GradientJob(learner, method, False, 0).run(batch, 0, None), batch


def slow_loss(encoder, corpus, temperature):
    """Every document against its counterpart and those of others, one after the other."""

    def vector(sentence):
        return encoder.vectors(encoder(torch.from_numpy(sentence)[None]))[0]

    bodies, titles = [], []
    for begin, end in zip(corpus.offsets[:-1], corpus.offsets[1:], strict=True):
        sentences = [vector(corpus.sentences[k]) for k in range(begin, end)]
        mean = torch.stack(sentences[:-1]).mean(dim=0)
        if encoder.similarity == "cosine":
            mean = mean / mean.norm()
        bodies.append(mean)
        titles.append(sentences[-1])
    total = torch.zeros(())
    for k, document in enumerate(bodies):
        scores = torch.stack([document @ title for title in titles]) / temperature
        own = torch.from_numpy(corpus.original_of == corpus.original_of[k])
        own[k] = False
        total = total + torch.logsumexp(scores[~own], 0) - scores[k]
    return total / len(bodies)


@pytest.mark.parametrize("originals", [None, np.array([0, 1, 1, 1, 4])])
@pytest.mark.parametrize(("similarity", "temperature"), [("cosine", 0.05), ("dot", 1.0)])
def test_loss_and_gradient_equal_a_slow_loop(similarity, temperature, originals):
    """Of one label a document, and where one of three documents has three."""
    corpus = replace(tiny.corpus([4, 3, 6, 2, 5]), originals=originals)
    encoder = tiny.bert(dropout=0.0, similarity=similarity)
    found, _ = first_step(corpus, encoder, temperature=temperature)
    gradients = [weight.grad.clone() for weight in encoder.parameters() if weight.grad is not None]
    encoder.zero_grad()
    loss = slow_loss(encoder, corpus, temperature)
    loss.backward()
    assert found.loss == pytest.approx(loss.item(), abs=1e-5)
    slow = [weight.grad for weight in encoder.parameters() if weight.grad is not None]
    for one, other in zip(gradients, slow, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_its_document_vector_is_the_one_of_validation():
    corpus = tiny.corpus([4, 3])
    encoder = tiny.bert(dropout=0.0)
    found, batch = first_step(corpus, encoder)
    rows = vectors_of(encoder, corpus)
    means = torch.stack([rows[0:3].mean(dim=0), rows[4:6].mean(dim=0)]).numpy()
    wanted = directions(means)[batch.views["document"].document]
    np.testing.assert_allclose(
        directions(found.vectors["document"].detach().numpy()), wanted, atol=1e-6
    )


def test_two_labels_of_one_document_do_not_oppose_each_other():
    corpus = replace(tiny.corpus([2, 2, 2]), originals=np.array([0, 0, 2]))
    corpus.sentences[2] = corpus.sentences[0]  # one body, two titles
    views = first_step(corpus, tiny.bert(dropout=0.0))[1].views
    anchors, candidates = views["document"], views["counterpart"]
    opposed = negatives(anchors, candidates, positives(anchors, candidates))
    apart = anchors.document[:, None] != candidates.document
    np.testing.assert_array_equal(opposed, apart)
    assert sorted(anchors.document.tolist()) == sorted(candidates.document.tolist()) == [0, 0, 2]


def test_equal_counterparts_are_no_negatives():
    corpus = tiny.corpus([2, 2, 2])
    corpus.sentences[3] = corpus.sentences[1]  # documents 0 and 1 share their title
    encoder = tiny.bert(dropout=0.0)
    loss = first_step(corpus, encoder)[0].loss
    v = vectors_of(encoder, corpus)
    expected = 0.0
    for text, own, others in ((0, 1, [5]), (2, 3, [5]), (4, 5, [1, 3])):
        right = float(v[text] @ v[own]) / 0.05
        wrong = [float(v[text] @ v[other]) / 0.05 for other in others]
        expected += math.log(sum(math.exp(score - right) for score in wrong) + 1)
    assert loss == pytest.approx(expected / 3, rel=1e-4)


def vectors_of(encoder, corpus):
    with torch.no_grad():
        return torch.cat(
            [encoder.vectors(encoder(torch.from_numpy(row)[None])) for row in corpus.sentences]
        )


def seen(maker, corpus, seed=0):
    return maker(corpus, every_document(corpus), np.random.default_rng(seed))


def test_the_counterpart_is_the_last_sentence():
    corpus = numbered([3, 2])
    assert [words(row) for row in seen(counterpart, corpus).tokens] == [[2], [4]]


@given(st.lists(st.integers(2, 9), min_size=1, max_size=6), st.integers(1, 9), st.integers(0, 99))
def test_a_body_is_some_sentences_of_its_document_and_never_the_counterpart(counts, most, seed):
    corpus = numbered(counts)
    view = seen(body(most), corpus, seed)
    for k, (begin, count) in enumerate(zip(corpus.offsets[:-1].tolist(), counts, strict=True)):
        mine = [words(view.tokens[row])[0] for row in np.flatnonzero(view.owner == k)]
        assert len(mine) == len(set(mine)) == min(most, count - 1)
        assert mine == sorted(mine)
        assert set(mine) <= set(range(begin, begin + count - 1))
        np.testing.assert_allclose(view.weight[view.owner == k].sum(), 1)
    assert (view.document == view.owner).all()


def test_every_step_draws_anew():
    corpus = numbered([9])
    drawn = {tuple(map(tuple, listed(seen(body(2), corpus, seed).tokens))) for seed in range(20)}
    assert len(drawn) > 5
