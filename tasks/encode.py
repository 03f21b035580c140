"""The stages that make encoders without training, and the stage that encodes a corpus."""

from sentemb_core.config.run import EncoderConfig
from sentemb_core.formats import in_words
from sentemb_core.types import ArtifactRef, Map, Pooling, Precision, Storage
from tasks.artifacts import artifact_path, new_artifact
from tasks.corpus import joined
from tasks.sources import require_same_encoder
from tasks.stage import stage


@stage("start_encoder", version="3", ignore=("place",))
def start_encoder(
    place: str, config: EncoderConfig, documents: ArtifactRef | None, revision: str = ""
) -> ArtifactRef:
    """Return the given encoder, or one of random weights whose vocabulary comes from the corpus.

    `config.name` is a name, or the SHA-256 of the folder or file at `place` (`sources.by_bytes`).
    `revision` is the commit of a published model on this machine (`sources.revision_of`).
    """
    from sentemb_core.corpus.table import vocabulary_texts
    from sentemb_core.encoder.card import CardFacts, model_card
    from sentemb_core.encoder.checkpoint import save_encoder
    from sentemb_core.encoder.start import encoder_folder
    from sentemb_core.encoder.start import start_encoder as started

    texts = vocabulary_texts(artifact_path(documents) / "documents.parquet") if documents else None
    encoder = started(config.model_copy(update={"name": place}), texts)
    with new_artifact("model") as draft:
        facts = CardFacts(name=config.name, base=config.name)
        save_encoder(encoder, draft.path, model_card(facts), head_from=encoder_folder(place))
        require_same_encoder(place, config, revision)
    return draft.ref


@stage("word_vectors", version=2, libraries=("gensim",))
def word_vectors(
    documents: ArtifactRef, validation_pool: ArtifactRef | None, seed: int
) -> ArtifactRef:
    """Return the mean of word vectors that are trained on the corpus without held-out documents."""
    from sentemb_core.corpus.table import read_documents
    from sentemb_core.corpus.validation_pool import ValidationPool
    from sentemb_core.encoder.card import CardFacts, model_card
    from sentemb_core.encoder.checkpoint import save_encoder
    from sentemb_core.encoder.word_vectors import EPOCHS, trained_word_vectors, word_encoder
    from tasks.prefect_pages import progress

    held_out = set[int]()
    if validation_pool:
        held_out.update(
            ValidationPool.open(artifact_path(validation_pool)).held_out_documents.tolist()
        )
    texts = [
        sentence
        for number, document in enumerate(
            read_documents(artifact_path(documents) / "documents.parquet")
        )
        if number not in held_out
        for sentence in document.sentences
    ]
    with progress("word_vectors", (EPOCHS + 1) * len(texts)) as advance:
        vectors = trained_word_vectors(texts, seed, progress=advance)
    encoder = word_encoder(vectors, max_length=512)  # whole sentences
    with new_artifact("model") as draft:
        facts = CardFacts(name="sentemb word vectors", corpus=documents.digest)
        save_encoder(encoder, draft.path, model_card(facts))
    return draft.ref


@stage("encode_sentences", version="1", numeric=("device",), by_shard=("sentences",), join=joined)
def encode_sentences(
    encoder: ArtifactRef, sentences: ArtifactRef, dtype: Precision, storage: Storage
) -> ArtifactRef:
    """Return one vector per sentence, in the order of the corpus."""
    from sentemb_core.annotation.embeddings import write_embeddings
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.encoder.checkpoint import loaded_encoder
    from tasks.prefect_pages import progress

    corpus = TokenCorpus.open(artifact_path(sentences))
    with new_artifact("embeddings") as draft, progress("encode_sentences", len(corpus)) as advance:
        write_embeddings(
            loaded_encoder(artifact_path(encoder)), corpus, draft.path, storage, dtype, advance
        )
    return draft.ref


@stage("pooled_as", version=1)
def pooled_as(encoder: ArtifactRef, pooling: Pooling) -> ArtifactRef:
    """Return the same weights under another pooling."""
    from sentemb_core.encoder.backbones import require_pooling
    from sentemb_core.encoder.card import CardFacts, model_card
    from sentemb_core.encoder.checkpoint import load_encoder, save_encoder

    model = load_encoder(artifact_path(encoder))
    require_pooling(model.backbone, pooling)
    model.pooling = pooling
    with new_artifact("model") as draft:
        facts = CardFacts(name=f"sentemb, {pooling}", parent=encoder.digest)
        save_encoder(model, draft.path, model_card(facts), head_from=artifact_path(encoder))
    return draft.ref


@stage("finished_encoder", version=3, numeric=("device",))
def finished_encoder(
    encoder: ArtifactRef,
    sentences: ArtifactRef,
    kind: Map,
    seed: int,
    most: int | None = None,
    embeddings: ArtifactRef | None = None,
    *,
    whole_sentences: bool = False,
) -> ArtifactRef:
    """Return the encoder with a map, fitted on its vectors of sentences that are not held out.

    Args:
        encoder: The encoder before the map.
        sentences: A tokenised corpus.
        kind: The kind of map.
        seed: Of a flow, and of the sentences that `most` draws.
        most: Limit of these sentences.
        embeddings: The stored vectors of the sentences, for a map that reads such vectors.
        whole_sentences: Whether the result cuts sentences only at the limit of whole texts, and not
            at the training's (docs/retriever.md).
    """
    import numpy as np

    from sentemb_core.annotation.embeddings import Embeddings
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.encoder.batching import naming_documents, pooled_vectors
    from sentemb_core.encoder.card import CardFacts, model_card
    from sentemb_core.encoder.checkpoint import loaded_encoder, save_encoder
    from sentemb_core.postprocess.encoder_maps import reads_directions, with_map
    from sentemb_core.training.batches import some
    from tasks.prefect_pages import progress

    before = loaded_encoder(artifact_path(encoder))
    stored = embeddings if reads_directions(before, kind) else None
    corpus = TokenCorpus.open(artifact_path(sentences))
    if not stored:
        corpus = some(corpus, seed)
    trainable = np.flatnonzero(~corpus.held_out[corpus.document_of])
    if most and most < len(trainable):
        drawn = np.random.default_rng(seed).choice(trainable, most, replace=False)
        trainable = np.sort(drawn)
    if stored:
        vectors = Embeddings(artifact_path(stored)).rows(trainable)
    else:
        with (
            naming_documents(lambda row: corpus.place(int(trainable[row]))),
            progress("encode sentences", len(trainable)) as advance,
        ):
            vectors = pooled_vectors(before, corpus.tokens(trainable), progress=advance)
    with progress(f"fit the {in_words(kind)}", len(trainable)) as advance:
        mapped = with_map(before, vectors, kind, seed=seed, progress=advance)
    if whole_sentences:
        mapped.max_length = mapped.text_length
    with new_artifact("model") as draft:
        facts = CardFacts(
            name=f"sentemb {in_words(kind)}", parent=encoder.digest, corpus=sentences.digest
        )
        save_encoder(mapped, draft.path, model_card(facts))
    return draft.ref
