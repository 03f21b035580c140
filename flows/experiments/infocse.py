"""infocse, InfoCSE-aux: its tables. All arms read the plain sentences.

The paper compares rows of BERT-base; those of BERT-large are another `--encoder`, with
a Condenser's head for the methods that go on with one.
"""

from collections.abc import Sequence

from flows.experiments.sets import seven_of
from flows.method_table import METHODS
from sentemb_core.config.experiments import (
    BEIR,
    SMALL,
    Arm,
    Base,
    Budget,
    Claim,
    Column,
    Experiment,
    Finish,
    Train,
)
from sentemb_core.config.methods import InfoCSEAux, SimCSE
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
    differs="Texts and sets are those of the folder; every arm starts from BERT after our "
    "Condenser stage of ten times the steps, where only InfoCSE-aux did, from one of 8 epochs; "
    "every method for as many steps, 32 tokens a sentence, and the last step, not the best on "
    "STS-B dev; DiffCSE's generator is that stage's head; bfloat16 where that is faster.",
)
"""The code's: a million sentences of Wikipedia twice by 64, at 7e-6. Section 4.2 says one epoch at
3e-5 (erratum E16). Its Condenser stage took 8 epochs of Wikipedia and books, 1,024 a step. Every
other method is trained as its own code, else its own paper says, for as many steps."""

DEV = Column(label="STS-B dev", judge="STS-B-dev", averaged=False)
"""It chooses; papers average the sets that report."""

STS = seven_of("sts")

BASE = "Base of 2 layers, 128 wide"
TRAINED = (
    "pre-trained by our Condenser stage, which every arm starts from, where only InfoCSE-aux did; "
    "open sentences in place of a million from Wikipedia; the last step, not the best on STS-B dev."
)
FROM_BASE = SMALL.with_difference(f"{BASE}, its mean in place of [CLS], {TRAINED}")


START = Arm(label="start encoder", pooling="first_last_mean")
"""As the paper has BERT; the pooling that methods start from is the next one's."""

START_MEAN = Arm(label="start encoder, mean")


def arm(label: str, name: str = "", pooling: Pooling | None = None, times: float = 1.0) -> Arm:
    """A method of the table of methods; its name is the label unless told."""
    step = Train.model_validate({"method": METHODS[name or label], "times": times})
    return Arm(label=label, steps=(step,), pooling=pooling)


def auxiliary(label: str, settings: InfoCSEAux, x: float | None = None) -> Arm:
    """InfoCSE-aux with a setting of its own."""
    return Arm(label=label, steps=(Train(method=settings),), x=x)


def claim(text: str, better: str, *than: str, on: Sequence[Column] = ()) -> Claim:
    """One arm above others, in all columns unless told."""
    columns = tuple(column.label for column in on)
    return Claim(text=text, better=better, than=than, columns=columns)


def ablation(
    id: str,
    title: str,
    arms: tuple[Arm, ...],
    claims: tuple[Claim, ...],
    differs: str = "",
    axis: str | None = None,
    small: Budget = FROM_BASE,
) -> Experiment:
    """Arms on STS-B dev, beside what they start from."""
    return Experiment(
        id=id,
        title=title,
        arms=(START_MEAN, *arms),
        columns=(DEV,),
        claims=claims,
        axis=axis,
        small=small,
        paper=PAPER,
        differs=differs,
    )


WORDS = Arm(label="word vectors", system="word vectors")
INFOCSE_AUX = arm("infocse_aux")
WITHOUT_MLM = InfoCSEAux(weight=0.0)

WITHOUT_CONTRASTIVE = InfoCSEAux(weight=1e4)
"""Beside it the contrastive loss vanishes, and Adam does not care how large the other is."""

MLM_WEIGHTS = ("0.01", "0.1", "1")

WEIGHTS = ablation(
    id="infocse.t1",
    title="SimCSE with a masked-language loss, by its weight",
    arms=(
        arm("simcse"),
        *(
            Arm(label=label, steps=(Train(method=SimCSE(mlm=float(label))),), x=float(label))
            for label in MLM_WEIGHTS
        ),
    ),
    claims=(
        claim("A masked-language loss beside SimCSE costs similarity", "simcse", *MLM_WEIGHTS),
    ),
    axis="weight of the masked-language loss",
    differs="The paper's numbers are of supervised SimCSE.",
)

OF_MEANS = ("consert", "mirror_bert", "is_bert", "ct")
OF_CLS = ("sg_opt", "simcse", "esimcse", "diffcse")
UNTRAINED = ("word vectors", "start encoder", "flow", "whitening")
EITHER = ("diffcse", "infocse_aux")

