"""ESimCSE (Wu et al. 2022): repeated sub-words, and a queue of momentum vectors as negatives."""

import logging
from collections.abc import Mapping
from typing import cast

import numpy as np
from torch import Tensor

from sentemb_core.config.methods import ESimCSE
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.heads.copies import MomentumCopy
from sentemb_core.heads.mlp import mlp
from sentemb_core.heads.queue import Queue
from sentemb_core.methods.contrast import contrast
from sentemb_core.methods.method import Learner, Method
from sentemb_core.methods.simcse import require_dropout
from sentemb_core.pairs import sources
from sentemb_core.readers.networks import by_network
from sentemb_core.views.batch import ViewMaker
from sentemb_core.views.repeated import most_repeated, repeated
from sentemb_core.views.sentences import first

log = logging.getLogger(__name__)


def esimcse(
    settings: ESimCSE, encoder: Encoder, text: ViewMaker = first, longest: int | None = None
) -> Method:
    """SimCSE whose positive may be longer than its anchor, with negatives of past steps.

    Args:
        settings: `queue` 0 leaves the queue and its momentum encoder out.
        encoder: It must have dropout; few positions beyond the longest row are worth a warning.
        text: What a row is a pass over.
        longest: Tokens of a row of it; none: `encoder.max_length`, as of a sentence.
    """
    require_dropout(encoder, "esimcse")
    warn_of_few_positions(settings, encoder, longest or encoder.max_length)
    longer = repeated(
        text,
        settings.repetition,
        special_tokens=encoder.framed,
        longest=encoder.positions,
        rule=settings.rule,
    )
    term = contrast(
        "anchor",
        "positive",
        settings.temperature,
        encoder.similarity,
        queue=settings.queue > 0,
    )
    method = Method(
        name="esimcse",
        pairs=sources.identity,
        views={"anchor": text, "positive": longer},
        terms={"contrast": (1.0, term)},
        head=mlp,
    )
    if not settings.queue:
        return method
    return method.joined(
        views={"key": text},
        readers={"key": by_network("momentum")},
        networks=lambda encoder: {
            "momentum": MomentumCopy(encoder, settings.momentum, settings.momentum_init),
            "queue": Queue(settings.queue, encoder.dim),
        },
        after_step=remember,
    )


def warn_of_few_positions(settings: ESimCSE, encoder: Encoder, longest: int) -> None:
    """Rows repeat as many tokens as there are positions left: say so where long rows have none."""
    lengths = np.array([longest])
    counts = lengths - 2 * encoder.framed
    most = int(most_repeated(lengths, counts, settings.repetition, settings.rule)[0])
    if encoder.positions is not None and encoder.positions < longest + most:
        log.warning(
            "rows of %d tokens repeat %d tokens at most and not %d, by the encoder's %d positions: "
            "set encoder.positions=%d for random weights, or lower encoder.max_length (of HiCL's "
            "segments: method.segment)",
            longest,
            encoder.positions - longest,
            most,
            encoder.positions,
            longest + most,
        )


def remember(learner: Learner, vectors: Mapping[str, Tensor]) -> None:
    """The step's keys join the queue, and the momentum encoder follows."""
    cast(Queue, learner.networks["queue"]).push(vectors["key"])
    cast(MomentumCopy, learner.networks["momentum"]).follow(learner.encoder)
