"""What reading a corpus says, and that it says it once."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.steps import documents_of
from sentemb_core.configs import CorpusConfig
from sentemb_core.store.objects import Store
from sentemb_core.types import Json
from tasks.checks import check_corpus
from tasks.corpus import document_count, read_corpus
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


@pytest.mark.server
@pytest.mark.usefixtures("prefect_server", "home")
def test_a_stream_that_breaks_is_read_again_from_its_start(monkeypatch):
    rows = [{"id": f"d{k}", "text": f"One {k}. Two {k}."} for k in range(4)]
    tries: list[int] = []

    class Streamed:
        def __iter__(self) -> Iterator[Json]:
            tries.append(len(tries))
            yield from rows[:2]
            if len(tries) == 2:  # the check that looks at the columns is the first
                raise ConnectionError("the network is gone for a moment")
            yield from rows[2:]

    monkeypatch.setattr("datasets.load_dataset", lambda name, streaming: {"train": Streamed()})
    monkeypatch.setattr("sentemb_core.corpus.source._hub_fingerprint", lambda config: "f")
    config = CorpusConfig(source="some/name", id_column="id")
    check_corpus(config)
    assert document_count(documents_of(config)) == 4
    assert len(tries) == 3
