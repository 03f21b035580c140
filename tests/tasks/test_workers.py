"""Shards in worker processes: the same results, and what happens when a worker or a run ends."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from flows.pipeline import documents_of
from sentemb_core.config.run import CorpusConfig, EncoderConfig
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.errors import BadDataError, ShardError
from sentemb_core.store.parts import parts_of
from sentemb_core.termination import STATUS, Terminated, terminable
from sentemb_core.types import ArtifactRef
from tasks.artifacts import artifact_path, new_artifact
from tasks.corpus import joined, tokenise_sentences
from tasks.encode import encode_sentences, start_encoder
from tasks.execution import without_prefect
from tasks.shards import set_parts
from tasks.stage import stage
from tasks.workers import workers_of
from tests.flows.corpora import bodies_run, probed, tiny_run, write_corpus
from tests.waiting import soon

TINY = EncoderConfig(dim=8, vocabulary=300)


def vectors_of(
    source: Path, workers: int, cluster: str | None = None
) -> tuple[ArtifactRef, ArtifactRef]:
    """Tokens and vectors of a corpus in shards, computed by so many workers, or by a cluster."""
    with workers_of(tiny_run(source, workers=workers, cluster=cluster)):
        corpus = CorpusConfig(
            source=str(source), id_column="id", sentences_column="sentences", shard_sentences=60
        )
        documents = documents_of(corpus)
        encoder = start_encoder(TINY.name, TINY, documents)
        sentences = tokenise_sentences(documents, None, encoder)
        return sentences, encode_sentences(encoder, sentences, "float32", "float16")


def test_two_workers_give_the_bits_of_one_process(tmp_path: Path, monkeypatch):
    source = write_corpus(tmp_path / "documents.jsonl", documents=40)
    found: list[tuple[ArtifactRef, ArtifactRef]] = []
    for workers in (1, 2):
        monkeypatch.setenv("SENTEMB_HOME", str(tmp_path / str(workers)))
        with probed() as log:
            found.append(vectors_of(source, workers))
        uses = [use for use in log.run.stages if use.stage == "encode_sentences"]
        assert len(uses) == len(parts_of(artifact_path(found[-1][0]))) > 3
        assert not any(use.hit for use in uses)
        assert bodies_run(vectors_of, source, 3 - workers) == []
    assert found[0] == found[1]
    assert len(TokenCorpus.open(artifact_path(found[0][0]))) > 200


@stage("test_fragile", version=1, ignore=("marks",), by_shard=("part",), join=joined)
def fragile(part: ArtifactRef, marks: str) -> ArtifactRef:
    """The shard again. A file of its content in `marks` counts how often its worker still dies."""
    mark = Path(marks) / (artifact_path(part) / "name").read_text("utf-8")
    match int(mark.read_text("utf-8")) if mark.exists() else 0:
        case 0:
            pass
        case -1:
            raise BadDataError("a broken shard")
        case 99:
            (mark.parent / f"pid-{os.getpid()}").touch()
            time.sleep(60)
        case left:
            mark.write_text(str(left - 1), "utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
    with new_artifact("copy") as draft:
        (draft.path / "name").write_text(mark.name + " computed", "utf-8")
    return draft.ref


def four_parts() -> ArtifactRef:
    """A whole of the parts a, b, c and d."""
    parts: list[ArtifactRef] = []
    for name in "abcd":
        with new_artifact("part") as draft:
            (draft.path / "name").write_text(name, "utf-8")
        parts.append(draft.ref)
    return set_parts(joined(parts, {}), parts)


def computed(marks: Path) -> list[str]:
    """What the parts of the result say, in order."""
    with workers_of(tiny_run(marks, workers=2)):
        whole = fragile(four_parts(), str(marks))
    return [
        (artifact_path(part) / "name").read_text("utf-8") for part in parts_of(artifact_path(whole))
    ]


@pytest.mark.usefixtures("in_process", "home")
def test_the_shard_of_a_lost_worker_runs_again(tmp_path: Path):
    (tmp_path / "b").write_text("1", "utf-8")
    assert computed(tmp_path) == [f"{name} computed" for name in "abcd"]
    assert (tmp_path / "b").read_text("utf-8") == "0"


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("shard", "deaths"), [("b", 2), ("c", -1)])
def test_a_shard_that_always_fails_is_named(tmp_path: Path, shard: str, deaths: int):
    (tmp_path / shard).write_text(str(deaths), "utf-8")
    with without_prefect(), pytest.raises(ShardError) as raised:
        computed(tmp_path)
    number = "abcd".index(shard) + 1
    assert f"({number})" in str(raised.value)
    cause = ChildProcessError if deaths > 0 else BadDataError
    assert isinstance(raised.value.__cause__, cause)
    (tmp_path / shard).unlink()
    assert [*bodies_run(computed, tmp_path)] == ["test_fragile", "join_shards"]


def run_until_a_signal(marks: Path) -> None:
    """As a command line: workers that take a minute, ended by a signal."""
    with suppress(Terminated), terminable(), without_prefect():
        computed(marks)
    os._exit(STATUS)


PROGRAM = """
import sys
from pathlib import Path
from tests.tasks.test_workers import run_until_a_signal
run_until_a_signal(Path(sys.argv[1]))
"""


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_its_run(tmp_path: Path, number: signal.Signals):
    for name in "abcd":
        (tmp_path / name).write_text("99", "utf-8")
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)]) as run:
        assert soon(lambda: len([*tmp_path.glob("pid-*")]) == 2)
        pids = [int(file.name.removeprefix("pid-")) for file in tmp_path.glob("pid-*")]
        run.send_signal(number)
        assert run.wait(15) == (STATUS if number == signal.SIGTERM else -number)
    assert soon(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in pids))
