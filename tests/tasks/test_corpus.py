"""The logs of reading a corpus, each once."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from flows.pipeline import by_digest, documents_of, labels_by_digest
from sentemb_core.config.run import CorpusConfig, LabelsConfig
from sentemb_core.corpus import documents
from sentemb_core.corpus import labels as labels_module
from sentemb_core.errors import UnreadableSourceError
from sentemb_core.store import objects
from sentemb_core.types import Json
from tasks.checks import check_corpus
from tasks.corpus import document_count, read_labels
from tasks.execution import without_prefect


@pytest.mark.usefixtures("home")
def test_a_guessed_column_is_logged_once_by_the_first_check(tmp_path: Path, caplog):
    rows = [{"body": f"One {k}. Two {k}.", "id": k} for k in range(4)]
    source = tmp_path / "corpus.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = CorpusConfig(source=str(source))
    with caplog.at_level("INFO"), without_prefect():
        check_corpus(config)
        documents_of(config)
    assert len([line for line in caplog.messages if "(guessed)" in line]) == 1
    assert any("4 documents, 8 sentences" in line for line in caplog.messages)


def written_to(source: Path, text: str, reader: Callable[..., object]) -> Callable[..., object]:
    """A reader behind whose back somebody writes to what it reads."""

    def read(*arguments: object) -> object:
        with source.open("a", encoding="utf-8") as file:
            file.write(text)
        return reader(*arguments)

    return read


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("folder", [False, True])
def test_a_corpus_that_is_written_to_while_it_is_read_is_kept_under_no_name(
    tmp_path: Path, monkeypatch, folder: bool
):
    source = tmp_path / "texts" / "a.md" if folder else tmp_path / "corpus.jsonl"
    text = "One. Two.\n" if folder else json.dumps({"text": "One. Two."}) + "\n"
    source.parent.mkdir(exist_ok=True)
    source.write_text(text, encoding="utf-8")
    config = CorpusConfig(source=str(source.parent if folder else source))
    with without_prefect():
        with monkeypatch.context() as patched:
            reader = written_to(source, text.replace("One", "Three"), documents.write_documents)
            patched.setattr(documents, "write_documents", reader)
            with pytest.raises(UnreadableSourceError, match=f"E103.*{config.source} changed"):
                documents_of(config)
        assert document_count(documents_of(config)) == (1 if folder else 2)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("name", "added"),
    [("labels.csv", "d1,second\n"), ("corpus.jsonl", '{"id": "d4", "text": "One. Two."}\n')],
)
def test_labels_that_are_written_to_while_they_are_read_are_kept_under_no_name(
    tmp_path: Path, monkeypatch, name: str, added: str
):
    """Nor are those of a corpus that is, in which unknown ids are looked for."""
    rows = [{"id": f"d{k}", "text": f"One {k}. Two {k}."} for k in range(4)]
    source = tmp_path / "corpus.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    pairs = tmp_path / "labels.csv"
    pairs.write_text("doc_id,counterpart\nd0,first\n", encoding="utf-8")
    named = labels_by_digest(LabelsConfig(source=str(pairs)))
    reader = written_to(tmp_path / name, added, labels_module.write_with_labels)
    monkeypatch.setattr(labels_module, "write_with_labels", reader)
    with without_prefect():
        corpus = CorpusConfig(source=str(source), id_column="id")
        read = documents_of(corpus)
        with pytest.raises(UnreadableSourceError, match=f"E103.*{name} changed"):
            read_labels(read, str(source), by_digest(corpus), str(pairs), named)


@pytest.mark.usefixtures("home")
def test_a_corpus_that_nobody_writes_to_is_not_hashed_again(tmp_path: Path, monkeypatch):
    source = tmp_path / "corpus.jsonl"
    source.write_text(json.dumps({"text": "One. Two."}) + "\n", encoding="utf-8")
    time.sleep(2 * objects.SETTLED / 1e9)
    hashed: list[Path] = []
    sha256 = objects.disk.sha256
    monkeypatch.setattr(objects.disk, "sha256", lambda path: hashed.append(path) or sha256(path))
    with without_prefect():
        documents_of(CorpusConfig(source=str(source)))
    assert hashed.count(source) == 1


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
    builder = SimpleNamespace(hash="f")
    monkeypatch.setattr("datasets.load_dataset_builder", lambda name: builder)
    config = CorpusConfig(source="some/name", id_column="id")
    check_corpus(config)
    assert document_count(documents_of(config)) == 4
    assert len(tries) == 3
