"""IS-BERT (Zhang et al. 2020): a sentence shares information with its own tokens."""

from collections.abc import Mapping

import torch
from torch import Tensor

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.heads.cnn import TokenCNN
from sentemb_core.method_settings import ISBERT
from sentemb_core.methods.method import CrossSampleTerm, Learner, Method
from sentemb_core.methods.terms.logistic import mutual_information
from sentemb_core.methods.words import require_transformer
from sentemb_core.pairs import sources
from sentemb_core.readers.networks import token_features
from sentemb_core.views.batch import Batch
from sentemb_core.views.sentences import first


def is_bert(_: ISBERT, encoder: Encoder) -> Method:
    """Jensen-Shannon estimate over token features of small convolutions; a sentence is their mean.

    The convolutions are dropped at the end: what is saved is the backbone with its own pooling.
    """
    require_transformer(encoder, "is_bert")
    return Method(
        name="is_bert",
        pairs=sources.identity,
        views={"tokens": first},
        readers={"tokens": token_features("cnn")},
        terms={"information": (1.0, with_their_means("tokens"))},
        networks=lambda encoder: {"cnn": TokenCNN(encoder.hidden_dim)},
    )


def with_their_means(tokens: str) -> CrossSampleTerm:
    """Mutual information of token features and the means over each row's real ones."""
    estimate = mutual_information(tokens, "sentence")

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, learner: Learner
    ) -> tuple[Tensor, Mapping[str, float]]:
        features, view = vectors[tokens], batch.views[tokens]
        lengths = torch.tensor([len(row) for row in view.tokens], device=features.device)
        sentences = features.sum(1) / lengths[:, None]
        seen = Batch({**batch.views, "sentence": view}, batch.pairs)
        return estimate({**vectors, "sentence": sentences}, seen, learner)

    return term
