"""Negation of English sentences without a parser: short verb lists and spelling rules.

SNCSE's code negates with a parser. Here short lists and the word order decide, unless the caller
passes another negation. The lists are ours: irregular past forms, and the most frequent verbs.
"""

import re
from itertools import takewhile


def words(listed: str) -> frozenset[str]:
    """Return the words of a list."""
    return frozenset(listed.split())


_IRREGULAR = """
    arose:arise ate:eat beat:beat became:become began:begin bent:bend bet:bet bit:bite bled:bleed
    blew:blow bore:bear bought:buy bound:bind bred:breed broke:break brought:bring built:build
    burnt:burn burst:burst came:come cast:cast caught:catch chose:choose clung:cling cost:cost
    crept:creep cut:cut dealt:deal drank:drink drew:draw drove:drive dug:dig dreamt:dream fed:feed
    fell:fall felt:feel fled:flee flew:fly flung:fling forbade:forbid forgave:forgive forgot:forget
    fought:fight found:find froze:freeze gave:give got:get grew:grow ground:grind heard:hear
    held:hold hid:hide hit:hit hung:hang hurt:hurt kept:keep knew:know laid:lay lay:lie led:lead
    left:leave lent:lend let:let lit:light lost:lose made:make meant:mean met:meet mistook:mistake
    overcame:overcome paid:pay put:put quit:quit ran:run rang:ring rode:ride rose:rise said:say
    sang:sing sank:sink sat:sit saw:see sent:send set:set shook:shake shone:shine shot:shoot
    showed:show shrank:shrink shut:shut slept:sleep slid:slide sold:sell sought:seek spent:spend
    split:split spoke:speak spread:spread sprang:spring spun:spin stole:steal stood:stand
    strode:stride strove:strive struck:strike stuck:stick stung:sting swam:swim swept:sweep
    swore:swear swung:swing taught:teach tore:tear thought:think threw:throw told:tell took:take
    understood:understand undertook:undertake upset:upset went:go wept:weep withdrew:withdraw
    woke:wake won:win wore:wear wove:weave wrote:write
"""
IRREGULAR_PASTS = {past: lemma for pair in _IRREGULAR.split() for past, lemma in [pair.split(":")]}

VERBS = words("""
    accept achieve act add admit affect agree aim allow announce answer appear apply argue arrive
    ask assume attack attempt attend avoid base be become begin believe belong bring build buy call
    care carry cause change choose claim come compare compete complete concern confirm consider
    consist contain continue contribute control cost cover create cut deal decide define demand
    deny depend describe design develop die discover discuss do draw drive eat enable encourage end
    enjoy ensure enter establish exist expand expect explain express extend face fail fall feel
    fight fill find finish fly focus follow force form gain get give go grow hang happen have hear
    help hit hold hope imagine improve include increase indicate intend introduce invite involve
    join jump keep kill know lack last lead learn leave let lie like listen live look lose love
    maintain make manage matter mean measure meet mention move need note notice obtain occur offer
    open operate own pass pay perform place plan play please point prefer prepare present prevent
    produce promise propose protect prove provide publish pull push put raise reach read realize
    receive recognize recommend reduce refer reflect refuse regard relate release rely remain
    remember remove replace report represent require result return reveal rise run save say see
    seek seem sell send serve set share show sing sit sleep sound speak spend stand start
    stay stop study succeed suffer suggest supply support suppose sweep take talk teach tell tend
    test thank think throw touch train travel treat try turn understand use visit wait walk want
    watch wear win wish wonder work worry write yield
""")

_VOWELS = "aeiou"
_LONG = tuple(words("ad ap ar as at ib id in ir od ok ud um ur ut"))
"""Ends of stems whose last vowel is usually long, with a final e."""


def lemma_of_past(word: str) -> str | None:
    """Return the verb whose simple past is this lower-case word, else None."""
    if word in IRREGULAR_PASTS:
        return IRREGULAR_PASTS[word]
    stem = word.removesuffix("ed")
    if stem == word or len(stem) < 2:
        return None
    spellings = (stem, stem + "e", stem[:-1])
    known = next((spelling for spelling in spellings if spelling in VERBS), None)
    return known or (_guessed(stem) if len(stem) > 2 else None)


