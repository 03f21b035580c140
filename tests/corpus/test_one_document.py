import pytest

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.documents import sentences_of, write_documents
from sentemb_core.corpus.table import read_documents
from sentemb_core.errors import BadDataError
from tests.corpus.made import jsonl


def of(tmp_path, *rows):
    source = jsonl(tmp_path / "a.jsonl", list(rows))
    return CorpusConfig(source=str(source), id_column="id", counterpart_column="title")


def test_one_document_is_read_as_the_whole_corpus_reads_it(tmp_path):
    rows = [
        {"id": k, "title": "The title", "text": f"The title. One is {k}. Two. Two."}
        for k in range(3)
    ]
    config = of(tmp_path, *rows)
    write_documents(config, tmp_path)
    for document in read_documents(tmp_path / "documents.parquet"):
        assert sentences_of(config, document.doc_id) == document.sentences


def test_a_refused_row_is_named(tmp_path):
    config = of(tmp_path, {"id": "a", "title": None, "text": " "})
    with pytest.raises(BadDataError, match=r"'a'; a.jsonl, .* has it, and is empty; .*\['a'\]"):
        sentences_of(config, "a")
