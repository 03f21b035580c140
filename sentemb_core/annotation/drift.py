"""What bfloat16 changes in an annotation: some documents annotated once more in float32."""

import numpy as np

from sentemb_core.annotation.clusters import Clusters
from sentemb_core.configs import AnnotationConfig
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.encoder.batching import encode
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.idc.components import clusters
from sentemb_core.idc.pruning import prune_to_top_k
from sentemb_core.idc.similarity import neighbours
from sentemb_core.idc.stats import pairs_of_one_alone

DOCUMENTS = 64
"""Looked at: some seconds of a pretrained encoder."""


def pair_drift(
    annotator: Encoder,
    corpus: TokenCorpus,
    found: Clusters,
    config: AnnotationConfig,
) -> float:
    """Share of the pairs of a sample that only one of the two precisions finds, in [0, 1].

    Args:
        annotator: Whose vectors in `config.dtype` gave the clusters.
        corpus: In its tokens.
        found: Clusters by partition (seed 000, Eq. 3), of the whole corpus.
        config: How they were made; its seed draws the sample.
    """
    count = min(DOCUMENTS, corpus.n_documents)
    drawn = np.random.default_rng(config.seed).choice(corpus.n_documents, count, replace=False)
    first, last = corpus.spans(np.sort(drawn))
    rows = np.concatenate([np.arange(*span) for span in zip(first, last, strict=True)])
    offsets = np.cumsum(np.append(0, last - first))
    vectors = encode(annotator, corpus.tokens(rows))
    near = neighbours(vectors, offsets, config.degree, config.min_distance)
    exact = clusters(prune_to_top_k(near, config.top_k, mutual=config.mutual), offsets)
    return pairs_of_one_alone(found.of(rows), exact, offsets)