def lemma_of_third_person(word: str, verbs: frozenset[str] = VERBS) -> str | None:
    """Return the one of these verbs whose third person is this lower-case word, else None."""
    endings = [("ies", "y"), ("es", ""), ("s", "")]
    spelled = [word.removesuffix(old) + new for old, new in endings if word.endswith(old)]
    return next((lemma for lemma in spelled if lemma in verbs), None)


def _guessed(stem: str) -> str | None:
    """Return the rare verb with the past `stem` + ed; None for `hundred` or `indeed`."""
    end, before = stem[-1], stem[-2]
    if end == "e" or (end == "r" and before not in _VOWELS + "r"):
        return None
    if end == "i":
        return stem[:-1] + "y"
    if end == before:
        return stem if end in "flsz" else stem[:-1]
    return stem + "e" if _drops_an_e(stem) else stem


def _drops_an_e(stem: str) -> bool:
    """Whether the verb of a past in -ed probably ends in e: `lov`, `creat`, `handl`."""
    if stem[-1] in "cuvz" or (stem[-1] == "g" and stem[-2] not in "ng"):
        return True
    if stem.endswith(("iat", "uat", "ang", "eng", "ung")):
        return True
    sounds = stem.replace("qu", "kw")
    single_vowel = sounds[-2] in _VOWELS and sounds[-3] not in _VOWELS and sounds[-1] not in "wxy"
    if single_vowel and not any(letter in _VOWELS for letter in sounds[:-2]):
        return True  # after a single vowel that is stressed, a last consonant would be doubled
    if stem[-1] == "l":
        return stem[-2] not in _VOWELS + "lrw"
    if stem[-1] == "s":
        return True
    return single_vowel and stem.endswith(_LONG)


_SHORTENED = words("m s re ve ll d")
_SHORTENED_AUXILIARIES = frozenset(
    f"{subject}'{verb}"
    for subject in words("i you we they he she it that there here what who where")
    for verb in _SHORTENED
)
_AUXILIARIES = _SHORTENED_AUXILIARIES | words(
    "am is are was were can could will would shall should may might must ought"
)
_MODALS = words("can may might must will")
"""Modal verbs that are also nouns or names: `a can`, `his will`, `in May`."""
_HAVE = {"has": "does not have", "had": "did not have"}
_DO = {"does": "does not do", "did": "did not do"}
_PARTICIPLES = words(
    "become been begun come done drunk gone grown known run seen shown sung thrown"
)
_ADVERBS = words("already also always ever just never often only since still")
_PLURAL_SUBJECTS = words("i you we they")
_PLURAL_NOUNS = words("people children men women others these those who")
"""Plural subjects without -s; a frequent verb after them is finite."""
_BEFORE_NOUNS = words(
    "a an the my your his her its our their some any no each every of in on at to for with by from "
    "and or as"
)

_ARTICLES = words("a an the my your his our their")
_SUBJECTS = words("i you he she it we they there")
_FRONTED = words("what why when where who whom whose which how only then here so nor little")
"""Words after which an auxiliary stands before its subject."""
_SUBORDINATORS = words(
    "if when while before after until because since so unless although though once that which who "
    "where whether"
)
_COMMANDS = VERBS | words("""
    bake beat boil book breathe cancel check chew clean click climb close combine cook copy delete
    dip download draw drop dry email feed fix fold forget forgive fry heat hide hurry insert install
    let lift lock mark mix order paint park peel phone pick plug post pour press print relax remind
    rent repair reply rest rinse save select shake share shout shut sign slice smile stir switch
    text type unlock wash wipe wrap
""")
"""Verbs that begin a command; in other places some are more often nouns."""
_BEFORE_COMMANDS = words("please kindly just then now first next finally")
_OBJECTS = _BEFORE_NOUNS - words("of in on at to for with by from and or as") | words(
    "me you him it us them this that these those up down off out away back home here there now "
    "left right careful"
)
"""Words that follow the verb of a command even where no full stop ends it."""
_CONTRACTED = {"can": "can't", "will": "won't", "shall": "shan't"}
_WITHOUT_CONTRACTION = words("am may might ought")

