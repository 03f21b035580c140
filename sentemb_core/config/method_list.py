"""What methods need, readable without torch, and advice for their errors."""

from sentemb_core.config.methods import METHODS, EncoderNeed, MethodConfig

ENCODERS: dict[EncoderNeed, str] = {
    "any": "",
    "transformer": "; a transformer",
    "condensed": "; a transformer and its head from a Condenser stage",
}
"""Encoders that a method can train -> their words in the list."""


def needs(method: type[MethodConfig]) -> str:
    """Return the data and the encoder that a method needs, in words."""
    return method.data + ENCODERS[method.encoder]


UNTRAINED = {
    "first and last layers, [CLS]": "--encoder NAME --set encoder.pooling=first_last_mean "
    "(first_block_last_mean, cls_before_pooler, ...)",
    "word vectors": "--encoder FILE (GloVe, word2vec, fastText); from a corpus: sentemb words "
    "SOURCE FOLDER, then --encoder FOLDER",
    "whitening, flow": "python -m flows run --postprocess whitening (soft_whitening, flow); alone: "
    "sentemb postprocess MODEL SOURCE FOLDER --by whitening (--splitter none for one sentence a "
    "row)",
    "BM25": "a row of every run and benchmark; python -m flows compare BM25 MODEL (printed form of "
    "product_thesis: row bm25_product_thesis of reproduce methods-small)",
    "BM25 and vectors": "python -m flows benchmark MODEL --fusion",
}
"""Methods without a gradient -> the command for them."""

JUDGED = (
    "A run validates with a column of counterparts, or with halves of documents. Rows of one "
    "sentence each need a column of counterparts (--counterpart-column)."
)
"""What methods on sentences need for validation."""

HEADLESS = (
    "An auxiliary network needs the head of a Condenser stage; found none (infocse, Table 4: 85.49 "
    "with a head, 83.73 without). Train one first (--initialiser condenser), start from an encoder "
    "folder with a head, or set training.method.random_head=true (of an initialiser: "
    "initialiser.method.random_head=true)."
)
"""Error of a method without the head that it needs."""

LEAST_CLUSTER_BATCH = 4
"""Sentences: at least two documents with two sentences each."""


def cluster_batch_refused(batch_size: int) -> str:
    """Return the error of a cluster batch without negatives."""
    return (
        "A cluster batch needs at least two documents with two sentences each; found batch_size "
        f"{batch_size}: set it to {LEAST_CLUSTER_BATCH} or more"
    )


def static_refused(method: str) -> str:
    """Return the error of a method that needs a transformer and gets a static encoder."""
    others = ", ".join(name for name, own in METHODS.items() if own.encoder == "any")
    return (
        f"{method} needs the layers and the dropout of a transformer; found a static encoder. Use "
        f"--encoder minilm or --encoder transformer, or one of {others}."
    )
