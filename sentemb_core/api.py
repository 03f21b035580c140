"""The Python interface: `import sentemb_core`, without Prefect and MLflow."""

import os

from sentemb_core.corpus.given import read
from sentemb_core.document_vectors import Hit
from sentemb_core.evaluation.report_card import Evaluation, evaluate
from sentemb_core.retriever.index import Index
from sentemb_core.retriever.retriever import Retriever
from sentemb_core.retriever.start import start_retriever

__all__ = ["Evaluation", "Hit", "Index", "Retriever", "evaluate", "load", "read"]


def load(name: str | os.PathLike[str]) -> Retriever:
    """Return the retriever of a folder, `minilm`, a Hugging Face name, or a file of word vectors.

    An encoder that is no retriever is one of its vectors alone. A Hugging Face name is downloaded
    unless HF_HUB_OFFLINE is 1.

    Raises:
        UsageError: the name of a registered model, with the way to its folder.
        MissingEncoderError: it is not on this machine.
        BadDataError, UnsafeModelError: it is damaged, or holds pickles or code.
    """
    return start_retriever(os.fspath(name))