_APOSTROPHE = re.compile(r"\s?['’]\s?")  # noqa: RUF001
"""An apostrophe; a text decoded from WordPiece has blanks around it: `he ' s`."""
_WORD = re.compile(
    rf"[^\W\d_]+(?:{_APOSTROPHE.pattern}(?:{'|'.join(sorted(_SHORTENED))})\b"
    r"|['’][^\W\d_]+)?",  # noqa: RUF001
    re.IGNORECASE,
)
_NEGATIVE = re.compile(
    r"""\b(?:
        (?P<stem>[^\W\d_]+)\s?n\s?['’]\s?t
        | not(?!\sonly\b) | never | rarely | seldom | no\slonger | no[ -]one
        | nobody | nothing(?!\sbut\b) | nowhere | none | neither
        | no(?=\s[^\W\d_])(?!\s(?:matter|sooner)\b)
        | (?:hardly|scarcely|barely)(?:\s(?:ever\b|any(?!way)))?
    )(?:\b|(?<=\sany)) | (?<=\bcan)not\b""",  # noqa: RUF001
    re.IGNORECASE | re.VERBOSE,
)
_TAG = re.compile(
    r"(?<=\w)\s?,\s[^\W\d_]+\s?n\s?['’]\s?t\s(?:i|you|s?he|it|we|they|there)\s?\?\W*$",  # noqa: RUF001
    re.IGNORECASE,
)
"""A question behind a statement: `, don't you?`."""
_FULL_STEMS = {"wo": "will", "ca": "can", "sha": "shall", "ai": "is"}
_LEFT_OUT = words("not never hardly scarcely barely")
_OPPOSITES = {
    "nobody": "somebody", "no one": "someone", "no-one": "someone", "nothing": "something",
    "nowhere": "somewhere", "none": "some", "no": "some", "neither": "either",
    "no longer": "still", "rarely": "often", "seldom": "often",
}  # fmt: skip
"""Negative words -> what contradicts them; `no` is left out before a comparative."""
_COMPARATIVE = re.compile(r"\s(?:more|less|fewer|better|worse|[^\W\d_]+er than)\b", re.IGNORECASE)
_AFTER_NEGATION = {"any": "some", "anyone": "someone", "anybody": "somebody",
    "anything": "something", "anywhere": "somewhere", "anymore": "still"}  # fmt: skip
_ANY = re.compile(r"\bany(?:one|body|thing|where|more)?\b")


def negated(sentence: str) -> str:
    """Return the sentence without its first negation, or negated if it has none.

    A negative word is removed, or replaced by its opposite: `nobody` by `somebody`, `no` by `some`.
    SNCSE's code removes `not` alone, and negates `had never been` once more; ours does not.

    As in SNCSE's code, `not` follows the first auxiliary; before a subject that is a pronoun it
    follows the subject, before another subject it is contracted. Without an auxiliary, the first
    finite verb becomes `do not`, `does not` or `did not` with its lemma, and a command `do not`.
    Else the sentence starts with `Not`. `It is, isn't it?` becomes `It is not, is it?`.
    """
    if tag := _TAG.search(sentence):
        return negated(sentence[: tag.start()]) + negated(tag[0])
    for found in _NEGATIVE.finditer(sentence):
        if _begins(sentence[: found.start()]) or not found[0].istitle():  # else of a name: Dr. No
            return _affirmed(sentence, found)
    return _denied(sentence)


def _begins(before: str) -> bool:
    """Whether a sentence begins after this text."""
    return not before.strip() or before.rstrip()[-1] in ".!?:;\"'(“‘"  # noqa: RUF001


def _affirmed(sentence: str, found: re.Match[str]) -> str:
    """Return the sentence with this negative word removed, or replaced by its opposite."""
    before, after = sentence[: found.start()], sentence[found.end() :]
    opposite = _opposite(found, fronted=_begins(before) and _next_is_auxiliary(after), after=after)
    after = _ANY.sub(lambda word: _AFTER_NEGATION[word[0]], after, count=1)
    if opposite == "either":
        after = re.sub(r"\bnor\b", "or", after, count=1)
    if not opposite:
        before, after = (before, after.lstrip()) if _begins(before) else (before.rstrip(), after)
    if found[0][0].isupper():
        rest = opposite + after
        return f"{before}{rest[:1].upper()}{rest[1:]}"
    return f"{before}{opposite}{after}".lstrip()


