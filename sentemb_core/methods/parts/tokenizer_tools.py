"""What recipes ask of a tokenizer: masks, prompts, texts back from tokens."""

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
from sentemb_core.methods.listing import static_refused
from sentemb_core.methods.parts.masking import Masking

CONTINUES = "##"
"""How WordPiece (BERT) marks all pieces of a word but the first."""

WORD_BEGINS = "\u2581"
"""SentencePiece's and our own marker; ours stands before punctuation, too."""

SPACE_BYTE = "\u0120"
"""Byte-level BPE's letter for a space of the text."""

WITHOUT_MLM = "leave the masked-language term out (--set training.method.mlm=0)"
"""The way out where a method could do without."""


def require_transformer(encoder: Encoder, method: str) -> None:
    """That the encoder has layers and dropout to work with.

    Raises:
        RecipeError: it is a static table.
    """
    if encoder.kind == "static":
        raise RecipeError(static_refused(method))


def require_embedding_layer(encoder: Encoder, method: str) -> None:
    """That the transformer has a layer of embeddings, with positions, to disturb or to freeze.

    Raises:
        RecipeError: it has none, as T5, whose positions lie in the attention.
    """
    require_transformer(encoder, method)
    if not isinstance(getattr(encoder.backbone, "embeddings", None), nn.Module):
        raise RecipeError(
            f"{method} works on the layer of embeddings that a BERT-like transformer begins with; "
            f"this encoder ({type(encoder.backbone).__name__}) has none: start from one such as "
            "'minilm', or take simcse or infocse_idc"
        )


def require_positions(encoder: Encoder, method: str) -> None:
    """That the layer of embeddings adds positions, which tell the order of what it hands on.

    Raises:
        RecipeError: they lie in the attention, as DeBERTa's and ModernBERT's.
    """
    added = getattr(encoder.backbone.config, "position_biased_input", True)
    if encoder.positions is None or not added:
        raise _without_positions(encoder, method, "that the layer of embeddings adds")


def require_movable_positions(encoder: Encoder, method: str) -> None:
    """That position ids alone tell the order of a text: whoever permutes them makes another one.

    Raises:
        RecipeError: the attention knows it, too, as DeBERTa's and MPNet's, or nobody asks for ids.
    """
    config = encoder.backbone.config
    told = getattr(config, "position_biased_input", True) and not (
        getattr(config, "relative_attention", False)
        or hasattr(config, "relative_attention_num_buckets")
    )
    asked = "position_ids" in signature(encoder.backbone.forward).parameters
    if not (told and asked):
        raise _without_positions(encoder, method, "that can be given another order")


def _without_positions(encoder: Encoder, method: str, which: str) -> RecipeError:
    return RecipeError(
        f"{method} works on positions {which}; this encoder ({type(encoder.backbone).__name__}) "
        "has them in its attention: start from one such as 'minilm', or take simcse or infocse_idc"
    )


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
    """Pieces by their ids; an id that the vocabulary passes over has an empty one."""
    found = encoder.tokenizer.get_vocab()
    pieces = [""] * (max(found.values(), default=-1) + 1)
    for piece, number in found.items():
        pieces[number] = piece
    return pieces


def begins_word(encoder: Encoder) -> Bool[np.ndarray, " vocabulary"]:
    """For every token id whether a word begins with it, by the mark that most pieces carry.

    WordPiece marks what continues a word; SentencePiece and byte-level BPE mark what begins one.
    In a vocabulary without marks every token is a word.
    """
    pieces = vocabulary(encoder)
    mark = usual_mark(pieces)
    marked = np.array([piece.startswith(mark) for piece in pieces])
    return ~marked if mark == CONTINUES else marked


def ids_of(encoder: Encoder, words: str) -> list[int]:
    """Token ids of a prompt's part, without special tokens."""
    return encoder.tokenizer.encode(words, add_special_tokens=False).ids


def texts_of(encoder: Encoder) -> Callable[[list[Tokens]], list[str]]:
    """From token ids back to words: all that stands between the special tokens, [UNK] as well."""
    tokenizer, edge = encoder.tokenizer, int(encoder.framed)

    def texts(rows: list[Tokens]) -> list[str]:
        inner = [row[edge : len(row) - edge].tolist() for row in rows]
        return [_spaced(text) for text in tokenizer.decode_batch(inner, skip_special_tokens=False)]

    return texts


def tokens_of(encoder: Encoder) -> Callable[[list[str]], list[Tokens]]:
    """From words to token ids as the corpus has them, however many they are."""
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
    """Each token as it stands in a text: behind a space where it begins a word.

    Knows WordPiece (`##ing`) and the space markers of byte-level BPE and SentencePiece. Where the
    vocabulary cannot tell, punctuation follows its word directly.
    """
    if usual_mark(vocabulary) == CONTINUES:
        vocabulary = [
            piece.removeprefix(CONTINUES) if piece.startswith(CONTINUES) else WORD_BEGINS + piece
            for piece in vocabulary
        ]
    return [_without_marker(piece) for piece in vocabulary]


def usual_mark(vocabulary: Sequence[str]) -> str:
    """The mark of words that most pieces carry: a few of RoBERTa's begin with WordPiece's, too.

    WordPiece's own where no piece has any: then every token is a word.
    """
    marks = (CONTINUES, WORD_BEGINS, SPACE_BYTE)
    return max(marks, key=lambda mark: sum(piece.startswith(mark) for piece in vocabulary))


def _without_marker(piece: str) -> str:
    if piece.startswith(WORD_BEGINS) and _is_punctuation(piece[1:]):
        return piece[1:]
    return piece.replace(WORD_BEGINS, " ").replace(SPACE_BYTE, " ")


def _is_punctuation(piece: str) -> bool:
    return len(piece) == 1 and unicodedata.category(piece).startswith("P")
