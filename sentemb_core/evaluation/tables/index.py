"""Finds a table of the five papers by its id.

The values are as printed: an average that its own row refutes stays, and the table's `note` has the
correction (docs/errata.md has them all). One is corrected, since another table of its paper says
how: Table 12 of infocse, whose note has what is printed. The STS averages were checked by
arithmetic; these could not be verified:

- mutual: R@10 and R@20 are there for four methods only, Table 2 for two; Browsing is private;
- infocse: the row labels of Tables 1 and 11 are lost (those of Table 1 are remembered from
  SimCSE's paper, Table 11 has none); of the older methods in Tables 2 and 10 only the first column
  or the average is known;
- product_thesis: slides, no code; what its 67.0 after rescoring belongs to;
- declutr: the seven baselines and the 28 single tasks;
- hicl: all its tables but one are missing, so only what its text says; which of the two
  training times is whose is read from its claim.

Figures without numbers in the text (product_thesis.quora_k, .batch, .curve, .alpha;
declutr.f2, .f3; hicl.f2) and tables whose numbers are lost (hicl.t3,
t4, t6, t7, t9, t10, t14, t15, t16) have no entry,
nor has mutual.appD, which lists clusters.
"""

from collections.abc import Mapping

from sentemb_core.evaluation.tables import declutr, hicl, infocse, mutual, product_thesis
from sentemb_core.evaluation.tables.table import PaperTable

PAPERS = (mutual, infocse, product_thesis, declutr, hicl)

PAPER_TABLES: Mapping[str, PaperTable] = {
    table.id: table for paper in PAPERS for table in paper.TABLES
}
"""In the order of the papers."""


def paper_table(id: str) -> PaperTable | None:
    """The table of this id; None if there is no such table, or no number of it is at hand."""
    return PAPER_TABLES.get(id)
