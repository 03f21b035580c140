"""An encoder on a corpus that lies in a folder, outside any run: for `sentemb evaluate`."""

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
        kind: What looks for what.
        systems: System -> its scores.
        lead: Of the encoder over BM25, in R@5 of the documents, with its interval over these.
    """

    kind: Kind
    systems: dict[str, RetrievalScores]
    lead: Difference


def scores_of_folder(encoder: Encoder, documents: Path, config: ValidationConfig) -> FolderScores:
    """What an encoder finds where the whole pool asks.

    Args:
        encoder: What is evaluated.
        documents: A folder that `write_documents` filled.
        config: Size of the pool, counterparts or halves. Splits play no part: nothing is decided.
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
        )
        benchmark, corpus = undivided(ValidationPool.open(folder)), TokenCorpus.open(folder)
        systems: dict[str, Scorers] = {
            OWN: encoder_scorers(encoder, corpus, benchmark),
            WORDS: bm25_scorers(*pool_texts(documents, benchmark)),
            CHANCE: random_scorers(corpus, benchmark, seed=0),
        }
        ranks = {label: rank_pool(benchmark, scorers, "test") for label, scorers in systems.items()}
        hits = (recall(ranks[label].document_to_counterpart, 5) for label in (OWN, WORDS))
        return FolderScores(
            kind=benchmark.kind,
            systems={label: found.scores() for label, found in ranks.items()},
            lead=paired_difference(*hits, seed=0),
        )


def undivided(benchmark: ValidationPool) -> ValidationPool:
    """The same pool with every query in the test split."""
    return replace(benchmark, query_split=np.full(len(benchmark.query_split), "test"))
