"""What `reproduce methods-small` asks for: corpora, start encoders, methods, and equal budgets."""

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, Field, field_validator

from flows.presets import method_preset
from sentemb_core.configs import (
    AnnotationConfig,
    CorpusConfig,
    EncoderConfig,
    TrainingConfig,
    ValidationConfig,
)
from sentemb_core.errors import UnreadableSourceError
from sentemb_core.experiments import Corpus
from sentemb_core.formats import nearest
from sentemb_core.method_presets import PRESETS
from sentemb_core.method_settings import METHOD_NAMES
from sentemb_core.suite import Task, chosen
from sentemb_core.types import Config, Json, Map, Pooling, Similarity

Start = Literal["transformer", "minilm", "static"]
T = TypeVar("T")
Seed = Annotated[int, Field(ge=0)]


def each_once(named: tuple[T, ...]) -> tuple[T, ...]:
    """In their order. A training that counts twice in a mean makes its deviation too small."""
    return tuple(dict.fromkeys(named))


Seeds = Annotated[tuple[Seed, ...], AfterValidator(each_once)]

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
}
"""Files of the data folder. Twelve sentences of a document are what the encoders' time allows;
eLife's articles stay long enough for spans. Of pairs of products the left titles, which recur."""

STS_B_DEV, SICK_R_TEST = chosen(["STS-B-dev", "SICK-R"])
STS: Mapping[str, Task] = {"STS-B dev": STS_B_DEV, "SICK-R test": SICK_R_TEST}
"""Column -> what judges encoders trained on texts that nothing looks for."""

STEPS: Mapping[Start, int] = {"transformer": 1_000, "minilm": 200, "static": 1_000}

CONTEXT = 128
"""Tokens of the texts that methods of contexts read: what a CPU has time for."""

OWN_CORPUS: Mapping[str, Corpus] = {"declutr": "long_elife"}
"""Row that the documents of the default corpora are too short for -> one beside them."""

UNLABELLED = tuple(name for name in METHOD_NAMES if name != "fine_tune")

VARIANTS: Mapping[str, Json] = {
    "infocse_idc_kmeans": {"name": "infocse_idc"},
    "infocse_idc_dot": {"name": "infocse_idc", "temperature": 1.0},
    "hicl_over_esimcse": {"name": "hicl", "longest": CONTEXT, "base": {"name": "esimcse"}},
    "hicl_over_sncse": PRESETS["hicl"]["over_sncse"]["method"]
    | {"name": "hicl", "longest": CONTEXT},
}
"""Another row's method under a setting of its paper."""

METHODS: Mapping[str, Json] = {name: {"name": name} for name in UNLABELLED} | {
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
    **VARIANTS,
}
"""Row of the table -> the method's settings; what is left out has the method's default."""

ANNOTATIONS: Mapping[str, AnnotationConfig] = {
    "infocse_idc_kmeans": AnnotationConfig(clustering="kmeans")
}
"""Rows of self-training whose positives are not found as the others' are."""

SIMILARITIES: Mapping[str, Similarity] = {"infocse_idc_dot": "dot"}
"""Rows that do not compare by the cosine: seed 000's literal Eq. 1 and 2."""

POOLINGS: Mapping[str, Pooling] = {"sg_opt": "cls_before_pooler"}
"""Rows that do not pool by the mean. SG-OPT pulls a vector to the means of a frozen copy's layers,
and the mean of its last is there from the start: little would be left to learn."""

OF_OWN_BLOCK = {*ANNOTATIONS, *SIMILARITIES, *POOLINGS}
"""Rows that share a block's texts and judges, but not how it begins or is annotated."""


def looked_for(corpus: Corpus) -> bool:
    """Whether its documents have a title or the like, which looks for them."""
    return "counterpart_column" in CORPORA[corpus]


class Unlearnt(NamedTuple):
    """The start encoder under another pooling, behind a map fitted on its own vectors or none."""

    pooling: Pooling
    map: Map | None = None


WORDS = "word_vectors"
"""Row of the means of word vectors that are trained on the corpus."""

RESCORED = "bm25_rescored"
"""Row of BM25's first documents, rescored by the start encoder's cosines."""

LITERAL_BM25 = "bm25_seed_002"
"""Row of BM25 as the thesis prints it (erratum E25)."""

OF_TITLES = (RESCORED, LITERAL_BM25)
"""Rows of what titles find, and so of no corpus without them."""


def of_stsb(data: str) -> CorpusConfig:
    """Sentences that no table learns from: the first ones of STS-B's dev pairs."""
    (file,) = STS_B_DEV.files
    return CorpusConfig(source=f"{data}/{file}", text_column="sentence1", splitter="none")


UNLEARNT: Mapping[str, Unlearnt] = {
    "cls_before_pooler": Unlearnt("cls_before_pooler"),
    "first_last_mean": Unlearnt("first_last_mean"),
    "first_block_last_mean": Unlearnt("first_block_last_mean"),
    "whitening": Unlearnt("first_block_last_mean", "whitening"),
    "flow": Unlearnt("last_two_mean", "flow"),
}
"""Rows without a gradient: raw states by pooling, and the maps on their papers' own pooling."""


DEFAULT_CORPORA: tuple[Corpus, ...] = ("blog_usgov", "news_reuters21578", "plain_sentences")


