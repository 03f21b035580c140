"""What the base encoder of the papers' experiments knows of language: RESULTS.md, from a run.

    python -m benchmarks.condenser --write

Masked tokens of the first sentences of STS-B's dev pairs, which the Condenser stage never read,
told by the encoder's last layer and by the Condenser's head, beside the token shares of the corpus
it learnt from.
"""

import argparse
import os

from benchmarks.main_job import RESULTS
from flows.environment import prepare
from flows.experiments.index import Reproduction
from flows.experiments.learning import base_of
from flows.method_table import of_stsb
from flows.steps import documents_of
from sentemb_core.evaluation.masked_language import MaskedLanguage
from sentemb_core.store.objects import Store
from tasks.corpus import tokenise_sentences
from tasks.execution import without_prefect
from tasks.tables.markdown import markdown_table, write_between_marks
from tasks.validate import language_of, measure_language


def losses(data: str) -> MaskedLanguage:
    """Of the base of the preset `small`, which is trained first where it is not cached."""
    asked = Reproduction(experiment="infocse.t4", data=data)
    with without_prefect(Store.default()):
        base = base_of(asked)
        documents = documents_of(asked.corpus(asked.budget.base.corpus))
        other = documents_of(of_stsb(data))
        read, unseen = (tokenise_sentences(one, None, base.encoder) for one in (documents, other))
        return language_of(measure_language(base.encoder, read, unseen))


def table(found: MaskedLanguage) -> str:
    """One line for each that tells."""
    rows = (
        ("token shares of the corpus (unigram)", found.unigram),
        ("Condenser's head", found.condensed),
        ("encoder's last layer", found.late),
    )
    head = ["told by", f"nats a token ({found.tokens:,} masked tokens)"]
    return markdown_table(head, [(name, f"{value:.2f}") for name, value in rows], numbers=(1,))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="between the marks of RESULTS.md")
    asked_to_write = parser.parse_args().write
    prepare()
    told = table(losses(os.environ["SENTEMB_DATA"]))
    if asked_to_write:
        write_between_marks(RESULTS, "condenser", told)
    print(told)
