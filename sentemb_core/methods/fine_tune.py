"""Fine-tuning on labelled pairs (mutual, section 3.3): a document finds its counterpart."""

from dataclasses import replace

from jaxtyping import Int
from torch import Tensor

from sentemb_core.config.methods import FineTune
from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.methods.contrast import contrast
from sentemb_core.methods.method import Learner, Method, plainly
from sentemb_core.pairs import sources
from sentemb_core.views.labelled import body, counterpart


def fine_tune(settings: FineTune, encoder: Encoder) -> Method:
    """The mean of a document's sentence vectors chooses among the counterparts of the batch.

    The loss of self-training, with in-batch negatives; equal counterparts and the other ones of
    the document are no negatives.
    """
    term = contrast("document", "counterpart", settings.temperature, encoder.similarity)
    return Method(
        name="fine_tune",
        pairs=sources.labelled_documents,
        views={"sentence": body(settings.sentences), "counterpart": counterpart},
        readers={"sentence": compared},
        aggregate={"document": "sentence"},
        terms={"contrast": (1.0, term)},
    )


def compared(
    learner: Learner,
    ids: Int[Tensor, "rows time"],
    mask: Int[Tensor, "rows time"] | None,
    layers: bool,
) -> Reading:
    """Vectors as they are compared, so that their mean is the document's of validation.

    For cosine each has length 1 first, which mutual leaves open (erratum E3).
    """
    reading = plainly(learner, ids, mask, layers)
    return replace(reading, pooled=learner.encoder.vectors(reading.pooled))
