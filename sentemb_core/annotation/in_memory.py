"""What an annotation finds in documents at hand, by the calls that annotate a corpus on disk."""

import numpy as np
from jaxtyping import Float32, Int64

from sentemb_core.config.run import AnnotationConfig
from sentemb_core.idc.pruning import Edges, prune_to_top_k
from sentemb_core.idc.similarity import neighbours


def pruned_edges(
    vectors: Float32[np.ndarray, "sentences dim"],
    offsets: Int64[np.ndarray, " bounds"],
    config: AnnotationConfig,
) -> Edges:
    """Each sentence with its nearest (mutual, Eq. 2 and 3). `offsets` as in `similarity`.

    Raises BadEmbeddingError if a vector is not finite.
    """
    near = neighbours(vectors, offsets, config.degree, config.min_distance)
    return prune_to_top_k(near, config.top_k, mutual=config.mutual)
