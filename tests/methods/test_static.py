"""Methods that take a static encoder, with either kind of encoder and batch."""

import numpy as np
import pytest
import torch

from sentemb_core.config.run import TrainingConfig
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.parts.method import Learner, loss_of
from sentemb_core.methods.parts.pairs import Annotation
from sentemb_core.training.batches import sampler_for
from sentemb_core.training.loop import learner_of, train
from tests import tiny

RECIPES = [
    ("simcse", "pair", "transformer"),
    ("conpono", "pair", "transformer"),
    ("conpono", "pair", "static"),
    ("ict", "pair", "transformer"),
    ("ict", "pair", "static"),
    ("cpc", "pair", "static"),
    ("fine_tune", "pair", "static"),
    ("infocse_idc", "pair", "transformer"),
    ("infocse_idc", "pair", "static"),
    ("infocse_idc", "cluster", "transformer"),
    ("infocse_idc", "cluster", "static"),
]


every_recipe = pytest.mark.parametrize(("name", "batches", "kind"), RECIPES)


def encoder_of(kind, **options):
    return tiny.static(**options) if kind == "static" else tiny.bert(**options)


def annotation_of(corpus) -> Annotation:
    """Sentences of even and of odd position belong together."""
    position = np.arange(len(corpus)) - corpus.offsets[corpus.document_of]
    labels = (position % 2).astype(np.int32)
    i = np.flatnonzero(corpus.document_of[:-2] == corpus.document_of[2:])
    return Annotation(i, i + 2, labels)


def prepared(name, batches, kind, counts, **settings):
    encoder = encoder_of(kind)
    corpus = tiny.corpus(counts, special=kind == "transformer")
    config = TrainingConfig(
        method={"name": name} | ({"batches": batches} if name == "infocse_idc" else {}),
        threads=1,
        **{"batch_size": 16, "learning_rate": 1e-2, **settings},
    )
    method = method_for(config.method, encoder)
    return encoder, method, sampler_for(config, method, corpus, annotation_of(corpus)), config


def slow_loss(vectors, batch, temperature):
    """Eq. 1 and 5 of mutual by loops over rows, straight from the batch's columns."""
    names = list(batch.views)
    summed = "document" in names
    left, right = ("document", "counterpart") if summed else (names[0], names[-1])
    a, c = batch.views[left], batch.views[right]
    normal = {name: v / v.norm(dim=1, keepdim=True) for name, v in vectors.items()}
    losses = []
    for i in range(len(a)):
        own = [
            j for j in range(len(c)) if a.group[i] == c.group[j] and not (left == right and i == j)
        ]
        mine = {a.text[i], *(c.text[p] for p in own)}
        rivals = [
            j
            for j in range(len(c))
            if j not in own and a.document[i] != c.document[j] and c.text[j] not in mine
        ]
        for p in own:
            scores = torch.stack(
                [normal[left][i] @ normal[right][j] / temperature for j in [p, *rivals]]
            )
            losses.append(scores.logsumexp(0) - scores[0])
    return torch.stack(losses).mean()


@every_recipe
def test_loss_and_gradient_equal_a_slow_loop(name, batches, kind):
    encoder, method, sampler, config = prepared(name, batches, kind, [4] * 6)
    batch = sampler.batch(0)
    generator = torch.Generator().manual_seed(0)
    drawn = {
        view: torch.randn(len(rows), 5, generator=generator, dtype=torch.float64)
        for view, rows in batch.views.items()
    }
    fast_in = {view: rows.clone().requires_grad_() for view, rows in drawn.items()}
    slow_in = {view: rows.clone().requires_grad_() for view, rows in drawn.items()}
    fast, metrics = loss_of(method, fast_in, batch, Learner(encoder))
    slow = slow_loss(slow_in, batch, config.method.temperature)
    fast.backward()
    slow.backward()
    torch.testing.assert_close(fast, slow, atol=1e-9, rtol=0)
    assert metrics["contrast"] == fast.item()
    for view in drawn:
        torch.testing.assert_close(fast_in[view].grad, slow_in[view].grad, atol=1e-9, rtol=0)


@every_recipe
def test_thirty_steps_on_64_sentences_lower_the_loss(name, batches, kind, tmp_path):
    encoder, method, sampler, config = prepared(name, batches, kind, [4] * 16, steps=30)
    losses = []
    train(
        learner_of(method, encoder, 0),
        method,
        sampler,
        config,
        tmp_path,
        on_step=lambda _, seen: losses.append(seen["loss"]),
    )
    assert len(losses) == 30
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])
