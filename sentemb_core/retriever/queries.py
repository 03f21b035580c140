"""Queries and texts that a part of a retriever cannot read: refused, or named in a warning."""

import logging
from collections.abc import Sequence

from sentemb_core.corpus.given import require_several
from sentemb_core.corpus.sentences import is_blank
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.safety import tokenising
from sentemb_core.encoder.vocabulary import unknown_tokens
from sentemb_core.errors import UsageError
from sentemb_core.retrieval.bm25 import StoredBM25
from sentemb_core.retriever.words import plain_words

log = logging.getLogger(__name__)

FEW = 0.01
"""Share of texts without a word that needs no warning: a few rows may be rules or smileys."""


def check_queries(queries: Sequence[str]) -> None:
    """Refuse an empty query, and one text in place of several.

    Raises:
        UsageError: with its place, if there are several.
    """
    require_several(queries)
    for place, query in enumerate(queries):
        if is_blank(query):
            which = "The query" if len(queries) == 1 else f"Query {place + 1} of {len(queries)}"
            raise UsageError(f"{which} is empty (found {query!r}). Name a text to search for.")


def warn_of_tokens(encoder: Encoder, queries: Sequence[str]) -> None:
    """Warn if the encoder cuts queries, or knows few of their tokens."""
    with tokenising():
        unknown, tokens = unknown_tokens(encoder.tokenizer, list(queries))
    if 2 * unknown >= tokens:
        log.warning(
            "%d of %d tokens of the queries are unknown to the encoder and are ignored.",
            unknown,
            tokens,
        )
    prompt = encoder.prompts.before("query")
    whole = [
        encoder.tokenizer.encode(prompt + query, add_special_tokens=encoder.add_special_tokens)
        for query in queries
    ]
    if cut := sum(bool(each.overflowing) for each in whole):
        kept = sum(len(each.ids) for each in whole)
        lost = sum(len(rest.ids) for each in whole for rest in each.overflowing)
        log.warning(
            "The encoder reads %d tokens: %d of %d queries are cut, by %.0f %% of all tokens. The "
            "words of a query are all used.",
            encoder.text_length,
            cut,
            len(queries),
            100 * lost / (kept + lost),
        )


def warn_of_words(words: Sequence[StoredBM25], queries: Sequence[str]) -> None:
    """Warn of queries without a whole word (its first letters) that the index has."""
    whole, *letters = words
    unknown = [query for query in queries if not whole.knows(query)]
    if unknown:
        partly = any(part.knows(query) for part in letters for query in unknown)
        log.warning(
            "%d of %d queries have no word of the index: %s.",
            len(unknown),
            len(queries),
            "the lexical part finds parts of words alone"
            if partly
            else "the lexical part does not find them",
        )


def warn_of_language(encoder: Encoder, texts: Sequence[str]) -> None:
    """Warn if the encoder knows few of the documents' tokens."""
    unknown, tokens = unknown_tokens(encoder.tokenizer, list(texts))
    if 2 * unknown >= tokens:
        log.warning(
            "%d of the first %d tokens of the documents are unknown to the encoder: their vectors "
            "say little. Take an encoder of their language.",
            unknown,
            tokens,
        )


def warn_of_texts(texts: Sequence[str]) -> None:
    """Warn if many texts have no word that the lexical part can find."""
    lacking = sum(next(plain_words(text), None) is None for text in texts)
    if lacking > FEW * len(texts):
        log.warning(
            "%d of %d texts have no word (letters or digits, without English stop words): the "
            "lexical part never finds them.",
            lacking,
            len(texts),
        )
