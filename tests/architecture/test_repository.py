"""The files that tests of the house look at are there with git and without."""

import io
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.repository import ROOT, repository_files


def archive() -> zipfile.ZipFile:
    """Of the last commit, as a person downloads it."""
    if not ((ROOT / ".git").exists() and shutil.which("git")):
        pytest.skip("not a checkout: there is nothing to make an archive of")
    packing = ["git", "archive", "--format=zip", "HEAD"]
    made = subprocess.run(packing, cwd=ROOT, capture_output=True, check=True)
    return zipfile.ZipFile(io.BytesIO(made.stdout))


@pytest.mark.parametrize("git", ["no git", "no checkout"])
def test_an_unpacked_archive_has_its_files_with_git_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, git: str
):
    with archive() as packed:
        packed.extractall(tmp_path)
        files = sorted(Path(one.filename) for one in packed.infolist() if not one.is_dir())
    if git == "no git":
        monkeypatch.setenv("PATH", str(tmp_path))
        (tmp_path / ".git").mkdir()
    for place in (".venv/lib/a.py", ".sentemb/runs/a.json", "mine/lib/a.parquet", "tasks/a.pyc"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    (tmp_path / "mine" / "pyvenv.cfg").touch()
    assert repository_files(tmp_path) == files


def test_a_folder_that_is_no_repository_is_told(tmp_path: Path):
    (tmp_path / ".gitignore").touch()
    with pytest.raises(AssertionError, match="the repository is not at"):
        repository_files(tmp_path)
