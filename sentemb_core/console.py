"""What both command lines share: results on stdout, words on stderr, errors as exit codes."""

import atexit
import gc
import json
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from importlib.metadata import version
from io import TextIOWrapper
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

from cyclopts import (
    App,
    ArgumentOrderError,
    CycloptsError,
    MissingArgumentError,
    Parameter,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from sentemb_core.errors import SentembError, UsageError
from sentemb_core.redaction import redacted

if TYPE_CHECKING:
    from rich.table import Table

HIDDEN = [0x7F, *range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
"""Characters that a terminal obeys and JSON passes on: DEL, C1, those that turn the direction."""

SHOWN = dict.fromkeys(HIDDEN, "\ufffd") | {
    code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"
}
"""Marks in their place, and in that of C0, ESC among them: a text may bring any."""

ESCAPED = {code: f"\\u{code:04x}" for code in HIDDEN}

_debugging: ContextVar[bool] = ContextVar("debugging", default=False)


def command_line(name: str, purpose: str) -> App:
    """A command line whose verbs all know `--debug`."""
    app = App(name=name, help=purpose, version=lambda: version("sentemb"))
    for layer in (app, app.meta):
        layer.suppress_keyboard_interrupt = False  # `run` says how to go on
    atexit.register(gc.freeze)  # else the last collection looks through all of torch: 2.6 s

    @app.meta.default
    def verb(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        debug: Annotated[
            bool, Parameter(negative="", help="Show where an error came from, call by call.")
        ] = False,
    ) -> Any:
        _debugging.set(debug)
        return app(tokens, exit_on_error=False, print_error=False, result_action="return_value")

    return app


class Terminated(KeyboardInterrupt):
    """SIGTERM, by which `timeout` and schedulers say what a person says by Ctrl-C."""


@contextmanager
def terminable() -> Generator[None, None, None]:
    """SIGTERM raises `Terminated` in this block, once: `timeout` sends it twice."""

    def stop(*_: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def debugging() -> bool:
    """Whether a person asked to see tracebacks."""
    return _debugging.get()


def run(app: App, tokens: Sequence[str] | None = None) -> int:
    """Run one verb of a `door` and return its exit code.

    0 ok, 1 a fault of ours, 2 usage, 3 bad data, 4 gate, 5 resources, interrupted 130 (by Ctrl-C)
    or 143 (by SIGTERM).
    """
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # no letter ends what was computed
    try:
        with terminable():
            answer = app.meta(
                tokens, exit_on_error=False, print_error=False, result_action="return_value"
            )
    except CycloptsError as error:
        complain(f"{UsageError.code} {misused(error)}")
        return UsageError.exit_code
    except SentembError as error:
        show_traceback(error)
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt as ended:
        complain("interrupted")
        return 143 if isinstance(ended, Terminated) else 130
    except BrokenPipeError:  # the reader of a pipe had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        show_traceback(error)
        complain(fault(error))
        return SentembError.exit_code
    return answer if isinstance(answer, int) else 0


def misused(error: CycloptsError) -> str:
    """What a verb wants or does not take; places are called as `--help` calls them."""
    verb = " ".join(error.command_chain or ())
    place = error.argument
    mistyped = error.unused_tokens  # of an option: the parser names the one that was meant
    if isinstance(error, MissingArgumentError) and place:
        by_place = place.field_info.is_positional
        if by_place or not (error.keyword or place.tokens or mistyped):
            name = place.field_info.name.upper() if by_place else place.name
            meaning = re.split(r"(?<!\.\.)\. ", place.parameter.help or "")[0].removesuffix(".")
            told = f"{meaning}. See" if meaning else "see"
            return f"`{verb}` wants {name}: {told} `{verb} --help`."
    if isinstance(error, ArgumentOrderError):
        first = error.prior_positional_or_keyword_supplied_as_keyword_arguments[0]
        return (
            f"`{verb}` takes {first.field_info.name.upper()} by its place, before what follows it, "
            f"and not by {first.tokens[0].keyword}: see `{verb} --help`."
        )
    if isinstance(error, UnknownCommandError):
        told = str(error).replace(", ...", " and more.")  # the parser names eight verbs at most
        if "Did you mean" in told:
            return told
        return (
            f"{told} `--help` tells all; a verb that is not here may be the other door's: "
            "`sentemb` (an encoder in a folder) or `python -m flows` (pipelines, registry)."
        )
    if isinstance(error, UnknownOptionError) and "Did you mean" not in str(error):
        return f"{error} See `{verb} --help`."
    if isinstance(error, UnusedCliTokensError):
        return f"`{verb}` takes no {', '.join(error.unused_tokens or ())}: see `{verb} --help`."
    return str(error)


def show_traceback(error: Exception) -> None:
    if debugging():
        sys.stderr.write(redacted("".join(traceback.format_exception(error))))


def fault(error: Exception) -> str:
    """What a person reads of an error that nobody foresaw: what, where, and the way out."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    first = next(iter(str(error).splitlines()), "")
    return (
        f"{SentembError.code} {type(error).__name__}: {first} ({frame.name} in {frame.filename}, "
        f"line {frame.lineno}). Nobody foresaw this: run it again with --debug, and report it."
    )


def complain(message: str) -> None:
    """An error on stderr, without secrets."""
    from rich.console import Console

    Console(stderr=True, soft_wrap=True).print(
        f"[bold red]error[/] {plain(redacted(message))}", highlight=False
    )


def remark(text: str) -> None:
    """A line on stderr."""
    sys.stderr.write(visible(text) + "\n")


def plain(text: str) -> str:
    """Text that rich shows as it is, and that no terminal obeys."""
    from rich.markup import escape

    return escape(visible(text))


def visible(text: str) -> str:
    """Text with a mark for each character by which it would steer a terminal."""
    return text.translate(SHOWN)


def terminal_table(
    head: Iterable[str],
    rows: Iterable[Iterable[str]] = (),
    numbers: Collection[int] = (),
    *,
    folded: bool = False,
    title: str = "",
    caption: str = "",
) -> "Table":
    """The columns of numbers on the right; a bracket in a text is no markup.

    `folded`: a word that is too long for its column goes on below, for a person may copy it;
    else it is cut.
    """
    from rich.table import Table

    overflow = "fold" if folded else "ellipsis"
    table = Table(box=None, title=plain(title), caption=plain(caption), caption_justify="left")
    for place, name in enumerate(head):
        justify = "right" if place in numbers else "left"
        table.add_column(plain(name), justify=justify, overflow=overflow)
    for row in rows:
        table.add_row(*map(plain, row))
    return table


def emit(value: Any) -> None:
    """A result as one JSON document on stdout, in ASCII where that has not all its letters."""
    document = partial(json.dumps, value, indent=2, default=str)
    text = document(ensure_ascii=False).translate(ESCAPED)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = document()
    sys.stdout.write(text + "\n")


def write_line(text: str) -> None:
    """One line on stdout, for shells."""
    sys.stdout.write(text + "\n")


def show(*results: Any) -> None:
    """Tables and sentences on stdout: tables as wide as the terminal (at least 120 in a pipe)."""
    from rich.console import Console

    class Results(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich's own ends the process, as if it had failed

    console = Results()
    if not console.is_terminal:
        console = Results(width=max(console.width, 120))
    for result in results:
        sentence = isinstance(result, str)  # a path in it stays whole, a bracket is no markup
        shown = visible(result) if sentence else result
        console.print(shown, highlight=False, markup=not sentence, soft_wrap=sentence)


class StderrOfTheMoment(logging.StreamHandler[TextIO]):
    """Whoever replaces `sys.stderr` for a while gets the lines of that while."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class Visible(logging.Formatter):
    """Lines that no terminal obeys: a column's name may be anything."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def log_to_stderr() -> None:
    """Our own lines, plainly, on stderr; third parties stay quiet."""
    handler = StderrOfTheMoment()
    handler.setFormatter(Visible("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    logger = logging.getLogger("sentemb_core")
    logger.setLevel(logging.INFO)
    logger.handlers = [handler]
    logger.propagate = False
