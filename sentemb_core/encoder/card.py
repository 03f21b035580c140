"""The model card: what an encoder learnt from, how well it does, how to load it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from sentemb_core.types import Value

FROM_NOTHING = "Its weights began as random numbers: no licence of others applies."

LICENCES = {
    "static": FROM_NOTHING,
    "transformer": FROM_NOTHING,
    "minilm": "Its base, all-MiniLM-L6-v2, is licensed under Apache-2.0.",
}
"""Base -> the sentence about its licence."""


class Judged(Value):
    """What the scores of a card were measured on."""

    query: str = Field(description="What looks, as `document` or `first half`.")
    candidate: str = Field(description="What it looks for, as `counterpart` or `second half`.")
    queries: int
    candidates: int


class CardFacts(Value):
    """What a card tells; what is not known is left out."""

    name: str = "sentemb encoder"
    registered: str | None = Field(
        default=None, description="Its name in the registry, once it is registered."
    )
    base: str | None = Field(
        default=None, description="The encoder the first training started from."
    )
    method: str | None = Field(default=None, description="How it was trained; none: as it started.")
    parent: str | None = Field(
        default=None, description="Artifact of the encoder before this training."
    )
    corpus: str | None = Field(default=None, description="What was read: its size, its digest.")
    labels: int = Field(default=0, description="Labelled pairs that taught it, too.")
    kind: Literal["static", "transformer"] | None = None
    max_length: int | None = Field(default=None, description="Tokens it reads of a sentence.")
    judged: Judged | None = None
    scores: Mapping[str, Mapping[str, float]] = Field(
        default_factory=dict[str, Mapping[str, float]],
        description="Row (start, round 1, ...) -> metric -> value.",
    )


def base_of(source: str) -> str:
    """A Hugging Face name as it is; of a file or folder its name alone, for cards travel."""
    return Path(source).name if Path(source).exists() else source


def model_card(facts: CardFacts) -> str:
    """README.md of a saved encoder: the same facts give the same bytes."""
    header = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-transformers", "feature-extraction", "sentemb"],
    }
    if facts.base == "minilm":
        header["license"] = "apache-2.0"
    lines = [f"{key}: {json.dumps(value)}" for key, value in header.items()]
    sections = [
        f"# {_one_line(facts.name)}",
        "A sentence encoder for the domain of one corpus, made by sentemb from its documents "
        f"{f'and {facts.labels:,} labelled pairs' if facts.labels else 'without labels'}.",
        _training(facts),
        _scores(facts),
        _loading(facts),
        INTENDED_USE.format(seen="" if facts.labels else "It has seen no labels.\n"),
        _licence(facts.base),
    ]
    return "\n".join(["---", *lines, "---", "", "\n\n".join(filter(None, sections)), ""])


LOADING = """## How to load

In the folder of this card, or with that folder's path in place of the dot:

```python
from sentence_transformers import SentenceTransformer

vectors = SentenceTransformer(".").encode(["a sentence"])
```"""

TOKEN_STATES = """The transformer alone, for the states of single tokens:

```python
from transformers import AutoModel  # of a T5: AutoModelForTextEncoding

model = AutoModel.from_pretrained(".")
```"""

STATES = {
    "transformer": TOKEN_STATES,
    "static": "It is static, a vector a token: there is no transformer in it.",
    None: f"If it is no static encoder: {TOKEN_STATES[0].lower()}{TOKEN_STATES[1:]}",
}
"""Kind of encoder -> what `transformers` can do with it."""

FROM_REGISTRY = """While it is the champion of its name, by that name and through the loader that \
runs no foreign
code; the second command prints the folder:

```
python -m flows encode documents.jsonl vectors.parquet --model models:/{name}@champion
python -m flows where models:/{name}@champion
```"""

SAFE = "Weights are safetensors; nothing here needs `trust_remote_code`."

CUT = (
    "It reads {length:,} tokens of a sentence, as in its training: `tokenizer.json` cuts the rest. "
)

WHOLE = "A document is the mean of its sentences' vectors."

INTENDED_USE = """## Intended use

Search, clustering and duplicate detection among sentences and documents like those it was trained
on. {seen}Check it on a task of your own before you rely on it, and expect it to carry whatever
leanings its corpus has. Not for decisions about people."""


def _loading(facts: CardFacts) -> str:
    """For sentence-transformers, for transformers, and from the registry, as far as it applies."""
    registry = FROM_REGISTRY.format(name=facts.registered) if facts.registered else ""
    cut = CUT.format(length=facts.max_length) if facts.max_length else ""
    parts = [LOADING, STATES[facts.kind], registry, SAFE, f"{cut}{WHOLE}"]
    return "\n\n".join(filter(None, parts))


def _training(facts: CardFacts) -> str:
    told = {
        "Start": facts.base,
        "Method": facts.method or "none: this is the encoder a run starts from",
        "Parent": facts.parent,
        "Corpus": facts.corpus,
        "Labelled pairs": f"{facts.labels:,}" if facts.labels else None,
    }
    items = [f"- {name}: {_one_line(value)}" for name, value in told.items() if value]
    return "\n".join(["## Training", "", *items])


def _scores(facts: CardFacts) -> str:
    """One row a round, one column a metric, in the order given, and what they were measured on."""
    if not facts.scores:
        return ""
    metrics = list(dict.fromkeys(metric for row in facts.scores.values() for metric in row))
    rows = [
        [label, *(f"{row[metric]:.4f}" if metric in row else "" for metric in metrics)]
        for label, row in facts.scores.items()
    ]
    table = [["", *metrics], ["---"] * (len(metrics) + 1), *rows]
    lines = ["## Scores", "", *("| " + " | ".join(row) + " |" for row in table)]
    return "\n".join([*lines, *(["", _measured(facts.judged)] if facts.judged else [])])


def _measured(judged: Judged) -> str:
    """The direction and the size of the task that R@k was measured on."""
    return (
        f"R@k, {judged.query} \N{RIGHTWARDS ARROW} {judged.candidate}: of the {judged.queries:,} "
        f"queries of the test split, on which nothing was decided, the share that find their own "
        f"{judged.candidate} among the first k of {judged.candidates:,} candidates."
    )


def _licence(base: str | None) -> str:
    sentence = LICENCES.get(base or "", "The licence of the encoder it started from applies.")
    return f"## Licence\n\n{sentence} The texts it learnt from keep theirs."


def _one_line(text: str) -> str:
    return " ".join(text.split())
