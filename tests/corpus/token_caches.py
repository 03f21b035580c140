"""Small token caches of a word-level tokenizer."""

from pathlib import Path

from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.table import Document, write_rows
from sentemb_core.corpus.tokenise import write_tokens
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import write_validation_pool
from tests import tiny

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "A", "B", "C", "one", "two", "three", "."]

TEXTS = [
    ["A B.", "C", "A B C one two three A B C one two three"],
    ["zzz", "A  B ."],
    ["one", "two", "three", "one two", "two three"],
    ["A B.", "\u2003"],
]


def tokenizer_json(folder: Path, words: list[str] = WORDS) -> Path:
    """Write a word-level tokenizer with [CLS] and [SEP]."""
    tiny.tokenizer(words).save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def tokenised(
    folder: Path,
    rows: list[Document],
    *,
    pool: Path | None = None,
    special: bool = True,
    unknown: int = WORDS.index("[UNK]"),
    **forms: object,
):
    """Return report and cache of documents, with `folder`/tokenizer.json, 8 tokens a sentence."""
    (folder / "tokens").mkdir()
    write_rows(folder / "documents.parquet", rows)
    report = write_tokens(
        folder / "documents.parquet", pool, folder / "tokenizer.json", 8, folder / "tokens",
        add_special_tokens=special, unknown=unknown, **forms,
    )  # fmt: skip
    return report, TokenCorpus.open(folder / "tokens")


def cache(folder: Path, texts: list[list[str]] = TEXTS, *, special: bool = True, **options):
    rows = [Document(f"d{k}", sentences, f"T {k}", k) for k, sentences in enumerate(texts)]
    pool = folder / "pool"
    pool.mkdir()
    write_rows(folder / "documents.parquet", rows)
    write_validation_pool(folder / "documents.parquet", ValidationConfig(**options), pool)
    tokenizer_json(folder)
    return tokenised(folder, rows, pool=pool, special=special)
