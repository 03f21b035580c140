"""A retrieval task of the suite as its collection."""

from dataclasses import replace
from pathlib import Path

from sentemb_core.evaluation.collections import (
    Collection,
    read_beir,
    read_products,
    read_trec_style,
    sts_retrieval,
)
from sentemb_core.suite import RetrievalTask


def read_collection(task: RetrievalTask, folder: Path) -> Collection:
    """The collection of these files under the task's name.

    Raises:
        BadDataError: as the reader of the collection.
    """
    return replace(_collection(task, folder), name=task.name)


def _collection(task: RetrievalTask, folder: Path) -> Collection:
    match task.source:
        case "cranfield" | "cacm" | "npl":
            return read_trec_style(folder, task.source)
        case "wdc_clusters" | "amazon_google" | "abt_buy":
            return read_products(folder, task.source)
        case "stsb":
            return sts_retrieval(folder / task.files[0])
        case "beir":
            return read_beir(folder, Path(task.files[-1]).stem)
