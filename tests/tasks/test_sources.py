"""What a run reads from outside is named by its bytes.

Run: pytest tests/tasks/test_sources.py
"""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sentemb_core.config.run import EncoderConfig
from sentemb_core.config.suite import chosen
from sentemb_core.errors import UnreadableSourceError
from tasks.benchmark import kept_encoder, placed, score_fixed
from tasks.encode import start_encoder
from tasks.execution import without_prefect
from tasks.sources import by_bytes, digest_of_encoder, require_same_encoder, revision_of
from tests.flows.suites import write_data, write_encoder


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


def test_a_published_encoder_is_another_one_once_a_newer_revision_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    published = tmp_path / "models--somebody--tiny-bert"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    (published / "refs").mkdir(parents=True)
    config = EncoderConfig(name="somebody/tiny-bert")
    for commit in ("0" * 40, "1" * 40):
        (published / "snapshots" / commit).mkdir(parents=True)
        (published / "refs" / "main").write_text(commit)
        assert revision_of(config.name) == commit
        require_same_encoder(config.name, config, commit)
    with pytest.raises(UnreadableSourceError, match="somebody/tiny-bert changed"):
        require_same_encoder(config.name, config, "0" * 40)


@pytest.mark.usefixtures("home")
def test_files_of_a_task_that_are_replaced_during_a_run_are_scored_under_no_name(tmp_path: Path):
    (task,) = chosen(["cranfield"])
    place = placed(task, write_data(tmp_path))
    texts = tmp_path / task.files[0]
    with without_prefect():
        score_fixed("random", task, place.digests, place.folder, 1)
        pq.write_table(pq.read_table(texts), texts, compression="gzip")
        with pytest.raises(UnreadableSourceError, match=f"E103 .*{texts} changed"):
            score_fixed("random", task, place.digests, place.folder, 2)


@pytest.mark.usefixtures("home")
def test_an_encoder_that_is_replaced_during_a_run_is_kept_under_no_name(tmp_path: Path):
    folder = write_encoder(tmp_path / "encoder", seed=0)
    named = by_bytes(EncoderConfig(), folder)
    with without_prefect():
        start_encoder(folder, named, None)
        kept_encoder(folder, named.name)
        write_encoder(Path(folder), seed=1)
        with pytest.raises(UnreadableSourceError, match=f"E103 .*{folder} changed"):
            start_encoder(folder, named.model_copy(update={"max_length": 9}), None)
        with pytest.raises(UnreadableSourceError, match=f"E103 .*{folder} changed"):
            kept_encoder.stage.function(folder, named.name)  # the record is a hit


def test_encoders_known_by_their_bytes_have_no_revision(folder: Path):
    assert [revision_of(name) for name in ("static", "minilm", str(folder))] == ["", "", ""]
