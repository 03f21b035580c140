"""Parts that several experiments share: rows of methods, arms, columns, differences."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from sentemb_core.config.experiments import (
    Arm,
    Base,
    Budget,
    Column,
    Corpus,
    Experiment,
    Finish,
    Label,
    SelfTrain,
    Step,
    Train,
)
from sentemb_core.config.methods import ISBERT, METHOD_NAMES, SNCSE, HiCL, MethodSettings
from sentemb_core.config.presets import PRESETS
from sentemb_core.config.run import EncoderConfig
from sentemb_core.config.suite import SUITE
from sentemb_core.types import Json, Pooling

TITLED: Json = {"id_column": "doc_id", "counterpart_column": "title", "max_sentences": 12}
CORPORA: Mapping[Corpus, Json] = {
    "blog_usgov": TITLED | {"sentences_column": "sentences"},
    "news_reuters21578": TITLED | {"sentences_column": "sentences"},
    "sci_arxiv_cs": TITLED | {"sentences_column": "sentences"},
    "session_mixed_titles": {
        "id_column": "session_id",
        "sentences_column": "titles",
        "counterpart_column": "ad_title",
    },
    "long_elife": TITLED | {"text_column": "text", "max_sentences": 120},
    "plain_sentences": {"text_column": "text", "splitter": "none"},
    "product_wdc_clusters": {"text_column": "title", "splitter": "none"},
    "product_amazon_google": {"text_column": "title1", "splitter": "none"},
    "product_abt_buy": {"text_column": "title1", "splitter": "none"},
    "wikitext_103": {"text_column": "text", "max_sentences": 12},
}
"""File of the data folder -> how to read it.

Documents have at most 12 sentences, for the encoders' time; articles of eLife stay long enough for
spans. Of pairs of products the left titles are read, which recur. WikiText-103 is not an open file:
a row is a paragraph, or one of the million sentences.
"""


SHIPPED = Path(__file__).parents[2] / "data" / "blog_usgov.parquet"
"""2,306 posts of Digital.gov and 18F (CC0), titles as counterparts."""


def has_counterparts(corpus: Corpus) -> bool:
    """Return whether documents have a title or the like that retrieves them."""
    return "counterpart_column" in CORPORA[corpus]


CONTEXT = 128
"""Tokens of a long text: the positions of the small base encoder."""

METHODS: Mapping[str, Json] = {
    **{name: {"name": name} for name in METHOD_NAMES if name != "fine_tune"},
    "ict": {"name": "ict", "context_tokens": CONTEXT},
    "cpc": {"name": "cpc", "context_tokens": CONTEXT},
    "declutr": {"name": "declutr", "longest": CONTEXT - 2},
    "hicl": {"name": "hicl", "longest": CONTEXT},
    "simcse+mlm": {"name": "simcse", "mlm": 0.1},
    "hicl_v2": {"name": "hicl", "longest": CONTEXT, "beta": 3e-5},
    "tsdae": {"name": "clm_autoencoder", "noise": 0.6, "tied": True, "per": "target"},
    "simcse+clm_autoencoder": {"name": "clm_autoencoder", "simcse": 1.0, "weight": 0.01},
    "simcse+mlm_autoencoder": {"name": "mlm_autoencoder", "simcse": 1.0, "weight": 0.01},
    "infocse_aux_random_head": {"name": "infocse_aux", "random_head": True},
    "diffcse_random_generator": {"name": "diffcse", "random_head": True},
    "infocse_idc_kmeans": {"name": "infocse_idc"},
    "infocse_idc_dot": {"name": "infocse_idc"},
    "hicl_over_esimcse": {"name": "hicl", "longest": CONTEXT, "base": {"name": "esimcse"}},
    "hicl_over_sncse": PRESETS["hicl"]["over_sncse"]["method"]
    | {"name": "hicl", "longest": CONTEXT},
}
"""Row of a table -> the settings of its method that differ from the defaults."""

RANDOM = Arm(label="random vectors", system="random")
BM25 = Arm(label="BM25", system="BM25")
WORD_VECTORS = Arm(label="word vectors", system="word vectors")
START = Arm(label="start encoder")
MINILM = Arm(label="all-MiniLM-L6-v2", system="minilm")


def published(
    encoder: str, pooling: Pooling | None = None, *, differs: str, **settings: Any
) -> Budget:
    """Return a paper's budget: from a published encoder, on all cores, under one seed."""
    usual = {
        "base": Base(encoder=EncoderConfig(name=encoder, pooling=pooling), times=0),
        "threads": None,
        "seeds": (42,),
        "presets": ("paper",),
        "differs": differs,
    }
    return Budget.model_validate(usual | settings)


