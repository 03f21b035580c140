"""The list of methods for people: it is read without torch, whose import takes seconds."""

from dataclasses import dataclass

from sentemb_core.encoder.names import HEAD_FILE

TRANSFORMER = "sentences; a transformer"
DOCUMENTS = "documents"
CONDENSED = "sentences; a transformer and its head from a Condenser stage"


@dataclass(frozen=True)
class Entry:
    """A method, what data it needs, and what it takes for positives.

    Attributes:
        name: As in the settings.
        needs: Which data, and which encoder.
        what: In one line.
    """

    name: str
    needs: str
    what: str

    @property
    def takes_static(self) -> bool:
        """Whether a table of token vectors can learn by it."""
        return "transformer" not in self.needs

    @property
    def continues(self) -> bool:
        """Whether it starts from what a Condenser stage left."""
        return self.needs == CONDENSED

    @property
    def pairs_sentences(self) -> bool:
        """Whether a pair is two sentences of one document, so that a sentence alone gives none."""
        return self.needs == DOCUMENTS


LISTING = (
    Entry("infocse_idc", DOCUMENTS, "sentences of one document in one cluster"),
    Entry("conpono", DOCUMENTS, "neighbouring sentences of a document"),
    Entry("ict", DOCUMENTS, "a sentence and the rest of its document"),
    Entry("cpc", DOCUMENTS, "a sentence and what precedes it"),
    Entry("declutr", "long documents; a transformer", "spans of one document"),
    Entry(
        "fine_tune", "documents and labelled pairs", "a document and what people matched with it"
    ),
    Entry("simcse", TRANSFORMER, "a sentence under two dropouts"),
    Entry("esimcse", TRANSFORMER, "repeated sub-words; a queue of negatives"),
    Entry("sncse", TRANSFORMER, "a prompted sentence; its negation is a soft negative"),
    Entry("consert", TRANSFORMER, "a sentence under two perturbations"),
    Entry("mirror_bert", TRANSFORMER, "a sentence and itself with a span hidden"),
    Entry("hicl", "documents; a transformer", "whole texts, and their segments"),
    Entry("bce", TRANSFORMER, "SimCSE's pairs under a binary loss"),
    Entry("ct", TRANSFORMER, "a sentence seen by two encoders"),
    Entry("is_bert", TRANSFORMER, "a sentence and its own tokens"),
    Entry("sg_opt", TRANSFORMER, "a sentence and the layers of a frozen copy"),
    Entry("clm_autoencoder", TRANSFORMER, "none: the sentence is written again"),
    Entry("mlm_autoencoder", TRANSFORMER, "none: its masks are filled in"),
    Entry("condenser", TRANSFORMER, "none: pre-training that fills masks"),
    Entry("infocse_aux", CONDENSED, "SimCSE, and masks to fill"),
    Entry("diffcse", CONDENSED, "SimCSE, and edits to see"),
    Entry("rtd_mlm", CONDENSED, "SimCSE, masks and edits"),
)


UNTRAINED = {
    "first and last layers, [CLS]": "--encoder NAME --set encoder.pooling=first_last_mean "
    "(first_block_last_mean, cls_before_pooler, ...)",
    "word vectors": "--encoder FILE of GloVe, word2vec or fastText; those of a corpus are a row of "
    "every table",
    "whitening, flow": "sentemb postprocess MODEL SOURCE FOLDER --by whitening "
    "(--splitter none for one sentence a row)",
    "BM25": "a row of every run and benchmark; python -m flows compare BM25 MODEL",
    "BM25 and vectors": "python -m flows benchmark MODEL --fusion",
}
"""What needs no gradient, and so is no method of a training -> how one has it."""


JUDGED = (
    "A run judges by a column of counterparts, or else by halves of documents: rows of one "
    "sentence each want a column of counterparts (--counterpart-column)."
)
"""What a method that learns from sentences alone needs beside them."""


HEADLESS = (
    "An auxiliary network starts from the head of a Condenser stage, and none is given (seed 001, "
    "Table 4: 85.49 with it, 83.73 without): train one first (--initialiser condenser), take "
    f"an encoder's folder that has one ({HEAD_FILE}), or do without (--set "
    "training.method.random_head=true)."
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
