"""Shared by the command lines: results on stdout, messages on stderr, errors as exit codes."""

import atexit
import errno
import gc
import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Collection, Iterable, Sequence
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
    UnusedCliTokensError,
)

from sentemb_core.errors import SentembError, UsageError
from sentemb_core.redaction import redacted
from sentemb_core.termination import STATUS, Terminated, exit_with, terminable

if TYPE_CHECKING:
    from rich.table import Table

HIDDEN = [0x7F, *range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
"""Characters that control a terminal and that JSON does not escape: DEL, C1, text direction."""

SHOWN = dict.fromkeys(HIDDEN, "\ufffd") | {
    code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"
}
"""Visible marks for these characters and for C0 (such as ESC), which any text may contain."""

ESCAPED = {code: f"\\u{code:04x}" for code in HIDDEN}

_debugging: ContextVar[bool] = ContextVar("debugging", default=False)


def command_line(name: str, purpose: str) -> App:
    """A command line; every command has `--debug`."""
    no_negations = Parameter(negative=())  # no option --no-json
    app = App(name, purpose, version=lambda: version("sentemb"), default_parameter=no_negations)
    for layer in (app, app.meta):
        layer.suppress_keyboard_interrupt = False  # `run` handles it
    atexit.register(gc.freeze)  # the last collection would visit all of torch: 2.6 s

    @app.meta.default
    def verb(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        debug: Annotated[
            bool, Parameter(negative="", help="Show the traceback of an error.")
        ] = False,
    ) -> Any:
        _debugging.set(debug)
        return app(tokens, exit_on_error=False, print_error=False, result_action="return_value")

    return app


def main(app: App) -> NoReturn:
    """Run the command of this process, and exit."""
    exit_with(run(app))


def debugging() -> bool:
    """Whether `--debug` was given."""
    return _debugging.get()


def run(app: App, tokens: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 success, 1 internal error, 2 usage, 3 data, 4 gate, 5 resources, 130 Ctrl-C, 143 SIGTERM.
    """
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # for letters that stdout lacks
    try:
        _require_utf8(sys.argv[1:] if tokens is None else tokens)
        with terminable():
            answer = app.meta(
                tokens, exit_on_error=False, print_error=False, result_action="return_value"
            )
    except CycloptsError as error:
        complain(f"{UsageError.code} {usage_message(error, app.name[0])}")
        return UsageError.exit_code
    except SentembError as error:
        show_traceback(error)
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt as ended:
        complain("interrupted")
        return STATUS if isinstance(ended, Terminated) else 130
    except BrokenPipeError:  # the reader of a pipe has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        show_traceback(error)
        if isinstance(error, OSError) and error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            complain(
                f"{UsageError.code} A path leads to a file, by names of at most 255 bytes; found "
                f"{error.filename!s:.80} ({error.strerror}). Name another path."
            )
            return UsageError.exit_code
        complain(internal_error(error))
        return SentembError.exit_code
    return answer if isinstance(answer, int) else 0


def _require_utf8(tokens: Sequence[str]) -> None:
    """Check that no argument has bytes outside UTF-8, which no later stage can encode.

    Raises:
        UsageError: with the argument.
    """
    for token in tokens:
        try:
            token.encode()
        except UnicodeEncodeError as error:
            shown = repr(token.encode("utf-8", "surrogateescape"))[1:]
            raise UsageError(
                f"Arguments are text in UTF-8; found {shown:.200}. Convert the text, or rename "
                "the file."
            ) from error


def usage_message(error: CycloptsError, program: str) -> str:
    """Message about a wrong argument; arguments have the names of `--help`."""
    verb = " ".join(error.command_chain or ())
    message, place = str(error), error.argument
    if isinstance(error, MissingArgumentError) and place:
        positional = place.field_info.is_positional
        if positional or not (error.keyword or place.tokens or error.unused_tokens):
            name = place.field_info.name.upper() if positional else place.name
            meaning = re.split(r"(?<!\.\.)\. ", place.parameter.help or "")[0].removesuffix(".")
            message = f"`{verb}` needs {name}{meaning and f' ({meaning})'}."
    if isinstance(error, ArgumentOrderError):
        first = error.prior_positional_or_keyword_supplied_as_keyword_arguments[0]
        name, given = first.field_info.name.upper(), first.tokens[0].keyword
        message = f"`{verb}` takes {name} as a positional argument, not as {given}."
    if isinstance(error, UnusedCliTokensError):
        unused = error.unused_tokens or ()
        message = f"`{verb}` does not take {', '.join(unused)}."
        if all(re.match(r"\w[\w.]*=", token) for token in unused):
            again = " ".join(f"--set {token}" for token in unused)
            return f"{message} Each setting has an option of its own: write {again}."
    if isinstance(error, UnknownCommandError):
        message = message.replace(", ...", " and more.")  # the parser lists eight commands
    if "Did you mean" in message:
        return message
    if isinstance(error, UnknownCommandError):
        return (
            f"{message} `{program} --help` lists all. There are two command lines: `sentemb` (an "
            "encoder in a folder) and `python -m flows` (pipelines, registry)."
        )
    return f"{message} See `{' '.join(filter(None, (program, verb, '--help')))}`."


def show_traceback(error: Exception) -> None:
    if debugging():
        sys.stderr.write(redacted("".join(traceback.format_exception(error))))


def internal_error(error: Exception) -> str:
    """Message about an unexpected error: what, where, and what to do."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    first = next(iter(str(error).splitlines()), "")
    return (
        f"{SentembError.code} {type(error).__name__}: {first} ({frame.name} in {frame.filename}, "
        f"line {frame.lineno}). This is a bug: repeat with --debug, and report the traceback."
    )


def complain(message: str) -> None:
    """Print an error on stderr, without secrets."""
    from rich.console import Console

    Console(stderr=True, soft_wrap=True).print(
        f"[bold red]error[/] {plain(redacted(message))}", highlight=False
    )


def remark(text: str) -> None:
    """Print a line on stderr."""
    sys.stderr.write(visible(text) + "\n")


def plain(text: str) -> str:
    """Text that rich prints literally and that cannot control a terminal."""
    from rich.markup import escape

    return escape(visible(text))


def visible(text: str) -> str:
    """Text with a mark for every character that controls a terminal."""
    return text.translate(SHOWN)


def terminal_table(
    head: Iterable[str],
    rows: Iterable[Iterable[str]] = (),
    numbers: Collection[int] = (),
    *,
    folded: bool = False,
    title: str = "",
) -> "Table":
    """A table for the terminal; brackets in a text are not markup.

    Args:
        head: Column names.
        rows: Cells.
        numbers: Columns to align on the right.
        folded: Wrap a long word, so it can be copied; otherwise cut it.
        title: Above the table.
    """
    from rich.table import Table

    overflow = "fold" if folded else "ellipsis"
    table = Table(box=None, title=plain(title))
    for place, name in enumerate(head):
        justify = "right" if place in numbers else "left"
        table.add_column(plain(name), justify=justify, overflow=overflow)
    for row in rows:
        table.add_row(*map(plain, row))
    return table


def emit(value: Any) -> None:
    """Print a result as one JSON document on stdout, in ASCII if stdout lacks a letter."""
    document = partial(json.dumps, value, indent=2, default=str)
    text = document(ensure_ascii=False).translate(ESCAPED)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = document()
    sys.stdout.write(text + "\n")


def write_line(text: str) -> None:
    """Print one line on stdout, for shells."""
    sys.stdout.write(text + "\n")


def print_result(value: Any, *texts: Any, as_json: bool) -> int:
    """Print a value as JSON, or tables and sentences for people; return exit code 0."""
    if as_json:
        emit(value)
    else:
        show(*texts)
    return 0


def show(*results: Any) -> None:
    """Print tables and sentences on stdout; in a pipe tables are at least 120 wide."""
    from rich.console import Console

    class Results(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would end the process with an error

    console = Results()
    if not console.is_terminal:
        console = Results(width=max(console.width, 120))
    for result in results:
        sentence = isinstance(result, str)  # not wrapped (paths), not markup
        shown = visible(result) if sentence else result
        console.print(shown, highlight=False, markup=not sentence, soft_wrap=sentence)


class CurrentStderr(logging.StreamHandler[TextIO]):
    """Write to the present `sys.stderr`, which a test or a progress bar may replace."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class Visible(logging.Formatter):
    """Log lines that cannot control a terminal: a column name may contain anything."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def log_to_stderr() -> None:
    """Log the lines of `sentemb_core` on stderr, and nothing of other packages."""
    handler = CurrentStderr()
    handler.setFormatter(Visible("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    logger = logging.getLogger("sentemb_core")
    logger.setLevel(logging.INFO)
    logger.handlers = [handler]
    logger.propagate = False
