"""What is refused before a run has started anything: parts that do not fit, what is not there."""

from sentemb_core.configs import (
    CorpusConfig,
    FineTuneRun,
    InfoCSEPlus,
    LabelsConfig,
    RunConfig,
    TrainingConfig,
)
from sentemb_core.errors import RecipeError, UsageError
from sentemb_core.methods.listing import HEADLESS, LISTING, static_refused

LEARNT = {"static", "transformer"}
"""Encoders from random weights: there is nothing to look for."""


def check_run(config: RunConfig) -> None:
    """In a second or two, whatever the run itself would refuse after its first stages.

    Raises:
        RecipeError: E303, a method and the start encoder do not go together.
        UsageError: it shall learn from labels, and none are named.
        UnreadableSourceError, MissingColumnError: E103, E104, of the corpus or the labels.
        MissingEncoderError: E401.
    """
    check_methods(config, static=config.encoder.name == "static")
    check_corpus(config.corpus)
    check_labels(config)
    check_encoders(config)


def check_methods(config: RunConfig, *, static: bool) -> None:
    """Layers for the methods that work between them, and a head for those that continue one."""
    for training in (config.initialiser, config.training):
        if training:
            check_method(training, config, static=static)


def check_method(training: TrainingConfig, config: RunConfig, *, static: bool) -> None:
    method, first = training.method, config.initialiser
    entry = next(entry for entry in LISTING if entry.name == method.name)
    if static and not entry.takes_static:
        raise RecipeError(static_refused(method.name))
    condensed = training is not first and first is not None and first.method.name == "condenser"
    if entry.continues and not (condensed or getattr(method, "random_head", False)):
        raise RecipeError(HEADLESS)


def check_corpus(config: CorpusConfig) -> None:
    """Open the source and look for its columns."""
    from sentemb_core.corpus.readers import check_source

    check_source(config)


def check_labels(config: RunConfig) -> None:
    """Open the file of labels, if there is one, and look for its columns."""
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
    """Look for the encoders by their names; the folder that is the start may hold a static one."""
    annotator = getattr(config, "annotator", None)
    for name in {config.encoder.name, annotator.name if annotator else "static"} - LEARNT:
        from sentemb_core.encoder.start import check_encoder

        kind = check_encoder(name)
        if name == config.encoder.name:
            check_methods(config, static=kind == "static")
