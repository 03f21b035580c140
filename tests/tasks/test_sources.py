"""What a run reads from outside is named by its bytes.

Run: pytest tests/tasks/test_sources.py
"""

from pathlib import Path

import pytest

from tasks.sources import digest_of_encoder, revision_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pooling = tmp_path / "encoder" / "1_Pooling"
    pooling.mkdir(parents=True)
    (pooling / "config.json").write_text("{}")
    (pooling.parent / "model.safetensors").write_text("weights")
    return pooling.parent


def test_an_encoder_is_another_one_if_a_byte_or_a_name_is(folder: Path):
    before = digest_of_encoder(str(folder))
    (folder / "model.safetensors").write_text("Weights")
    after = digest_of_encoder(str(folder))
    (folder / "1_Pooling").rename(folder / "2_Pooling")
    assert len({before, after, digest_of_encoder(str(folder))}) == 3


def test_a_folder_as_a_hub_leaves_it_counts_by_what_is_read_of_it(folder: Path):
    before = digest_of_encoder(str(folder))
    (folder / ".gitattributes").write_text("*.safetensors filter=lfs")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "model.safetensors.metadata").write_text("etag")
    (folder / "model.safetensors").rename(folder.parent / "blob")
    (folder / "model.safetensors").symlink_to(folder.parent / "blob")
    assert digest_of_encoder(str(folder)) == before


def test_a_published_name_is_another_encoder_once_a_newer_revision_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    published = tmp_path / "models--somebody--tiny-bert"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    (published / "refs").mkdir(parents=True)
    for commit in ("0" * 40, "1" * 40):
        (published / "snapshots" / commit).mkdir(parents=True)
        (published / "refs" / "main").write_text(commit)
        assert revision_of("somebody/tiny-bert") == commit


def test_what_is_told_by_its_bytes_has_no_revision(folder: Path):
    assert [revision_of(name) for name in ("static", "minilm", str(folder))] == ["", "", ""]
