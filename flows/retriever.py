"""The retriever of a run: the parts of several encoders, and the choice among their fusions.

The start encoder, the run's best encoder and its control are softly whitened. Validation chooses
one of them by the vectors that the rounds have stored. This one reads the validation pool, and also
whole texts where there are counterparts. A corpus table learns the words of the corpus from
nothing. Validation chooses the cheapest retriever that is level with the best
(`sentemb_core/retriever/choice.py`).
"""

from flows.annotation_variants import annotate
from sentemb_core.config.methods import CONPONO, Condenser
from sentemb_core.config.run import AnnotationConfig, EncoderConfig, RunConfig, TrainingConfig
from sentemb_core.types import ArtifactRef, Precision
from tasks.annotate import have_distant_sentences
from tasks.artifacts import EncoderResult, RetrieverResult, RunResult, Texts
from tasks.corpus import corpus_report, tokenise_sentences
from tasks.encode import finished_encoder, start_encoder
from tasks.execution import flow, is_pending
from tasks.retriever import (
    CORPUS_TABLE,
    ReadEncoder,
    ReadEncoders,
    Stored,
    choice_of,
    choose_encoder,
    choose_retriever,
    fit_token_map,
    has_held_out,
    is_static,
    read_pool,
    retriever_scores,
    used_by,
)
from tasks.train import train_encoder

TABLE = EncoderConfig(name="static")

NEIGHBOURS = TrainingConfig(
    method=CONPONO(), steps=300, learning_rate=5e-3, weight_decay=0.0, warmup=0.1, threads=1
)
"""Table from random vectors, in 12 to 24 seconds of CPU with `RELATED` (docs/results)."""

RELATED = TrainingConfig(steps=300, learning_rate=5e-3, weight_decay=0.0, warmup=0.1, threads=1)

AUTO = AnnotationConfig(min_distance=2, positives="related")
"""Pairs of the second training: nearest and probably related sentences, never neighbours."""


FITTED = 20_000
"""Sentences that a whitening is fitted on; 3,000 and 7,037 of blog posts give MRR@10 to .011."""


def add_retriever(run: RunResult, config: RunConfig) -> RunResult:
    """Return the run with the retriever that validation chooses, if the run returns one."""
    if not returns_retriever(config):
        return run
    return run.model_copy(update={"retriever": chosen_retriever(run, config)})


def returns_retriever(config: RunConfig) -> bool:
    """Whether a run returns a retriever; a Condenser stage returns its encoder and its head."""
    return config.returns == "retriever" and not isinstance(config.training.method, Condenser)


@flow(name="retriever", flow_run_name="retriever")
def chosen_retriever(run: RunResult, config: RunConfig) -> RetrieverResult:
    """Fit the parts, read the pool, and choose: what is returned is exactly what was judged."""
    texts, seed, dtype = run.texts, config.training.seed, config.annotation.dtype
    bases, start = semantic_bases(run), run.rows[0]
    table = None
    if pairs_sentences(texts.documents) and not is_static(start.encoder):
        table = corpus_table(texts.documents, texts.validation_pool, seed)
    compared = compared_encoders(bases, texts, config)
    chosen = next(iter(bases))
    if compared and not is_pending(compared):
        chosen = choice_of(compared).label
    encoders = ReadEncoders(
        start=read_encoder("start", start.encoder, texts, dtype, stored=stored_vectors(start)),
        semantic=whitened(chosen, bases[chosen], texts, config),
        table=read_encoder(CORPUS_TABLE, table, texts, dtype) if table else None,
        required=run.best_trained.kind == "fine-tuned",
        whole_texts=not has_held_out(texts.validation_pool),
    )
    choice = choose_retriever(encoders, texts.documents, texts.validation_pool, config.task, seed)
    scores = retriever_scores(encoders, choice, texts.documents, texts.validation_pool)
    without = None
    if table:
        without = retriever_scores(
            encoders, choice, texts.documents, texts.validation_pool, pretrained=False
        )
    served = used_by(choice, encoders)
    return RetrieverResult(
        choice=choice,
        compared=compared,
        scores=scores,
        without_encoder=without,
        encoders={each.label: each.encoder for each in served},
        token_maps={each.label: each.token_map for each in served if each.token_map},
        bases={label: base.label for label, base in bases.items()},
    )


