"""Losses of single rows, wired to the networks of a step; each is the sum over its targets."""

from typing import Any

from torch import Tensor

from sentemb_core.heads.layers import embedded, token_table
from sentemb_core.methods.method import Learner, Rows, SampleLoss


def masked_language(head: str = "language") -> SampleLoss:
    """BERT's: the encoder read masked tokens, its last layer tells what they were.

    Args:
        head: Which network is the `LanguageHead`; `condenser.language` for a Condenser's late loss.
    """

    def loss(learner: Learner, rows: Rows) -> Tensor:
        states = rows.reading.layers[-1]
        return _network(learner, head).loss(states, rows.targets, token_table(learner.encoder))

    return loss


def condensed(skip_from: int) -> SampleLoss:
    """The Condenser's head: its encoder's own early states and sentence vector tell the masks.

    Args:
        skip_from: Layer of the early states (`skip_layer`).
    """

    def loss(learner: Learner, rows: Rows) -> Tensor:
        early = rows.reading.layers[skip_from]
        return _network(learner, "condenser").loss(
            rows.reading.pooled, early, rows.mask, rows.targets, token_table(learner.encoder)
        )

    return loss


def aggregated() -> SampleLoss:
    """InfoCSE-aux: the `AuxiliaryNetwork` fills the masks of `inputs` from the sentence vector."""

    def loss(learner: Learner, rows: Rows) -> Tensor:
        return _network(learner, "auxiliary").loss(
            rows.reading.pooled, rows.inputs, rows.mask, rows.targets
        )

    return loss


def rewritten() -> SampleLoss:
    """The CLM autoencoder: a `CausalDecoder` writes the targets from the sentence vector."""

    def loss(learner: Learner, rows: Rows) -> Tensor:
        return _network(learner, "decoder").loss(
            learner.encoder, rows.reading.pooled, rows.ids[:, 0], rows.targets
        )

    return loss


def filled_in() -> SampleLoss:
    """The MLM autoencoder: a `MaskFiller` on the bare embeddings of `inputs`."""

    def loss(learner: Learner, rows: Rows) -> Tensor:
        early, table = embedded(learner.encoder, rows.inputs), token_table(learner.encoder)
        return _network(learner, "decoder").loss(
            rows.reading.pooled, early, rows.mask, rows.targets, table
        )

    return loss


def _network(learner: Learner, name: str) -> Any:
    """By its path: networks have parts."""
    return learner.networks.get_submodule(name)
