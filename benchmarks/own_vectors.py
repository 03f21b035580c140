"""SNCSE and IS-BERT by the vectors that they train, beside the one that is saved: RESULTS.md.

    python -m benchmarks.own_vectors minilm --write    # an hour of one thread

SNCSE trains the state at [MASK] in a prompt, IS-BERT the mean of what its convolutions make of the
tokens. A saved encoder has neither, prompt or convolutions: its vector is the mean of its tokens.
The trainings are those of `methods-small` on plain sentences.
"""

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast, get_args

import numpy as np
import torch
from jaxtyping import Float32, Int64

from benchmarks.main_job import RESULTS
from flows.environment import prepare
from flows.method_cells import block_of
from flows.method_table import STS, MethodTable, Start
from sentemb_core.config.experiments import Train
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.encoder.checkpoint import load_encoder
from sentemb_core.encoder.padding import padded
from sentemb_core.evaluation.sts import StsPairs, cosines, read_sts, similarities, spearman
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.method import Learner, Method, Reader
from sentemb_core.pairs.documents import Tokens
from sentemb_core.store.objects import Store
from sentemb_core.training.batches import corpus_sampler
from sentemb_core.training.loop import learner_of, train
from sentemb_core.views.batch import Draw
from tasks.artifact_files import artifact_path
from tasks.execution import without_prefect
from tasks.tables.markdown import across, markdown_table, write_between_marks

OWN = {"sncse": ("anchor", "at [MASK] in its prompt"), "is_bert": ("tokens", "by its convolutions")}
"""Method -> the view that its own vector reads, and how that is told."""

AT_ONCE = 256
"""Texts."""


class Judged:
    """Texts of a judge as a method's views read them (`Documents`): each a document of its own."""

    def __init__(self, texts: list[Tokens]) -> None:
        self.texts = texts
        self.offsets = np.arange(len(texts) + 1)
        self.document_of = self.text_hashes = self.original_of = np.arange(len(texts))
        self.held_out = np.zeros(len(texts), dtype=bool)
        self.lengths = self.uncut_lengths = np.array([len(text) for text in texts], np.int32)

    def tokens(self, sentences: Int64[np.ndarray, " rows"]) -> list[Tokens]:
        return [self.texts[sentence] for sentence in sentences]

    uncut_tokens = tokens


def own_vectors(
    learner: Learner, method: Method, view: str, texts: list[str]
) -> Float32[np.ndarray, "texts dim"]:
    """What the loss compares, of these texts and without dropout."""
    judged = Judged(learner.encoder.tokenise(texts))
    rows = judged.document_of
    draw = Draw(rows, rows, rows)
    tokens = method.views[view](judged, draw, np.random.default_rng(0)).tokens
    reader, device = cast(Reader, method.readers[view]), learner.encoder.device
    found: list[torch.Tensor] = []
    with torch.inference_mode():
        for first in range(0, len(tokens), AT_ONCE):
            part = tokens[first : first + AT_ONCE]
            ids, mask = padded(part, learner.encoder.pad_id)
            mask = None if mask is None else mask.to(device)
            pooled = reader(learner, ids.to(device), mask, False).pooled.cpu()
            if pooled.ndim == 3:  # of every token, with zeros behind a text
                pooled = pooled.sum(dim=1) / torch.tensor([len(row) for row in part])[:, None]
            found.append(pooled.float())
    return torch.cat(found).numpy()


def correlations(
    learner: Learner, method: Method, view: str, pairs: StsPairs
) -> tuple[float, float]:
    """Spearman 'all' of the mean of the tokens, and of the method's own vectors."""
    for module in learner.modules:
        module.eval()
    own = own_vectors(learner, method, view, [*pairs.first, *pairs.second])
    both = similarities(learner.encoder, pairs), cosines(own[: len(pairs)], own[len(pairs) :])
    mean, trained = (spearman(similarity, pairs.gold) for similarity in both)
    return mean, trained


def scores(data: str, start: Start, seed: int) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Row -> Spearman 'all' on each set, before a training and after it."""
    judges = [read_sts(*(Path(data) / file for file in task.files)) for task in STS.values()]
    for row, (view, told) in OWN.items():
        table = MethodTable(data=data, corpora=("plain_sentences",), methods=(row,))
        config = table.training_of(Train(method=table.method_of(row)), start, seed)
        block = block_of(table, "plain_sentences", start, seed)
        encoder = load_encoder(artifact_path(block.start))
        method = method_for(config.method, encoder)
        learner = learner_of(method, encoder, seed)
        before = [correlations(learner, method, view, pairs) for pairs in judges]
        sampler = corpus_sampler(config, method, TokenCorpus.open(artifact_path(block.sentences)))
        with tempfile.TemporaryDirectory() as work:
            train(learner, method, sampler, config, Path(work))
        after = [correlations(learner, method, view, pairs) for pairs in judges]
        for when, found in ((f"start of {row}", before), (row, after)):
            mean, own = zip(*found, strict=True)
            yield f"{when}, mean of its tokens", mean
            yield f"{when}, {told}", own


def table(data: str, start: Start, seeds: list[int]) -> str:
    found: dict[str, list[tuple[float, ...]]] = {}
    with without_prefect(Store.default()):
        for seed in seeds:
            for row, values in scores(data, start, seed):
                print(seed, row, *(f"{value:.4f}" for value in values), flush=True)
                found.setdefault(row, []).append(values)
    rows = [
        [row, *(across(of) for of in zip(*values, strict=True))] for row, values in found.items()
    ]
    return markdown_table(["vector", *STS], rows, numbers=(1, 2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("start", choices=[one for one in get_args(Start) if one != "static"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44])
    parser.add_argument("--write", action="store_true", help="between the marks of RESULTS.md")
    asked = parser.parse_args()
    prepare()
    told = table(os.environ["SENTEMB_DATA"], asked.start, asked.seeds)
    if asked.write:
        write_between_marks(RESULTS, f"own-vectors {asked.start}", told)
    print(told)
