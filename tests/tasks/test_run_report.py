"""The facts of a run's report."""

from pathlib import Path

import pytest

from sentemb_core.config.run import CorpusConfig
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import Run, Used, write_run
from sentemb_core.types import ArtifactRef
from tasks.run_report import commit, search_of, since_the_last


def test_a_report_needs_no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """An image of a few programs has none, and the run is over by then."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() == "unknown"


def test_a_search_that_a_report_tells_of_reads_the_columns_that_the_run_read():
    named = {"id_column": "ticket", "text_column": "the message", "splitter": "regex"}
    told = search_of("models:/tickets/1", CorpusConfig(source="tickets.jsonl", **named))
    assert told == (
        "python -m flows search WORDS SOURCE --model models:/tickets/1 "
        "--text-column 'the message' --id-column ticket --splitter regex"
    )
    usual = search_of("models:/tickets/1", CorpusConfig(source="tickets.jsonl"))
    assert usual == "python -m flows search WORDS SOURCE --model models:/tickets/1"


SETTINGS = {"name": "news", "corpus": {"source": "a.jsonl"}, "training": {"steps": 10}}
DOCUMENTS = "d" * 64


def file_run(id: str, started: float, documents: str = DOCUMENTS, **changed: object) -> None:
    """A finished run of the name, as its record says."""
    read = ArtifactRef(kind="documents", digest=documents, size=1)
    drawn = Used(
        stage="draw_validation_pool", key="0", hit=False, seconds=1.0, inputs=[read], outputs=[]
    )
    told = {"state": "completed", "config": SETTINGS} | changed
    write_run(Store.default(), Run(id=id, command=[], started=started, stages=[drawn], **told))


def test_a_run_tells_what_is_other_than_in_the_last_one_of_its_name(home):
    other = SETTINGS | {"training": {"steps": 20}}
    file_run("oldest", 1.0, config=other)
    file_run("before", 2.0)
    file_run("another-name", 3.0, config=SETTINGS | {"name": "blog"})
    file_run("broken-off", 4.0, state="failed")
    file_run("a-table", 4.5, config={"name": "news", "corpora": []})
    file_run("own", 5.0)
    file_run("later", 6.0, config=other)
    same = "Documents and settings are those of the run before, before."
    assert since_the_last("own", SETTINGS, DOCUMENTS) == [same]
    assert since_the_last("own", other, "e" * 64) == [
        "Since the run before, before: other documents, training.steps 10 -> 20."
    ]
    many = SETTINGS | {"training": dict.fromkeys("abcdefgh", 1)}
    (told,) = since_the_last("own", many, DOCUMENTS)
    assert told.endswith("training.e None -> 1, training.f None -> 1 and 3 more.")


def test_the_first_run_of_a_name_has_nothing_before_it(home):
    file_run("own", 5.0)
    file_run("later", 6.0)
    assert since_the_last("own", SETTINGS, DOCUMENTS) == []
    assert since_the_last("of-another-home", SETTINGS, DOCUMENTS) == []


def test_no_password_of_a_changed_setting_is_told(home):
    file_run("before", 1.0)
    file_run("own", 2.0)
    named = SETTINGS | {"corpus": {"source": f"http://me:{'word' * 20}@host/a"}}
    (told,) = since_the_last("own", named, DOCUMENTS)
    assert "word" not in told
    assert "http://***@host/a" in told
