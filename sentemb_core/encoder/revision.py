"""Which of its revisions an encoder is, wherever it was loaded from."""

import hashlib
import json

from safetensors.torch import save

from sentemb_core.encoder.encoder import Encoder


def weights_digest(encoder: Encoder) -> str:
    """SHA-256 of all weights, as they are."""
    weights = {name: tensor.cpu().contiguous() for name, tensor in encoder.state_dict().items()}
    return hashlib.sha256(save(weights)).hexdigest()


def encoder_digest(encoder: Encoder) -> str:
    """SHA-256 of what its vectors depend on: weights, vocabulary, cut, pooling and similarity.

    Not of the whole tokenizer, whose description changes with the library that writes it.
    """
    settings = encoder.max_length, encoder.pooling, encoder.similarity
    told = weights_digest(encoder), encoder.tokenizer.get_vocab(), settings
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
