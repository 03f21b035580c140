"""Checks before a run: settings that do not fit together, and files that are missing."""

import logging
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sentemb_core.annotation.faiss_wheels import check_faiss
from sentemb_core.config.method_list import (
    HEADLESS,
    LEAST_CLUSTER_BATCH,
    cluster_batch_refused,
    static_refused,
)
from sentemb_core.config.methods import (
    RTDMLM,
    Condenser,
    DiffCSE,
    InfoCSEAux,
    InfoCSEIDCPairs,
    MethodSettings,
)
from sentemb_core.config.run import (
    RANDOM_ENCODERS,
    CorpusConfig,
    EncoderConfig,
    FineTuneRun,
    InfoCSEPlus,
    LabelsConfig,
    RunConfig,
    TrainingConfig,
)
from sentemb_core.encoder.names import HEAD_FILE, is_encoder_folder, is_word_file
from sentemb_core.errors import NoNegativesError, RecipeError, SentembError, UsageError
from sentemb_core.formats import counted
from tasks.registered_encoders import with_local_encoders

if TYPE_CHECKING:
    from sentemb_core.corpus.columns import Row
    from sentemb_core.encoder.encoder import Encoder
    from sentemb_core.methods.parts.stored_head import HeadShape

JOINING = {"ict", "cpc"}
"""Methods that join sentences to longer texts, and also train static encoders."""


def check_run(config: RunConfig) -> None:
    """Refuse in a second or two what the run would refuse after its first stages.

    Raises:
        RecipeError: E303, a method does not fit the start encoder.
        NoNegativesError: E301, a batch cannot hold a negative.
        UsageError: the run trains on labels and has none or one; both faiss wheels are
            installed, or none, and k-means needs one.
        UnreadableSourceError, MissingColumnError: E103, E104, in the corpus or the labels.
        MissingEncoderError: E401.
        RegistryError: E702, for a registered encoder.
    """
    check_faiss(needed=config.annotation.clustering == "kmeans")
    config = with_local_encoders(config)
    check_methods(config, static=config.encoder.name == "static")
    check_corpus(config.corpus)
    check_labels(config)
    check_encoders(config)
    check_recipes(config)


def check_methods(config: RunConfig, *, static: bool) -> None:
    """Refuse methods that need layers for a static encoder, and batches of too few clusters."""
    for training in trainings(config):
        method = training.method
        if static and method.encoder != "any":
            raise RecipeError(static_refused(method.name))
        clustered = isinstance(method, InfoCSEIDCPairs) and method.batches == "cluster"
        if clustered and training.batch_size < LEAST_CLUSTER_BATCH:
            raise NoNegativesError(cluster_batch_refused(training.batch_size))


def trainings(config: RunConfig) -> Iterator[TrainingConfig]:
    """The initialiser, if there is one, and the training of the run."""
    if config.initialiser:
        yield config.initialiser
    yield config.training


def check_corpus(config: CorpusConfig) -> None:
    """Check that the source can be read and has its columns."""
    from sentemb_core.corpus.readers import check_source

    check_source(config)


def check_labels(config: RunConfig) -> None:
    """Check that the labels are enough, and that their file can be read."""
    if learns_from_labels(config) and config.labels.count == 1:
        raise UsageError(
            "Fine-tuning contrasts the labels of at least two documents; labels.count "
            "(--label-count) is 1: raise it."
        )
    if config.labels.source:
        from sentemb_core.corpus.labels import check_label_file

        check_label_file(config.labels)
    elif learns_from_labels(config) and not config.corpus.counterpart_column:
        raise UsageError(
            "Fine-tuning learns from labelled pairs, and this run names none: name a file of them "
            f"(--labels FILE, columns {LabelsConfig().id_column} and "
            f"{LabelsConfig().counterpart_column}) or a column of the corpus (--counterpart-column)"
        )


def learns_from_labels(config: RunConfig) -> bool:
    return isinstance(config, FineTuneRun) or (
        isinstance(config, InfoCSEPlus) and config.uses_labels
    )


