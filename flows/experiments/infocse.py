"""InfoCSE-aux (infocse): its tables. All arms train on the plain sentences.

The paper's rows of BERT-base are the default. For its rows of BERT-large name another `--encoder`;
methods that continue a Condenser stage need one with a Condenser head.
"""

from functools import partial

from flows.experiments.parts import (
    BM25,
    FORUMS,
    RANDOM,
    WORD_VECTORS,
    arm,
    curve,
    published,
    row,
    suite_columns,
)
from sentemb_core.config.experiments import BEIR, SMALL, Arm, Base, Column, Experiment, Finish
from sentemb_core.config.methods import InfoCSEAux, SimCSE
from sentemb_core.config.run import EncoderConfig

BERT = EncoderConfig(name="bert-base-uncased", pooling="cls_before_pooler")

PAPER = published(
    BERT.name,
    steps=31_250,
    learning_rate=7e-6,
    base=Base(encoder=BERT, learning_rate=1e-4),
    presets=("code", "paper"),
    differs="Texts and sets are those of the data folder. Every arm starts from BERT after our "
    "Condenser stage of ten times the steps; in the paper only InfoCSE-aux did, after a stage of 8 "
    "epochs. Every method has equally many steps and 32 tokens a sentence, and keeps the last "
    "step, not the best on STS-B dev. DiffCSE's generator is the head of that stage. Gradients "
    "clipped at 1 are ours and SimCSE's code's; warm-up and weight decay of IS-BERT, the weight "
    "decay of CT, and bfloat16 where that is faster are ours.",
)
"""The code's settings: a million sentences of Wikipedia twice, batch 64, rate 7e-6.

Section 4.2 states one epoch at 3e-5 (erratum E16). The paper's Condenser stage took 8 epochs of
Wikipedia and books at batch 1,024. Every other method has the settings of its own code, else of its
own paper, for equally many steps.
"""

BASE = "The base has 2 layers of width 128"
TRAINED = (
    "Our Condenser stage pre-trained it, and every arm starts from it; in the paper only "
    "InfoCSE-aux did. Open sentences replace a million from Wikipedia. The last step is kept, not "
    "the best on STS-B dev."
)
FROM_BASE = SMALL.with_difference(f"{BASE} and pools by the mean in place of [CLS]. {TRAINED}")

DEV = Column(label="STS-B dev", judge="STS-B-dev", averaged=False)
"""The papers choose by this set, so it is not part of an average."""

table = partial(Experiment, columns=(DEV,), small=FROM_BASE, paper=PAPER)

STS = suite_columns("sts")

START = Arm(label="start encoder", pooling="first_last_mean")
"""Pooled as the paper pools BERT."""

START_MEAN = Arm(label="start encoder, mean")
"""Pooled as the methods start."""

INFOCSE_AUX = row("infocse_aux")
POOLED = ("simcse", "diffcse", "infocse_aux")

WITHOUT_CONTRASTIVE = InfoCSEAux(weight=1e4)
"""The contrastive loss vanishes beside this weight; Adam is invariant to the scale of the loss."""

BEIR_SETS = (
    "trec-covid", "nfcorpus", "nq", "hotpotqa", "fiqa", "arguana", "webis-touche2020", "quora",
    "dbpedia-entity", "scidocs", "fever", "climate-fever", "scifact",
)  # fmt: skip
"""The paper's fourteen sets but CQADupStack, whose folders are those of its forums."""


def beir_column(name: str, *, averaged: bool = True) -> Column:
    """Return a column of a folder of BEIR's, left out without its files."""
    judge = f"{BEIR}{name}"
    return Column(label=name, judge=judge, measure="nDCG@10", averaged=averaged, optional=True)