def _opposite(found: re.Match[str], *, fronted: bool, after: str) -> str:
    """Return what replaces a negative word; empty: nothing does.

    Args:
        found: The word.
        fronted: It begins the sentence, before an auxiliary: `never have I`, `neither do we`.
        after: The text behind it.
    """
    word = re.sub(r"\s", " ", found[0].lower())
    if stem := found["stem"]:
        return _FULL_STEMS.get(stem.lower(), stem)
    if word == "no" and _COMPARATIVE.match(after):
        return ""
    if word.endswith(" any"):  # hardly anyone
        return "some"
    if word.endswith(" ever") or (fronted and word in _LEFT_OUT - {"not"}):
        return "often"
    return "so" if fronted and word == "neither" else _OPPOSITES.get(word, "")


def _next_is_auxiliary(after: str) -> bool:
    """Whether an auxiliary comes next, or after `before` or `again`."""
    following = [word.lower() for word in re.findall(r"[^\W\d_]+", after[:40])]
    following = following[1:] if following[:1] in (["before"], ["again"]) else following
    return bool({*following[:1]} & (_AUXILIARIES | {"have", "do", *_HAVE, *_DO}))


def _denied(sentence: str) -> str:
    found = list(_WORD.finditer(sentence))
    plain = [_APOSTROPHE.sub("'", word[0].lower()) for word in found]
    asked = sentence.rstrip(" \"'").endswith("?")
    main = _main_clause(sentence, found, plain)
    if not asked and (place := _command(sentence, found, plain, main)) is not None:
        return _forbidden(sentence, found, plain, place)
    for place, word in enumerate(found):
        name = word[0][0].isupper() and plain[place] in _MODALS and not asked
        if name and (place or not _begins_with_modal(plain)):
            continue
        if _is_auxiliary(plain, place) or _is_inverted(plain, place, asked=asked):
            return _with_not(sentence, found, plain, place, asked=asked)
    for place, word in enumerate(found):
        name = place > 0 and word[0][0].isupper()
        if not name and (verb := _denied_verb(plain, place)):
            return f"{sentence[: word.start()]}{verb}{sentence[word.end() :]}"
    return f"Not {sentence.lstrip()}"


def _main_clause(sentence: str, found: list[re.Match[str]], plain: list[str]) -> int:
    """Return the place of the first word, or of the word after a first clause with `if`."""
    if not plain or plain[0] not in _SUBORDINATORS:
        return 0
    comma = sentence.find(",", found[0].end())
    return next((n for n, word in enumerate(found) if -1 < comma < word.start()), 0)


def _command(sentence: str, found: list[re.Match[str]], plain: list[str], start: int) -> int | None:
    """Return the place of the verb of a command that starts here; None for a statement."""
    start += sum(1 for _ in takewhile(_BEFORE_COMMANDS.__contains__, plain[start:]))
    verb = start + (plain[start : start + 1] == ["always"])
    if plain[verb : verb + 1] in (["let's"], ["do"]) and plain[verb + 1 :]:
        return verb
    if verb >= len(plain) or plain[verb] not in _COMMANDS:
        return None
    if _is_inverted(plain, verb, asked=False):
        return None
    rest = list(takewhile(lambda word: word not in _SUBORDINATORS, plain[verb + 1 :]))
    for place in range(verb + 1, verb + 1 + len(rest)):
        finite = lemma_of_past(plain[place]) or lemma_of_third_person(plain[place])
        before = plain[place - 1]
        if plain[place] in _OBJECTS or before in _ARTICLES:
            continue
        if finite or plain[place] in _HAVE or _is_auxiliary(plain, place):
            return None
    ended = sentence.rstrip(" \"'").endswith((".", "!"))
    if not rest:
        return verb if ended else None
    allowed = rest[0] in _OBJECTS or _is_adverb(rest[0]) or (ended and rest[0] not in ("of", "and"))
    return verb if allowed else None


def _forbidden(sentence: str, found: list[re.Match[str]], plain: list[str], place: int) -> str:
    """Return `do not open` for the `open` of a command, and `let us not go`."""
    word, before = found[place], plain[place - 1] if place else ""
    together = plain[place] == "let's" or (plain[place] == "do" and plain[place + 1] in _COMMANDS)
    if together or plain[place : place + 2] == ["let", "us"]:
        end = found[place if together else place + 1].end()
        return f"{sentence[:end]} not{sentence[end:]}"
    first = found[place - 1] if before == "always" else word
    do = "Do" if first[0][0].isupper() else "do"
    rest = sentence[first.start() :]
    return f"{sentence[: first.start()]}{do} not {rest[0].lower()}{rest[1:]}"


