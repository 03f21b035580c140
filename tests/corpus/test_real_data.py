"""The corpora of the experiments are read with options only."""

from pathlib import Path

import numpy as np
import pytest

from flows.demo import SAMPLE
from flows.experiments.parts import SHIPPED
from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.sentences import same_text
from sentemb_core.corpus.validation_pool import ValidationPool, write_validation_pool
from sentemb_core.retriever.choice import FEWEST_QUERIES
from tests.corpus.made import read

BLOG = {"id_column": "doc_id", "counterpart_column": "title"}


@pytest.fixture
def blog(tmp_path: Path) -> Path:
    if not SHIPPED.exists():
        pytest.skip("data/blog_usgov.parquet is not in this checkout")
    (tmp_path / "blog.parquet").symlink_to(SHIPPED)
    return tmp_path / "blog.parquet"


def test_the_blog_drops_its_nine_repeated_titles(blog: Path) -> None:
    report, documents, _ = read(blog, **BLOG)
    assert (report.rows_read, report.documents, report.counterpart_sentences) == (2306, 2306, 9)
    assert report.quarantined == {}
    for document in documents:
        assert same_text(document.counterpart) not in map(same_text, document.sentences)


def test_the_demo_sample_has_queries_enough_for_a_choice(blog: Path) -> None:
    report, documents, out = read(blog, **SAMPLE.model_dump(exclude={"source"}))
    assert (report.documents, report.documents_with_counterpart) == (600, 600)
    assert {len(document.sentences) for document in documents} == set(range(5, 13))
    drawn = write_validation_pool(out / "documents.parquet", ValidationConfig(), out)
    assert drawn.n_candidates + drawn.merged == sum(drawn.n_queries.values()) == 600
    assert min(drawn.n_queries.values()) > 1.5 * FEWEST_QUERIES


def test_running_text_of_the_blog_is_split(blog: Path) -> None:
    report, _, _ = read(blog, text_column="summary", id_column="doc_id", counterpart_column="title")
    assert report.documents + sum(report.quarantined.values()) == 2306
    assert set(report.quarantined) == {"empty"}


@pytest.mark.parametrize(
    ("name", "options", "documents", "repeated"),
    [
        ("news_reuters21578.parquet", BLOG, 19_043, 342),
        pytest.param("sci_arxiv_cs.parquet", BLOG, 26_000, 8, marks=pytest.mark.slow),
        (
            "session_mixed_titles.parquet",
            {"id_column": "session_id", "counterpart_column": "ad_title"},
            12_000,
            0,
        ),
    ],
)
def test_the_larger_corpora_are_read_with_options_only(
    larger_sets: Path,
    tmp_path: Path,
    name: str,
    options: dict[str, str],
    documents: int,
    repeated: int,
) -> None:
    (tmp_path / name).symlink_to(larger_sets / name)
    report, _, out = read(tmp_path / name, **options)
    assert (report.documents, report.quarantined) == (documents, {})
    assert report.duplicate_documents == repeated
    write_validation_pool(out / "documents.parquet", ValidationConfig(), out)
    pool = ValidationPool.open(out)
    assert pool.kind == "counterpart"
    keys = [same_text(text) for text in pool.candidate_text if text]
    assert len(set(keys)) == len(keys) == pool.n_candidates
    assert np.unique(pool.query_candidate).tolist() == list(range(len(keys)))
