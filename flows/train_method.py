"""One training by any method: prepare, train, validate, publish."""

from prefect import flow

from flows.infocse_idc import (
    Watch,
    initialised,
    judged,
    prepared,
    trained_without_annotation,
    validated,
)
from sentemb_core.configs import MethodRun, RoundsConfig
from tasks.following import followed
from tasks.publish import Outcome, published
from tasks.rows import SelfTraining
from tasks.validate import bm25_scores, random_scores


@flow(name="train-method", flow_run_name="{config.name}")
def train_method(config: MethodRun) -> Outcome:
    """Documents in, an encoder trained by one method out: reported, registered, gated.

    Args:
        config: The whole run; every setting brings its source.
    """
    with followed(config) as run:
        return published(trained_once(config, run), run)


def trained_once(config: MethodRun, watch: Watch) -> SelfTraining:
    """The encoder before and after the method; the better one on validation is kept."""
    texts, start = prepared(config)
    bm25 = bm25_scores(texts.documents, texts.benchmark)
    random = random_scores(texts.sentences, texts.benchmark, config.encoder.seed)

    rows = [validated("start", start, texts, config.annotation)]
    watch(rows[0])
    if config.initialiser:
        rows.append(initialised(rows[0], texts, config))
        watch(rows[-1])

    base = len(rows) - 1
    label = f"after {config.training.method.name}"
    rows.append(trained_without_annotation(label, rows[base], config.training, texts, config))
    watch(rows[-1])
    best = base + judged(rows[base:], RoundsConfig()).best
    return SelfTraining(texts=texts, rows=rows, controls=[], bm25=bm25, random=random, best=best)