def arm(label: str, *steps: Step | MethodSettings, **fields: Any) -> Arm:
    """Return an arm of these steps, where a method means one training by it."""
    trainings = [
        one if isinstance(one, Train | SelfTrain | Label | Finish) else Train(method=one)
        for one in steps
    ]
    return Arm.model_validate({"label": label, "steps": trainings} | fields)


def row(name: str, label: str = "", *, times: float = 1.0, **fields: Any) -> Arm:
    """Return an arm with one training of a row of `METHODS`, which is its label by default."""
    step = Train.model_validate({"method": METHODS[name], "times": times})
    return arm(label or name, step, **fields)


def curve(of: Callable[[float], Step | MethodSettings], *values: str) -> Iterator[Arm]:
    """Yield an arm for each value of a setting; the value is its label."""
    for value in values:
        yield arm(value, of(float(value)), x=float(value))


FORUMS = (
    "android", "english", "gaming", "gis", "mathematica", "physics",
    "programmers", "stats", "tex", "unix", "webmasters", "wordpress",
)  # fmt: skip
"""The forums of CQADupStack."""

UNAVAILABLE = ("STS13", "STS15", "SUBJ", "MPQA", "TREC")
"""Tasks without open files: their columns are optional."""


def suite_columns(
    group: Literal["sts", "transfer"], corpus: Corpus = "plain_sentences"
) -> tuple[Column, ...]:
    """Return the seven STS sets, or the seven transfer tasks of SentEval, as columns."""
    return tuple(
        Column(label=task.name, judge=task.name, corpus=corpus, optional=task.name in UNAVAILABLE)
        for task in SUITE
        if task.group == group and task.averaged
    )


CUT = "Encoders read 32 tokens of a text, also of an evaluation text; the papers read whole texts."
WORDS_CUT = "Word vectors read 512."

PROBE = (
    "Probes are similar to SentEval's, but not equal, so averages of them differ, too: "
    "scikit-learn's logistic regression with SentEval's grid of C for it. It uses Newton's method "
    "in place of liblinear, no early stop, no penalty on the intercept, and vectors divided by one "
    "number to unit spread."
)
REGRESSION = "Probes of scores train with cross-entropy, not with squared errors."
PAIRS = "SNLI's probe reads |u - v| and u * v; SentEval's also reads u and v."

AT_MASK = (
    "SNCSE trains the state at [MASK] of a prompt. Its rows are evaluated without the prompt, by "
    "the pooling of all rows, a vector that it did not train."
)
CONVOLUTIONS = (
    "IS-BERT trains the mean of convolution features, and its paper evaluates that vector. Its row "
    "here is evaluated by the mean of the tokens, a vector that it did not train."
)

OF_JUDGES = {
    PROBE: {task.name for task in SUITE if task.group in ("transfer", "probing")},
    REGRESSION: {"SICK-R-regression", "STS-B-regression"},
    PAIRS: {"SNLI"},
}
"""Sentence -> the judges that it concerns."""


def shared_differences(what: Experiment) -> Iterator[str]:
    """Yield the sentences that concern the experiment's arms or columns."""
    judges = {column.judge for column in what.columns}
    if what.small.base.encoder.max_length is None and judges & {task.name for task in SUITE}:
        yield CUT
        if any(arm.system == "word vectors" for arm in what.arms):
            yield WORDS_CUT
    yield from (sentence for sentence, of in OF_JUDGES.items() if judges & of)
    steps = [step for arm in what.arms for step in arm.steps if isinstance(step, Train)]
    kinds = {type(base_method(step.method)) for step in steps}
    if SNCSE in kinds:
        yield AT_MASK
    if ISBERT in kinds:
        yield CONVOLUTIONS


def base_method(method: MethodSettings) -> MethodSettings:
    """Return the method that compares whole texts: HiCL's base, else the method itself."""
    return method.base if isinstance(method, HiCL) else method
