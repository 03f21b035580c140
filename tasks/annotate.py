"""The stages of self-annotation (mutual, section 3.2): graph, prune, cluster, pairs."""

from collections.abc import Mapping
from typing import Any

from sentemb_core.types import ArtifactRef, Precision, Storage
from tasks.artifacts import artifact_path, new_artifact, read_json, save_json
from tasks.corpus import joined
from tasks.execution import is_pending
from tasks.stage import stage


@stage("build_graph", version="2", by_shard=("embeddings", "sentences"), join=joined)
def build_graph(
    embeddings: ArtifactRef, sentences: ArtifactRef, degree: int, min_distance: int
) -> ArtifactRef:
    """Return every sentence's most similar sentences inside its document (Eq. 2)."""
    from sentemb_core.annotation.embeddings import Embeddings
    from sentemb_core.annotation.graph import write_graph
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.heap import steady_heap

    corpus = TokenCorpus.open(artifact_path(sentences))
    with new_artifact("graph") as draft:
        vectors = Embeddings(artifact_path(embeddings))
        with steady_heap():
            write_graph(corpus, vectors, degree, draft.path, min_distance)
    return draft.ref


def require_comparable_sentences(sentences: ArtifactRef) -> None:
    """Refuse (E106) a document whose graph would take hours, before anything is encoded.

    A dry run does not check.
    """
    if is_pending(sentences):
        return
    from sentemb_core.annotation.longest import require_comparable
    from sentemb_core.corpus.tokens import TokenCorpus

    require_comparable(TokenCorpus.open(artifact_path(sentences)).longest_document)


def have_distant_sentences(sentences: ArtifactRef, min_distance: int) -> bool:
    """Return whether enough documents have sentences so far apart; True if it is pending."""
    if is_pending(sentences):
        return True
    import numpy as np

    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.methods.parts.pairs import LEAST_SHARE

    corpus = TokenCorpus.open(artifact_path(sentences))
    sizes = np.diff(corpus.offsets)[~corpus.held_out]
    return int((sizes > min_distance).sum()) >= max(2, LEAST_SHARE * len(sizes))


@stage(
    "encode_and_build_graph",
    version="2",
    numeric=("device",),
    by_shard=("sentences",),
    join=joined,
)
def encode_and_build_graph(
    encoder: ArtifactRef,
    sentences: ArtifactRef,
    degree: int,
    min_distance: int,
    dtype: Precision,
    storage: Storage,
) -> ArtifactRef:
    """Return the graph of `build_graph` without vectors on disk, for a very large corpus."""
    from sentemb_core.annotation.embeddings import FreshVectors
    from sentemb_core.annotation.graph import write_graph
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.encoder.checkpoint import loaded_encoder

    corpus = TokenCorpus.open(artifact_path(sentences))
    with new_artifact("graph") as draft:
        vectors = FreshVectors(loaded_encoder(artifact_path(encoder)), corpus, storage, dtype)
        # no steady_heap: it would map an encoder's temporaries again for every batch
        write_graph(corpus, vectors, degree, draft.path, min_distance)
    return draft.ref


@stage("prune_graph", version="1", by_shard=("graph",), join=joined)
def prune_graph(graph: ArtifactRef, top_k: int, mutual: bool) -> ArtifactRef:
    """Return the edges that one end (`mutual`: both ends) ranks among its top K (Eq. 3)."""
    from sentemb_core.annotation.graph import write_edges

    with new_artifact("edges") as draft:
        write_edges(artifact_path(graph), top_k, mutual, draft.path)
    return draft.ref


@stage("estimate_relatedness", version="1")
def estimate_relatedness(
    embeddings: ArtifactRef, sentences: ArtifactRef, min_distance: int, seed: int
) -> ArtifactRef:
    """Return how likely a pair is related, by its similarity, from a sample of the corpus."""
    from sentemb_core.annotation.embeddings import Embeddings
    from sentemb_core.annotation.graph import estimated_relatedness
    from sentemb_core.corpus.tokens import TokenCorpus

    corpus, vectors = TokenCorpus.open(artifact_path(sentences)), artifact_path(embeddings)
    model = estimated_relatedness(corpus, Embeddings(vectors), seed, min_distance)
    return save_json("relatedness", model.as_json())


def relatedness_of_all(call: Mapping[str, Any], shards: int) -> list[dict[str, Any]]:
    """Return for each shard the relatedness that the whole corpus gives."""
    names = ("embeddings", "sentences", "min_distance", "seed")
    return [{"relatedness": estimate_relatedness(*(call[name] for name in names))}] * shards


