"""A retrieval task of the suite as its collection."""

from dataclasses import replace
from pathlib import Path

from sentemb_core.config.suite import RetrievalTask
from sentemb_core.evaluation.collections import (
    Collection,
    product_clusters,
    product_pairs,
    read_beir,
    read_trec_style,
    sts_retrieval,
)


def read_collection(task: RetrievalTask, folder: Path) -> Collection:
    """The collection of these files under the task's name.

    Raises:
        BadDataError: as the reader of the collection.
    """
    return replace(_collection(task, folder), name=task.name)


def _collection(task: RetrievalTask, folder: Path) -> Collection:
    files = [folder / file for file in task.files]
    match task.source:
        case "cranfield" | "cacm" | "npl":
            return read_trec_style(*files)
        case "wdc_clusters":
            return product_clusters(*files)
        case "amazon_google" | "abt_buy":
            return product_pairs(*files)
        case "stsb":
            return sts_retrieval(*files)
        case "beir":
            return read_beir(folder, files[-1].stem)
