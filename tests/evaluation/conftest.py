"""A corpus of a dozen documents on disk, as the stages before evaluation leave it."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from sentemb_core.config.run import CorpusConfig, ValidationConfig
from sentemb_core.corpus.documents import write_documents
from sentemb_core.corpus.tokenise import write_tokens
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import ValidationPool, write_validation_pool

WORDS = [f"w{k}" for k in range(40)]


class Prepared(NamedTuple):
    documents: Path
    corpus: TokenCorpus
    pool: ValidationPool


def prepared(folder: Path, *, halves: bool) -> Prepared:
    """Twelve documents of 2 to 5 sentences; 3 and 7 share one title."""
    rows = [
        {
            "doc_id": f"d{n}",
            "title": f"Title {3 if n == 7 else n} w{n}",
            "sentences": [f"w{n} w{n + k} w{k}." for k in range(2 + n % 4)],
        }
        for n in range(12)
    ]
    source = folder / "rows.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)).replace("Title 3 w7", "Title 3 w3"))
    config = CorpusConfig(
        source=str(source),
        sentences_column="sentences",
        id_column="doc_id",
        counterpart_column="title",
    )
    for name in ("documents", "pool", "tokens"):
        (folder / name).mkdir()
    write_documents(config, folder / "documents")
    validation = ValidationConfig(candidates=12, halves=halves)
    write_validation_pool(folder / "documents" / "documents.parquet", validation, folder / "pool")
    tokenizer = Tokenizer(
        models.WordLevel({word: k for k, word in enumerate(["[UNK]", *WORDS])}, "[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    write_tokens(
        folder / "documents" / "documents.parquet",
        folder / "pool",
        folder / "tokenizer.json",
        8,
        folder / "tokens",
        add_special_tokens=False,
        unknown=0,
    )
    return Prepared(
        folder / "documents",
        TokenCorpus.open(folder / "tokens"),
        ValidationPool.open(folder / "pool"),
    )


@pytest.fixture(scope="session")
def titled(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared(tmp_path_factory.mktemp("titled"), halves=False)


@pytest.fixture(scope="session")
def halved(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared(tmp_path_factory.mktemp("halved"), halves=True)