SIMILARITY = Experiment(
    id="infocse.t2",
    title="Similarity of sentences",
    arms=(
        WORDS,
        START,
        START_MEAN,
        Arm(label="flow", steps=(Finish(map="flow"),), pooling="last_two_mean"),
        Arm(label="whitening", steps=(Finish(map="whitening"),), pooling="first_block_last_mean"),
        *(arm(name, pooling="mean") for name in OF_MEANS),
        *map(arm, OF_CLS),
        INFOCSE_AUX,
        arm("simcse, three times the steps", "simcse", times=3.0),
    ),
    columns=STS,
    claims=(
        claim(
            "InfoCSE-aux is better than every method before it",
            "infocse_aux",
            *(*UNTRAINED, *OF_MEANS, *OF_CLS),
        ),
        claim("The auxiliary network gains over SimCSE", "infocse_aux", "simcse"),
        claim(
            "(ours) InfoCSE-aux is better than SimCSE trained for three times the steps",
            "infocse_aux",
            "simcse, three times the steps",
        ),
    ),
    small=FROM_BASE,
    paper=PAPER.with_difference(
        "Mirror-BERT's mean is of the tokens, where its code's is of the padding, too."
    ),
    differs="Word vectors, flow and whitening learn from the sentences of the folder.",
)

RETRIEVERS = ("simcse", "esimcse", "diffcse")

BEIR_SETS = (
    "trec-covid", "nfcorpus", "nq", "hotpotqa", "fiqa", "arguana", "webis-touche2020", "quora",
    "dbpedia-entity", "scidocs", "fever", "climate-fever", "scifact",
)  # fmt: skip
"""Folders of BEIR's freely available sets but CQADupStack, which are twelve; with it they are as
many as the paper's fourteen, which it does not name."""

RETRIEVAL = Experiment(
    id="infocse.t3",
    title="Zero-shot retrieval of four methods of sentences",
    arms=(
        Arm(label="random vectors", system="random"),
        Arm(label="BM25", system="BM25"),
        START,
        START_MEAN,
        *map(arm, RETRIEVERS),
        INFOCSE_AUX,
    ),
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
    claims=(
        claim("InfoCSE-aux retrieves better than the other three", "infocse_aux", *RETRIEVERS),
        claim("ESimCSE and DiffCSE retrieve worse than SimCSE", "simcse", "esimcse", "diffcse"),
        claim("(ours) Words alone retrieve better", "BM25", *RETRIEVERS, "infocse_aux"),
    ),
    small=FROM_BASE,
    paper=PAPER,
    differs="Cranfield, CACM and NPL beside those of BEIR's 14 sets that are there, CQADupStack "
    "left out, so that no average of ours is of the paper's sets; texts cut at 32.",
)

PRE_TRAINED = ablation(
    id="infocse.t4",
    title="Auxiliary network pre-trained or not",
    arms=(
        INFOCSE_AUX,
        arm("infocse_aux_random_head"),
        arm("diffcse"),
        arm("diffcse_random_generator"),
    ),
    claims=(
        claim("Pre-training its network helps", "infocse_aux", "infocse_aux_random_head"),
        claim("(ours) So does DiffCSE's generator", "diffcse", "diffcse_random_generator"),
    ),
)

LOSSES = ablation(
    id="infocse.t5",
    title="Without one of the two losses",
    arms=(
        INFOCSE_AUX,
        auxiliary("without mlm", WITHOUT_MLM),
        auxiliary("without contrastive", WITHOUT_CONTRASTIVE),
    ),
    claims=(
        claim("Both losses are needed", "infocse_aux", "without mlm", "without contrastive"),
        claim("The contrastive one is needed more", "without mlm", "without contrastive"),
    ),
    differs="Without the contrastive loss: the other with a weight of 10,000 beside it.",
)

DETACHED = ablation(
    id="infocse.t6",
    title="Lower layers detached or not",
    arms=(
        auxiliary("detached", InfoCSEAux()),
        auxiliary("not detached", InfoCSEAux(detach=False)),
    ),
    claims=(claim("Masked tokens must not train the lower layers", "detached", "not detached"),),
    small=FROM_BASE.with_difference("The lower half is 1 layer of 2, 6 of 12 in the paper."),
)

RATES = ("0.10", "0.15", "0.20", "0.25", "0.30", "0.35", "0.40", "0.45")

MASK_RATES = ablation(
    id="infocse.t7",
    title="Share of tokens masked",
    arms=tuple(auxiliary(rate, InfoCSEAux(mask_rate=float(rate)), float(rate)) for rate in RATES),
    claims=(
        claim("40 % are best", "0.40", *(rate for rate in RATES if rate != "0.40")),
        claim("40 % are better than BERT's 15 %", "0.40", "0.15"),
    ),
    axis="share of tokens masked",
)

