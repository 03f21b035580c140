"""Settings of a run, frozen and validated; each default names its source.

Cache keys contain the names of fields, not of classes.
"""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from sentemb_core.config.methods import (
    Condenser,
    FineTune,
    InfoCSEIDCPairs,
    MethodConfig,
    MethodSettings,
)
from sentemb_core.types import (
    Config,
    Map,
    OnDuplicate,
    Pooling,
    Positives,
    Precision,
    SearchTask,
    Similarity,
    Splitter,
    Storage,
)


class CorpusConfig(Config):
    """Where the documents are, and how they become sentences."""

    source: str
    """File (JSONL, JSON, CSV, TSV, Parquet), folder of .txt/.md files, saved `datasets` folder, or
    `datasets` name."""
    text_column: str | None = None
    """Column of text to be split."""
    sentences_column: str | None = None
    """Column of lists of sentences."""
    id_column: str | None = None
    """Column of document ids. null: row numbers."""
    counterpart_column: str | None = None
    """Column with the title, headline, query or clicked item of a document; only for validation."""
    split: str | None = None
    """Split of a `datasets` data set."""
    encoding: str = "utf-8"
    """Encoding of text files; never guessed."""
    strip_html: bool = False
    """Remove HTML from texts and counterparts: tags, scripts, comments, and escapes (`&amp;`)."""
    splitter: Splitter = "syntok"
    """Sentence splitter. regex: 30 times faster, less accurate. none: every text is one sentence,
    for methods that need no documents. words: parts of at most 8 words, which stand for sentences.
    Left out: syntok, or words for rounds on texts of one sentence."""
    on_duplicate: OnDuplicate = "keep-first"
    """What to do with a repeated document id."""
    max_characters: int = Field(default=1_000_000, ge=1)
    """Longer documents are quarantined."""
    min_sentences: int = Field(default=1, ge=1)
    """Documents with fewer sentences are left out."""
    max_sentences: int | None = Field(default=None, ge=1)
    """Sentences used per document; null: all."""
    max_documents: int | None = Field(default=None, ge=2)
    """Size of a sample, drawn by a hash of the document id; null: all documents."""
    shard_sentences: int | None = Field(default=None, ge=1, exclude_if=lambda value: value is None)
    """Most sentences of a shard: a larger corpus is annotated shard by shard (docs/scale.md). null:
    65,536, or more for a corpus above 4 million sentences."""


RANDOM_ENCODERS = ("static", "transformer")
"""Start encoders with random weights, whose vocabulary is learnt from the corpus."""

BUILT_IN_ENCODERS = (*RANDOM_ENCODERS, "minilm")
"""Names of start encoders that never mean a folder."""


class EncoderConfig(Config):
    """The start encoder of a run."""

    name: str = "static"
    """`static` or `transformer` (random weights, vocabulary of the corpus), `minilm` (the packaged
    all-MiniLM-L6-v2), a folder, a file of word vectors (GloVe, word2vec, fastText), a Hugging Face
    name, or `models:/NAME@ALIAS`. Left out: minilm if it is installed and knows the words of the
    corpus, else static."""
    pooling: Pooling | None = None
    """How token states become a vector. null: as a given folder states, else mean (mutual does not
    state it, erratum E3)."""
    max_length: int | None = Field(default=None, ge=3)
    """Maximum tokens per sentence and per whole text (a query). null: 32 per sentence (mutual,
    appendix C), and per text as a given folder states; both as a folder of sentemb states."""
    similarity: Similarity | None = None
    """cosine: vectors are normalised. dot: inner product, the literal Eq. 2 of mutual. null: as a
    given folder states, else cosine."""
    query_prompt: str | None = None
    """Text before each query and counterpart (`query: `), the name of a prompt of the folder, or
    none. null: as a given folder states."""
    document_prompt: str | None = None
    """Text before each document and each sentence of it (`passage: `), the name of a prompt of the
    folder, or none. null: as a given folder states."""
    dim: int = Field(default=256, ge=8)
    """Dimensions of an encoder with random weights."""
    layers: int = Field(default=2, ge=1)
    """Layers of a transformer with random weights."""
    positions: int | None = Field(default=None, ge=3)
    """Positions of a transformer with random weights. null: max_length + 10, since repeated words
    may lengthen a text. Set it for methods that read longer texts."""
    vocabulary: int = Field(default=16_000, ge=64)
    """Word pieces learnt from the corpus, for random weights."""
    seed: int = Field(default=42, ge=0)
    """Seed of random weights (mutual, appendix C: 42)."""


