"""InfoCSE-aux (infocse): its tables. All arms train on the plain sentences.

The paper's rows of BERT-base are the default. For its rows of BERT-large name another `--encoder`;
methods that continue a Condenser stage need one with a Condenser head.
"""

from functools import partial

from flows.experiments.parts import (
    BM25,
    RANDOM,
    WORD_VECTORS,
    row,
    suite_columns,
)
from sentemb_core.config.experiments import (
    BEIR,
    SMALL,
    Arm,
    Base,
    Budget,
    Column,
    Experiment,
    Finish,
    Train,
)
from sentemb_core.config.methods import InfoCSEAux, MethodSettings, SimCSE
from sentemb_core.config.run import EncoderConfig
from sentemb_core.types import Pooling

PAPER = Budget(
    steps=31_250,
    learning_rate=7e-6,
    base=Base(
        encoder=EncoderConfig(name="bert-base-uncased", pooling="cls_before_pooler"),
        learning_rate=1e-4,
    ),
    threads=None,
    seeds=(42,),
    presets=("code", "paper"),
    differs="Texts and sets are those of the data folder. Every arm starts from BERT after our "
    "Condenser stage of ten times the steps; in the paper only InfoCSE-aux did, after a stage of 8 "
    "epochs. Every method has equally many steps and 32 tokens a sentence, and keeps the last "
    "step, not the best on STS-B dev. DiffCSE's generator is the head of that stage. Training is "
    "in bfloat16 if that is faster.",
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

table = partial(Experiment, small=FROM_BASE, paper=PAPER)

DEV = Column(label="STS-B dev", judge="STS-B-dev", averaged=False)
"""The papers choose by this set, so it is not part of an average."""

STS = suite_columns("sts")

START = Arm(label="start encoder", pooling="first_last_mean")
"""Pooled as the paper pools BERT."""

START_MEAN = Arm(label="start encoder, mean")
"""Pooled as the methods start."""

INFOCSE_AUX = row("infocse_aux")
WITHOUT_MLM = InfoCSEAux(weight=0.0)
WITHOUT_CONTRASTIVE = InfoCSEAux(weight=1e4)
"""The contrastive loss vanishes beside this weight; Adam is invariant to the scale of the loss."""


def trained(label: str, settings: MethodSettings, x: float | None = None) -> Arm:
    """Return an arm with one training."""
    return Arm(label=label, steps=(Train(method=settings),), x=x)


MLM_WEIGHTS = ("0.01", "0.1", "1")

OF_MEANS = ("consert", "mirror_bert", "is_bert", "ct")
OF_CLS = ("sg_opt", "simcse", "esimcse", "diffcse")
UNTRAINED = ("word vectors", "start encoder", "flow", "whitening")

RETRIEVERS = ("simcse", "esimcse", "diffcse")

BEIR_SETS = (
    "trec-covid", "nfcorpus", "nq", "hotpotqa", "fiqa", "arguana", "webis-touche2020", "quora",
    "dbpedia-entity", "scidocs", "fever", "climate-fever", "scifact",
)  # fmt: skip
"""BEIR's open sets without CQADupStack. The paper does not name its fourteen sets."""

RATES = ("0.10", "0.15", "0.20", "0.25", "0.30", "0.35", "0.40", "0.45")

LAMBDAS = ("1e-5", "5e-5", "1e-4", "5e-3", "5e-2")

POOLED = ("simcse", "diffcse", "infocse_aux")
CLS: tuple[Pooling, ...] = ("cls", "cls_before_pooler")

RECALLS = tuple(
    Column(label=measure, judge="STS-B-retrieval", measure=measure)
    for measure in ("R@1", "R@5", "R@10")
)
"""Claims are about R@5: the single values of the main measure are kept, for the interval."""

EITHER = ("diffcse", "infocse_aux")

EXPERIMENTS = (
    table(
        id="infocse.t1",
        title="SimCSE with a masked-language loss, by its weight",
        arms=(
            START_MEAN,
            row("simcse"),
            *(trained(label, SimCSE(mlm=float(label)), float(label)) for label in MLM_WEIGHTS),
        ),
        columns=(DEV,),
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
            Arm(label="flow", steps=(Finish(map="flow"),), pooling="last_two_mean"),
            Arm(
                label="whitening", steps=(Finish(map="whitening"),), pooling="first_block_last_mean"
            ),
            *(row(name, pooling="mean") for name in OF_MEANS),
            *map(row, OF_CLS),
            INFOCSE_AUX,
            row("simcse, three times the steps", "simcse", times=3.0),
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
        arms=(RANDOM, BM25, START, START_MEAN, *map(row, RETRIEVERS), INFOCSE_AUX),
        columns=(
            *(
                Column(label=name, judge=name, measure="nDCG@10")
                for name in ("Cranfield", "CACM", "NPL")
            ),
            *(
                Column(label=name, judge=f"{BEIR}{name}", measure="nDCG@10", optional=True)
                for name in BEIR_SETS
            ),
        ),
        differs="The sets are Cranfield, CACM, NPL, and those of BEIR's sets that are in the data "
        "folder, without CQADupStack; so our average is over other sets than the paper's. Texts "
        "are cut at 32 tokens.",
    ),
    table(
        id="infocse.t4",
        title="Auxiliary network pre-trained or not",
        arms=(
            START_MEAN,
            INFOCSE_AUX,
            *map(row, ("infocse_aux_random_head", "diffcse", "diffcse_random_generator")),
        ),
        columns=(DEV,),
    ),
    table(
        id="infocse.t5",
        title="Without one of the two losses",
        arms=(
            START_MEAN,
            INFOCSE_AUX,
            trained("without mlm", WITHOUT_MLM),
            trained("without contrastive", WITHOUT_CONTRASTIVE),
        ),
        columns=(DEV,),
        differs="Without the contrastive loss means: the other loss has a weight of 10,000.",
    ),
    table(
        id="infocse.t6",
        title="Lower layers detached or not",
        arms=(
            START_MEAN,
            trained("detached", InfoCSEAux()),
            trained("not detached", InfoCSEAux(detach=False)),
        ),
        columns=(DEV,),
        small=FROM_BASE.with_difference(
            "The lower half is 1 layer of 2; in the paper it is 6 of 12."
        ),
    ),
    table(
        id="infocse.t7",
        title="Share of tokens masked",
        arms=(
            START_MEAN,
            *(trained(rate, InfoCSEAux(mask_rate=float(rate)), float(rate)) for rate in RATES),
        ),
        columns=(DEV,),
        axis="share of tokens masked",
    ),
    table(
        id="infocse.t8",
        title="Weight of the auxiliary loss",
        arms=(
            START_MEAN,
            trained("0", WITHOUT_MLM),
            *(trained(one, InfoCSEAux(weight=float(one)), float(one)) for one in LAMBDAS),
        ),
        columns=(DEV,),
        axis="weight of the auxiliary loss",
        differs="Weight 0, the dashed line, keeps the batch-norm head.",
    ),
    table(
        id="infocse.t9",
        title="The first token with or without a layer on top",
        arms=(
            START_MEAN,
            *(
                row(f"{name}, {pooling}", name, pooling=pooling)
                for name in POOLED
                for pooling in CLS
            ),
        ),
        columns=(DEV,),
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
            row("simcse"),
            row("simcse+mlm"),
            INFOCSE_AUX,
        ),
        columns=suite_columns("transfer"),
        differs="Word vectors learn from the sentences of the data folder.",
    ),
    table(
        id="infocse.t11",
        title="Retrieval of paraphrases among the sentences of STS-B",
        arms=(RANDOM, BM25, *map(row, POOLED)),
        columns=RECALLS,
        differs="The paper's row labels are lost, so we chose the methods. Sentences recur: a "
        "query retrieves neither itself, nor a copy of itself or of its target. The paper does not "
        "mention copies.",
    ),
    table(
        id="infocse.t12",
        title="Replaced-token detection, masked language, both",
        arms=(START_MEAN, *map(row, (*EITHER, "rtd_mlm"))),
        columns=(DEV, *STS),
    ),
)
