"""The logs of a failed run: each error once on the console, everything in the file."""

import errno
import io
import logging
import os
import signal
import sys
import weakref
from pathlib import Path

import pytest
from httpx import ConnectError, HTTPStatusError, Request, Response
from prefect.exceptions import TerminationSignal

from flows import logs
from flows.logs import Once, OneLine, logged, server_lost
from sentemb_core.console import Terminated
from sentemb_core.errors import ServerLostError, StorageError
from tasks.execution import SHARDS


@pytest.fixture
def console():
    """A logger with a console like Prefect's, and the text it printed."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(Once())
    handler.setFormatter(OneLine(logging.Formatter("%(levelname)s %(message)s")))
    logger = logging.getLogger("console")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield logger, out
    logger.removeHandler(handler)


def fail_in_a_task_of_a_round_of_a_flow(logger: logging.Logger) -> None:
    try:
        raise ValueError("too small")
    except ValueError:
        for level in ("task", "round", "flow"):
            logger.exception("%s failed", level)
        logger.info("Finished in state Failed('too small')")
        raise


def test_an_error_is_printed_once_and_logged_whole(console, tmp_path: Path):
    logger, out = console
    file = tmp_path / "logs" / "all.log"
    with pytest.raises(ValueError, match="too small"), logged(file):
        fail_in_a_task_of_a_round_of_a_flow(logger)
    logger.warning("Still processing items: 3 items remaining...")  # of Prefect, at the exit
    assert out.getvalue() == "ERROR task failed\n"
    text = file.read_text()
    assert text.count("Traceback") == 3
    assert "Finished in state Failed" in text


def test_the_console_shows_each_error_and_crash_and_running_and_cached_stages(console):
    logger, out = console
    for number in range(2):
        try:
            raise ValueError(number)
        except ValueError:
            logger.exception("attempt %d", number)
    for line in ("encode runs", "Finished in state Completed()", "Finished in state Cached()"):
        logger.info(line)
    logger.info("Finished in state Cached()", extra={"flow_name": SHARDS})
    for why in ("an interrupt signal", "a termination signal"):
        logger.error("Crash detected! Execution was aborted by %s.", why)
    logger.error("Crash detected! Execution was interrupted by an unexpected exception: X")
    assert out.getvalue().splitlines() == [
        "ERROR attempt 0",
        "ERROR attempt 1",
        "INFO encode runs",
        "INFO Finished in state Cached()",
        "ERROR Crash detected! Execution was interrupted by an unexpected exception: X",
    ]


def test_parallel_runs_rotate_a_long_log_once(console, tmp_path: Path, monkeypatch):
    logger, _ = console
    file, before = tmp_path / "all.log", tmp_path / "all.log.1"
    monkeypatch.setattr(logs, "LOG_BYTES", 300)
    with logged(file):
        logger.info("from the first, %s", "long " * 80)
        with logged(file):  # another run begins: both write to the new file
            logger.info("from the second")
            with logged(file):
                logger.info("from the third")
    assert "from the first" in before.read_text()
    assert "from the first" not in file.read_text()
    assert "from the second" in file.read_text()
    assert "from the third" in file.read_text()


def test_no_secret_of_a_crash_is_logged(console, tmp_path: Path, monkeypatch):
    logger, out = console
    monkeypatch.setenv("SOME_API_KEY", "secret-of-another")
    file = tmp_path / "all.log"
    with logged(file):
        try:
            raise ConnectionError("https://me:secret-of-mine@host/ with secret-of-another")
        except ConnectionError:
            logger.exception("no answer from https://me:secret-of-mine@host/")
    text = file.read_text()
    assert "ConnectionError: https://***@host/ with ***" in text
    assert out.getvalue() == "ERROR no answer from https://***@host/\n"
    assert "secret-of-" not in text


def refusal(status: int) -> HTTPStatusError:
    return HTTPStatusError("", request=Request("POST", "http://x"), response=Response(status))


@pytest.mark.parametrize(
    ("error", "values"),
    [
        (ConnectError("no answer"), "no answer"),
        (refusal(500), "status 500"),
        (refusal(503), "busy"),
        (ServerLostError("its log"), "E602 its log"),
    ],
)
def test_an_error_of_the_server_says_what_became_of_it(error: Exception, values: str):
    assert values in (server_lost(error) or "")
    assert server_lost(refusal(404)) is None, "the client's own fault"


@pytest.mark.parametrize("refused", [errno.EROFS, errno.EACCES])
def test_a_log_that_cannot_be_written_is_a_storage_error(tmp_path: Path, monkeypatch, refused: int):
    def refuse(file: Path, encoding: str) -> None:
        raise OSError(refused, os.strerror(refused), file)

    monkeypatch.setattr(logs, "WatchedFileHandler", refuse)
    values = rf"E601 .*all\.log: {os.strerror(refused)}"
    with pytest.raises(StorageError, match=values), logged(tmp_path / "all.log"):
        pytest.fail("nothing runs without its log")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_log_on_a_full_disk_does_not_hide_the_runs_error(monkeypatch):
    def fails_to_write() -> None:
        logging.getLogger("full").warning("a line that no disk takes")
        raise StorageError("no space")

    monkeypatch.setattr(logging, "raiseExceptions", False)
    with pytest.raises(StorageError, match="E601 no space"), logged(Path("/dev/full")):
        fails_to_write()


def test_an_interruption_is_not_reported_as_a_lost_server(tmp_path: Path, capsys):
    def terminated_with_its_server() -> None:
        try:
            raise TerminationSignal(signal.SIGTERM)
        except TerminationSignal:
            raise ConnectError("no answer")  # noqa: B904 (as Prefect does)

    with pytest.raises(Terminated), logged(tmp_path / "all.log"):
        terminated_with_its_server()
    assert capsys.readouterr().err == ""


def test_a_logged_error_keeps_nothing_in_memory():
    class Model:
        pass

    def fails_to_train() -> None:
        model = Model()
        models.append(weakref.ref(model))
        raise ValueError("too small")

    models, console = list[weakref.ref[Model]](), Once()
    try:
        fails_to_train()
    except ValueError:
        assert console.filter(
            logging.LogRecord("", logging.ERROR, "", 0, "failed", (), sys.exc_info())
        )
    assert models[0]() is None


def test_the_file_is_named_only_after_a_failure(tmp_path: Path, capsys):
    file = tmp_path / "all.log"
    with logged(file):
        pass
    assert capsys.readouterr().err == ""
    with pytest.raises(KeyError), logged(file):
        raise KeyError
    (line,) = capsys.readouterr().err.splitlines()
    assert line.split()[-1] == str(file)
