"""Self-annotation (mutual, section 3.2): what an encoder finds in a corpus, stage by stage."""

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
from tasks.encode import encode_sentences
from tasks.run_result import Annotation


def annotation_of(
    annotator: ArtifactRef,
    sentences: ArtifactRef,
    config: AnnotationConfig,
    embeddings: ArtifactRef | None = None,
) -> Annotation:
    """Encode -> intra-document graph -> top-K prune -> connected components -> pairs.

    `sentences` are the corpus in the annotator's own tokens. Vectors that nobody kept are made
    where k-means or related pairs need them; the graph alone does without.
    """
    if embeddings is None and (config.clustering == "kmeans" or config.positives == "related"):
        embeddings = encode_sentences(annotator, sentences, config.dtype, config.storage)
    if config.clustering == "kmeans":
        assert embeddings is not None, "made above"
        clusters = cluster_by_kmeans(
            annotator, embeddings, sentences, config.n_clusters, config.seed
        )
        edges = alone = None
    else:
        edges = prune_graph(
            graph_of(annotator, sentences, config, embeddings), config.top_k, config.mutual
        )
        clusters = cluster_sentences(edges, sentences)
        alone = pairs_alone(edges, sentences, config, embeddings)
    pairs = export_pairs(
        clusters, sentences, config.max_partners, config.min_distance, config.seed, alone
    )
    return Annotation(clusters=clusters, pairs=pairs, edges=edges if alone else None)


def graph_of(
    annotator: ArtifactRef,
    sentences: ArtifactRef,
    config: AnnotationConfig,
    embeddings: ArtifactRef | None,
) -> ArtifactRef:
    """Of vectors that are there, or that are made and dropped document by document."""
    if embeddings:
        return build_graph(embeddings, sentences, config.degree, config.min_distance)
    return encode_and_build_graph(
        annotator, sentences, config.degree, config.min_distance, config.dtype, config.storage
    )


def pairs_alone(
    edges: ArtifactRef,
    sentences: ArtifactRef,
    config: AnnotationConfig,
    embeddings: ArtifactRef | None,
) -> ArtifactRef | None:
    """Edges that are the only pairs; none where clusters give them."""
    match config.positives:
        case "cluster":
            return None
        case "edge":
            return edges
        case "related":
            assert embeddings is not None, "related pairs are drawn by their vectors"
            return add_related(edges, embeddings, sentences, config.min_distance, config.seed)