class AnnotationConfig(Config):
    """How the current encoder finds positive pairs inside documents (mutual, section 3.2)."""

    clustering: Literal["partition", "kmeans"] = "partition"
    """partition: components of the pruned graph. kmeans: k-means. R@5 of mutual, Table 3: .6345 and
    .5343."""
    top_k: int = Field(default=1, ge=1)
    """Neighbours per sentence in the pruned graph. 1 as in mutual; from 2 on, components grow to
    whole documents."""
    mutual: bool = False
    """Keep an edge only if each end is a nearest neighbour of the other."""
    min_distance: int = Field(default=1, ge=1)
    """Minimum distance of two paired sentences in their document (mutual: 1). 2 excludes
    neighbours: an encoder trained on neighbours finds them similar even if they are unrelated
    (docs/results)."""
    positives: Positives = "cluster"
    """cluster: all pairs of a cluster (mutual, Eq. 4). edge: only the edges of the pruned graph,
    because a chain of edges also joins dissimilar sentences. related: the edges, and as many random
    pairs of a document with an estimated probability of at least .8 to be related
    (docs/results)."""
    graph_degree: int = Field(default=8, ge=1)
    """Neighbours stored per sentence: any top_k up to it reuses the graph."""
    n_clusters: int = Field(default=10, ge=2)
    """Only k-means: number of clusters (mutual, section 4.4)."""
    max_partners: int | None = Field(default=None, ge=1)
    """Maximum partners of a sentence; null: no limit, the literal Eq. 4."""
    dtype: Precision = "float32"
    """bfloat16 encodes 1.4 to 1.9 times as fast on processors with support (Intel AMX, AMD
    AVX-512), is emulated on others, and changes 2 % of the pairs."""
    storage: Storage = "float16"
    """Precision of stored vectors. float16 changed no pair of MiniLM on 300 news documents."""
    keep_embeddings: bool = True
    """false stores only the graph: tens of bytes per sentence, not a kilobyte."""
    seed: int = Field(default=42, ge=0)
    """Seed of k-means, of max_partners and of the random pairs of `related`."""

    @model_validator(mode="after")
    def _kmeans_has_vectors_and_no_graph(self) -> "AnnotationConfig":
        if self.clustering != "kmeans":
            return self
        if not self.keep_embeddings:
            raise ValueError(
                "k-means needs vectors, but keep_embeddings is false. Set it to true, or use "
                "clustering = 'partition'"
            )
        for name in ("top_k", "mutual", "min_distance"):
            default, value = AnnotationConfig.model_fields[name].default, getattr(self, name)
            if value != default:
                raise ValueError(
                    f"k-means has no graph, so {name} = {value} has no effect. Leave it at "
                    f"{default}, or use clustering = 'partition'"
                )
        return self

    @model_validator(mode="after")
    def _edges_are_all_pairs_of_the_graph(self) -> "AnnotationConfig":
        if self.positives == "cluster":
            return self
        if self.clustering == "kmeans" or self.max_partners:
            raise ValueError(
                f"positives = {self.positives!r} uses all edges of the pruned graph. Use "
                "clustering = 'partition' and leave max_partners out"
            )
        if self.positives == "related" and not self.keep_embeddings:
            raise ValueError(
                "positives = 'related' needs vectors, but keep_embeddings is false. Set it to "
                "true, or use positives = 'edge'"
            )
        return self

    @property
    def degree(self) -> int:
        """Neighbours stored in the graph."""
        return max(self.graph_degree, self.top_k)


