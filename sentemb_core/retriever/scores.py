"""Scores of a retriever between two sides: documents, and texts such as titles or queries.

A document has sentences; a text is read as one. Texts may look for documents, or documents for
texts. The best sentence is always the document's, and late interaction averages over the text's
tokens, in both directions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

from sentemb_core.evaluation.ranking import ScoreRows
from sentemb_core.evaluation.validation_scores import Scorers
from sentemb_core.retriever.fusion import Among, Scores, first_places, fused, ranked_again
from sentemb_core.retriever.spec import RERANKED, TOKEN_SHARES, RetrieverSpec
from sentemb_core.retriever.tokens import (
    TokenVectors,
    late_interaction,
    late_interaction_of_texts,
)
from sentemb_core.retriever.vectors import (
    Sides,
    document_scores,
    joined,
    text_scores,
    with_whole_texts,
)
from sentemb_core.retriever.words import Texts

Late = Callable[
    [Int64[np.ndarray, " n"], Bool[np.ndarray, "n candidates"]],
    Float32[np.ndarray, "n candidates"],
]
"""Late interaction of the queries at some places with the candidates that are marked."""

WholeTexts = Float32[np.ndarray, "texts dim"]

Interaction = Callable[
    [Float32[np.ndarray, "tokens dim"], TokenVectors], Float32[np.ndarray, " candidates"]
]
"""Late interaction of one query with some candidates."""


@dataclass(frozen=True)
class Readings:
    """One side of a search, as the parts of retrievers read it.

    Attributes:
        texts: Whole texts, for words.
        vectors: Vectors by the folder of their encoder.
        tokens: Token vectors by the folder of their encoder; those of documents are in int8.
        whole: Vectors of whole texts by the folder of their encoder, where it has read them.
    """

    texts: Texts
    vectors: Mapping[str, Sides] = field(default_factory=dict[str, Sides])
    tokens: Mapping[str, TokenVectors] = field(default_factory=dict[str, TokenVectors])
    whole: Mapping[str, WholeTexts] = field(default_factory=dict[str, WholeTexts])

    def side(self, spec: RetrieverSpec) -> Sides:
        """Return the vectors of the retriever's encoders as one."""
        sides = {each.folder: self.vectors[each.folder] for each in spec.vectors}
        if spec.unit == "both":
            sides = {name: with_whole_texts(side, self.whole[name]) for name, side in sides.items()}
        return joined([(each.weight, sides[each.folder]) for each in spec.vectors])


def retriever_scorers(spec: RetrieverSpec, documents: Readings, texts: Readings) -> Scorers:
    """Return a retriever's scores in both directions."""
    return Scorers(
        document_to_counterpart=scores_of_texts(spec, documents, texts),
        counterpart_to_document=scores_of_documents(spec, texts, documents),
    )


def scores_of_documents(spec: RetrieverSpec, texts: Readings, documents: Readings) -> ScoreRows:
    """Return the scores of all documents for the texts at some places."""
    return _scores(spec, spec.shares[0], texts, documents, text_scores, late_interaction)


def scores_of_texts(spec: RetrieverSpec, documents: Readings, texts: Readings) -> ScoreRows:
    """Return the scores of all texts for the documents at some places."""
    of_texts = late_interaction_of_texts
    return _scores(spec, spec.shares[1], documents, texts, document_scores, of_texts)


def _scores(
    spec: RetrieverSpec,
    share: float,
    queries: Readings,
    candidates: Readings,
    by_vectors: Callable[[Sides, Sides, float], ScoreRows],
    by_tokens: Interaction,
) -> ScoreRows:
    """Return the scores of all candidates; `by_vectors` and `by_tokens` are of one direction."""
    semantic = lexical = late = None
    if spec.words:
        lexical = queries.texts.lexical_scores(spec.words, candidates.texts)
    if spec.vectors:
        semantic = by_vectors(queries.side(spec), candidates.side(spec), spec.best_sentence)
    if spec.tokens:
        first = spec.vectors[0].folder
        late = _late(by_tokens, queries.tokens[first], candidates.tokens[first])
    if semantic is None:
        assert lexical, "a retriever has an encoder or words"
        return lexical

    def scores(rows: Int64[np.ndarray, " n"]) -> Float[np.ndarray, "n candidates"]:
        by_words = lexical(rows) if lexical else None
        again = partial(late, rows) if late else None
        return combined(share, semantic(rows), by_words, again)

    return scores


def combined(
    share: float,
    by_vectors: Scores,
    by_words: Scores | None,
    late: Callable[[Among], Scores] | None,
) -> Scores:
    """Return the score of each candidate from the scores of the parts.

    Args:
        share: Weight of `by_vectors`; that of `by_words` is 1 - share.
        by_vectors: Semantic scores.
        by_words: Lexical scores.
        late: Late interaction of the candidates that are marked.
    """
    total = by_vectors
    if by_words is not None:
        total = fused([(share, by_vectors), (1 - share, by_words)])
    if late is None:
        return total
    among = first_places(total, RERANKED) | first_places(by_vectors, RERANKED)
    parts = [by_vectors, late(among)]
    parts += [] if by_words is None else [by_words]
    again = fused(list(zip(TOKEN_SHARES, parts, strict=False)), among)
    return ranked_again(total, again, among)


def _late(interaction: Interaction, queries: TokenVectors, candidates: TokenVectors) -> Late:
    def late(
        rows: Int64[np.ndarray, " n"], among: Bool[np.ndarray, "n candidates"]
    ) -> Float32[np.ndarray, "n candidates"]:
        scores = np.zeros(among.shape, np.float32)
        for place, row in enumerate(rows.tolist()):
            found = np.flatnonzero(among[place])
            query = queries.of(np.array([row]))
            scores[place, found] = interaction(query.rows, candidates.of(found))
        return scores

    return late
