"""How many texts have segments to tell apart: where few have, HiCL is its base method alone."""

import logging
from typing import TYPE_CHECKING, cast

from sentemb_core.config.methods import HiCL, MethodSettings
from sentemb_core.types import ArtifactRef
from tasks.artifact_files import artifact_path
from tasks.execution import in_plan

if TYPE_CHECKING:
    from sentemb_core.pairs.documents import Documents

log = logging.getLogger("sentemb_core.run")


def tell_segmented(
    method: MethodSettings, sentences: ArtifactRef, encoder: ArtifactRef
) -> float | None:
    """Log the share of the texts to learn from that HiCL cuts into several segments.

    Of a corpus larger than memory it is that of some shards.

    Returns:
        It; None for other methods, in a plan, and where nothing may be learnt from.
    """
    if not isinstance(method, HiCL) or in_plan():
        return None

    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.encoder.checkpoint import load_encoder
    from sentemb_core.methods.hicl import several_segments
    from sentemb_core.training.batches import some

    start, corpus = (
        load_encoder(artifact_path(encoder)),
        some(TokenCorpus.open(artifact_path(sentences)), 0),
    )
    several = several_segments(method, start, cast("Documents", corpus))
    if not len(several):
        return None
    share = float(several.mean())
    log.info("hicl: %.1f %% of %d texts have more than one segment", 100 * share, len(several))
    return share