class TrainingConfig(Config):
    """One training of one encoder by one method."""

    method: MethodSettings = InfoCSEIDCPairs()
    """Training method: positive pairs and loss. A name, or a table of the name and its settings.
    Default: infocse_idc (of an initialiser: conpono)."""
    steps: int = Field(default=400, ge=1)
    """Maximum optimiser steps. Ours, for two CPU cores."""
    batch_size: int = Field(default=128, ge=2)
    """Pairs per step (mutual: 3,200); sentences per step in cluster batches."""
    chunk: int | None = Field(default=None, ge=1)
    """Sentences encoded at once; a gradient cache allows any batch size. null: the whole batch,
    halved if memory runs out. Ours."""
    learning_rate: float = Field(default=2e-5, gt=0)
    """Rate after the warm-up (mutual, appendix C: 2e-5)."""
    optimizer: Literal["adam", "adamw"] = "adamw"
    """mutual: Adam."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Only AdamW. PyTorch's default, as in the code of ConSERT, Mirror-BERT and Condenser."""
    schedule: Literal["constant", "linear", "slanted"] = "linear"
    """After the warm-up. mutual states none (constant)."""
    warmup: float = Field(default=0.05, ge=0, lt=1)
    """Share of the steps with a growing rate. Ours."""
    clip: float | None = Field(default=1.0, gt=0)
    """Maximum gradient norm (SimCSE's code: 1.0)."""
    dtype: Precision = "float32"
    """Precision of the forward pass. Ours; many papers use half precision."""
    evaluate_every: int | None = Field(default=None, ge=1)
    """Steps between validations; null: no validation, the last step is kept. Ours."""
    patience: int | None = Field(default=None, ge=1)
    """Validations without improvement after which to stop; null: never. Ours."""
    checkpoint_every: int = Field(default=100, ge=1)
    """Steps between checkpoints. Ours."""
    threads: int | None = Field(default=None, ge=1)
    """CPU threads. Part of the cache key, because sums depend on it. null: all processors of this
    process. Ours."""
    devices: int = Field(default=1, ge=1, exclude_if=lambda devices: devices == 1)
    """Processes that share each batch, one a GPU; without a GPU they share the threads. Loss and
    gradients are those of one process. Part of the cache key above 1. Ours."""
    seed: int = Field(default=42, ge=0)
    """Seed of batches, dropout and samples (mutual, appendix C: 42)."""

    def saves(self, step: int) -> bool:
        """Whether a checkpoint follows this step."""
        return step % self.checkpoint_every == 0

    @model_validator(mode="after")
    def _each_device_has_a_text(self) -> "TrainingConfig":
        if self.batch_size < self.devices:
            raise ValueError(
                f"each device needs a text of a batch, but batch_size is {self.batch_size} and "
                f"devices {self.devices}. Raise batch_size, or lower devices"
            )
        return self

    @model_validator(mode="after")
    def _patience_needs_validations(self) -> "TrainingConfig":
        if self.patience is not None and self.evaluate_every is None:
            raise ValueError(
                "patience counts validations: set evaluate_every in the same table, for example "
                "to 50"
            )
        return self


class ValidationConfig(Config):
    """The validation pool: documents retrieve their counterparts, or halves of documents."""

    candidates: int = Field(default=3_000, ge=2)
    """Documents in the validation pool, drawn by a hash of their id."""
    validation_share: float = Field(default=0.3, gt=0, lt=1)
    """Share of the pool that decides when to stop, and the best round."""
    gate_share: float = Field(default=0.3, ge=0, lt=1)
    """Share of the pool that decides the promotion."""
    halves: bool = False
    """Retrieve halves of held-out documents, even if there are counterparts."""
    label_share: float = Field(default=0.0, ge=0, lt=1)
    """Share of the documents with a counterpart that become labels to train on, drawn by a hash of
    their id. These are never in the pool."""

    @model_validator(mode="after")
    def _a_test_split_is_left(self) -> "ValidationConfig":
        if self.validation_share + self.gate_share >= 1:
            raise ValueError(
                f"validation_share {self.validation_share} + gate_share {self.gate_share} leave no "
                "test split: their sum must be below 1"
            )
        return self


class RoundsConfig(Config):
    """When the rounds stop (mutual, section 3.2: when R@5 stops growing)."""

    max_rounds: int = Field(default=3, ge=1, le=20)
    """Maximum rounds (mutual, Table 3: best at round 2)."""
    patience: int = Field(default=1, ge=1)
    """Rounds without improvement after which to stop."""
    min_delta: float = Field(default=0.0, ge=0)
    """R@5 must improve by more than this."""


