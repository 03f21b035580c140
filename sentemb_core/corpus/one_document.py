"""One document of a source, by its id: nothing else is split into sentences."""

from collections import Counter

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.checks import document
from sentemb_core.corpus.quarantine import REASONS, BadRow, RefusedError
from sentemb_core.corpus.readers import rows
from sentemb_core.corpus.sentences import splitter
from sentemb_core.errors import BadDataError


def sentences_of(config: CorpusConfig, doc_id: str) -> list[str]:
    """The sentences of the first usable row with this id.

    Raises:
        BadDataError: there is none.
        UnreadableSourceError, MissingColumnError: E103, E104, from the reader.
    """
    known: list[str] = []
    refused = ""
    for row in rows(config):
        if isinstance(row, BadRow):
            continue
        known = [*known, str(row.doc_id)][:3]
        if str(row.doc_id) != doc_id:
            continue
        try:
            return document(row, config, splitter(config.splitter), Counter()).sentences
        except RefusedError as error:
            refused = f"; {row.where} has it, and is {REASONS[error.reason]}"
    raise BadDataError(f"No document has the id {doc_id!r}{refused}; the first ids are {known}.")
