"""mutual, InfoCSE-IDC: retrieval of a document's counterpart. Recalls are fractions."""

from sentemb_core.evaluation.tables.table import PaperTable, rows_of

SETS = ("News", "Web documents", "Browsing")

SETTING = "Browsing is private data. Pooling and normalisation are not stated."

ONE_RUN = "This paper's infocse_idc of Table 1 is the same run: "

TABLES = (
    PaperTable(
        id="mutual.t1",
        source="InfoCSE-IDC (mutual), Table 1: zero-shot, R@5",
        measure="R@5",
        rows=rows_of(
            SETS,
            {
                "simcse": (0.3236, 0.1639, 0.0319),
                "consert": (0.2512, 0.1335, 0.0295),
                "mirror_bert": (0.2950, 0.1910, 0.0340),
                "ict": (0.3872, 0.2842, 0.0595),
                "cpc": (0.3250, 0.2787, 0.0569),
                "declutr": (0.4786, 0.3155, 0.0628),
                "conpono": (0.4257, 0.2285, 0.0142),
                "infocse_idc": (0.6345, 0.3612, 0.0661),
            },
        ),
        note=SETTING + " The text calls conpono competitive on Web documents; its number there is "
        "below ict, cpc and declutr.",
    ),
    PaperTable(
        id="mutual.t1.r10",
        source="InfoCSE-IDC (mutual), Table 1: zero-shot, R@10",
        measure="R@10",
        rows=rows_of(
            SETS,
            {
                "ict": (0.4540, 0.3603, 0.0855),
                "cpc": (0.3819, 0.3540, 0.0818),
                "declutr": (0.5380, 0.3925, 0.0900),
                "conpono": (0.5010, 0.2953, 0.0251),
            },
        ),
        note=SETTING + " The other rows are not at hand.",
    ),
    PaperTable(
        id="mutual.t1.r20",
        source="InfoCSE-IDC (mutual), Table 1: zero-shot, R@20",
        measure="R@20",
        rows=rows_of(
            SETS,
            {
                "ict": (0.5589, 0.4678, 0.1210),
                "cpc": (0.4856, 0.4608, 0.1166),
                "declutr": (0.6495, 0.5104, 0.1259),
                "conpono": (0.5980, 0.3862, 0.0403),
            },
        ),
        note=SETTING + " The other rows are not at hand.",
    ),
    PaperTable(
        id="mutual.t2",
        source="InfoCSE-IDC (mutual), Table 2: few-shot, R@5 after some labels",
        measure="R@5",
        rows=rows_of(
            SETS,
            {
                "infocse_idc, 1,000 labels": (0.6484, 0.4644, 0.0892),
                "infocse_idc, 2,000 labels": (0.6611, 0.4850, 0.0921),
                "infocse_idc, 5,000 labels": (0.6788, 0.4957, 0.0983),
            },
        )
        | {
            "start encoder, 1,000 labels": {"News": 0.3546},
            "start encoder, 2,000 labels": {"News": 0.3742},
            "start encoder, 5,000 labels": {"News": 0.4206},
        },
        note=SETTING + " The other methods' rows, and the start encoder's on two sets, are not at "
        "hand.",
    ),
    PaperTable(
        id="mutual.t3a",
        source="InfoCSE-IDC (mutual), Table 3: InfoCSE++ against one fine-tuning, R@5",
        measure="R@5",
        rows=rows_of(
            SETS,
            {
                "fine-tuned, 1,000 labels": (0.6484, 0.4644, 0.0892),
                "++, 1,000 labels": (0.6852, 0.4853, 0.0940),
                "fine-tuned, all labels": (0.6927, 0.5129, 0.1039),
                "++, all labels": (0.7033, 0.5358, 0.1041),
            },
        ),
        note=SETTING + " All labels of Web documents: 16,366 in the text, 16,336 in Table 4.",
    ),
    PaperTable(
        id="mutual.t3b",
        source="InfoCSE-IDC (mutual), Table 3: how documents are clustered, R@5",
        measure="R@5",
        rows=rows_of(
            SETS, {"k-means": (0.5343, 0.3366, 0.0600), "partition": (0.6345, 0.3612, 0.0661)}
        ),
        note=ONE_RUN + "partition. k-means has 10 clusters over the whole corpus.",
    ),
    PaperTable(
        id="mutual.t3c",
        source="InfoCSE-IDC (mutual), Table 3: rounds of annotation and training, R@5",
        measure="R@5",
        rows=rows_of(
            SETS,
            {
                "round 1": (0.5721, 0.3531, 0.0646),
                "round 2": (0.6345, 0.3612, 0.0661),
                "round 3": (0.6341, 0.3458, 0.0656),
            },
        ),
        note=ONE_RUN + "round 2.",
    ),
    PaperTable(
        id="mutual.t3d",
        source="InfoCSE-IDC (mutual), Table 3: the encoder it starts from, R@5",
        measure="R@5",
        rows=rows_of(
            SETS,
            {
                "CP": (0.6345, 0.3612, 0.0661),
                "SC": (0.6155, 0.3617, 0.0733),
                "ICT": (0.6302, 0.3601, 0.0727),
            },
        ),
        note=ONE_RUN + "CP. A row is what infocse_idc reaches from conpono, simcse, ict.",
    ),
    PaperTable(
        id="mutual.t3e",
        source="InfoCSE-IDC (mutual), Table 3: who annotates the first round, R@5",
        measure="R@5",
        rows=rows_of(
            SETS, {"BERT(CP)": (0.6345, 0.3612, 0.0661), "SBERT": (0.6639, 0.3692, 0.0764)}
        ),
        note=ONE_RUN + "BERT(CP), BERT trained by conpono. SBERT is all-mpnet-base-v2, which "
        "annotates only and is not the encoder trained.",
    ),
)