def _begins_with_modal(plain: list[str]) -> bool:
    """Whether `Can be used` or `May we go` begins the sentence, not the name `Will Smith`."""
    return plain[1:2] == ["be"] or bool({*plain[1:2]} & (_SUBJECTS | VERBS))


def _is_inverted(plain: list[str], place: int, *, asked: bool) -> bool:
    """Whether an auxiliary stands before its subject: in a question, after `never`, in `had I`."""
    word, ahead = plain[place], plain[place + 1 : place + 2]
    if word not in _AUXILIARIES | {"have", "do", *_HAVE, *_DO} or not ahead:
        return False
    if ahead == plain[-1:] == ["there"]:  # a place: `Who is there?`
        return False
    fronted = place == 0 or plain[place - 1] in _FRONTED
    if asked:
        return (fronted and word not in _AUXILIARIES) or ahead[0] in _SUBJECTS
    return fronted and ahead[0] in _SUBJECTS


def _with_not(
    sentence: str, found: list[re.Match[str]], plain: list[str], place: int, *, asked: bool
) -> str:
    """Return the sentence with `not` where it belongs to the auxiliary at this place."""
    word, ahead = plain[place], plain[place + 1 : place + 2]
    inverted = _is_inverted(plain, place, asked=asked)
    subject = asked and (place == 0 or plain[place - 1] in _FRONTED - {"what", "who"})
    end = found[place].end()
    if (inverted and {*ahead} & _SUBJECTS) or _is_postponed(plain, place):
        end = found[place + 1].end()
    elif subject and word not in _WITHOUT_CONTRACTION and "'" not in word:
        written = sentence[found[place].start() : end]
        short = _CONTRACTED.get(word, f"{word}n't")
        return f"{sentence[: found[place].start()]}{written[0]}{short[1:]}{sentence[end:]}"
    return f"{sentence[:end]} not{sentence[end:]}"


def _is_auxiliary(plain: list[str], place: int) -> bool:
    """Whether the word is an auxiliary: be, modals, have before a participle, do before a verb."""
    word, before = plain[place], plain[place - 1] if place else ""
    ahead = [other for other in plain[place + 1 : place + 5] if not _is_adverb(other)]
    if word in _MODALS and before in _ARTICLES:
        return False
    if word in ("have", *_HAVE):
        return any(map(_is_participle, ahead[:1])) or _is_postponed(plain, place)
    if word in ("do", *_DO):
        return any(other in VERBS for other in ahead[:3]) and ahead[0] not in _BEFORE_NOUNS
    return word in _AUXILIARIES


def _is_postponed(plain: list[str], place: int) -> bool:
    """Whether `not` comes after the next word: `had better not go`, `would rather not go`."""
    if not plain[place].endswith("d") or plain[place + 1 : place + 2] not in (
        ["better"],
        ["rather"],
    ):
        return False
    return bool({*plain[place + 2 : place + 3]} & _COMMANDS)


def _is_adverb(word: str) -> bool:
    return word in _ADVERBS or (word.endswith("ly") and word not in VERBS)  # not `rely`, `fly`


def _is_participle(word: str) -> bool:
    return word in _PARTICIPLES or word.endswith("en") or lemma_of_past(word) is not None


def _denied_verb(plain: list[str], place: int) -> str | None:
    """Return `did not go` for a `went` that looks finite in its place; None for other words."""
    word, before = plain[place], plain[place - 1] if place else ""
    if before in _BEFORE_NOUNS or _is_adverb(word):
        return None
    if denied := _HAVE.get(word) or _DO.get(word):
        return denied
    if past := lemma_of_past(word):
        return f"did not {past}"
    verbs = _COMMANDS if {*plain[place + 1 : place + 2]} & _ARTICLES else VERBS  # `slices an onion`
    if place and (third := lemma_of_third_person(word, verbs)):
        return f"does not {third}"
    plural = before in _PLURAL_NOUNS or re.search(r"[^s]s$", before)
    if before in _PLURAL_SUBJECTS or (word in VERBS and plural):
        return f"do not {word}"
    return None
