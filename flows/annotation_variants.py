"""Variants of self-annotation: k-means, single edges, related pairs, vectors that are not kept.

The main path is in `flows/infocse_idc.training_round`.
"""

from sentemb_core.config.run import AnnotationConfig
from sentemb_core.types import ArtifactRef
from tasks.annotate import (
    add_related,
    build_graph,
    cluster_by_kmeans,
    cluster_sentences,
    encode_and_build_graph,
    export_pairs,
    prune_graph,
)
from tasks.artifacts import Annotation
from tasks.encode import encode_sentences


def is_variant(idc: AnnotationConfig) -> bool:
    """Whether a setting differs from the main path: partition, cluster pairs, kept vectors."""
    main = idc.clustering == "partition" and idc.positives == "cluster" and idc.keep_embeddings
    return not main


def annotate(
    annotator: ArtifactRef,
    sentences: ArtifactRef,
    idc: AnnotationConfig,
    embeddings: ArtifactRef | None = None,
) -> Annotation:
    """Return the clusters and pairs that an encoder finds, by any variant.

    Args:
        annotator: The encoder.
        sentences: The corpus in the annotator's tokens.
        idc: Settings of the annotation.
        embeddings: Its stored vectors. None: k-means and related pairs compute and store them; the
            other variants build the graph without stored vectors.
    """
    if embeddings is None and (idc.clustering == "kmeans" or idc.positives == "related"):
        embeddings = encode_sentences(annotator, sentences, idc.dtype, idc.storage)
    if idc.clustering == "kmeans":
        assert embeddings is not None, "computed above"
        clusters = cluster_by_kmeans(annotator, embeddings, sentences, idc.n_clusters, idc.seed)
        pairs = export_pairs(clusters, sentences, idc.max_partners, idc.min_distance, idc.seed)
        return Annotation(clusters=clusters, pairs=pairs)

    if embeddings:
        graph = build_graph(embeddings, sentences, idc.degree, idc.min_distance)
    else:
        graph = encode_and_build_graph(
            annotator, sentences, idc.degree, idc.min_distance, idc.dtype, idc.storage
        )
    edges = prune_graph(graph, idc.top_k, idc.mutual)
    clusters = cluster_sentences(edges, sentences)
    pair_edges = None if idc.positives == "cluster" else edges
    if idc.positives == "related":
        assert embeddings is not None, "computed above"
        pair_edges = add_related(edges, embeddings, sentences, idc.min_distance, idc.seed)
    pairs = export_pairs(
        clusters, sentences, idc.max_partners, idc.min_distance, idc.seed, pair_edges
    )
    return Annotation(clusters=clusters, pairs=pairs, edges=edges if pair_edges else None)