class MethodTable(Config):
    """A table of methods in cells of equal budget."""

    title: ClassVar[str] = "methods-small"
    rows: ClassVar[tuple[str, ...]] = (WORDS, *OF_TITLES, *UNLEARNT, *METHODS)

    data: str = Field(description="Folder of the corpora and the STS files.")
    corpora: tuple[Corpus, ...] = DEFAULT_CORPORA
    encoders: tuple[Start, ...] = ("transformer", "minilm")
    methods: tuple[str, ...] = rows
    seeds: Seeds = Field(default=(42,), min_length=1)
    steps: int | None = Field(default=None, ge=1, description="None: by the start encoder.")
    batch_size: int = Field(default=64, ge=2)
    dim: int = Field(
        default=128,
        ge=8,
        description="Width of the transformer from nothing; at 256, EncoderConfig's, a row of "
        "1,000 steps takes a core twice as long.",
    )
    candidates: int = Field(default=1_000, ge=2, description="Documents in each pool.")
    max_documents: int | None = Field(default=None, ge=2, description="A sample of each corpus.")

    @field_validator("methods")
    @classmethod
    def _known(cls, methods: tuple[str, ...]) -> tuple[str, ...]:
        for name in methods:
            if name not in cls.rows:
                raise ValueError(f"there is no method {name!r}{nearest(name, cls.rows)}")
        return methods

    @field_validator("corpora", "encoders", "methods")
    @classmethod
    def _once(cls, named: tuple[str, ...]) -> tuple[str, ...]:
        return each_once(named)

    @property
    def pool(self) -> ValidationConfig:
        """Who looks for what."""
        return ValidationConfig(candidates=self.candidates)

    @property
    def marks(self) -> str:
        """What a document calls it: a part of its blocks has a place of its own."""
        whole = type(self)(data=self.data)
        blocks = (*self.corpora, *self.encoders)
        part = () if blocks == (*whole.corpora, *whole.encoders) else blocks
        return " ".join((self.title, *part))

    def blocks(self) -> Iterator[tuple[Corpus, Start, int]]:
        """Corpus, start encoder and seed of each group of rows, in the table's order."""
        return product(self.corpora_read, self.encoders, self.seeds)

    @property
    def corpora_read(self) -> tuple[Corpus, ...]:
        """Those asked for; behind the default ones, what some rows have of their own."""
        if self.corpora != DEFAULT_CORPORA:
            return self.corpora
        own: list[Corpus] = [OWN_CORPUS[row] for row in self.methods if row in OWN_CORPUS]
        return tuple(dict.fromkeys((*self.corpora, *own)))

    def methods_on(self, corpus: Corpus) -> tuple[str, ...]:
        """All, but on a corpus that was not asked for: there those whose own it is.

        HiCL wants whole texts: of single sentences few are longer than a segment, and the others
        would be its base's.
        """
        if corpus not in self.corpora:
            return tuple(row for row in self.methods if OWN_CORPUS.get(row) == corpus)
        whole = looked_for(corpus)
        return tuple(
            row for row in self.methods if whole or METHODS.get(row, {}).get("name") != "hicl"
        )

    def file(self, name: str) -> Path:
        return Path(self.data) / f"{name}.parquet"

    def corpus(self, name: Corpus) -> CorpusConfig:
        sample = {"source": str(self.file(name)), "max_documents": self.max_documents}
        return CorpusConfig.model_validate(CORPORA[name] | sample)

    def unseen(self, name: Corpus) -> CorpusConfig:
        """Sentences that nothing learns from: a corpus's titles, else STS-B's."""
        if not looked_for(name):
            return of_stsb(self.data)
        titles = CORPORA[name]["counterpart_column"]
        return CorpusConfig(
            source=str(self.file(name)), text_column=titles, splitter="none", max_documents=3_000
        )

    def training(self, method: str, start: Start, seed: int) -> TrainingConfig:
        """The preset of the start encoder with the table's budget."""
        budget = {"steps": self.steps or STEPS[start], "batch_size": self.batch_size}
        preset = method_preset(start)["training"]
        return TrainingConfig.model_validate(
            preset | budget | {"method": METHODS[method], "seed": seed}
        )

    def start(self, name: Start, seed: int, method: str = "") -> EncoderConfig:
        """What the cells of a block start from; a row may pool or compare in a way of its own."""
        start = EncoderConfig(
            name=name,
            seed=seed,
            positions=CONTEXT,
            pooling=POOLINGS.get(method),
            similarity=SIMILARITIES.get(method),
        )
        return start.model_copy(update={"dim": self.dim}) if name == "transformer" else start

    def files_wanted(self) -> list[str]:
        """The corpora, and the STS sets where a corpus has no titles."""
        judges = () if all(map(looked_for, self.corpora)) else STS.values()
        files = [file for task in judges for file in task.files]
        return [*(f"{name}.parquet" for name in self.corpora_read), *files]

    def absent_files(self) -> list[str]:
        """What it would read and the data folder does not have."""
        return [file for file in self.files_wanted() if not (Path(self.data) / file).is_file()]

    def check_files(self) -> None:
        """Before anything runs.

        Raises:
            UnreadableSourceError: E103, a file is not in the folder.
        """
        for file in self.absent_files():
            raise UnreadableSourceError(
                f"The table wants {file}, and there is none in {self.data}: name the folder that "
                "has it with --data, or leave the corpus out with --corpora."
            )
