"""Tokenizer tools of the methods: masks, prompts, and texts decoded from tokens."""

import unicodedata
from collections.abc import Callable, Sequence
from inspect import signature

import numpy as np
from jaxtyping import Bool
from tokenizers import Tokenizer
from torch import nn

from sentemb_core.documents import Tokens
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError

CONTINUES = "##"
"""WordPiece's (BERT's) prefix of all pieces of a word except the first."""

WORD_BEGINS = "\u2581"
"""Word-start marker of SentencePiece and our vocabularies; ours also precedes punctuation."""

SPACE_BYTE = "\u0120"
"""The letter that byte-level BPE uses for a space."""


def require_embedding_layer(encoder: Encoder, method: str) -> None:
    """Check that the transformer has an embedding layer that can be perturbed or frozen.

    Raises:
        RecipeError: it has none, as T5.
    """
    if not isinstance(getattr(encoder.backbone, "embeddings", None), nn.Module):
        raise RecipeError(
            f"{method} needs the embedding layer of a BERT-like transformer; "
            f"{type(encoder.backbone).__name__} has none. Start from 'minilm', or use simcse or "
            "infocse_idc"
        )


def require_frame(encoder: Encoder) -> None:
    """Check that rows have a special token at each end, or none, so that their content is known.

    Raises:
        RecipeError: as `Encoder.framed`.
    """
    _ = encoder.framed


def require_positions(encoder: Encoder, method: str) -> None:
    """Check that the embedding layer adds positions.

    Raises:
        RecipeError: positions are in the attention, as in DeBERTa and ModernBERT.
    """
    added = getattr(encoder.backbone.config, "position_biased_input", True)
    if encoder.positions is None or not added:
        raise _without_positions(encoder, method, "that the embedding layer adds")


def require_movable_positions(encoder: Encoder, method: str) -> None:
    """Check that position ids alone determine the order of a text.

    Raises:
        RecipeError: the attention also knows the order, as in DeBERTa and MPNet, or the encoder
            takes no position ids.
    """
    config = encoder.backbone.config
    ids_alone = getattr(config, "position_biased_input", True) and not (
        getattr(config, "relative_attention", False)
        or hasattr(config, "relative_attention_num_buckets")
    )
    takes_ids = "position_ids" in signature(encoder.backbone.forward).parameters
    if not (ids_alone and takes_ids):
        raise _without_positions(encoder, method, "that can be permuted")


def _without_positions(encoder: Encoder, method: str, which: str) -> RecipeError:
    return RecipeError(
        f"{method} needs positions {which}; {type(encoder.backbone).__name__} has them in its "
        "attention. Start from 'minilm', or use simcse or infocse_idc"
    )


def mask_id(encoder: Encoder) -> int:
    """Return the id of the mask token.

    Raises:
        RecipeError: the vocabulary has none.
    """
    name = str(encoder.tokenizer_config.get("mask_token", "[MASK]"))
    found = encoder.tokenizer.token_to_id(name)
    if found is None:
        raise RecipeError(
            f"Masking needs a mask token; the vocabulary has no {name!r}. Start from another "
            "encoder, or use a method without masks"
        )
    return found


def vocabulary(encoder: Encoder) -> list[str]:
    """Return the pieces by id; an unused id has an empty piece."""
    found = encoder.tokenizer.get_vocab()
    pieces = [""] * (max(found.values(), default=-1) + 1)
    for piece, number in found.items():
        pieces[number] = piece
    return pieces


def begins_word(encoder: Encoder) -> Bool[np.ndarray, " vocabulary"]:
    """Return for every token id whether it starts a word, by the most frequent marker.

    WordPiece marks continuations; SentencePiece and byte-level BPE mark word starts. In a
    vocabulary without markers every token is a word.
    """
    pieces = vocabulary(encoder)
    mark = usual_mark(pieces)
    marked = np.array([piece.startswith(mark) for piece in pieces])
    return ~marked if mark == CONTINUES else marked


def ids_of(encoder: Encoder, words: str) -> list[int]:
    """Return the token ids of a part of a prompt, without special tokens."""
    return encoder.tokenizer.encode(words, add_special_tokens=False).ids


def texts_of(encoder: Encoder) -> Callable[[list[Tokens]], list[str]]:
    """Return a function from token ids to the words between the special tokens."""
    tokenizer, edge = encoder.tokenizer, int(encoder.framed)

    def texts(rows: list[Tokens]) -> list[str]:
        inner = [row[edge : len(row) - edge].tolist() for row in rows]
        return [_spaced(text) for text in tokenizer.decode_batch(inner, skip_special_tokens=False)]

    return texts


def tokens_of(encoder: Encoder) -> Callable[[list[str]], list[Tokens]]:
    """Return a function from words to token ids, as in the corpus, without truncation."""
    uncut = Tokenizer.from_str(encoder.tokenizer.to_str())
    uncut.no_truncation()

    def tokens(texts: list[str]) -> list[Tokens]:
        encodings = uncut.encode_batch_fast(texts, add_special_tokens=encoder.add_special_tokens)
        return [np.asarray(encoding.ids, np.int64) for encoding in encodings]

    return tokens


def _spaced(text: str) -> str:
    if WORD_BEGINS not in text:
        return text
    return text.replace(" ", "").replace(WORD_BEGINS, " ").strip()


def spelt(vocabulary: Sequence[str]) -> list[str]:
    """Return each token as it appears in a text: after a space if it starts a word.

    It handles WordPiece (`##ing`) and the space markers of byte-level BPE and SentencePiece. If the
    vocabulary does not say, punctuation follows its word directly.
    """
    if usual_mark(vocabulary) == CONTINUES:
        vocabulary = [
            piece.removeprefix(CONTINUES) if piece.startswith(CONTINUES) else WORD_BEGINS + piece
            for piece in vocabulary
        ]
    return [_without_marker(piece) for piece in vocabulary]


def usual_mark(vocabulary: Sequence[str]) -> str:
    """Return the marker that most pieces carry (some of RoBERTa's pieces also start with `##`).

    Without any marker it is WordPiece's: every token is a word then.
    """
    marks = (CONTINUES, WORD_BEGINS, SPACE_BYTE)
    return max(marks, key=lambda mark: sum(piece.startswith(mark) for piece in vocabulary))


def _without_marker(piece: str) -> str:
    if piece.startswith(WORD_BEGINS) and _is_punctuation(piece[1:]):
        return piece[1:]
    return piece.replace(WORD_BEGINS, " ").replace(SPACE_BYTE, " ")


def _is_punctuation(piece: str) -> bool:
    return len(piece) == 1 and unicodedata.category(piece).startswith("P")
