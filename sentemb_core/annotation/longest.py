"""The longest document whose graph is built; a dry run checks it, so torch is not imported."""

from sentemb_core.errors import LongDocumentError

LONGEST = 100_000
"""Most sentences of a document. Time grows with their square: 4 minutes of CPU for this many of 384
dimensions, 7 hours for a million."""


def require_comparable(longest: int) -> None:
    """Refuse a document of so many sentences that their graph would take hours.

    Raises:
        LongDocumentError: The longest document has more than `LONGEST` sentences.
    """
    if longest > LONGEST:
        raise LongDocumentError(
            f"A graph compares all sentences of a document, so a document may have {LONGEST:,} "
            f"sentences; the longest has {longest:,}. Split it, for example into chapters, or keep "
            f"the first sentences of each document: --set corpus.max_sentences={LONGEST}."
        )
