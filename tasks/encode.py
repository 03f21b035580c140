"""The encoder a run starts from, and sentence vectors of any encoder."""

from sentemb_core.configs import EncoderConfig
from sentemb_core.types import ArtifactRef
from tasks.caching import stage
from tasks.storing import opened, written


@stage("start_encoder", version="1")
def start_encoder(config: EncoderConfig, origin: str, documents: ArtifactRef | None) -> ArtifactRef:
    """The given encoder, or one from random weights whose vocabulary is learnt from the corpus.

    `origin` is the SHA-256 of a given folder's bytes, empty for a name.
    """
    from sentemb_core.corpus.tokens import sentence_texts
    from sentemb_core.encoder.card import CardFacts, model_card
    from sentemb_core.encoder.checkpoint import save_encoder
    from sentemb_core.encoder.start import start_encoder as started

    texts = sentence_texts(opened(documents) / "documents.parquet") if documents else None
    encoder = started(config, texts)
    with written("model") as draft:
        facts = CardFacts(name=config.name, base=config.name)
        save_encoder(encoder, draft.path, model_card(facts))
    return draft.ref


@stage("encode_sentences", version="1", numeric=("device",))
def encode_sentences(
    encoder: ArtifactRef, sentences: ArtifactRef, dtype: str, storage: str
) -> ArtifactRef:
    """One vector a sentence, canonical order."""
    from sentemb_core.annotation.embeddings import write_embeddings
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.encoder.checkpoint import load_encoder
    from tasks.progress import progress

    corpus = TokenCorpus.open(opened(sentences))
    with written("embeddings") as draft, progress("encode_sentences", len(corpus)) as advance:
        write_embeddings(load_encoder(opened(encoder)), corpus, draft.path, storage, dtype, advance)
    return draft.ref
