"""IS-BERT (Zhang et al. 2020): a sentence shares information with its own tokens."""

from sentemb_core.config.methods import ISBERT
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.heads.cnn import TokenCNN
from sentemb_core.methods.method import Method
from sentemb_core.methods.terms.logistic import mutual_information
from sentemb_core.methods.tokenizer_tools import require_transformer
from sentemb_core.pairs import sources
from sentemb_core.readers.networks import token_features
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
        terms={"information": (1.0, mutual_information("tokens"))},
        networks=lambda encoder: {"cnn": TokenCNN(encoder.hidden_dim)},
    )
