"""Vectors of many texts, with a line in the log every ten seconds: a model can take minutes."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32

from sentemb_core.encoder.batching import encode
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.progress import lines_of_progress


def told_vectors(
    encoder: Encoder, texts: Sequence[str], what: str
) -> Float32[np.ndarray, "texts dim"]:
    """As `encoder.batching.embed_texts`; `what` names the texts in the log.

    Raises:
        BadEmbeddingError: As `encode`.
    """
    update = lines_of_progress(f"encode {what}", len(texts))
    return encode(encoder, encoder.tokenise(texts), progress=update)
