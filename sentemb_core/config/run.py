"""Every setting of a run, frozen and checked; each default brings its source.

One model per concern. They live in the core under stable names: a renamed class changes no cache
key, a renamed field does.
"""

from typing import Literal

from pydantic import Field, model_validator

from sentemb_core.config.methods import Condenser, FineTune, InfoCSEIDCPairs, MethodSettings
from sentemb_core.types import (
    Config,
    Map,
    OnDuplicate,
    Pooling,
    Positives,
    Precision,
    Similarity,
    Splitter,
    Storage,
)


class CorpusConfig(Config):
    """Where the documents are and how they become sentences."""

    source: str = Field(
        description="A file (JSONL, JSON, CSV, TSV, Parquet), a folder of .txt/.md "
        "files, a saved `datasets` folder or a `datasets` name."
    )
    text_column: str | None = Field(
        default=None,
        description="Column of running text to be split.",
    )
    sentences_column: str | None = Field(
        default=None,
        description="Column of ready sentence lists.",
    )
    id_column: str | None = Field(
        default=None,
        description="Column of document ids; else row numbers.",
    )
    counterpart_column: str | None = Field(
        default=None,
        description="Title, headline, query or clicked item of the document: validation only.",
    )
    split: str | None = Field(default=None, description="Split of a `datasets` data set.")
    encoding: str = Field(default="utf-8", description="Never guessed.")
    splitter: Splitter = Field(
        default="syntok",
        description="regex: 30 times faster, cruder; for large corpora. none: every text is one "
        "sentence, for methods that need no documents.",
    )
    on_duplicate: OnDuplicate = Field(
        default="keep-first", description="What a repeated document id means."
    )
    max_characters: int = Field(
        default=1_000_000, ge=1, description="A longer document is quarantined as over-long."
    )
    min_sentences: int = Field(default=1, ge=1, description="Documents with fewer are left out.")
    max_sentences: int | None = Field(
        default=None,
        ge=1,
        description="Sentences kept per document.",
    )
    max_documents: int | None = Field(
        default=None,
        ge=2,
        description="A sample of this size, drawn by a hash of the document id.",
    )


RANDOM_ENCODERS = ("static", "transformer")
"""Start encoders from random weights, whose vocabulary is learnt from the corpus."""

BUILT_IN_ENCODERS = (*RANDOM_ENCODERS, "minilm")
"""Start encoders that are no folder, whatever lies there."""


class EncoderConfig(Config):
    """The encoder a run starts from."""

    name: str = Field(
        default="static",
        description="`static` or `transformer` (from random weights, vocabulary of the corpus), "
        "`minilm` (the packaged all-MiniLM-L6-v2), a folder, a file of word vectors (GloVe, "
        "word2vec, fastText), a Hugging Face name, or `models:/NAME@ALIAS`.",
    )
    pooling: Pooling | None = Field(
        default=None,
        description="Of tokens' states to a vector. None: what a given folder says, else mean "
        "(mutual does not state its own, erratum E3).",
    )
    max_length: int | None = Field(
        default=None,
        ge=3,
        description="Tokens a sentence. None: what a folder of ours says, else 32 (mutual, "
        "appendix C).",
    )
    similarity: Similarity | None = Field(
        default=None,
        description="cosine: vectors are normalised; dot: the literal Eq. 2 of mutual. None: "
        "what a given folder says, else cosine.",
    )
    dim: int = Field(default=256, ge=8, description="Width of an encoder from random weights.")
    layers: int = Field(
        default=2,
        ge=1,
        description="Layers of a transformer from random weights.",
    )
    positions: int | None = Field(
        default=None,
        ge=3,
        description="Tokens that a transformer from random weights can read at once, for methods "
        "of longer texts. None: max_length and 10, by which repeated words may lengthen a text.",
    )
    vocabulary: int = Field(
        default=16_000,
        ge=64,
        description="Word pieces learnt from the corpus (from random weights).",
    )
    seed: int = Field(default=42, ge=0, description="Random weights (mutual, appendix C: 42).")