@stage(
    "add_related",
    version="1",
    by_shard=("edges", "embeddings", "sentences"),
    own=relatedness_of_all,
    join=joined,
)
def add_related(
    edges: ArtifactRef,
    embeddings: ArtifactRef,
    sentences: ArtifactRef,
    min_distance: int,
    seed: int,
    relatedness: ArtifactRef | None = None,
) -> ArtifactRef:
    """Return the edges and as many random pairs that are probably related, nearest or not.

    A shard gets the `relatedness` of all sentences; a whole corpus estimates its own.
    """
    from sentemb_core.annotation.embeddings import Embeddings
    from sentemb_core.annotation.graph import estimated_relatedness, write_related
    from sentemb_core.annotation.relatedness import Relatedness
    from sentemb_core.corpus.tokens import TokenCorpus

    corpus = TokenCorpus.open(artifact_path(sentences))
    vectors = Embeddings(artifact_path(embeddings))
    if relatedness:
        model = Relatedness.from_json(read_json(relatedness, "relatedness"))
    else:
        model = estimated_relatedness(corpus, vectors, seed, min_distance)
    with new_artifact("edges") as draft:
        write_related(corpus, vectors, artifact_path(edges), model, seed, min_distance, draft.path)
    return draft.ref


@stage("cluster_sentences", version="1", by_shard=("edges", "sentences"), join=joined)
def cluster_sentences(edges: ArtifactRef, sentences: ArtifactRef) -> ArtifactRef:
    """Return the connected components: sentences of one document that mean the same."""
    from sentemb_core.annotation.clusters import write_clusters
    from sentemb_core.corpus.tokens import TokenCorpus

    with new_artifact("clusters") as draft:
        write_clusters(TokenCorpus.open(artifact_path(sentences)), artifact_path(edges), draft.path)
    return draft.ref


@stage("cluster_by_kmeans", version="1", libraries=("faiss-cpu", "faiss-gpu"))
def cluster_by_kmeans(
    encoder: ArtifactRef,
    embeddings: ArtifactRef,
    sentences: ArtifactRef,
    n_clusters: int,
    seed: int,
) -> ArtifactRef:
    """Return the clusters of one k-means over all sentences (the ablation of mutual, Table 3)."""
    from sentemb_core.annotation.embeddings import Embeddings
    from sentemb_core.annotation.kmeans_files import write_kmeans_clusters
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.encoder.checkpoint import loaded_encoder

    corpus = TokenCorpus.open(artifact_path(sentences))
    similarity = loaded_encoder(artifact_path(encoder)).similarity
    with new_artifact("clusters") as draft:
        write_kmeans_clusters(
            corpus, Embeddings(artifact_path(embeddings)), n_clusters, similarity, seed, draft.path
        )
    return draft.ref


@stage("join_pairs", version="1")
def join_pairs(
    parts: list[ArtifactRef],
    sentences: ArtifactRef,
    max_partners: int | None,
    min_distance: int,
    seed: int,
    of_edges: bool,
) -> ArtifactRef:
    """Return the join of the pairs of each shard, with the report on all of them."""
    from sentemb_core.annotation.pairs import write_report
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.store.parts import write_parts

    corpus, folders = TokenCorpus.open(artifact_path(sentences)), [*map(artifact_path, parts)]
    with new_artifact("pairs") as draft:
        write_parts(parts, draft.path)
        write_report(corpus, folders, max_partners, seed, draft.path, of_edges, min_distance)
    return draft.ref


def held_out_by_shard(call: Mapping[str, Any], shards: int) -> list[dict[str, Any]]:
    """Return the held-out documents of each shard, which the joined sentences alone know."""
    import numpy as np

    from sentemb_core.corpus.tokens import TokenCorpus

    sentences: ArtifactRef = call["sentences"]
    if is_pending(sentences):
        return [{"sentences": sentences}] * shards  # a dry run: they wait for the join
    corpus = TokenCorpus.open(artifact_path(sentences))
    parts = np.split(corpus.held_out, corpus.first_documents[1:])
    return [{"held_out": np.flatnonzero(own).tolist()} for own in parts]


@stage(
    "export_pairs",
    version="4",
    by_shard=("clusters", "sentences", "edges"),
    own=held_out_by_shard,
    join=lambda parts, call: join_pairs(
        parts,
        call["sentences"],
        call["max_partners"],
        call["min_distance"],
        call["seed"],
        call.get("edges") is not None,
    ),
)
def export_pairs(
    clusters: ArtifactRef,
    sentences: ArtifactRef,
    max_partners: int | None,
    min_distance: int,
    seed: int,
    edges: ArtifactRef | None = None,
    held_out: list[int] | None = None,
) -> ArtifactRef:
    """Return every unordered pair inside a cluster, once (Eq. 4); with `edges`, those edges alone.

    The artifact also holds which share of all intra-document pairs they are. A shard gets its
    documents without pairs as `held_out`, and its join has the report.
    """
    from sentemb_core.annotation.pairs import write_pairs
    from sentemb_core.corpus.tokens import TokenCorpus

    corpus, labels = TokenCorpus.open(artifact_path(sentences)), artifact_path(clusters)
    only = artifact_path(edges) if edges else None
    with new_artifact("pairs") as draft:
        write_pairs(corpus, labels, max_partners, seed, draft.path, only, min_distance, held_out)
    return draft.ref
