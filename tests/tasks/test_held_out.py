"""What is fitted without a gradient sees no held-out document either."""

import numpy as np
import pytest

from flows.pipeline import encoder_from
from sentemb_core.config.run import EncoderConfig, ValidationConfig
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import ValidationPool
from sentemb_core.encoder.batching import embed_texts, pooled_vectors
from sentemb_core.encoder.checkpoint import load_encoder
from sentemb_core.postprocess.encoder_maps import with_map
from sentemb_core.types import ArtifactRef
from tasks.artifacts import artifact_path
from tasks.corpus import draw_validation_pool, tokenise_sentences
from tasks.encode import finished_encoder, word_vectors
from tasks.execution import without_prefect


@pytest.fixture
def halved(documents: ArtifactRef) -> tuple[ArtifactRef, ArtifactRef]:
    """Documents, and the pool that holds some of them out: halves look for each other."""
    with without_prefect():
        return documents, draw_validation_pool(documents, ValidationConfig(candidates=20))


def test_word_vectors_know_no_word_of_held_out_documents_alone(halved):
    pytest.importorskip("gensim")
    with without_prefect():
        encoders = [word_vectors(halved[0], pool, 1) for pool in (halved[1], None)]
        held_out = ValidationPool.open(artifact_path(halved[1])).held_out_documents.tolist()
        seen, all_of_it = (load_encoder(artifact_path(ref)) for ref in encoders)
    own = [f"name{number} place{number} thing{number}" for number in held_out]
    others = [f"name{k} place{k} thing{k}" for k in range(60) if k not in held_out]
    assert own
    assert not embed_texts(seen, own).any()
    assert embed_texts(all_of_it, own).any()
    assert embed_texts(seen, others).any()


def test_a_map_is_fitted_on_what_may_be_trained_on(halved):
    with without_prefect():
        encoder = encoder_from(EncoderConfig(dim=8, vocabulary=300), halved[0])
        sentences = tokenise_sentences(*halved, encoder)
        found = load_encoder(artifact_path(finished_encoder(encoder, sentences, "whitening", 0)))
        before = load_encoder(artifact_path(encoder))
        corpus = TokenCorpus.open(artifact_path(sentences))
    seen = np.flatnonzero(~corpus.held_out[corpus.document_of])
    assert 0 < len(seen) < len(corpus)
    expected = with_map(before, pooled_vectors(before, corpus.tokens(seen)), "whitening")
    texts = corpus.texts(range(5))
    np.testing.assert_array_equal(embed_texts(found, texts), embed_texts(expected, texts))
