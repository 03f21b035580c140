"""A home whose MLflow database was used before (making one costs a second), and one of a corpus."""

import shutil
from pathlib import Path

import pytest

from flows.pipeline import documents_of
from sentemb_core.config.run import CorpusConfig
from sentemb_core.evaluation import bootstrap
from sentemb_core.types import ArtifactRef
from tasks.execution import without_prefect
from tasks.servers import mlflow_client
from tests.flows.corpora import write_corpus


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


@pytest.fixture
def documents(home: Path, tmp_path: Path) -> ArtifactRef:
    """The documents of a small corpus, in the store of this home."""
    source = write_corpus(tmp_path / "documents.jsonl")
    corpus = CorpusConfig(source=str(source), id_column="id", sentences_column="sentences")
    with without_prefect():
        return documents_of(corpus)


@pytest.fixture
def in_process(home: Path, monkeypatch: pytest.MonkeyPatch):
    """Stages run without a server, and bootstraps draw few resamples."""
    monkeypatch.setattr(bootstrap, "RESAMPLES", 500)
    with without_prefect():
        yield
