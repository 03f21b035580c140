"""The vocabulary: one learnt from a corpus, and how much of a text a vocabulary lacks."""

import importlib
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from sentemb_core.encoder.names import MINILM_PACKAGE
from sentemb_core.tokenize import words

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

ACCENTS = (
    r"[\u0300-\u036F\u0483-\u0487\u1AB0-\u1ABD\u1DC0-\u1DFF\u20D0-\u20DC\uFE20-\uFE2F"  # accents
    r"\u0591-\u05BD\u05BF\u05C1\u05C2\u05C4\u05C5\u05C7"  # Hebrew points
    r"\u0610-\u061A\u064B-\u065F\u0670\u06D6-\u06DC\u06DF-\u06E4\u06E7\u06E8\u06EA-\u06ED"  # Arabic
    r"\uFE00-\uFE0F]"  # how an emoji is drawn
)
"""Marks that do not make another word, as ranges that every regular expression library reads.

In Hindi, Thai and Japanese a mark is a letter. BERT's normalizer strips these marks as well, which
turned one Hindi word in twenty into another word.
"""

UNKNOWN_SHARE_WARNING = 0.1
"""Share of a corpus's tokens above which a warning is logged. MiniLM lacks less than .0001 of the
tokens of the blog, of Reuters and of the mixed sessions."""

BLANKS = "\N{LOWER ONE EIGHTH BLOCK}\N{LATIN CAPITAL LETTER G WITH DOT ABOVE} "
"""How vocabularies write a blank: SentencePiece, byte-level BPE, and the blank itself."""


def learnt_tokenizer(sentences: Iterator[str], vocabulary: int) -> Tokenizer:
    """Byte-pair pieces (Sennrich et al., 2016) of lowercased text without accents.

    A piece that begins a word starts with U+2581. BPE is the one trainer of `tokenizers` whose
    result is a function of the corpus: WordPiece and Unigram iterate over hash maps in random
    order. The sentences are read once, as a stream. There are at most `vocabulary` pieces, special
    tokens included; pairs that occur once are not merged.
    """
    tokenizer: Any = Tokenizer(models.BPE(unk_token="[UNK]", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.BertNormalizer(lowercase=True, strip_accents=False),
            normalizers.NFD(),
            normalizers.Replace(Regex(ACCENTS), ""),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    trainer: Any = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        special_tokens=SPECIAL_TOKENS,
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences, trainer)
    return tokenizer


def unknown_id(tokenizer: Any) -> int | None:
    """Id of the token for pieces outside the vocabulary; None where every piece is inside."""
    token: str | None = getattr(tokenizer.model, "unk_token", None)
    return None if token is None else tokenizer.token_to_id(token)


def unknown_tokens(tokenizer: Any, texts: Sequence[str]) -> tuple[int, int]:
    """Number of unknown tokens and of all tokens of the texts; blanks are not counted."""
    unknown = unknown_id(tokenizer)
    encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    ids = [
        token
        for encoding in encodings
        for token, piece in zip(encoding.ids, encoding.tokens, strict=True)
        if piece.strip(BLANKS)
    ]
    return sum(token == unknown for token in ids), len(ids)


def known_word_share(tokenizer: Any, texts: Sequence[str]) -> float:
    """Share of words of letters that are one piece of the vocabulary; 0 without such a word.

    A vocabulary cuts words of a language that it was not learnt from: MiniLM keeps .85 to .96 of
    the words of English prose and titles, .65 of English product names, .33 to .55 of German,
    Dutch, French, Italian and Spanish, .18 of Russian.
    """
    found = [word for text in texts for word in words(text) if word.isalpha()]
    if not found:
        return 0.0
    unknown = unknown_id(tokenizer)
    encodings = tokenizer.encode_batch(found, add_special_tokens=False)
    return sum(len(each.ids) == 1 and each.ids[0] != unknown for each in encodings) / len(found)


def minilm_tokenizer() -> Any | None:
    """Return MiniLM's tokenizer without truncation; None where its package is not installed."""
    if find_spec(MINILM_PACKAGE) is None:
        return None
    folder = Path(importlib.import_module(MINILM_PACKAGE).MODEL_DIR)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
