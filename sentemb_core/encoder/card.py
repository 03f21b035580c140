"""The model card: what an encoder was trained on, its scores, and how to load it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from jinja2 import Environment, StrictUndefined
from pydantic import Field

from sentemb_core.types import Value


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
    text_length: int | None = Field(default=None, description="The same of a whole text.")
    parts: list[str] = Field(default=[], description="Parts of a retriever, a line each.")
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
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    environment.filters["one_line"] = _one_line
    metrics = list(dict.fromkeys(metric for row in facts.scores.values() for metric in row))
    return environment.from_string(CARD).render(facts=facts, metrics=metrics)


def _one_line(text: str) -> str:
    return " ".join(text.split())


CARD = """\
---
library_name: "sentence-transformers"
pipeline_tag: "sentence-similarity"
tags: ["sentence-transformers", "feature-extraction", "sentemb"]
{% if facts.base == "minilm" %}
license: "apache-2.0"
{% endif %}
---

# {{ facts.name | one_line }}

A {{ "retriever" if facts.parts else "sentence encoder" }} for the domain of one corpus, made by \
sentemb from its documents \
{% if facts.labels %}and {{ "{:,}".format(facts.labels) }} labelled pairs\
{% else %}without labels{% endif %}.

## Training

{% for name, value in {
    "Start": facts.base,
    "Method": facts.method or "none: this is the start encoder of a run",
    "Parent": facts.parent,
    "Corpus": facts.corpus,
    "Labelled pairs": "{:,}".format(facts.labels) if facts.labels else None,
}.items() if value %}
- {{ name }}: {{ value | one_line }}
{% endfor %}

{% if facts.parts %}
## Parts

`retriever.json` states the parts and their weights:

{% for part in facts.parts %}
- {{ part | one_line }}
{% endfor %}

{% endif %}
{% if facts.scores %}
## Scores

|  | {{ metrics | join(" | ") }} |
| --- |{{ " --- |" * (metrics | length) }}
{% for label, row in facts.scores.items() %}
| {{ label }} |{% for metric in metrics %}\
 {{ "%.4f" % row[metric] if metric in row else "" }} |{% endfor +%}
{% endfor %}
{% if facts.task %}

R@k, {{ facts.task.query }} \N{RIGHTWARDS ARROW} {{ facts.task.candidate }}: of the \
{{ "{:,}".format(facts.task.queries) }} queries of the test split, which decided nothing, the \
share that find their own {{ facts.task.candidate }} among the first k of \
{{ "{:,}".format(facts.task.candidates) }} candidates.
{% endif %}

{% endif %}
## How to load

{% if facts.parts %}
The whole retriever, in the folder of this card:

```python
import sentemb_core

hits = sentemb_core.load(".").search("a query", ["A document.", "Another one."])
```

{% if facts.kind %}
Its encoder alone:

{% endif %}
{% endif %}
{% if facts.kind or not facts.parts %}
In the folder of this card, or with the path of that folder instead of the dot:

```python
from sentence_transformers import SentenceTransformer

vectors = SentenceTransformer(".").encode(["a sentence"])
```

{% endif %}
{% if facts.parts and not facts.kind %}
It ranks by words and has no encoder.
{% elif facts.kind == "static" %}
It is a static table with one vector per token, without a transformer.
{% else %}
{{ "The" if facts.kind else "If it is not a static table: the" }} \
transformer without its pooling, for the states of tokens:

```python
from transformers import AutoModel  # of a T5: AutoModelForTextEncoding

model = AutoModel.from_pretrained(".")
```
{% endif %}

{% if facts.registered %}
By its registered name, while it is the champion. No code of a model runs. The
second command prints the folder:

```
python -m flows encode documents.jsonl vectors.parquet --model \
models:/{{ facts.registered }}@champion
python -m flows where models:/{{ facts.registered }}@champion
```

{% endif %}
Weights are safetensors, and nothing needs `trust_remote_code`.

{% if facts.max_length %}
{% if (facts.text_length or facts.max_length) != facts.max_length %}
It reads {{ "{:,}".format(facts.max_length) }} tokens of a sentence, as in training, and \
{{ "{:,}".format(facts.text_length) }} of a whole text such as a query; `tokenizer.json` cuts \
whole texts. \
{% else %}
It reads {{ "{:,}".format(facts.max_length) }} tokens of a sentence, as in training; \
`tokenizer.json` cuts the rest. \
{% endif %}
{% endif %}
A document is the mean of its sentences' vectors.

## Intended use

Search, clustering and duplicate detection among sentences and documents like those of its training
corpus. {% if not facts.labels %}It was trained without labels.
{% endif %}
Evaluate it on a task of your own before you rely on it. It has the biases of its
corpus. Do not use it for decisions about people.

## Licence

{% if facts.base == "minilm" %}
Its base, all-MiniLM-L6-v2, is licensed under Apache-2.0. \
{% elif facts.base in ("static", "transformer") %}
Its training started from random weights: no other licence applies. \
{% else %}
The licence of its start encoder applies. \
{% endif %}
Its training texts keep their own.
"""
