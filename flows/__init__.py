"""What happens, in the papers' order: one module per flow, and the command line over them."""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.report import Outcome

Documents = str | Path | Iterable[Mapping[str, Any]]


def run(
    documents: Documents, *, settings: Mapping[str, Any] | None = None, **options: Any
) -> "Outcome":
    """Run as `python -m flows run` does, with the same defaults, and return the outcome.

    Args:
        documents: A source of documents (docs/data.md), or records with `id`, `text` (or
            `sentences`) and `title`, which are stored in the home.
        settings: Further settings by their path, such as {"training.steps": 50}.
        options: As on the command line: name, encoder, method, task, rounds, id_column, ...

    Raises:
        UsageError: An option or a setting that does not exist.
        SentembError: As the command, with the same codes.
    """
    from flows.environment import prepare

    prepare()
    from flows.cli.execute import run_flow
    from flows.cli.records import stored_records
    from flows.cli.run import check, run_of
    from flows.cli.settings import by_name
    from flows.cli.settings import settings as described

    columns: dict[str, Any] = {}
    if not isinstance(documents, str | Path):
        documents, columns = stored_records(documents)
    paths = {"corpus.source": str(documents)} | by_name(columns | options) | dict(settings or {})
    config = described(None, paths, [])
    check(config)
    return run_flow(partial(run_of, config))
