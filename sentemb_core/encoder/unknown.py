"""Tokens that an encoder's vocabulary lacks: a text of little else gets a vector all the same."""

from collections.abc import Sequence
from typing import Any

MANY = 0.1
"""Share of a corpus's tokens from which on a warning says so. MiniLM lacks less than .0001 of the
tokens of the blog, of Reuters and of the mixed sessions."""

BLANKS = "\N{LOWER ONE EIGHTH BLOCK}\N{LATIN CAPITAL LETTER G WITH DOT ABOVE} "
"""What vocabularies write for a blank: SentencePiece's, byte-level BPE's, and itself."""


def unknown_id(tokenizer: Any) -> int | None:
    """Id of the token that stands for what the vocabulary lacks; none where it lacks nothing."""
    told: str | None = getattr(tokenizer.model, "unk_token", None)
    return None if told is None else tokenizer.token_to_id(told)


def unknown_tokens(tokenizer: Any, texts: Sequence[str]) -> tuple[int, int]:
    """How many tokens of the texts are unknown, and how many there are; blanks are none."""
    unknown = unknown_id(tokenizer)
    encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    ids = [
        token
        for encoding in encodings
        for token, piece in zip(encoding.ids, encoding.tokens, strict=True)
        if piece.strip(BLANKS)
    ]
    return sum(token == unknown for token in ids), len(ids)
