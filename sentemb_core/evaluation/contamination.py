"""Contamination: how much evaluation text also occurs in a training corpus.

Whole texts and runs of eight words are compared, as lowercased words. The corpus is read once and
not kept: memory grows with the evaluation texts only. Hashes have 64 bits, so one false match among
10^10 runs of the corpus and 10^6 of the evaluation has a probability of one in a thousand.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt64

from sentemb_core.config.suite import ProbeTask, RetrievalTask, StsTask, Task
from sentemb_core.evaluation.collection_files import beir_judgements, beir_texts, read_collection
from sentemb_core.evaluation.sts import read_sts
from sentemb_core.evaluation.transfer_files import read_probe
from sentemb_core.tokenize import words
from sentemb_core.types import Value

RUN = 8
"""Words in a run."""

NO_HASHES = np.zeros(0, np.uint64)

FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""Factor of the polynomial hash of a run; odd, so that no bit is lost."""


class Overlap(Value):
    """How much of one set of texts occurs in a corpus.

    exact: Share of the different texts that are a sentence or a whole document of the corpus.
    runs: Share of the different runs of eight words that occur in a document of the corpus; None if
        all texts are shorter.
    """

    texts: int
    exact: float
    runs: float | None


class _Wanted:
    """Hashes of all sets, and whether each occurs in the corpus."""

    def __init__(self, sets: Iterable[UInt64[np.ndarray, " _"]]) -> None:
        self.hashes = np.unique(np.concatenate([NO_HASHES, *sets]))
        self.in_corpus = np.zeros(len(self.hashes), bool)

    def mark(self, found: UInt64[np.ndarray, " found"]) -> None:
        places = self._places(found)
        self.in_corpus[places[places >= 0]] = True

    def share(self, own: UInt64[np.ndarray, " own"]) -> float | None:
        """Return the share of one set's hashes that occur in the corpus; None for an empty set."""
        return float(self.in_corpus[self._places(own)].mean()) if len(own) else None

    def _places(self, found: UInt64[np.ndarray, " found"]) -> Int64[np.ndarray, " found"]:
        """Return the place of each hash among the wanted hashes; -1 if it is not wanted."""
        if not len(self.hashes):
            return np.full(len(found), -1)
        places = np.minimum(np.searchsorted(self.hashes, found), len(self.hashes) - 1)
        return np.where(self.hashes[places] == found, places, -1)


def overlaps(
    corpus: Iterable[Sequence[str]], evaluation: Mapping[str, Sequence[str]]
) -> dict[str, Overlap]:
    """Return the overlap of every set of texts with the sentences of the corpus's documents.

    `evaluation` has texts by the name of their set; texts without a word are left out.
    """
    hashed = {
        name: [hashes for text in dict.fromkeys(texts) if len(hashes := word_hashes(text))]
        for name, texts in evaluation.items()
    }
    texts = {
        name: np.unique(np.array([text_hash(one) for one in some], np.uint64))
        for name, some in hashed.items()
    }
    runs = {
        name: np.unique(np.concatenate([NO_HASHES, *map(run_hashes, some)]))
        for name, some in hashed.items()
    }
    wanted_texts, wanted_runs = _Wanted(texts.values()), _Wanted(runs.values())
    for sentences in corpus:
        by_sentence = [word_hashes(sentence) for sentence in sentences]
        document = np.concatenate([NO_HASHES, *by_sentence])
        whole = [text_hash(text) for text in (*by_sentence, document)]
        wanted_texts.mark(np.array(whole, np.uint64))
        wanted_runs.mark(run_hashes(document))
    return {
        name: Overlap(
            texts=len(texts[name]),
            exact=wanted_texts.share(texts[name]) or 0.0,
            runs=wanted_runs.share(runs[name]),
        )
        for name in evaluation
    }


def word_hashes(text: str) -> UInt64[np.ndarray, " words"]:
    """Return a number for each word of a text, in order."""
    return np.fromiter(map(_word_hash, words(text)), np.uint64)


@lru_cache(maxsize=1 << 18)
def _word_hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


def text_hash(hashed: UInt64[np.ndarray, " words"]) -> int:
    """Return one number for a sequence of words."""
    return int.from_bytes(hashlib.blake2b(hashed.tobytes(), digest_size=8).digest(), "little")


def run_hashes(hashed: UInt64[np.ndarray, " words"]) -> UInt64[np.ndarray, " runs"]:
    """Return one number for every eight consecutive words."""
    count = max(0, len(hashed) - RUN + 1)
    hashes = np.zeros(count, np.uint64)
    for place in range(RUN):
        hashes = hashes * FACTOR + hashed[place : place + count]
    return hashes


def task_texts(task: Task, folder: Path, *, beir_documents: bool = True) -> dict[str, list[str]]:
    """Return the texts of a task of the suite, queries and documents as two sets.

    A BEIR folder may have millions of documents. Without `beir_documents` they are not read, and
    only judged queries are returned.

    Raises:
        UnreadableSourceError, BadDataError: from the reader of the task.
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
    judged = {judgement.query for judgement in beir_judgements(folder, Path(task.files[-1]).stem)}
    return [query.text for query in beir_texts(folder, "queries.jsonl") if query.key in judged]
