"""Fine-tuning on labelled pairs (mutual, section 3.3): a document finds its counterpart."""

from dataclasses import replace

import numpy as np
from torch import Tensor

from sentemb_core.config.methods import FineTune
from sentemb_core.documents import Documents
from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.methods.parts.info_nce import contrast
from sentemb_core.methods.parts.method import Learner, Method, plainly
from sentemb_core.methods.parts.pairs import labelled_documents
from sentemb_core.methods.parts.views import Draw, View, ViewMaker, extents, view_of


def fine_tune(settings: FineTune, _: Encoder) -> Method:
    """The mean of a document's sentence vectors chooses among the counterparts of the batch.

    It is the loss of self-training with in-batch negatives. Equal counterparts and other
    counterparts of the document are not negatives.
    """
    term = contrast("document", "counterpart", settings.temperature)
    return Method(
        name="fine_tune",
        pairs=labelled_documents,
        views={"sentence": body(settings.sentences), "counterpart": counterpart},
        forward_passes={"sentence": compared},
        aggregate={"document": "sentence"},
        terms={"contrast": (1.0, term)},
    )


def compared(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
    """A forward pass whose mean is the document vector of validation.

    For cosine each sentence vector has unit length, which mutual leaves open (erratum E3).
    """
    reading = plainly(learner, ids, mask, layers)
    return replace(reading, pooled=learner.encoder.vectors(reading.pooled))


def counterpart(corpus: Documents, draw: Draw, _: np.random.Generator) -> View:
    """The last sentence of each document."""
    last = corpus.offsets[corpus.document_of[draw.first] + 1] - 1
    return _of_originals(corpus, view_of(corpus, last, draw.group))


def body(most: int) -> ViewMaker:
    """Return a view of at most `most` random sentences of each document: their mean is unbiased.

    The rows of a document are parts of one sequence with equal weights. The pair source is
    `labelled_documents`: the first sentence represents its document.
    """

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        drawn = [
            np.sort(begin + rng.permutation(end - 1 - begin)[:most])
            for begin, end in extents(corpus, corpus.document_of[draw.first])
        ]
        sizes = np.array([len(rows) for rows in drawn])
        owner = np.repeat(np.arange(len(drawn)), sizes)
        sentences = view_of(corpus, np.concatenate(drawn), draw.group[owner])
        return replace(_of_originals(corpus, sentences), owner=owner, weight=1 / sizes[owner])

    return view


def _of_originals(corpus: Documents, view: View) -> View:
    return replace(view, document=corpus.original_of[view.document])
