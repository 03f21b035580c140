"""A home whose MLflow database was used before: making one costs a second."""

import shutil
from pathlib import Path

import pytest

from tasks.mlflow_client import mlflow_client


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("MLFLOW_TRACKING_URI", raising=False)
        folder = tmp_path_factory.mktemp("mlflow")
        mlflow_client(folder).search_experiments()
    return folder / "mlflow.db"


@pytest.fixture
def tracked_home(home: Path, monkeypatch: pytest.MonkeyPatch, database: Path) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home.mkdir()
    shutil.copy(database, home)
    return home