class AnnotationConfig(Config):
    """How the current encoder finds positives inside documents (mutual, section 3.2)."""

    clustering: Literal["partition", "kmeans"] = Field(
        default="partition",
        description="Components of the pruned graph, or k-means (mutual, Table 3: .6345, .5343).",
    )
    top_k: int = Field(
        default=1,
        ge=1,
        description="Neighbours kept per sentence. 1 as in mutual; from 2 on the union "
        "rule percolates to whole documents.",
    )
    mutual: bool = Field(
        default=False,
        description="Keep an edge only if both ends rank the other.",
    )
    min_distance: int = Field(
        default=1,
        ge=1,
        description="Sentences nearer than this in their document are no partners (mutual: all "
        "are). 2 leaves out neighbours: an encoder that learnt from them finds them alike, related "
        "or not (docs/results).",
    )
    positives: Positives = Field(
        default="cluster",
        description="cluster: all pairs of a cluster (mutual, Eq. 4). edge: those of the pruned "
        "graph alone; a chain of edges joins sentences that nobody found alike. related: the "
        "edges, and of as many draws of random pairs of the documents, whose probability to be "
        "related is .8 or more by an estimate without labels, those that are no edge, each once "
        "(docs/results).",
    )
    graph_degree: int = Field(
        default=8,
        ge=1,
        description="Neighbours stored per sentence: any top_k up to it needs no new graph.",
    )
    n_clusters: int = Field(default=10, ge=2, description="k-means only (mutual, section 4.4).")
    max_partners: int | None = Field(
        default=None,
        ge=1,
        description="Partners per sentence in the pairs; none is the literal Eq. 4.",
    )
    dtype: Precision = Field(
        default="float32",
        description="bfloat16 encodes 1.4 to 1.9 times as fast on a processor with units for it "
        "(Intel's AMX, AMD's AVX-512), is emulated on others, and changes 2 % of the pairs.",
    )
    storage: Storage = Field(
        default="float16",
        description="Of vectors on disk; float16 changed no pair (MiniLM on 300 news documents).",
    )
    keep_embeddings: bool = Field(
        default=True,
        description="False keeps the graph alone: tens of bytes a sentence, not a kilobyte.",
    )
    seed: int = Field(
        default=42,
        ge=0,
        description="k-means, the cap of partners, the random pairs of `positives = related`.",
    )

    @model_validator(mode="after")
    def _kmeans_needs_vectors(self) -> "AnnotationConfig":
        if self.clustering == "kmeans" and not self.keep_embeddings:
            raise ValueError(
                "k-means clusters the vectors, but keep_embeddings is false: set it to true, or "
                "take clustering = 'partition'"
            )
        return self

    @model_validator(mode="after")
    def _kmeans_knows_no_graph(self) -> "AnnotationConfig":
        for name in ("top_k", "mutual", "min_distance"):
            default, found = AnnotationConfig.model_fields[name].default, getattr(self, name)
            if self.clustering == "kmeans" and found != default:
                raise ValueError(
                    f"k-means has no graph, which {name} = {found} is of: leave it at {default}, "
                    "or take clustering = 'partition'"
                )
        return self

    @model_validator(mode="after")
    def _edges_are_pairs_as_they_are(self) -> "AnnotationConfig":
        if self.positives == "cluster":
            return self
        if self.clustering == "kmeans" or self.max_partners:
            raise ValueError(
                f"positives = {self.positives!r} takes the edges of the pruned graph, all of them: "
                "take clustering = 'partition' and leave max_partners out"
            )
        if self.positives == "related" and not self.keep_embeddings:
            raise ValueError(
                "related pairs are drawn by their vectors, but keep_embeddings is false: set it to "
                "true, or take positives = 'edge'"
            )
        return self

    @property
    def degree(self) -> int:
        """Neighbours the graph stores."""
        return max(self.graph_degree, self.top_k)