class LabelsConfig(Config):
    """Labelled pairs: a document, and a text that people matched with it."""

    source: str | None = None
    """File of pairs, in a format of a corpus, one pair per row. Validation uses them instead of the
    counterpart column; fine-tuning trains on them. null: the counterpart column."""
    id_column: str = "doc_id"
    """Column of the document's id."""
    counterpart_column: str = "counterpart"
    """Column of the text."""
    encoding: str = "utf-8"
    """Encoding of text files; never guessed."""
    count: int | None = Field(default=None, ge=0)
    """Number of pairs to train on, the first by hash, so 1,000 are among 2,000. null: all outside
    the pool. 0: none (InfoCSE++ becomes InfoCSE)."""
    epochs: int = Field(default=20, ge=1)
    """Maximum epochs of fine-tuning over the labels (mutual)."""
    patience: int = Field(default=2, ge=1)
    """Epochs without improvement of R@5 after which to stop (mutual)."""


class CyclesConfig(Config):
    """When the cycles of InfoCSE++ stop: fine-tuning no longer improves R@5 (mutual, 3.3)."""

    max_cycles: int = Field(default=3, ge=0, le=20)
    """Maximum cycles; 0: self-annotation only, without labels."""
    patience: int = Field(default=1, ge=1)
    """Cycles without improvement after which to stop."""
    min_delta: float = Field(default=0.0, ge=0)
    """R@5 must improve by more than this."""


class GateConfig(Config):
    """When a registered model becomes the champion: it must be better than what serves now."""

    metric: Literal["recall_at_5", "mrr_at_10"] = "recall_at_5"
    """Metric of the comparison on the gate split, over the directions of `task` (mutual, appendix
    C: R@5)."""
    margin: float = Field(default=0.01, ge=0)
    """Least gain. Ours: less does not justify encoding an index again."""
    level: float = Field(default=0.95, gt=0.5, lt=1)
    """Confidence that the gain exceeds the margin, and that no floor is undercut. With fewer than
    100 queries the gain needs at least .999, and with fewer than 30 nothing is promoted. A nightly
    job is safer with .999 (docs/retriever.md)."""
    floors: tuple[Literal["bm25", "start"], ...] = ("bm25", "start")
    """A retriever that is significantly below one of these in a direction is not promoted. An
    encoder alone is compared with the champion, or with the start, only."""
    new_width: bool = False
    """Whether a champion may be replaced by a model with vectors of another width, which no index
    of the champion can hold."""


