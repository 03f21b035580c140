"""What a run reads from outside is named by its bytes.

Run: pytest tests/tasks/test_sources.py
"""

from pathlib import Path

import pytest

from tasks.sources import digest_of_encoder


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
