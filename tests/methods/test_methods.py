"""Every method: in the index, learns, agrees with a slow loop, refuses what cannot work."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sentemb_core.config.method_list import LISTING
from sentemb_core.config.run import TrainingConfig
from sentemb_core.errors import RecipeError
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.parts.method import Learner, loss_of
from sentemb_core.methods.parts.pairs import Annotation
from sentemb_core.training.batches import sampler_for
from sentemb_core.training.loop import learner_of, train
from tests import tiny

INDEX = (Path(__file__).parents[2] / "sentemb_core" / "methods" / "README.md").read_text()
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


def annotate(corpus) -> Annotation:
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
    return encoder, method, sampler_for(config, method, corpus, annotate(corpus)), config


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


@pytest.mark.parametrize("name", [entry.name for entry in LISTING])
def test_every_method_is_in_the_paper_index(name):
    assert f"### `{name}`" in INDEX


def test_simcse_refuses_an_encoder_without_dropout():
    config = TrainingConfig(method="simcse")
    with pytest.raises(RecipeError, match="static"):
        method_for(config.method, tiny.static())
    with pytest.raises(RecipeError):
        method_for(config.method, tiny.bert(dropout=0.0))


def test_dropout_makes_the_two_views_of_simcse_differ_in_training_alone():
    encoder = tiny.bert()
    ids = torch.from_numpy(np.array([[2, 10, 11, 3]] * 2))
    encoder.train()
    one, other = encoder(ids)
    assert not torch.equal(one, other)
    encoder.eval()
    one, other = encoder(ids)
    assert torch.equal(one, other)


def test_the_loss_follows_the_similarity_of_the_encoder():
    config = TrainingConfig(method="conpono", batch_size=8)
    corpus = tiny.corpus([4] * 6)
    long_vectors = {"anchor": 3 * torch.randn(8, 4), "positive": torch.randn(8, 4)}
    values = {}
    for similarity in ("cosine", "dot"):
        encoder = tiny.bert(similarity=similarity)
        method = method_for(config.method, encoder)
        batch = sampler_for(config, method, corpus).batch(0)
        scaled = {name: 2 * vector for name, vector in long_vectors.items()}
        values[similarity] = [
            loss_of(method, vectors, batch, Learner(encoder))[0].item()
            for vectors in (long_vectors, scaled)
        ]
    assert values["cosine"][0] == pytest.approx(values["cosine"][1], rel=1e-5)
    assert values["dot"][0] != pytest.approx(values["dot"][1], rel=1e-2)


def test_terms_add_up_by_their_weights():
    config = TrainingConfig(method="conpono", batch_size=8)
    learner = Learner(tiny.bert())
    method = method_for(config.method, learner.encoder)
    batch = sampler_for(config, method, tiny.corpus([4] * 6)).batch(0)
    vectors = {"anchor": torch.randn(8, 4), "positive": torch.randn(8, 4)}
    term = method.terms["contrast"][1]
    doubled = replace(method, terms={"one": (0.5, term), "two": (1.5, term)})
    single, _ = loss_of(method, vectors, batch, learner)
    both, metrics = loss_of(doubled, vectors, batch, learner)
    torch.testing.assert_close(both, 2 * single)
    assert {"one", "two", "unopposed_anchors"} == set(metrics)


@pytest.mark.parametrize(
    ("method", "similarity", "warns"),
    [
        ("conpono", "dot", True),
        ("fine_tune", "dot", True),
        ({"name": "hicl", "segment": 8}, "dot", True),
        ({"name": "conpono", "temperature": 1.0}, "cosine", True),
        ({"name": "infocse_idc", "temperature": 2.0}, "cosine", True),
        ({"name": "conpono", "temperature": 1.0}, "dot", False),
        ("conpono", "cosine", False),
        ("sg_opt", "dot", False),
        ("clm_autoencoder", "dot", False),
        ({"name": "clm_autoencoder", "simcse": 1.0}, "dot", True),
        ("is_bert", "dot", False),
    ],
)
def test_a_temperature_that_does_not_go_with_the_similarity_is_told_once(
    method, similarity, warns, caplog
):
    with caplog.at_level(logging.WARNING):
        method_for(TrainingConfig(method=method).method, tiny.bert(similarity=similarity))
    warned = [line for line in caplog.messages if "temperature" in line]
    assert len(warned) == warns