class RunConfig(Config):
    """Settings of every run: documents, start encoder, training, validation."""

    flow: ClassVar[str] = ""
    """The flow that takes these settings, by its name on Prefect's pages."""

    name: str = Field(default="sentemb", pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")
    """Name of the run and of the registered model."""
    corpus: CorpusConfig
    encoder: EncoderConfig = EncoderConfig()
    annotation: AnnotationConfig = AnnotationConfig()
    """How vectors are stored and clustered. A run without rounds shows the clusters in its
    report."""
    initialiser: TrainingConfig | None = None
    """Trains the encoder first: CONPONO before round 1 (mutual), a Condenser stage before
    infocse_aux, diffcse and rtd_mlm (infocse)."""
    training: TrainingConfig = TrainingConfig()
    validation: ValidationConfig = ValidationConfig()
    labels: LabelsConfig = LabelsConfig()
    postprocess: Map | None = None
    """Also validate the start encoder and the best encoder with a map fitted on their own vectors:
    BERT-whitening (Su et al. 2021), partial whitening (ours), or a small BERT-flow (Li et al.
    2020)."""
    returns: Literal["retriever", "encoder"] = "retriever"
    """retriever: vectors of the start or of a trained encoder, with the parts that validation
    chooses. encoder: the best encoder of the run, as in the papers."""
    task: SearchTask | None = None
    """What the choice and the gate judge: search (texts look for documents), titles and sessions
    (documents look for their counterparts), similar or null (both directions). With null the gate
    judges an encoder alone as titles."""
    gate: GateConfig = GateConfig()
    register_model: bool = True
    """Register the best encoder and ask the gate."""
    workers: int = Field(default=1, ge=1, exclude_if=lambda workers: workers == 1)
    """Processes of this machine that compute the shards of a large corpus (docs/scale.md). Results
    do not depend on it."""
    cluster: str | None = Field(default=None, exclude_if=lambda cluster: cluster is None)
    """Address of a Dask scheduler whose workers compute the shards, in place of `workers`."""

    @model_validator(mode="after")
    def _method_fits_the_run(self) -> "RunConfig":
        kinds: dict[type[MethodConfig], type[RunConfig]]
        kinds = {InfoCSEIDCPairs: InfoCSEIDC, FineTune: FineTuneRun}
        kind, name = kinds.get(type(self.training.method), MethodRun), self.training.method.name
        if type(self) is not RunConfig and not isinstance(self, kind):
            raise ValueError(
                f"the flow {self.flow} does not train {name!r}. Use "
                f"`python -m flows run CORPUS --method {name}`, or the flow {kind.flow}"
            )
        return self

    @model_validator(mode="after")
    def _initialiser_needs_only_documents(self) -> "RunConfig":
        method = self.initialiser and self.initialiser.method
        if isinstance(method, InfoCSEIDCPairs):
            raise ValueError(  # noqa: TRY004 - pydantic reports no other
                "the initialiser runs before any annotation. Use another method, such as conpono "
                "or simcse"
            )
        if isinstance(method, FineTune):
            raise ValueError(  # noqa: TRY004 - pydantic reports no other
                "the initialiser has no labels, which 'fine_tune' needs. Use another method, such "
                "as conpono or simcse; labels need --method fine_tune or --cycles"
            )
        return self


class MethodRun(RunConfig):
    """A run of one training, by a method that needs no annotation."""

    flow = "train-method"

    @model_validator(mode="after")
    def _a_condenser_head_has_no_map(self) -> "MethodRun":
        if self.postprocess and isinstance(self.training.method, Condenser):
            raise ValueError(
                "a Condenser stage returns its head, which an encoder with a map does not have. "
                "Use postprocess in the run that continues from it"
            )
        return self


class FineTuneRun(RunConfig):
    """A run of one fine-tuning on labelled pairs."""

    flow = "fine-tune"

    training: TrainingConfig = TrainingConfig(method=FineTune())
    """Its steps and validations follow from the epochs of `labels`."""

    @model_validator(mode="after")
    def _there_are_labels(self) -> "FineTuneRun":
        if self.labels.count == 0:
            raise ValueError("labels.count is 0, but fine-tuning needs at least 2 labels")
        _check_label_share(self.validation)
        return self


def _check_label_share(validation: ValidationConfig) -> None:
    """Refuse a share of 0 if it was given; a run sets its own share otherwise."""
    no_labels = validation.label_share == 0 and "label_share" in validation.model_fields_set
    if no_labels or validation.halves:
        raise ValueError(
            "labels are counterparts outside the pool: set validation.label_share above 0 (for "
            "example 0.5), and validation.halves to false"
        )


class InfoCSEIDC(RunConfig):
    """A run of InfoCSE with intra-document clustering (mutual)."""

    flow = "infocse-idc"

    annotator: EncoderConfig | None = None
    """Annotates round 1 instead of the start encoder (mutual, the SBERT row)."""
    rounds: RoundsConfig = RoundsConfig()
    control: bool = True
    """Also train the same steps on neighbouring sentences, as a control without self-annotation."""

    @model_validator(mode="after")
    def _cluster_batches_use_all_pairs(self) -> "InfoCSEIDC":
        if getattr(self.training.method, "batches", "pair") != "cluster":
            return self
        for name, fitting, hint in (
            ("positives", "cluster", ""),
            ("max_partners", None, "use training.method.max_per_cluster instead, or "),
            ("min_distance", 1, "leave it at 1, or "),
        ):
            value = getattr(self.annotation, name)
            if value != fitting:
                raise ValueError(
                    f"cluster batches use all pairs of a cluster, but annotation.{name} is "
                    f"{value!r}: {hint}set training.method.batches to 'pair'"
                )
        return self


class InfoCSEPlus(InfoCSEIDC):
    """A run of InfoCSE++: cycles of rounds and of fine-tuning on labels (mutual, section 3.3)."""

    flow = "infocse-plus"

    fine_tuning: TrainingConfig = TrainingConfig(method=FineTune())
    """Ends every cycle. Its steps and validations follow from the epochs of the labels."""
    cycles: CyclesConfig = CyclesConfig()

    @property
    def uses_labels(self) -> bool:
        """False without labels or cycles: then it is InfoCSE."""
        return self.labels.count != 0 and self.cycles.max_cycles > 0

    @model_validator(mode="after")
    def _cycles_fine_tune(self) -> "InfoCSEPlus":
        if not isinstance(self.fine_tuning.method, FineTune):
            raise ValueError(  # noqa: TRY004 - pydantic reports no other
                f"fine_tuning.method must be 'fine_tune'; found {self.fine_tuning.method.name!r}"
            )
        if self.uses_labels:
            _check_label_share(self.validation)
        return self
