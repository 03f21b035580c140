"""The list of methods for people: it is read without torch, whose import takes seconds."""

from dataclasses import dataclass
from typing import Literal

from sentemb_core.encoder.names import HEAD_FILE

EncoderNeed = Literal["any", "transformer", "condensed"]

ENCODERS: dict[EncoderNeed, str] = {
    "any": "",
    "transformer": "; a transformer",
    "condensed": "; a transformer and its head from a Condenser stage",
}
"""Which encoder can learn by a method -> how the list says it."""


@dataclass(frozen=True)
class Entry:
    """A method, what data it needs, and what it takes for positives.

    Attributes:
        name: As in the settings.
        data: Which it learns from.
        what: In one line.
        encoder: Which can learn by it.
        pairs_sentences: Whether a pair is two sentences of one document, so that a document of
            one sentence gives none.
    """

    name: str
    data: str
    what: str
    encoder: EncoderNeed = "transformer"
    pairs_sentences: bool = False

    @property
    def needs(self) -> str:
        """Which data and which encoder, in words."""
        return self.data + ENCODERS[self.encoder]

    @property
    def takes_static(self) -> bool:
        """Whether a table of token vectors can learn by it."""
        return self.encoder == "any"

    @property
    def continues(self) -> bool:
        """Whether it starts from what a Condenser stage left."""
        return self.encoder == "condensed"


def _of_pairs(name: str, what: str) -> Entry:
    """A method whose pairs are sentences of one document, by which any encoder can learn."""
    return Entry(name, "documents", what, "any", pairs_sentences=True)


LISTING = (
    _of_pairs("infocse_idc", "sentences of one document in one cluster"),
    _of_pairs("conpono", "neighbouring sentences of a document"),
    _of_pairs("ict", "a sentence and the rest of its document"),
    _of_pairs("cpc", "a sentence and what precedes it"),
    Entry("declutr", "long documents", "spans of one document"),
    Entry(
        "fine_tune",
        "documents and labelled pairs",
        "a document and what people matched with it",
        "any",
    ),
    Entry("simcse", "sentences", "a sentence under two dropouts"),
    Entry("esimcse", "sentences", "repeated sub-words; a queue of negatives"),
    Entry("sncse", "sentences", "a prompted sentence; its negation is a soft negative"),
    Entry("consert", "sentences", "a sentence under two perturbations"),
    Entry("mirror_bert", "sentences", "a sentence and itself with a span hidden"),
    Entry("hicl", "documents", "whole texts, and their segments"),
    Entry("bce", "sentences", "SimCSE's pairs under a binary loss"),
    Entry("ct", "sentences", "a sentence seen by two encoders"),
    Entry("is_bert", "sentences", "a sentence and its own tokens"),
    Entry("sg_opt", "sentences", "a sentence and the layers of a frozen copy"),
    Entry("clm_autoencoder", "sentences", "none: the sentence is written again"),
    Entry("mlm_autoencoder", "sentences", "none: its masks are filled in"),
    Entry("condenser", "sentences", "none: pre-training that fills masks"),
    Entry("infocse_aux", "sentences", "SimCSE, and masks to fill", "condensed"),
    Entry("diffcse", "sentences", "SimCSE, and edits to see", "condensed"),
    Entry("rtd_mlm", "sentences", "SimCSE, masks and edits", "condensed"),
)


UNTRAINED = {
    "first and last layers, [CLS]": "--encoder NAME --set encoder.pooling=first_last_mean "
    "(first_block_last_mean, cls_before_pooler, ...)",
    "word vectors": "--encoder FILE of GloVe, word2vec or fastText; those of a corpus: sentemb "
    "words SOURCE FOLDER, and then --encoder FOLDER",
    "whitening, flow": "python -m flows run --postprocess whitening (soft_whitening, flow) beside "
    "a method; alone: sentemb postprocess MODEL SOURCE FOLDER --by whitening (--splitter none for "
    "one sentence a row)",
    "BM25": "a row of every run and benchmark; python -m flows compare BM25 MODEL (the thesis's "
    "literal form: row bm25_product_thesis of reproduce methods-small)",
    "BM25 and vectors": "python -m flows benchmark MODEL --fusion",
}
"""What needs no gradient, and so is no method of a training -> how one has it."""


JUDGED = (
    "A run judges by a column of counterparts, or else by halves of documents: rows of one "
    "sentence each want a column of counterparts (--counterpart-column)."
)
"""What a method that learns from sentences alone needs beside them."""


HEADLESS = (
    "An auxiliary network starts from the head of a Condenser stage, and none is given (infocse, "
    "Table 4: 85.49 with it, 83.73 without): train one first (--initialiser condenser), take "
    f"an encoder's folder that has one ({HEAD_FILE}), or do without (--set "
    "training.method.random_head=true; an initialiser: initialiser.method.random_head=true)."
)
"""What is said where such a method has no head."""


LEAST_CLUSTER_BATCH = 4
"""Sentences: at least two documents with two each."""


def cluster_batch_refused(batch_size: int) -> str:
    """What is said of a cluster batch in which nothing can contrast."""
    return (
        "A cluster batch spans at least two documents with two sentences each; found batch_size "
        f"{batch_size}: set it to {LEAST_CLUSTER_BATCH} or more"
    )


def static_refused(method: str) -> str:
    """What is said where a method that needs a transformer meets a static encoder."""
    others = ", ".join(entry.name for entry in LISTING if entry.takes_static)
    return (
        f"{method} needs the layers and the dropout of a transformer, and a static encoder has "
        f"neither: name one (--encoder minilm, or --encoder transformer), or take {others}."
    )
