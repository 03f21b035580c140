"""What a failed run says: each error once on the console, all of it in the file."""

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
from flows.logs import Once, OneLine, logged
from sentemb_core.console import Terminated
from sentemb_core.errors import ServerLostError, StorageError


@pytest.fixture
def console():
    """A logger with a console as Prefect's would be, and what it printed."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(Once())
    handler.setFormatter(OneLine(logging.Formatter("%(levelname)s %(message)s")))
    logger = logging.getLogger("told")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield logger, out
    logger.removeHandler(handler)


def fail_in_a_task_of_a_round_of_a_flow(logger: logging.Logger) -> None:
    try:
        raise ValueError("too small")
    except ValueError:
        for who in ("task", "round", "flow"):
            logger.exception("%s failed", who)
        logger.info("Finished in state Failed('too small')")
        raise


def test_an_error_is_told_where_it_happened_and_not_again_on_its_way_up(console, tmp_path: Path):
    logger, out = console
    file = tmp_path / "logs" / "all.log"
    with pytest.raises(ValueError, match="too small"), logged(file):
        fail_in_a_task_of_a_round_of_a_flow(logger)
    assert out.getvalue() == "ERROR task failed\n"
    written = file.read_text()
    assert written.count("Traceback") == 3
    assert "Finished in state Failed" in written


def test_of_stages_the_console_tells_what_runs_and_what_was_there(console):
    logger, out = console
    for line in ("encode runs", "Finished in state Completed()", "Finished in state Cached()"):
        logger.info(line)
    assert out.getvalue() == "INFO encode runs\nINFO Finished in state Cached()\n"


def test_runs_side_by_side_put_a_long_log_aside_once_and_lose_no_line(
    console, tmp_path: Path, monkeypatch
):
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


def test_no_secret_of_a_crash_is_told(console, tmp_path: Path, monkeypatch):
    logger, out = console
    monkeypatch.setenv("SOME_API_KEY", "secret-of-another")
    file = tmp_path / "all.log"
    with logged(file):
        try:
            raise ConnectionError("https://me:secret-of-mine@host/ with secret-of-another")
        except ConnectionError:
            logger.exception("no answer from https://me:secret-of-mine@host/")
    written = file.read_text()
    assert "ConnectionError: https://***@host/ with ***" in written
    assert out.getvalue() == "ERROR no answer from https://***@host/\n"
    assert "secret-of-" not in written


def test_a_server_that_is_gone_is_told_with_the_way_on(tmp_path: Path):
    told = pytest.raises(ServerLostError, match=r"E602 .*no answer.*flows resume")
    with told, logged(tmp_path / "all.log"):
        raise ConnectError("no answer")


@pytest.mark.parametrize(
    ("answer", "why"), [(500, "failed itself, as on a full disk"), (503, "too busy")]
)
def test_a_server_that_fails_itself_is_told_with_the_way_on(tmp_path: Path, answer: int, why: str):
    told = pytest.raises(ServerLostError, match=rf"E602 .*{why}.*flows resume")
    with told, logged(tmp_path / "all.log"):
        raise HTTPStatusError("", request=Request("POST", "http://x"), response=Response(answer))


def test_what_a_server_refuses_is_no_fault_of_its_own(tmp_path: Path):
    with pytest.raises(HTTPStatusError), logged(tmp_path / "all.log"):
        raise HTTPStatusError("", request=Request("POST", "http://x"), response=Response(404))


@pytest.mark.parametrize("refused", [errno.EROFS, errno.EACCES])
def test_a_log_that_cannot_be_written_is_told_as_storage_is(
    tmp_path: Path, monkeypatch, refused: int
):
    def refuse(file: Path, encoding: str) -> None:
        raise OSError(refused, os.strerror(refused), file)

    monkeypatch.setattr(logs, "WatchedFileHandler", refuse)
    told = pytest.raises(StorageError, match=rf"E601 .*all\.log: {os.strerror(refused)}")
    with told, logged(tmp_path / "all.log"):
        pytest.fail("nothing runs without its log")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_log_on_a_full_disk_does_not_hide_the_error_that_says_so(monkeypatch):
    def fails_to_write() -> None:
        logging.getLogger("told").warning("a line that no disk takes")
        raise StorageError("no space")

    monkeypatch.setattr(logging, "raiseExceptions", False)
    with pytest.raises(StorageError, match="E601 no space"), logged(Path("/dev/full")):
        fails_to_write()


def test_a_server_that_the_same_signal_ended_is_not_the_news(tmp_path: Path, capsys):
    def terminated_with_its_server() -> None:
        try:
            raise TerminationSignal(signal.SIGTERM)
        except TerminationSignal:
            raise ConnectError("no answer")  # noqa: B904 (as Prefect does, telling its server)

    with pytest.raises(Terminated), logged(tmp_path / "all.log"):
        terminated_with_its_server()
    assert capsys.readouterr().err == ""


def test_what_prefect_still_sends_at_the_exit_is_not_the_last_word(console):
    logger, out = console
    logger.error("flow failed")
    logger.warning("Still processing items: 3 items remaining...")
    assert out.getvalue() == "ERROR flow failed\n"


def test_another_error_is_told_too(console):
    logger, out = console
    for number in range(2):
        try:
            raise ValueError(number)
        except ValueError:
            logger.exception("attempt %d", number)
    assert out.getvalue() == "ERROR attempt 0\nERROR attempt 1\n"


def test_a_failure_that_was_told_keeps_nothing_in_memory():
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


def test_who_ends_a_run_reads_nothing_of_a_crash_and_who_did_not_does(console):
    logger, out = console
    for why in ("aborted by an interrupt signal", "aborted by a termination signal"):
        logger.error("Crash detected! Execution was %s.", why)
    logger.error("Crash detected! Execution was interrupted by an unexpected exception: X")
    assert out.getvalue().count("Crash detected!") == 1
    assert "unexpected exception: X" in out.getvalue()


def test_the_file_is_named_only_when_something_failed(tmp_path: Path, capsys):
    file = tmp_path / "all.log"
    with logged(file):
        pass
    assert capsys.readouterr().err == ""
    with pytest.raises(KeyError), logged(file):
        raise KeyError
    assert capsys.readouterr().err == f"log {file}\n"
