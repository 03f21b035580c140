"""Scores of an encoder or a retriever on a corpus in a folder: for `evaluate`."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.tokenise import write_tokens
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import Kind, ValidationPool, write_validation_pool
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.truncation import Cut, log_once
from sentemb_core.evaluation.bm25_scores import bm25_scorers, pool_texts
from sentemb_core.evaluation.bootstrap import Difference, paired_difference
from sentemb_core.evaluation.metrics import recall
from sentemb_core.evaluation.pool_size import few_candidates
from sentemb_core.evaluation.random_encoder import random_scorers
from sentemb_core.evaluation.validation_scores import PoolRanks, RetrievalScores, Scorers, rank_pool
from sentemb_core.evaluation.vectors import encoder_scorers
from sentemb_core.progress import log_progress
from sentemb_core.retriever.pool import Query, pool_pairs, pool_scorers
from sentemb_core.retriever.retriever import Retriever

log = logging.getLogger(__name__)

OWN, WORDS, CHANCE = "this encoder", "BM25", "random encoder"

RETRIEVER, ALONE = "this retriever", "vectors alone"


@dataclass(frozen=True)
class FolderScores:
    """Scores of an encoder or a retriever, and of its baselines.

    Attributes:
        kind: Whether documents look for counterparts, or halves for halves.
        systems: Scores by system, its own first.
        lead: Its own R@5 less that of BM25, with its interval over the documents.
        reverse_lead: The same where counterparts look for documents; of a retriever only.
    """

    kind: Kind
    systems: dict[str, RetrievalScores]
    lead: Difference
    reverse_lead: Difference | None = None

    @property
    def own(self) -> str:
        """The name of the system that was asked for."""
        return next(iter(self.systems))


def scores_of_folder(encoder: Encoder, documents: Path, config: ValidationConfig) -> FolderScores:
    """Return the scores with every document of the pool as a query; splits are ignored.

    `documents` is a folder that `write_documents` wrote.
    """
    table = documents / "documents.parquet"
    with TemporaryDirectory(prefix="sentemb-") as name:
        folder = Path(name)
        pool = _pool_of_all(table, config, folder)
        (folder / "tokenizer.json").write_text(encoder.tokenizer.to_str(), encoding="utf-8")
        write_tokens(
            table,
            folder,
            folder / "tokenizer.json",
            encoder.max_length,
            folder,
            add_special_tokens=encoder.add_special_tokens,
            unknown=encoder.unknown_id,
            prompt=encoder.prompts.before("sentence"),
        )
        corpus = TokenCorpus.open(folder)
        systems: dict[str, Scorers] = {
            OWN: encoder_scorers(encoder, corpus, pool),
            WORDS: bm25_scorers(*pool_texts(documents, pool)),
            CHANCE: random_scorers(corpus, pool, seed=0),
        }
        ranks = {label: rank_pool(pool, scorers, "all") for label, scorers in systems.items()}
        return _scores(pool.kind, ranks)


def retriever_scores_of_folder(
    retriever: Retriever, documents: Path, config: ValidationConfig
) -> FolderScores:
    """Return the scores of `retriever_ranks`."""
    kind, ranks = retriever_ranks(retriever, documents, config)
    hits = (recall(ranks[label].counterpart_to_document, 5) for label in (RETRIEVER, WORDS))
    return replace(_scores(kind, ranks), reverse_lead=paired_difference(*hits, seed=0))


def retriever_ranks(
    retriever: Retriever, documents: Path, config: ValidationConfig
) -> tuple[Kind, dict[str, PoolRanks]]:
    """Return the ranks of a retriever, of BM25, and of the retriever's vectors alone.

    Queries, candidates and splits as in `scores_of_folder`.
    """
    with TemporaryDirectory(prefix="sentemb-") as name:
        pool = _pool_of_all(documents / "documents.parquet", config, Path(name))
    kind: Query = "counterpart" if pool.kind == "counterpart" else "first half"
    pair = pool_pairs(documents, pool)[kind]
    texts = retriever.read_sentences(pair.texts, documents=False)
    update = log_progress("read documents of the pool", sum(map(len, pair.documents)))
    cut = Cut()
    read = retriever.read_documents(pair.documents, update, cut)
    if cut.texts:
        log_once(cut.line("texts of the pool"))
    spec, alone = retriever.spec, retriever.spec.vectors_alone
    systems = {
        RETRIEVER: pool_scorers(spec, texts, read, kind),
        WORDS: bm25_scorers(*pool_texts(documents, pool)),
    }
    if alone and alone != spec:
        systems[ALONE] = pool_scorers(alone, texts, read, kind)
    ranks = {label: rank_pool(pool, scorers, "all") for label, scorers in systems.items()}
    return pool.kind, ranks


def _pool_of_all(table: Path, config: ValidationConfig, folder: Path) -> ValidationPool:
    """Draw a pool into `folder`; every document is a query, of one split with the name all."""
    write_validation_pool(table, config, folder)
    if doubt := few_candidates(folder):
        log.warning("%s", doubt)
    drawn = ValidationPool.open(folder)
    return replace(drawn, query_split=np.full(len(drawn.query_split), "all"))


def _scores(kind: Kind, ranks: Mapping[str, PoolRanks]) -> FolderScores:
    """Return the scores of all systems, and the lead of the first over BM25."""
    own = next(iter(ranks))
    hits = (recall(ranks[label].document_to_counterpart, 5) for label in (own, WORDS))
    return FolderScores(
        kind=kind,
        systems={label: pool_ranks.scores() for label, pool_ranks in ranks.items()},
        lead=paired_difference(*hits, seed=0),
    )