LAMBDAS = ("1e-5", "5e-5", "1e-4", "5e-3", "5e-2")

LAMBDA = ablation(
    id="infocse.t8",
    title="Weight of the auxiliary loss",
    arms=(
        auxiliary("0", WITHOUT_MLM),
        *(auxiliary(one, InfoCSEAux(weight=float(one)), float(one)) for one in LAMBDAS),
    ),
    claims=(
        claim("The least weight is best", "1e-5", "0", *LAMBDAS[1:]),
        claim("The least weight gains over none", "1e-5", "0"),
        claim("Large weights are worse than none", "0", "5e-3", "5e-2"),
    ),
    axis="weight of the auxiliary loss",
    differs="Weight 0, the dashed line, keeps the batch-norm head.",
)

POOLED = ("simcse", "diffcse", "infocse_aux")
CLS: tuple[Pooling, ...] = ("cls", "cls_before_pooler")

POOLERS = ablation(
    id="infocse.t9",
    title="The first token with or without a layer on top",
    arms=tuple(arm(f"{name}, {pooling}", name, pooling) for name in POOLED for pooling in CLS),
    claims=tuple(
        claim(
            f"{name}: the token itself is better than with a layer on top",
            f"{name}, cls_before_pooler",
            f"{name}, cls",
        )
        for name in POOLED
    ),
    small=SMALL.with_difference(f"{BASE}, {TRAINED}"),
    differs="cls is a dense layer of the encoder under the training head; the paper keeps the "
    "training head itself.",
)

TRANSFER = Experiment(
    id="infocse.t10",
    title="Transfer: a linear probe on frozen vectors",
    arms=(
        WORDS,
        Arm(label="start encoder", pooling="mean"),
        Arm(label="start encoder (cls)", pooling="cls_before_pooler"),
        arm("simcse"),
        arm("simcse+mlm"),
        INFOCSE_AUX,
    ),
    columns=seven_of("transfer"),
    claims=(
        claim("InfoCSE-aux transfers better than SimCSE", "infocse_aux", "simcse"),
        claim("So does SimCSE with a masked-language loss", "simcse+mlm", "simcse"),
        claim(
            "InfoCSE-aux transfers better than the encoder it starts from",
            "infocse_aux",
            "start encoder",
            "start encoder (cls)",
        ),
    ),
    small=FROM_BASE,
    paper=PAPER,
    differs="Word vectors learn from the sentences of the folder.",
)

RECALLS = tuple(
    Column(label=measure, judge="STS-B-retrieval", measure=measure)
    for measure in ("R@1", "R@5", "R@10")
)
"""Claims are of the second, the judge's main measure, whose units an interval resamples."""

IN_DOMAIN = Experiment(
    id="infocse.t11",
    title="Retrieval of paraphrases among the sentences of STS-B",
    arms=(
        Arm(label="random vectors", system="random"),
        Arm(label="BM25", system="BM25"),
        *map(arm, POOLED),
    ),
    columns=RECALLS,
    claims=(
        claim(
            "InfoCSE-aux finds paraphrases better than SimCSE and DiffCSE",
            "infocse_aux",
            *("simcse", "diffcse"),
            on=RECALLS[1:2],
        ),
        claim("(ours) And better than words alone", "infocse_aux", "BM25", on=RECALLS[1:2]),
    ),
    small=FROM_BASE,
    paper=PAPER,
    differs="The paper's row labels are lost: the methods are ours to name. Sentences recur: a "
    "query finds neither itself nor a copy of itself or of what it looks for, of which the paper "
    "says nothing.",
)

BOTH = Experiment(
    id="infocse.t12",
    title="Replaced-token detection, masked language, both",
    arms=(START_MEAN, *map(arm, (*EITHER, "rtd_mlm"))),
    columns=(DEV, *STS),
    claims=(
        claim("Both losses are better than either, on STS-B dev", "rtd_mlm", *EITHER, on=(DEV,)),
        claim("Both losses are better than either, on the STS sets", "rtd_mlm", *EITHER, on=STS),
        claim("Masked language is better than replaced-token detection", *reversed(EITHER), on=STS),
    ),
    small=FROM_BASE,
    paper=PAPER,
)

EXPERIMENTS = (
    WEIGHTS,
    SIMILARITY,
    RETRIEVAL,
    PRE_TRAINED,
    LOSSES,
    DETACHED,
    MASK_RATES,
    LAMBDA,
    POOLERS,
    TRANSFER,
    IN_DOMAIN,
    BOTH,
)
