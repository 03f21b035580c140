"""Our training loop equals a plain torch loop on the same batches."""

import pytest
import torch
import torch.nn.functional as F

from sentemb_core.config.run import TrainingConfig
from sentemb_core.methods.catalogue import method_for
from sentemb_core.training.batches import sampler_for
from sentemb_core.training.loop import learner_of, train
from tests import tiny

STEPS = 8


def vectors(encoder, view):
    """Encode one sentence at a time, without padding."""
    return torch.cat([encoder(torch.from_numpy(tokens)[None]) for tokens in view.tokens])


def train_plainly(encoder, sampler, config):
    decayed = [w for w in encoder.parameters() if w.ndim > 1]
    others = [w for w in encoder.parameters() if w.ndim <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": decayed}, {"params": others, "weight_decay": 0.0}],
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: (STEPS - step) / STEPS)
    encoder.train()
    for step in range(STEPS):
        views = sampler.batch(step).views
        anchors, candidates = (
            F.normalize(vectors(encoder, views[name]), dim=1) for name in ("anchor", "positive")
        )
        loss = F.cross_entropy(anchors @ candidates.T / 0.05, torch.arange(len(anchors)))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), config.clip)
        optimiser.step()
        schedule.step()
    return encoder


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_run_without_dropout_equals_a_plain_loop(one_thread, tmp_path):
    corpus = tiny.corpus([2] * 24)  # one pair a document: a batch never blocks a negative
    assert len(set(corpus.text_hashes.tolist())) == len(corpus)
    config = TrainingConfig(
        method="conpono", steps=STEPS, batch_size=8, learning_rate=1e-3, warmup=0.0
    )
    encoder, peer = tiny.bert(dropout=0.0), tiny.bert(dropout=0.0)
    method = method_for(config.method, encoder)
    sampler = sampler_for(config, method, corpus)
    train(learner_of(method, encoder, config.seed), method, sampler, config, tmp_path)
    train_plainly(peer, sampler, config)
    for ours, theirs in zip(encoder.parameters(), peer.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=0)
    start = tiny.bert(dropout=0.0).parameters()
    moves = [
        (ours - old).abs().max() for ours, old in zip(encoder.parameters(), start, strict=True)
    ]
    assert max(moves) > 1e-3