def check_encoders(config: RunConfig) -> None:
    """Check the named encoders; the folder of the start encoder may hold a static one."""
    for encoder in (config.encoder, getattr(config, "annotator", None)):
        if encoder is None or encoder.name in RANDOM_ENCODERS:
            continue
        from sentemb_core.encoder.start import encoder_kind  # imports torch, which takes seconds

        kind = encoder_kind(encoder.name)
        if encoder is config.encoder:
            check_methods(config, static=kind == "static")


LEAST_KNOWN = 0.6
"""Least share of words that MiniLM must know whole (`vocabulary.known_word_share`)."""

MOST_UNKNOWN = 0.1
"""Largest share of tokens that MiniLM may lack: Japanese has .3."""

SAMPLED = 200
"""First rows of a corpus that show its language and the length of its documents."""

BEGINNING = 2_000
"""Characters of a text that show whether it has three sentences."""


def default_encoder(corpus: CorpusConfig) -> str:
    """Return the start encoder of a run that names none.

    It is MiniLM where its package is installed and knows the words of the corpus. A corpus that
    cannot be read gets a static table: the run refuses it with the reason.
    """
    from sentemb_core.encoder.vocabulary import (
        known_word_share,
        minilm_tokenizer,
        unknown_tokens,
    )

    tokenizer = minilm_tokenizer()
    if tokenizer is None:
        return "static"
    try:
        with silent("sentemb_core.corpus"):
            texts = [text for row in first_rows(corpus) for text in texts_of(row)]
    except SentembError:
        return "static"
    unknown, tokens = unknown_tokens(tokenizer, texts)
    known = known_word_share(tokenizer, texts) >= LEAST_KNOWN and unknown <= MOST_UNKNOWN * tokens
    return "minilm" if known else "static"


def first_rows(corpus: CorpusConfig) -> "Iterator[Row]":
    """Yield the readable ones of the first rows of a corpus."""
    from sentemb_core.corpus.columns import Row
    from sentemb_core.corpus.readers import rows

    return (row for row in islice(rows(corpus), SAMPLED) if isinstance(row, Row))


def first_sizes(corpus: CorpusConfig) -> list[int]:
    """Return the number of sentences of the first usable documents; of a long one, at least 3.

    A corpus that cannot be read has none: the run refuses it with the reason.
    """
    from sentemb_core.corpus.checks import RefusedError, checked_document
    from sentemb_core.corpus.sentences import splitter

    split = splitter(corpus.splitter)
    sizes: list[int] = []
    with silent("sentemb_core.corpus"), suppress(SentembError):
        for row in first_rows(corpus):
            short = row._replace(text=row.text[:BEGINNING]) if isinstance(row.text, str) else row
            with suppress(RefusedError):
                sizes.append(len(checked_document(short, corpus, split, Counter()).sentences))
    return sizes


def lack_sentences(sizes: Sequence[int], least: int) -> bool:
    """Return whether so few documents have so many sentences that the run may refuse the corpus.

    A corpus that has no documents is refused for another reason.
    """
    from sentemb_core.corpus.documents import PAIRS_SHARE

    share = 2 * PAIRS_SHARE  # the first documents are a sample
    return sum(size >= least for size in sizes) < share * len(sizes)


def texts_of(row: "Row") -> list[str]:
    """Return the sentences of a row, or its text as one."""
    if isinstance(row.sentences, list):
        return [text for text in row.sentences if isinstance(text, str)]
    return [row.text] if isinstance(row.text, str) else []


def check_model(name: str) -> None:
    """Look for an encoder of this name; E001 if it needs a corpus, else as `encoder_kind`."""
    if name in RANDOM_ENCODERS:
        raise UsageError(
            f"{name!r} is no encoder before it learnt its vocabulary from a corpus: take minilm, "
            "a folder or a published name."
        )
    from sentemb_core.encoder.start import encoder_kind

    encoder_kind(name)


def starts_static(encoder: str) -> bool:
    """Whether a start encoder is a table of token vectors: new, in a folder, or word vectors."""
    if encoder == "static" or not is_encoder_folder(encoder):
        return encoder == "static" or is_word_file(encoder)
    from sentemb_core.encoder.folder_files import is_static

    return is_static(Path(encoder))