class TrainingConfig(Config):
    """One training of one encoder by one method."""

    method: MethodSettings = Field(
        default=InfoCSEIDCPairs(),
        description="The recipe: which texts are positives, and the loss. A name, or a name with "
        "what it lets you set. mutual's, unless told.",
    )
    steps: int = Field(
        default=400, ge=1, description="Optimiser steps at most. Ours, for two CPU cores."
    )
    batch_size: int = Field(
        default=128,
        ge=2,
        description="Pairs a step (mutual: 3,200); cluster batches: sentences.",
    )
    chunk: int | None = Field(
        default=None,
        ge=1,
        description="Sentences encoded at once: gradient cache for any batch size. None, which is "
        "ours: the whole batch, halved where memory runs out.",
    )
    learning_rate: float = Field(
        default=2e-5, gt=0, description="Behind the warm-up. mutual, appendix C: 2e-5."
    )
    optimizer: Literal["adam", "adamw"] = Field(default="adamw", description="mutual: Adam.")
    weight_decay: float = Field(
        default=0.01,
        ge=0,
        description="AdamW only. Ours, PyTorch's own; the codes of ConSERT, Mirror-BERT and "
        "Condenser have it, too.",
    )
    schedule: Literal["constant", "linear", "slanted"] = Field(
        default="linear", description="After the warm-up; mutual states none (constant)."
    )
    warmup: float = Field(
        default=0.05, ge=0, lt=1, description="Share of the steps, in which the rate grows. Ours."
    )
    clip: float | None = Field(
        default=1.0, gt=0, description="Gradient norm; 1.0 in SimCSE's code."
    )
    dtype: Precision = Field(
        default="float32",
        description="Autocast of the forward. Ours; many codes take half precision.",
    )
    evaluate_every: int | None = Field(
        default=None,
        ge=1,
        description="Steps between validations; none, which is ours: the last step is kept.",
    )
    patience: int | None = Field(
        default=None,
        ge=1,
        description="Validations without growth before stopping; none, which is ours: all steps.",
    )
    checkpoint_every: int = Field(default=100, ge=1, description="Steps between checkpoints. Ours.")
    threads: int | None = Field(
        default=None,
        ge=1,
        description="CPU threads; part of the cache key, since sums depend on it. None, which is "
        "ours: all processors of this process.",
    )
    seed: int = Field(
        default=42, ge=0, description="Batches, dropout, samples (mutual, appendix C: 42)."
    )

    def saves(self, step: int) -> bool:
        """Whether a checkpoint follows on this step."""
        return step % self.checkpoint_every == 0

    @model_validator(mode="after")
    def _parts_fit(self) -> "TrainingConfig":
        if self.patience is not None and self.evaluate_every is None:
            raise ValueError("patience counts validations: set evaluate_every too")
        return self


class ValidationConfig(Config):
    """The retrieval task that decides: documents look for their counterparts."""

    candidates: int = Field(
        default=3_000,
        ge=2,
        description="Documents in the fixed pool, drawn by a hash of their id.",
    )
    validation_share: float = Field(
        default=0.3,
        gt=0,
        lt=1,
        description="Of the pool: decides the stop and best round.",
    )
    gate_share: float = Field(
        default=0.3, ge=0, lt=1, description="Of the pool: decides the promotion."
    )
    halves: bool = Field(
        default=False,
        description="Held-out halves retrieve each other, even if there are counterparts.",
    )
    label_share: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Of the documents with a counterpart, drawn by a hash of their id: theirs are "
        "labels to train on, and never in the pool.",
    )

    @model_validator(mode="after")
    def _something_is_left_to_test(self) -> "ValidationConfig":
        if self.validation_share + self.gate_share >= 1:
            raise ValueError(
                f"validation_share {self.validation_share} + gate_share {self.gate_share} leave "
                "nothing for the test split: their sum must be below 1"
            )
        return self


class RoundsConfig(Config):
    """When the loop stops (mutual, section 3.2: until R@5 stops growing)."""

    max_rounds: int = Field(
        default=3,
        ge=1,
        le=20,
        description="Rounds at most; mutual, Table 3: best at round 2.",
    )
    patience: int = Field(default=1, ge=1, description="Rounds without growth before stopping.")
    min_delta: float = Field(default=0.0, ge=0, description="Growth of R@5 that counts as growth.")