def semantic_bases(run: RunResult) -> dict[str, EncoderResult]:
    """Return the encoders to whiten by their label: the best one, the start, the best's control.

    A fine-tuned best encoder is returned alone. A static start is left out beside other encoders.
    An encoder that has a map already is replaced by the one below it.
    """
    best, start = run.best_trained, run.rows[0]
    if best.kind == "fine-tuned":
        return {"whitened fine-tuned": best}
    trained = {} if best.kind == "start" else {f"whitened {best.label}": best}
    rounds = [row for row in run.rows if row.kind == "round"]
    for row, control in zip(rounds, run.controls, strict=False):
        if row == best:
            trained[f"whitened {control.label}"] = control
    if trained and is_static(start.encoder):
        return trained
    return {"whitened start": start} | trained


def compared_encoders(
    bases: dict[str, EncoderResult], texts: Texts, config: RunConfig
) -> ArtifactRef | None:
    """Return the choice among the bases, softly whitened, by stored vectors; None for one base."""
    if len(bases) == 1:
        return None
    seed, dtype = config.training.seed, config.annotation.dtype
    read = [
        read_encoder(label, soft_whitening(base, seed), texts, dtype, stored=stored_vectors(base))
        for label, base in bases.items()
    ]
    return choose_encoder(read, texts.documents, texts.validation_pool, config.task, seed)


def stored_vectors(row: EncoderResult) -> Stored | None:
    """Return the corpus and its vectors, where the run keeps them."""
    return row.embeddings and Stored(
        encoder=row.encoder, sentences=row.sentences, embeddings=row.embeddings
    )


def whitened(label: str, base: EncoderResult, texts: Texts, config: RunConfig) -> ReadEncoder:
    """Return an encoder with a soft whitening, its token map, and the pool as it reads it.

    A static table has no token map.
    """
    seed, dtype = config.training.seed, config.annotation.dtype
    encoder = soft_whitening(base, seed)
    token_map = None
    if not is_static(encoder):
        token_map = fit_token_map(encoder, base.sentences, seed, dtype)
    whole_texts = not has_held_out(texts.validation_pool)
    return read_encoder(label, encoder, texts, dtype, token_map, whole_texts=whole_texts)


def soft_whitening(base: EncoderResult, seed: int) -> ArtifactRef:
    """Return an encoder with a soft whitening, fitted on the sentences that are not held out."""
    return finished_encoder(
        base.encoder, base.sentences, "soft_whitening", seed, FITTED, base.embeddings,
        whole_sentences=True,
    )  # fmt: skip


def read_encoder(
    label: str,
    encoder: ArtifactRef,
    texts: Texts,
    dtype: Precision,
    token_map: ArtifactRef | None = None,
    *,
    stored: Stored | None = None,
    whole_texts: bool = False,
) -> ReadEncoder:
    """Return an encoder and the pool as it reads it."""
    documents, pool = texts.documents, texts.validation_pool
    readings = read_pool(
        encoder, token_map, documents, pool, dtype, stored, whole_texts=whole_texts
    )
    return ReadEncoder(label=label, encoder=encoder, readings=readings, token_map=token_map)


@flow(name="corpus table", flow_run_name="corpus table")
def corpus_table(documents: ArtifactRef, validation_pool: ArtifactRef, seed: int) -> ArtifactRef:
    """Return a static table that learnt the corpus from nothing, softly whitened.

    It learns from neighbours first, and then from what it finds related itself. Documents of two
    sentences have neighbours alone.
    """
    seeded = {"seed": seed}
    start = start_encoder(TABLE.name, TABLE.model_copy(update=seeded), documents)
    sentences = tokenise_sentences(documents, validation_pool, start)
    first = train_encoder(start, sentences, NEIGHBOURS.model_copy(update=seeded))
    if not have_distant_sentences(sentences, AUTO.min_distance):
        return finished_encoder(first.model, sentences, "soft_whitening", seed)
    pairs = annotate(first.model, sentences, AUTO.model_copy(update=seeded))
    trained = train_encoder(
        first.model,
        sentences,
        RELATED.model_copy(update=seeded),
        clusters=pairs.clusters,
        pairs=pairs.pairs,
    )
    return finished_encoder(trained.model, sentences, "soft_whitening", seed)


def pairs_sentences(documents: ArtifactRef) -> bool:
    """Whether enough documents have two sentences for a table to learn from."""
    return is_pending(documents) or corpus_report(documents).documents_with_pairs >= 2
