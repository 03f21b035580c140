"""The model card: what an encoder learnt from, how well it does, how to load it."""

import json
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

FROM_NOTHING = "Its weights began as random numbers: no licence of others applies."

LICENCES = {
    "static": FROM_NOTHING,
    "transformer": FROM_NOTHING,
    "minilm": "Its base, all-MiniLM-L6-v2, is licensed under Apache-2.0.",
}
"""Base -> the sentence about its licence."""


class CardFacts(BaseModel):
    """What a card tells; what is not known is left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "sentemb encoder"
    base: str | None = Field(
        default=None, description="The encoder the first training started from."
    )
    method: str | None = Field(default=None, description="How it was trained; none: as it started.")
    parent: str | None = Field(
        default=None, description="Artifact of the encoder before this training."
    )
    corpus: str | None = Field(default=None, description="Artifact of the sentences, by digest.")
    labelled: bool = Field(default=False, description="Labelled pairs taught it, too.")
    scores: Mapping[str, Mapping[str, float]] = Field(
        default_factory=dict[str, Mapping[str, float]],
        description="Row (start, round 1, ...) -> metric -> value.",
    )


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
        "A sentence encoder for the domain of one corpus, made by sentemb "
        f"{'from its documents and labelled pairs' if facts.labelled else 'without labels'}.",
        _training(facts),
        _scores(facts.scores),
        LOADING,
        INTENDED_USE.format(seen="" if facts.labelled else "It has seen no labels. "),
        _licence(facts.base),
    ]
    return "\n".join(["---", *lines, "---", "", "\n\n".join(filter(None, sections)), ""])


LOADING = """## How to load

```python
from sentence_transformers import SentenceTransformer
vectors = SentenceTransformer("PATH").encode(["a sentence"])

from transformers import AutoModel  # token states; not for a static encoder
states = AutoModel.from_pretrained("PATH")
```

From the registry, through the loader that runs no foreign code:

```
python -m flows encode documents.jsonl vectors.parquet --model models:/NAME@champion
```

Weights are safetensors; nothing here needs `trust_remote_code`.

It reads a sentence as in its training: `tokenizer.json` cuts what is longer (32 tokens unless the
run was told another `encoder.max_length`). A document is the mean of its sentences' vectors."""

INTENDED_USE = """## Intended use

Search, clustering and duplicate detection among sentences and documents like those it was trained
on. {seen}Check it on a task of your own before you rely on it, and expect it to carry whatever
leanings its corpus has. Not for decisions about people."""


def _training(facts: CardFacts) -> str:
    told = {
        "Start": facts.base,
        "Method": facts.method or "none: this is the encoder a run starts from",
        "Parent": facts.parent,
        "Corpus": facts.corpus,
    }
    items = [f"- {name}: {_one_line(value)}" for name, value in told.items() if value]
    return "\n".join(["## Training", "", *items])


def _scores(scores: Mapping[str, Mapping[str, float]]) -> str:
    """One row a round, one column a metric, in the order given."""
    if not scores:
        return ""
    metrics = list(dict.fromkeys(metric for row in scores.values() for metric in row))
    rows = [
        [label, *(f"{row[metric]:.4f}" if metric in row else "" for metric in metrics)]
        for label, row in scores.items()
    ]
    table = [["", *metrics], ["---"] * (len(metrics) + 1), *rows]
    return "\n".join(["## Scores", "", *("| " + " | ".join(row) + " |" for row in table)])


def _licence(base: str | None) -> str:
    sentence = LICENCES.get(base or "", "The licence of the encoder it started from applies.")
    return f"## Licence\n\n{sentence} The texts it learnt from keep theirs."


def _one_line(text: str) -> str:
    return " ".join(text.split())
