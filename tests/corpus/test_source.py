"""A source digest depends on bytes and format, not on the path."""

import gzip
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.source import source_digest
from tests.corpus.made import jsonl, texts


def digest(source: Path, **options: object) -> str:
    return source_digest(CorpusConfig(source=str(source), **options))


def test_a_copy_elsewhere_has_the_same_digest(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    one = jsonl(tmp_path / "a.jsonl", texts(3))
    other = jsonl(tmp_path / "deep" / "b.jsonl", texts(3))
    assert digest(one) == digest(other)
    other.write_bytes(other.read_bytes().replace(b"Sentence 1", b"Sentence 7", 1))
    assert digest(one) != digest(other)


def test_equal_bytes_in_another_format_differ(tmp_path: Path) -> None:
    data = jsonl(tmp_path / "a.jsonl", texts(3)).read_bytes()
    (tmp_path / "a.csv").write_bytes(data)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(data))
    assert len({digest(tmp_path / name) for name in ("a.jsonl", "a.csv", "a.jsonl.gz")}) == 3


def test_a_folder_counts_with_its_readable_files(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("One. Two.")
    (folder / "deep" / "b.md").write_text("Three. Four.")
    first = digest(folder)
    shutil.copytree(folder, tmp_path / "two")
    assert digest(tmp_path / "two") == first
    (folder / "c.pdf").write_text("is not read")
    (folder / ".git").mkdir()
    (folder / ".git" / "d.txt").write_text("is not read")
    assert digest(folder) == first
    (folder / "a.txt").rename(folder / "z.txt")
    assert digest(folder) != first


def test_a_hub_data_set_counts_with_split_and_fingerprint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import datasets

    hashes = {"some/name": "abc", "other/name": "abd"}
    monkeypatch.setattr(
        datasets, "load_dataset_builder", lambda name: SimpleNamespace(hash=hashes[name])
    )
    some, other = Path("some/name"), Path("other/name")
    assert digest(some) == digest(some)
    assert len({digest(some), digest(other), digest(some, split="train")}) == 3
