"""The Python interface: `import sentemb_core`, without Prefect and MLflow."""

from sentemb_core.corpus.given import read
from sentemb_core.document_vectors import Hit
from sentemb_core.evaluation.report_card import Evaluation, evaluate
from sentemb_core.retriever.index import Index
from sentemb_core.retriever.retriever import Retriever
from sentemb_core.retriever.start import start_retriever as load

__all__ = ["Evaluation", "Hit", "Index", "Retriever", "evaluate", "load", "read"]
