"""Scores of an encoder on a corpus in a folder, outside a run: for `sentemb evaluate`."""

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.tokenise import write_tokens
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import Kind, ValidationPool, write_validation_pool
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.evaluation.bm25_scores import bm25_scorers, pool_texts
from sentemb_core.evaluation.bootstrap import Difference, paired_difference
from sentemb_core.evaluation.metrics import recall
from sentemb_core.evaluation.random_encoder import random_scorers
from sentemb_core.evaluation.validation_scores import RetrievalScores, Scorers, rank_pool
from sentemb_core.evaluation.vectors import encoder_scorers

OWN, WORDS, CHANCE = "this encoder", "BM25", "random encoder"


@dataclass(frozen=True)
class FolderScores:
    """Scores of an encoder, of BM25 and of chance.

    Attributes:
        kind: Whether documents look for counterparts, or halves for halves.
        systems: Scores by system.
        lead: R@5 of the encoder less that of BM25, with its interval over the documents.
    """

    kind: Kind
    systems: dict[str, RetrievalScores]
    lead: Difference


def scores_of_folder(encoder: Encoder, documents: Path, config: ValidationConfig) -> FolderScores:
    """Return the scores with every document of the pool as a query; splits are ignored.

    `documents` is a folder that `write_documents` wrote.
    """
    with TemporaryDirectory(prefix="sentemb-") as name:
        folder = Path(name)
        table = documents / "documents.parquet"
        write_validation_pool(table, config, folder)
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
        drawn, corpus = ValidationPool.open(folder), TokenCorpus.open(folder)
        pool = replace(drawn, query_split=np.full(len(drawn.query_split), "test"))
        systems: dict[str, Scorers] = {
            OWN: encoder_scorers(encoder, corpus, pool),
            WORDS: bm25_scorers(*pool_texts(documents, pool)),
            CHANCE: random_scorers(corpus, pool, seed=0),
        }
        ranks = {label: rank_pool(pool, scorers, "test") for label, scorers in systems.items()}
        hits = (recall(ranks[label].document_to_counterpart, 5) for label in (OWN, WORDS))
        return FolderScores(
            kind=pool.kind,
            systems={label: pool_ranks.scores() for label, pool_ranks in ranks.items()},
            lead=paired_difference(*hits, seed=0),
        )
