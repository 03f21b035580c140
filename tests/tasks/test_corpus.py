"""What reading a corpus says, and that it says it once."""

import json
from pathlib import Path

import pytest

from sentemb_core.configs import CorpusConfig
from sentemb_core.store.objects import Store
from tasks.checks import check_corpus
from tasks.corpus import read_corpus
from tasks.walking import without_prefect


@pytest.mark.usefixtures("home")
def test_a_guessed_column_is_told_once_by_the_check_that_comes_first(tmp_path: Path, caplog):
    rows = [{"body": f"One {k}. Two {k}.", "id": k} for k in range(4)]
    source = tmp_path / "corpus.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = CorpusConfig(source=str(source))
    with caplog.at_level("INFO"), without_prefect(Store.default()):
        check_corpus(config)
        read_corpus(str(source), config.model_copy(update={"source": "0" * 64}))
    assert len([line for line in caplog.messages if "(guessed)" in line]) == 1
    assert any("4 documents, 8 sentences" in line for line in caplog.messages)
