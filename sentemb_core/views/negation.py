"""Soft negatives (SNCSE, Wang et al. 2022): a sentence and its negation share all words but one.

Deviation: the paper finds auxiliaries and the main verb with spaCy's parser, whose model is a
download; here short lists and the order of words decide (see `verbs`), unless the caller brings
another negation. `n't` is removed as `not` is.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sentemb_core.pairs.documents import Documents, Tokens
from sentemb_core.views.batch import Draw, View, ViewMaker
from sentemb_core.views.verbs import VERBS, lemma_of_past, lemma_of_third_person, words

Negate = Callable[[str], str]
"""From a sentence to its opposite."""

_SHORTENED = words("m s re ve ll d")
_SHORTENED_AUXILIARIES = frozenset(
    f"{subject}'{verb}"
    for subject in words("i you we they he she it that there here what who where")
    for verb in _SHORTENED
)
_AUXILIARIES = _SHORTENED_AUXILIARIES | words(
    "am is are was were can could will would shall should may might must"
)
_HAVE = {"has": "does not have", "had": "did not have"}
_DO = {"does": "does not do", "did": "did not do"}
_PARTICIPLES = words(
    "become been begun come done drunk gone grown known run seen shown sung thrown"
)
_ADVERBS = words("already also always ever just never often only since still")
_PLURAL_SUBJECTS = words("i you we they")
_BEFORE_NOUNS = words(
    "a an the my your his her its our their some any no each every of in on at to for with by from "
    "and or as"
)

_APOSTROPHE = re.compile(r"\s?['’]\s?")  # noqa: RUF001
"""A text that was decoded from WordPiece has blanks around it: `he ' s`."""
_WORD = re.compile(
    rf"[^\W\d_]+(?:{_APOSTROPHE.pattern}(?:{'|'.join(sorted(_SHORTENED))})\b"
    r"|['’][^\W\d_]+)?",  # noqa: RUF001
    re.IGNORECASE,
)
_NOT = re.compile(
    r"\b([^\W\d_]+)\s?n\s?['’]\s?t\b|\s*\bnot\b|(?<=\bcan)not\b",  # noqa: RUF001
    re.IGNORECASE,
)
_FULL_STEMS = {"wo": "will", "ca": "can", "sha": "shall", "ai": "is"}


def negations(
    text: ViewMaker,
    decode: Callable[[list[Tokens]], list[str]],
    encode: Callable[[list[str]], list[Tokens]],
    negate: Negate | None = None,
) -> ViewMaker:
    """`text` with the opposite meaning, by way of its words.

    Args:
        text: Whose rows, without a prompt, and before they are sliced: a piece of a word is none.
        decode: Token ids to texts, without the special tokens around them.
        encode: Texts to token ids as the corpus has them.
        negate: A sentence to its opposite; none: `negated`.
    """
    opposite = negate or negated

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        return replace(seen, tokens=encode(list(map(opposite, decode(seen.tokens)))))

    return view


def negated(sentence: str) -> str:
    """The sentence without its first negation; if it has none, with one.

    As in SNCSE's code `not` goes behind the first auxiliary, else the first finite verb becomes `do
    not`, `does not` or `did not` with its lemma, else `Not` stands at the beginning.
    """
    affirmed, found = _NOT.subn(lambda found: _restored(found[1]), sentence, count=1)
    return affirmed.lstrip() if found else _denied(sentence)


def _restored(stem: str | None) -> str:
    """`is` of `isn't`, `will` of `won't`; nothing of a whole `not`."""
    return _FULL_STEMS.get(stem.lower(), stem) if stem else ""


def _denied(sentence: str) -> str:
    found = list(_WORD.finditer(sentence))
    plain = [_APOSTROPHE.sub("'", word[0].lower()) for word in found]
    for place, word in enumerate(found):
        if _is_auxiliary(plain, place):
            return f"{sentence[: word.end()]} not{sentence[word.end() :]}"
    for place, word in enumerate(found):
        name = place > 0 and word[0][0].isupper()
        if not name and (verb := _denied_verb(plain, place)):
            return f"{sentence[: word.start()]}{verb}{sentence[word.end() :]}"
    return f"Not {sentence.lstrip()}"


def _is_auxiliary(plain: list[str], place: int) -> bool:
    """Be and modals always; have before a participle, do before a bare verb."""
    word = plain[place]
    ahead = [other for other in plain[place + 1 : place + 5] if not _is_adverb(other)]
    if word in ("have", *_HAVE):
        return any(map(_is_participle, ahead[:1]))
    if word in ("do", *_DO):
        return any(other in VERBS for other in ahead[:3]) and ahead[0] not in _BEFORE_NOUNS
    return word in _AUXILIARIES


def _is_adverb(word: str) -> bool:
    return word in _ADVERBS or (word.endswith("ly") and word not in VERBS)  # not `rely`, `fly`


def _is_participle(word: str) -> bool:
    return word in _PARTICIPLES or word.endswith("en") or lemma_of_past(word) is not None


def _denied_verb(plain: list[str], place: int) -> str | None:
    """`did not go` for a `went` that looks finite where it stands; nothing for other words."""
    word, before = plain[place], plain[place - 1] if place else ""
    if before in _BEFORE_NOUNS or _is_adverb(word):
        return None
    if denied := _HAVE.get(word) or _DO.get(word):
        return denied
    if past := lemma_of_past(word):
        return f"did not {past}"
    if place and (third := lemma_of_third_person(word)):
        return f"does not {third}"
    if before in _PLURAL_SUBJECTS or (word in VERBS and re.search(r"[^s]s$", before)):
        return f"do not {word}"
    return None