EXPERIMENTS = (
    table(
        id="infocse.t1",
        title="SimCSE with a masked-language loss, by its weight",
        arms=(
            START_MEAN,
            row("simcse"),
            *curve(lambda weight: SimCSE(mlm=weight), "0.01", "0.1", "1"),
        ),
        axis="weight of the masked-language loss",
        differs="The paper's numbers are of supervised SimCSE.",
    ),
    table(
        id="infocse.t2",
        title="Similarity of sentences",
        arms=(
            WORD_VECTORS,
            START,
            START_MEAN,
            arm("flow", Finish(map="flow"), pooling="last_two_mean"),
            arm("whitening", Finish(map="whitening"), pooling="first_block_last_mean"),
            *(row(name, pooling="mean") for name in ("consert", "mirror_bert", "is_bert", "ct")),
            *map(row, ("sg_opt", "simcse", "esimcse", "diffcse")),
            INFOCSE_AUX,
            row("simcse", "simcse, three times the steps", times=3.0),
        ),
        columns=STS,
        paper=PAPER.with_difference(
            "Mirror-BERT's mean is over the tokens; its code's includes the padding."
        ),
        differs="Word vectors, flow and whitening learn from the sentences of the data folder.",
    ),
    table(
        id="infocse.t3",
        title="Zero-shot retrieval of four methods of sentences",
        arms=(
            *(RANDOM, BM25, START, START_MEAN),
            *map(row, ("simcse", "esimcse", "diffcse", "infocse_aux")),
        ),
        columns=(
            *(
                Column(label=name, judge=name, measure="nDCG@10")
                for name in ("Cranfield", "CACM", "NPL")
            ),
            *(beir_column(name) for name in BEIR_SETS),
            *(beir_column(f"cqadupstack/{forum}", averaged=False) for forum in FORUMS),
        ),
        differs="The sets are Cranfield, CACM, NPL, and those of BEIR's sets that are in the data "
        "folder; CQADupStack has a column for each forum and no part in the average. So our "
        "average is over other sets than the paper's. Texts are cut at 32 tokens.",
    ),
    table(
        id="infocse.t4",
        title="Auxiliary network pre-trained or not",
        arms=(
            START_MEAN,
            INFOCSE_AUX,
            *map(row, ("infocse_aux_random_head", "diffcse", "diffcse_random_generator")),
        ),
    ),
    table(
        id="infocse.t5",
        title="Without one of the two losses",
        arms=(
            START_MEAN,
            INFOCSE_AUX,
            arm("without mlm", InfoCSEAux(weight=0.0)),
            arm("without contrastive", WITHOUT_CONTRASTIVE),
        ),
        differs="Without the contrastive loss means: the other loss has a weight of 10,000.",
    ),
    table(
        id="infocse.t6",
        title="Lower layers detached or not",
        arms=(
            START_MEAN,
            arm("detached", InfoCSEAux()),
            arm("not detached", InfoCSEAux(detach=False)),
        ),
        small=FROM_BASE.with_difference(
            "The lower half is 1 layer of 2; in the paper it is 6 of 12."
        ),
    ),
    table(
        id="infocse.t7",
        title="Share of tokens masked",
        arms=(
            START_MEAN,
            *curve(
                lambda rate: InfoCSEAux(mask_rate=rate),
                *("0.10", "0.15", "0.20", "0.25", "0.30", "0.35", "0.40", "0.45"),
            ),
        ),
        axis="share of tokens masked",
    ),
    table(
        id="infocse.t8",
        title="Weight of the auxiliary loss",
        arms=(
            START_MEAN,
            arm("0", InfoCSEAux(weight=0.0)),
            *curve(
                lambda weight: InfoCSEAux(weight=weight), "1e-5", "5e-5", "1e-4", "5e-3", "5e-2"
            ),
        ),
        axis="weight of the auxiliary loss",
        differs="Weight 0 keeps the batch-norm head.",
    ),
    table(
        id="infocse.t9",
        title="The first token with or without a layer on top",
        arms=(
            START_MEAN,
            *(
                row(name, f"{name}, {pooling}", pooling=pooling)
                for name in POOLED
                for pooling in ("cls", "cls_before_pooler")
            ),
        ),
        small=SMALL.with_difference(f"{BASE}. {TRAINED}"),
        differs="cls is a dense layer of the encoder below the training head; the paper keeps the "
        "training head itself.",
    ),
    table(
        id="infocse.t10",
        title="Transfer: a linear probe on frozen vectors",
        arms=(
            WORD_VECTORS,
            Arm(label="start encoder", pooling="mean"),
            Arm(label="start encoder (cls)", pooling="cls_before_pooler"),
            row("is_bert", pooling="mean"),
            row("simcse"),
            row("simcse+mlm"),
            INFOCSE_AUX,
        ),
        columns=suite_columns("transfer"),
        differs="Word vectors learn from the sentences of the data folder. Skip-thought, whose "
        "weights we do not have, is quoted alone.",
    ),
    table(
        id="infocse.t11",
        title="Retrieval of paraphrases among the sentences of STS-B",
        arms=(RANDOM, BM25, *map(row, POOLED)),
        columns=tuple(
            Column(label=measure, judge="STS-B-retrieval", measure=measure)
            for measure in ("R@1", "R@5", "R@10")
        ),
        differs="Sentences recur: a query retrieves neither itself, nor a copy of itself or of its "
        "target. The paper does not mention copies.",
    ),
    table(
        id="infocse.t12",
        title="Replaced-token detection, masked language, both",
        arms=(START_MEAN, *map(row, ("simcse", "diffcse", "infocse_aux", "rtd_mlm"))),
        columns=(DEV, *STS),
    ),
)
