"""How many texts have segments to tell apart: where few have, HiCL is its base method alone."""

import logging
from typing import TYPE_CHECKING, cast

import numpy as np

from sentemb_core.method_settings import HiCL, MethodSettings
from sentemb_core.types import ArtifactRef
from tasks.storing import opened
from tasks.walking import Plan, walking

if TYPE_CHECKING:
    from sentemb_core.pairs.documents import Documents

log = logging.getLogger("sentemb_core.run")


def segmented_share(
    method: MethodSettings, sentences: ArtifactRef, encoder: ArtifactRef
) -> float | None:
    """Share of the texts to learn from that HiCL cuts into several segments, logged as well.

    Of a corpus larger than memory it is that of some shards.

    None for other methods, in a plan, and where nothing may be learnt from.
    """
    if not isinstance(method, HiCL) or isinstance(walking(), Plan):
        return None

    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.encoder.checkpoint import load_encoder
    from sentemb_core.methods.hicl import slice_tokens
    from sentemb_core.pairs.sources import whole_documents
    from sentemb_core.training.parts import some

    start, corpus = load_encoder(opened(encoder)), some(TokenCorpus.open(opened(sentences)), 0)
    special = 2 * start.framed
    ends = np.cumsum(np.append(0, corpus.uncut_lengths - special))[corpus.offsets]
    texts = corpus.document_of[whole_documents(cast("Documents", corpus)).i]
    content = np.minimum(np.diff(ends)[texts], method.longest - special)
    if not len(content):
        return None
    share = float((content > slice_tokens(method, start)).mean())
    log.info("hicl: %.1f %% of %d texts have more than one segment", 100 * share, len(content))
    return share
