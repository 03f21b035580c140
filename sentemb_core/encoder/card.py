"""The model card: what an encoder was trained on, its scores, and how to load it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from sentemb_core.types import Value

FROM_NOTHING = "Its training started from random weights: no other licence applies."

LICENCES = {
    "static": FROM_NOTHING,
    "transformer": FROM_NOTHING,
    "minilm": "Its base, all-MiniLM-L6-v2, is licensed under Apache-2.0.",
}
"""Start encoder -> the sentence about its licence."""


class RetrievalTask(Value):
    """The task behind the scores of a card."""

    query: str = Field(description="The queries: `document` or `first half`.")
    candidate: str = Field(description="The candidates: `counterpart` or `second half`.")
    queries: int
    candidates: int


class CardFacts(Value):
    """The content of a card; unknown values are left out."""

    name: str = "sentemb encoder"
    registered: str | None = Field(
        default=None, description="Its name in the registry, once it is registered."
    )
    base: str | None = Field(default=None, description="The start encoder of the first training.")
    method: str | None = Field(default=None, description="The training method; None: not trained.")
    parent: str | None = Field(
        default=None, description="Artifact of the encoder before this training."
    )
    corpus: str | None = Field(default=None, description="Size and digest of the corpus.")
    labels: int = Field(default=0, description="Labelled pairs in its training.")
    kind: Literal["static", "transformer"] | None = None
    max_length: int | None = Field(default=None, description="Tokens that it reads of a sentence.")
    task: RetrievalTask | None = None
    scores: Mapping[str, Mapping[str, float]] = Field(
        default_factory=dict[str, Mapping[str, float]],
        description="Row (start, round 1, ...) -> metric -> value.",
    )


def base_of(source: str) -> str:
    """A Hugging Face name unchanged; the bare name of a file or a folder, without its path."""
    return Path(source).name if Path(source).exists() else source


def model_card(facts: CardFacts) -> str:
    """Return README.md of a saved encoder; equal facts give equal bytes."""
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
        INTENDED_USE.format(seen="" if facts.labels else "It was trained without labels.\n"),
        _licence(facts.base),
    ]
    return "\n".join(["---", *lines, "---", "", "\n\n".join(filter(None, sections)), ""])


LOADING = """## How to load

In the folder of this card, or with the path of that folder instead of the dot:

```python
from sentence_transformers import SentenceTransformer

vectors = SentenceTransformer(".").encode(["a sentence"])
```"""

TOKEN_STATES = """The transformer without its pooling, for the states of tokens:

```python
from transformers import AutoModel  # of a T5: AutoModelForTextEncoding

model = AutoModel.from_pretrained(".")
```"""

STATES = {
    "transformer": TOKEN_STATES,
    "static": "It is a static table with one vector per token, without a transformer.",
    None: f"If it is not a static table: {TOKEN_STATES[0].lower()}{TOKEN_STATES[1:]}",
}
"""Kind of encoder -> how `transformers` loads it."""

FROM_REGISTRY = """By its registered name, while it is the champion. No code of a model runs. The
second command prints the folder:

```
python -m flows encode documents.jsonl vectors.parquet --model models:/{name}@champion
python -m flows where models:/{name}@champion
```"""

SAFE = "Weights are safetensors, and nothing needs `trust_remote_code`."

CUT = "It reads {length:,} tokens of a sentence, as in training; `tokenizer.json` cuts the rest. "

WHOLE = "A document is the mean of its sentences' vectors."

INTENDED_USE = """## Intended use

Search, clustering and duplicate detection among sentences and documents like those of its training
corpus. {seen}Evaluate it on a task of your own before you rely on it. It has the biases of its
corpus. Do not use it for decisions about people."""


def _loading(facts: CardFacts) -> str:
    """How to load it with sentence-transformers, with transformers, and from the registry."""
    registry = FROM_REGISTRY.format(name=facts.registered) if facts.registered else ""
    cut = CUT.format(length=facts.max_length) if facts.max_length else ""
    parts = [LOADING, STATES[facts.kind], registry, SAFE, f"{cut}{WHOLE}"]
    return "\n\n".join(filter(None, parts))


def _training(facts: CardFacts) -> str:
    values = {
        "Start": facts.base,
        "Method": facts.method or "none: this is the start encoder of a run",
        "Parent": facts.parent,
        "Corpus": facts.corpus,
        "Labelled pairs": f"{facts.labels:,}" if facts.labels else None,
    }
    items = [f"- {name}: {_one_line(value)}" for name, value in values.items() if value]
    return "\n".join(["## Training", "", *items])


def _scores(facts: CardFacts) -> str:
    """One row per round and one column per metric, with the task below."""
    if not facts.scores:
        return ""
    metrics = list(dict.fromkeys(metric for row in facts.scores.values() for metric in row))
    rows = [
        [label, *(f"{row[metric]:.4f}" if metric in row else "" for metric in metrics)]
        for label, row in facts.scores.items()
    ]
    table = [["", *metrics], ["---"] * (len(metrics) + 1), *rows]
    lines = ["## Scores", "", *("| " + " | ".join(row) + " |" for row in table)]
    return "\n".join([*lines, *(["", _measured(facts.task)] if facts.task else [])])


def _measured(task: RetrievalTask) -> str:
    """The direction and the size of the task behind R@k."""
    return (
        f"R@k, {task.query} \N{RIGHTWARDS ARROW} {task.candidate}: of the {task.queries:,} "
        f"queries of the test split, which decided nothing, the share that find their own "
        f"{task.candidate} among the first k of {task.candidates:,} candidates."
    )


def _licence(base: str | None) -> str:
    sentence = LICENCES.get(base or "", "The licence of its start encoder applies.")
    return f"## Licence\n\n{sentence} Its training texts keep their own."


def _one_line(text: str) -> str:
    return " ".join(text.split())
