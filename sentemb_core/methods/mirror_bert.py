"""Mirror-BERT (Liu et al. 2021): a sentence and itself with one span hidden."""

import logging

from sentemb_core.config.methods import MirrorBERT
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.contrast import all_pairs
from sentemb_core.methods.method import Method, Reader, plainly
from sentemb_core.methods.simcse import require_dropout
from sentemb_core.methods.tokenizer_tools import mask_id, require_transformer, vocabulary
from sentemb_core.pairs import sources
from sentemb_core.readers.drophead import drophead, projections_of
from sentemb_core.readers.with_pads import mean_with_pads
from sentemb_core.views.sentences import first
from sentemb_core.views.span_masked import span_masked, spelt

log = logging.getLogger(__name__)


def mirror_bert(settings: MirrorBERT, encoder: Encoder) -> Method:
    """NT-Xent over both views; dropout, or heads dropped in its place."""
    if settings.drophead:
        require_transformer(encoder, "mirror_bert")
        projections_of(encoder)  # a plan refuses what no reader could silence
    else:
        require_dropout(encoder, "mirror_bert")
    if settings.pooling == "mean_with_pads" and encoder.pooling != "mean":
        log.warning(
            "mirror_bert trains means of all places (method.pooling=mean_with_pads), and the "
            "encoder is judged and kept with pooling %s, which then learns by the way alone: take "
            "encoder.pooling=mean, or leave method.pooling out",
            encoder.pooling,
        )
    hidden = span_masked(
        first,
        spelt(vocabulary(encoder)),
        mask_id(encoder),
        special_tokens=encoder.framed,
        span=settings.span,
    )
    term = all_pairs("anchor", "positive", settings.temperature, encoder.similarity)
    reader = read_by(settings)
    return Method(
        name="mirror_bert",
        pairs=sources.identity,
        views={"anchor": first, "positive": hidden},
        readers={"anchor": reader, "positive": reader},
        terms={"contrast": (1.0, term)},
        dropout=not settings.drophead,
    )


def read_by(settings: MirrorBERT) -> Reader:
    """The encoder, with or without all its heads; the mean over padding too, where asked."""
    reader = drophead(settings.drophead) if settings.drophead else plainly
    return mean_with_pads(reader) if settings.pooling == "mean_with_pads" else reader
