"""What the base encoder of the papers' experiments knows of language: RESULTS.md, from a run.

    python -m benchmarks.condenser --write

Masked tokens of the first sentences of STS-B's dev pairs, which the Condenser stage never read,
told by the encoder's last layer and by the Condenser's head, beside the token shares of the corpus
it learnt from.
"""

import argparse
import os
from pathlib import Path

import numpy as np

from flows.environment import prepare
from flows.experiments.index import Reproduction
from flows.experiments.learning import base_of
from flows.steps import documents_of
from sentemb_core.configs import CorpusConfig
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.encoder.checkpoint import load_encoder
from sentemb_core.evaluation.masked_language import MaskedLanguage, masked_language
from sentemb_core.heads.stored_head import head_in, head_shape
from sentemb_core.store.objects import Store
from sentemb_core.types import Json
from tasks.corpus import tokenise_sentences
from tasks.storing import opened
from tasks.tables.cells import write_between_marks
from tasks.walking import without_prefect

UNSEEN: Json = {"text_column": "sentence1", "splitter": "none"}
RESULTS = Path(__file__).parent.parent / "RESULTS.md"


def losses(data: str) -> MaskedLanguage:
    """Of the base of the preset `small`, which is trained first where it is not cached."""
    asked = Reproduction(experiment="s001.t4", data=data)
    with without_prefect(Store.default()):
        base = base_of(asked)
        documents = documents_of(asked.corpus(asked.budget.base.corpus))
        corpus = TokenCorpus.open(opened(tokenise_sentences(documents, None, base.encoder)))
        other = documents_of(CorpusConfig(source=f"{data}/stsb_dev.parquet", **UNSEEN))
        unseen = TokenCorpus.open(opened(tokenise_sentences(other, None, base.encoder)))
    encoder = load_encoder(opened(base.encoder))
    folder = opened(base.encoder)
    head, shape = head_in(folder), head_shape(folder)
    assert head, "a Condenser stage leaves its head"
    assert shape, "and tells of it"
    read = corpus.tokens(np.arange(len(corpus)))
    counts = np.bincount(np.concatenate(read), minlength=encoder.tokenizer.get_vocab_size())
    return masked_language(encoder, head, shape.below, unseen, counts)


def table(found: MaskedLanguage) -> str:
    """One line for each that tells."""
    rows = (
        ("token shares of the corpus (unigram)", found.unigram),
        ("Condenser's head", found.condensed),
        ("encoder's last layer", found.late),
    )
    lines = "\n".join(f"| {name} | {value:.2f} |" for name, value in rows)
    return f"| told by | nats a token ({found.tokens:,} masked tokens) |\n|---|---:|\n{lines}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="between the marks of RESULTS.md")
    asked_to_write = parser.parse_args().write
    prepare()
    told = table(losses(os.environ["SENTEMB_DATA"]))
    if asked_to_write:
        write_between_marks(RESULTS, "condenser", told)
    print(told)
