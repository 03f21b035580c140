"""How an arm's encoder is made: the base that all share, then the arm's steps."""

from functools import partial

from flows.experiments.index import Reproduction
from flows.pipeline import documents_of, encoder_from
from flows.row_steps import RowTexts, Rules, encoder_after, labels_of
from sentemb_core.config.experiments import Arm, Corpus, Label, Train
from sentemb_core.config.methods import Condenser
from sentemb_core.config.run import CorpusConfig, EncoderConfig
from sentemb_core.errors import RecipeError
from sentemb_core.formats import counted
from sentemb_core.types import ArtifactRef
from tasks.checks import begins_with_head, folder_with_head
from tasks.corpus import document_count, draw_validation_pool, tokenise_sentences
from tasks.encode import pooled_as
from tasks.train import log_segment_share, train_encoder


def base_of(asked: Reproduction, config: EncoderConfig | None = None) -> ArtifactRef:
    """The encoder that every arm of every seed starts from, as the papers start from one BERT.

    `config` says how it is read; none: as the budget has it.
    """
    budget = asked.budget
    named = config or budget.base.encoder
    if not budget.base.reads_corpus:
        return encoder_from(named, None)
    documents = documents_of(asked.corpus(budget.base.corpus))
    encoder = encoder_from(named, documents)
    if not budget.base.times:
        return encoder
    stage = Train(
        method=Condenser(), times=budget.base.times, learning_rate=budget.base.learning_rate
    )
    training = asked.training_of(stage, budget.base.encoder.seed)
    return train_encoder(encoder, tokenise_sentences(documents, None, encoder), training).model


def texts_of(
    asked: Reproduction, base: ArtifactRef, corpus: Corpus, arm: Arm | None = None
) -> RowTexts:
    """Documents, tokens, and the pool of a corpus whose documents have counterparts.

    What an arm trains on may be a part of it.
    """
    config = asked.corpus(corpus)
    if arm:
        config = asked.corpus(corpus, sample_of(arm, config), distinct=arm.distinct)
    documents = documents_of(config)
    titled = bool(config.counterpart_column)
    pool = draw_validation_pool(documents, asked.pool) if titled else None
    sentences = tokenise_sentences(documents, pool, base)
    return RowTexts(documents=documents, sentences=sentences, validation_pool=pool)


def sample_of(arm: Arm, config: CorpusConfig) -> int | None:
    """Documents that the arm trains on; none: all of them."""
    if arm.share is None:
        return arm.max_documents
    return max(2, round(arm.share * document_count(documents_of(config))))


def less_than_asked(
    asked: Reproduction, base: ArtifactRef, arm: Arm, corpus: Corpus
) -> tuple[str, ...]:
    """Documents and labels that the corpus has, where the arm asks for more."""
    if not arm.steps:
        return ()
    texts = texts_of(asked, base, corpus, arm)
    found = [
        (labels_of(texts, asked.pool.label_share, step.count).count, step.count)
        for step in arm.steps
        if isinstance(step, Label) and step.count
    ]
    told = list(dict.fromkeys(counted(has, "label") for has, wanted in found if has < wanted))
    if arm.max_documents and (has := document_count(texts.documents)) < arm.max_documents:
        told.insert(0, counted(has, "document"))
    return tuple(f"{one} of {corpus}" for one in told)


def arm_encoder(
    asked: Reproduction, base: ArtifactRef, arm: Arm, corpus: Corpus, seed: int
) -> ArtifactRef:
    """What the arm's steps make of the base."""
    require_head(arm, asked)
    start = read_by(arm, asked, base)
    texts = texts_of(asked, base, corpus, arm)
    steps = asked.steps_of(arm)
    for step in steps:
        if isinstance(step, Train):
            log_segment_share(asked.method_of(step), texts.sentences, start)
    rules = Rules(partial(asked.training_of, seed=seed), seed, asked.limits, asked.pool.label_share)
    return encoder_after(steps, start, texts, rules)


def require_head(arm: Arm, asked: Reproduction) -> None:
    """An arm that begins with the head of a Condenser stage, from an encoder that has one.

    Raises:
        RecipeError: E303, the table's encoder was asked for and has none.
    """
    first = next(iter(arm.steps), None)
    if not (asked.start and isinstance(first, Train)):
        return
    method = asked.method_of(first)
    if begins_with_head(method) and not folder_with_head(asked.start):
        raise RecipeError(
            f"{method.name} goes on with the head of a Condenser stage, and {asked.encoder} has "
            f"none: train one (`python -m flows run FILE --method condenser --encoder "
            f"{asked.encoder} --name stage`), and make the table of it with "
            "--encoder models:/stage/1."
        )


def read_by(arm: Arm, asked: Reproduction, base: ArtifactRef) -> ArtifactRef:
    """The base under the arm's own pooling and similarity."""
    config = asked.encoder_of(arm)
    start = base if config == asked.budget.base.encoder else base_of(asked, config)
    return pooled_as(start, arm.pooling) if arm.pooling else start
