"""Which of its revisions an encoder is, wherever it was loaded from."""

import hashlib

from safetensors.torch import save

from sentemb_core.encoder.encoder import Encoder


def weights_digest(encoder: Encoder) -> str:
    """SHA-256 of all weights, as they are."""
    weights = {name: tensor.cpu().contiguous() for name, tensor in encoder.state_dict().items()}
    return hashlib.sha256(save(weights)).hexdigest()
