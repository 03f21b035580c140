"""The texts that a task of the suite shows an encoder: what a training corpus should not have."""

from pathlib import Path

from sentemb_core.config.suite import ProbeTask, RetrievalTask, StsTask, Task
from sentemb_core.evaluation.beir import beir_judgements, beir_texts
from sentemb_core.evaluation.sts import read_sts
from sentemb_core.evaluation.suite_collections import read_collection
from sentemb_core.evaluation.suite_probes import read_probe


def task_texts(task: Task, folder: Path, *, beir_documents: bool = True) -> dict[str, list[str]]:
    """Texts by what they are; queries and documents apart, for only queries need be unseen.

    Args:
        task: One of the suite, or a BEIR folder's.
        folder: Of its files.
        beir_documents: Those of a BEIR folder, too, which may be millions; else they stay unread.

    Raises:
        UnreadableSourceError, BadDataError: as the reader of the task.
    """
    match task:
        case StsTask():
            pairs = read_sts(*(folder / file for file in task.files))
            return {task.name: [*pairs.first, *pairs.second]}
        case RetrievalTask(source="beir") if not beir_documents:
            return {f"{task.name} queries": _judged_queries(task, folder)}
        case RetrievalTask():
            collection = read_collection(task, folder)
            return {
                f"{task.name} queries": collection.queries,
                f"{task.name} documents": collection.documents,
            }
        case ProbeTask():
            probe = read_probe(task, folder)
            return {task.name: [*probe.first, *(probe.second or ())]}


def _judged_queries(task: RetrievalTask, folder: Path) -> list[str]:
    judged = {one.query for one in beir_judgements(folder, Path(task.files[-1]).stem)}
    return [query.text for query in beir_texts(folder, "queries.jsonl") if query.key in judged]