def check_recipes(config: RunConfig) -> None:
    """Build every method on the start encoder, as its training will.

    The vocabulary of a random encoder is not known yet: here a word is one token, the minimum.
    """
    if not may_not_fit(config):
        return
    from sentemb_core.methods.catalogue import method_for
    from sentemb_core.methods.parts.method import require_divisible

    with silent("sentemb_core"):  # the training logs the warnings
        start = shaped_as(config.encoder)
        for training in trainings(config):
            method = method_for(headless(training.method), start)
            require_divisible(method, training.chunk, training.devices)
            check_head(training, config, start)


def may_not_fit(config: RunConfig) -> bool:
    """Whether the start encoder must be built for the check: torch alone takes seconds.

    A static encoder fits every method that `check_method` accepts. Exceptions: another pooling
    than the mean, and methods that join sentences by the special tokens of a folder.
    """
    encoder = config.encoder
    if not starts_static(encoder.name) or encoder.pooling not in (None, "mean"):
        return True
    if JOINING.isdisjoint(training.method.name for training in trainings(config)):
        return False
    from sentemb_core.encoder.start import encoder_folder

    return encoder_folder(encoder.name) is not None


def check_head(training: TrainingConfig, config: RunConfig, start: "Encoder") -> None:
    """Check that a method that continues a Condenser head finds one of its shape.

    The training itself would refuse other layers only after the Condenser stage, and would not
    notice the states of another layer.
    """
    from sentemb_core.methods.parts.stored_head import HeadShape
    from sentemb_core.methods.parts.transformer_layers import skip_layer

    method = training.method
    if not begins_with_head(method):
        return
    given = head_before(training, config, start)
    if given is None or isinstance(method, DiffCSE):  # which begins without its layers
        return
    assert isinstance(method, InfoCSEAux | RTDMLM)
    wanted = HeadShape(method.head_layers, skip_layer(start, method.skip_from))
    if wanted != given:
        raise RecipeError(
            f"{method.name} begins with the head of a Condenser stage, as it was trained: of "
            f"{counted(given.layers, 'layer')}, over the states of layer {given.below}. Found "
            f"training.method.head_layers {wanted.layers} and skip_from {wanted.below}: make them "
            f"equal (--set training.method.head_layers={given.layers} --set "
            f"training.method.skip_from={given.below})"
        )


def head_before(
    training: TrainingConfig, config: RunConfig, start: "Encoder"
) -> "HeadShape | None":
    """The shape of the head that a training starts with (else E303); None without a shape file."""
    from sentemb_core.methods.parts.stored_head import HeadShape, head_shape
    from sentemb_core.methods.parts.transformer_layers import skip_layer

    stage = config.initialiser
    if stage and training is not stage:
        if isinstance(stage.method, Condenser):
            below = skip_layer(start, stage.method.skip_from)
            return HeadShape(stage.method.head_layers, below)
        raise RecipeError(HEADLESS)
    folder = folder_with_head(config.encoder.name)
    if folder is None:
        raise RecipeError(HEADLESS)
    return head_shape(folder)


def begins_with_head(method: MethodSettings) -> bool:
    """Whether it continues the head of a Condenser stage."""
    return method.encoder == "condensed" and not getattr(method, "random_head", False)


def folder_with_head(encoder: str) -> Path | None:
    """The folder of an encoder with a Condenser head, if there is one."""
    from sentemb_core.encoder.start import encoder_folder

    folder = encoder_folder(encoder)
    return folder if folder and (folder / HEAD_FILE).is_file() else None


def headless(method: MethodSettings) -> MethodSettings:
    """The method with a random head, to build it before the head is trained."""
    random_head = {"random_head": True} if hasattr(method, "random_head") else {}
    return method.model_copy(update=random_head)


def shaped_as(config: EncoderConfig) -> "Encoder":
    """The start encoder; a random one without weights and vocabulary."""
    import torch

    from sentemb_core.encoder.start import start_encoder

    if config.name not in RANDOM_ENCODERS:
        return start_encoder(config, None)
    with torch.device("meta"):
        return start_encoder(config, iter(()))


@contextmanager
def silent(name: str) -> Generator[None, None, None]:
    """Suppress the warnings of a logger and its children."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
