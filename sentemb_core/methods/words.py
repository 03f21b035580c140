"""What recipes ask of a tokenizer: masks, prompts, texts back from tokens."""

from collections.abc import Callable

import numpy as np

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.listing import static_refused
from sentemb_core.pairs.documents import Tokens
from sentemb_core.views.masked import Masking

WORD_BEGINS = "\u2581"
"""How vocabularies of ours mark the first piece of a word."""


def require_transformer(encoder: Encoder, method: str) -> None:
    """That the encoder has layers and dropout to work with.

    Raises:
        RecipeError: it is a static table.
    """
    if encoder.kind == "static":
        raise RecipeError(static_refused(method))


def mask_id(encoder: Encoder) -> int:
    """Of the token that hides another.

    Raises:
        RecipeError: the vocabulary has none.
    """
    name = str(encoder.tokenizer_config.get("mask_token", "[MASK]"))
    found = encoder.tokenizer.token_to_id(name)
    if found is None:
        raise RecipeError(
            f"Masking needs a token that hides others; the vocabulary has no {name!r}: start from "
            "an encoder with one, or take a method without masks"
        )
    return found


def masking(encoder: Encoder, rate: float) -> Masking:
    """BERT's noise in this vocabulary."""
    added = encoder.tokenizer.get_added_tokens_decoder()
    special = {number for number, token in added.items() if token.special}
    return Masking(
        rate,
        mask_id(encoder),
        tuple(sorted(special | {encoder.pad_id, mask_id(encoder)})),
        encoder.tokenizer.get_vocab_size(),
    )


def vocabulary(encoder: Encoder) -> list[str]:
    """Pieces by their ids."""
    found = encoder.tokenizer.get_vocab()
    return sorted(found, key=found.__getitem__)


def ids_of(encoder: Encoder, words: str) -> list[int]:
    """Token ids of a prompt's part, without special tokens."""
    return encoder.tokenizer.encode(words, add_special_tokens=False).ids


def texts_of(encoder: Encoder) -> Callable[[list[Tokens]], list[str]]:
    """From token ids back to words; special tokens are left out."""
    tokenizer = encoder.tokenizer

    def texts(rows: list[Tokens]) -> list[str]:
        plain = tokenizer.decode_batch([row.tolist() for row in rows], skip_special_tokens=True)
        return [_spaced(text) for text in plain]

    return texts


def tokens_of(encoder: Encoder) -> Callable[[list[str]], list[Tokens]]:
    """From words to token ids as the corpus has them."""
    return lambda texts: [np.asarray(row, np.int64) for row in encoder.tokenise(texts)]


def _spaced(text: str) -> str:
    if WORD_BEGINS not in text:
        return text
    return text.replace(" ", "").replace(WORD_BEGINS, " ").strip()