class LabelsConfig(Config):
    """Labelled pairs, each a document and the text that people matched with it."""

    source: str | None = Field(
        default=None,
        description="A file as of a corpus, one pair a row: they judge in place of the "
        "counterpart column, and fine-tuning learns from them. None: that column.",
    )
    id_column: str = Field(default="doc_id", description="The document's id in the corpus.")
    counterpart_column: str = Field(default="counterpart", description="The text that it matches.")
    encoding: str = Field(default="utf-8", description="Never guessed.")
    count: int | None = Field(
        default=None,
        ge=0,
        description="Pairs to train on, the first by hash, so that 1,000 are among 2,000. None: "
        "all outside the pool; 0: none (InfoCSE++ is then InfoCSE).",
    )
    epochs: int = Field(default=20, ge=1, description="Passes over the labels at most (mutual).")
    patience: int = Field(
        default=2,
        ge=1,
        description="Epochs without growth of R@5 before stopping (mutual).",
    )


class CyclesConfig(Config):
    """When InfoCSE++ stops: the fine-tuned encoder no longer grows (mutual, section 3.3)."""

    max_cycles: int = Field(
        default=3,
        ge=0,
        le=20,
        description="Cycles at most; 0: self-training alone, without labels.",
    )
    patience: int = Field(default=1, ge=1, description="Cycles without growth before stopping.")
    min_delta: float = Field(default=0.0, ge=0, description="Growth of R@5 that counts as growth.")


class RunConfig(Config):
    """What every run says: documents, the encoder it starts from, how that learns and is judged."""

    name: str = Field(
        default="sentemb",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
        description="Of the run and of the registered model.",
    )
    corpus: CorpusConfig
    encoder: EncoderConfig = EncoderConfig()
    annotation: AnnotationConfig = Field(
        default=AnnotationConfig(),
        description="How sentence vectors are kept and clustered; a run of one training only "
        "shows the clusters in its report.",
    )
    initialiser: TrainingConfig | None = Field(
        default=None,
        description="Trains the encoder first: CONPONO before round 1 (mutual), a Condenser "
        "stage before infocse_aux, diffcse and rtd_mlm (infocse).",
    )
    training: TrainingConfig = TrainingConfig()
    validation: ValidationConfig = ValidationConfig()
    labels: LabelsConfig = LabelsConfig()
    postprocess: Map | None = Field(
        default=None,
        description="Try the start encoder and the best one behind a map that is fitted on their "
        "own vectors, too: BERT-whitening (Su et al. 2021), one that stops half way (ours), or a "
        "small BERT-flow (Li et al. 2020). Validation decides.",
    )
    register_model: bool = Field(
        default=True,
        description="Register the best encoder and ask the gate.",
    )

    @model_validator(mode="after")
    def _initialiser_learns_from_documents_alone(self) -> "RunConfig":
        method = self.initialiser and self.initialiser.method
        if isinstance(method, InfoCSEIDCPairs):
            raise ValueError(  # noqa: TRY004 - pydantic reports no other
                "the initialiser runs before any annotation: take another, as conpono or simcse"
            )
        if isinstance(method, FineTune):
            raise ValueError(  # noqa: TRY004 - pydantic reports no other
                "the initialiser reads no labelled pairs, which 'fine_tune' learns from: take "
                "another, as conpono or simcse (labels train by --method fine_tune or --cycles)"
            )
        return self


class MethodRun(RunConfig):
    """A run of one training, by any method that needs no annotation."""

    @model_validator(mode="after")
    def _a_head_has_no_map(self) -> "MethodRun":
        if self.postprocess and isinstance(self.training.method, Condenser):
            raise ValueError(
                "a Condenser stage is returned for its head, which no encoder behind a map has: "
                "leave postprocess to the run that begins with it"
            )
        return self

    @model_validator(mode="after")
    def _nothing_annotates(self) -> "MethodRun":
        if isinstance(self.training.method, InfoCSEIDCPairs):
            raise ValueError(  # noqa: TRY004 - pydantic reports no other
                "'infocse_idc' trains on self-annotation, in rounds: it is a run of InfoCSEIDC"
            )
        if isinstance(self.training.method, FineTune):
            raise ValueError(  # noqa: TRY004 - pydantic reports no other
                "'fine_tune' trains on labelled pairs: it is a run of FineTuneRun"
            )
        return self


