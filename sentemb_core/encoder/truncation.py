"""How many texts an encoder cuts, and what to do about it."""

import logging
from dataclasses import dataclass
from functools import cache

from sentemb_core.formats import counted

log = logging.getLogger(__name__)

WAY_OUT = (
    "To read more: --set encoder.max_length=N for a run, else sentemb export MODEL FOLDER "
    "--max-length N"
)


@dataclass
class Cut:
    """Number of texts that were tokenised, and of those that are longer than the limit."""

    texts: int = 0
    cut: int = 0
    limit: int = 0
    """Tokens of a text, special tokens and prompt included."""
    example: str = ""
    """The beginning of the first text that is longer."""

    def line(self, what: str) -> str:
        """One line for the log: the share, and the way out if a text is cut."""
        share = self.cut / max(self.texts, 1)
        way_out = f", first {self.example[:60]!r} .... {WAY_OUT}" if self.cut else ""
        return (
            f"cut at {counted(self.limit, 'token')}: {share:.1%} of {self.texts:,} {what} "
            f"({self.cut:,}){way_out}"
        )


@cache
def log_once(line: str) -> None:
    """Log a line that a process would repeat, such as that of a validation in a training."""
    log.info("%s", line)
