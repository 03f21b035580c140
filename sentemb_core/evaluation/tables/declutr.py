"""declutr, DeCLUTR: SentEval."""

from sentemb_core.evaluation.tables.table import PaperTable, rows_of

TABLES = (
    PaperTable(
        id="declutr.t1",
        source="DeCLUTR (declutr), Table 1: SentEval, 28 tasks",
        measure="mean of SentEval's scores, times 100",
        rows=rows_of(
            ("downstream", "probing", "average"),
            {
                "declutr": (76.43, 73.82, 75.13),
                "declutr (RoBERTa-base)": (78.17, 73.67, 75.92),
            },
        ),
        note="declutr is DistilRoBERTa. The average is the mean of the two means, not of the 28 "
        "tasks. The single tasks and the seven baselines are not at hand.",
    ),
)