class FineTuneRun(RunConfig):
    """A run of one fine-tuning on labelled pairs."""

    training: TrainingConfig = Field(
        default=TrainingConfig(method=FineTune()),
        description="Its steps and validations follow from the epochs of `labels`.",
    )

    @model_validator(mode="after")
    def _there_are_labels(self) -> "FineTuneRun":
        if not isinstance(self.training.method, FineTune):
            raise ValueError(  # noqa: TRY004 - pydantic reports no other
                f"labelled pairs train the method 'fine_tune', found {self.training.method.name!r}"
            )
        if self.labels.count == 0:
            raise ValueError("labels.count is 0, and fine-tuning needs labels: take at least 2")
        _check_label_share(self.validation)
        return self


def _check_label_share(validation: ValidationConfig) -> None:
    if validation.label_share == 0 or validation.halves:
        raise ValueError(
            "labels are counterparts outside the pool: set validation.label_share above 0 (0.5) "
            "and leave validation.halves off"
        )


class InfoCSEIDC(RunConfig):
    """A whole run of InfoCSE with intra-document clustering (mutual)."""

    annotator: EncoderConfig | None = Field(
        default=None,
        description="Annotates round 1 in place of the student (mutual, the SBERT row).",
    )
    rounds: RoundsConfig = RoundsConfig()
    control: bool = Field(
        default=True,
        description="Also train the same number of steps on neighbours: what self-annotation "
        "itself is worth.",
    )

    @model_validator(mode="after")
    def _rounds_self_annotate(self) -> "InfoCSEIDC":
        if not isinstance(self.training.method, InfoCSEIDCPairs):
            raise ValueError(  # noqa: TRY004 - pydantic reports no other
                f"the rounds train on self-annotation: training.method must be 'infocse_idc', "
                f"found {self.training.method.name!r}; another method can be the initialiser"
            )
        if self.training.method.batches == "cluster" and self.annotation.positives != "cluster":
            raise ValueError(
                "cluster batches take all pairs of a cluster, and annotation.positives is "
                f"{self.annotation.positives!r}: set training.method.batches to 'pair'"
            )
        if self.training.method.batches == "cluster" and self.annotation.max_partners:
            raise ValueError(
                "cluster batches take clusters and no pairs, which annotation.max_partners "
                f"({self.annotation.max_partners}) caps: set training.method.max_per_cluster in "
                "its place, or training.method.batches to 'pair'"
            )
        if self.training.method.batches == "cluster" and self.annotation.min_distance > 1:
            raise ValueError(
                "cluster batches take all pairs of a cluster, also those nearer than "
                f"annotation.min_distance ({self.annotation.min_distance}): leave that at 1, or "
                "set training.method.batches to 'pair'"
            )
        return self


class InfoCSEPlus(InfoCSEIDC):
    """Cycles of InfoCSE with intra-document clustering and fine-tuning (mutual, section 3.3)."""

    fine_tuning: TrainingConfig = Field(
        default=TrainingConfig(method=FineTune()),
        description="Ends every cycle; its steps and validations follow from the labels' epochs.",
    )
    cycles: CyclesConfig = CyclesConfig()

    @property
    def uses_labels(self) -> bool:
        """Without labels or cycles it is InfoCSE."""
        return self.labels.count != 0 and self.cycles.max_cycles > 0

    @model_validator(mode="after")
    def _cycles_fine_tune(self) -> "InfoCSEPlus":
        if not isinstance(self.fine_tuning.method, FineTune):
            raise ValueError(  # noqa: TRY004 - pydantic reports no other
                "a cycle ends in fine-tuning: fine_tuning.method must be 'fine_tune', found "
                f"{self.fine_tuning.method.name!r}"
            )
        if self.uses_labels:
            _check_label_share(self.validation)
        return self
