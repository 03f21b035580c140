"""The number that rounds, epochs and cycles are judged by."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from flows.cli.settings import settings
from flows.pipeline import encoder_from
from sentemb_core.config.run import EncoderConfig, ValidationConfig
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.types import ArtifactRef
from tasks import validate
from tasks.artifacts import artifact_path, new_artifact
from tasks.corpus import draw_validation_pool, tokenise_sentences
from tasks.execution import without_prefect


def test_validation_alone_decides_by_documents_that_find_their_counterparts(
    monkeypatch: pytest.MonkeyPatch,
):
    by_split = {
        split: SimpleNamespace(
            document_to_counterpart=SimpleNamespace(recall_at_5=recall),
            counterpart_to_document=SimpleNamespace(recall_at_5=recall / 2),
        )
        for split, recall in (("validation", 0.2), ("gate", 0.4), ("test", 0.6))
    }
    monkeypatch.setattr(validate, "scores_of", lambda _: by_split)
    scores = ArtifactRef(kind="scores", digest="0" * 64, size=1)
    assert validate.recall_at_5(scores) == 0.2
    assert validate.recall_at_5(scores, "test") == 0.6


@pytest.mark.parametrize(
    ("options", "judges"),
    [
        ({}, "halves of documents"),
        ({"corpus.counterpart_column": "title"}, "the texts of column 'title'"),
        ({"training.method": "fine_tune"}, ""),
        (
            {"training.method": "fine_tune", "corpus.counterpart_column": "title"},
            "the texts of column 'title'",
        ),
        ({"labels.source": None}, ""),
    ],
)
def test_what_would_judge_without_labels_is_known(options: dict[str, object], judges: str):
    """Fine-tuning cannot do without them, unless a column gives others."""
    config = settings(None, {"corpus.source": "x.jsonl", "labels.source": "l.csv"} | options, [])
    assert validate.judging_unlabelled(config) == judges


def enlarged(encoder: ArtifactRef) -> ArtifactRef:
    """The same directions, a thousand times as long."""
    found = load_encoder(artifact_path(encoder))
    with torch.no_grad():
        found.backbone.embedding.weight.mul_(1024)
    with new_artifact("model") as draft:
        save_encoder(found, draft.path, "card")
    return draft.ref


def test_words_are_rescored_by_cosines_of_an_encoder_of_inner_products_too(documents: ArtifactRef):
    with without_prefect():
        pool = draw_validation_pool(documents, ValidationConfig(candidates=20))
        start = EncoderConfig(dim=8, vocabulary=300, similarity="dot")
        encoder = encoder_from(start, documents)
        sentences = tokenise_sentences(documents, pool, encoder)
        rescored, again, words = (
            validate.scores_of(validate.rescored_scores(one, sentences, documents, pool, alpha))
            for one, alpha in ((encoder, 20.0), (enlarged(encoder), 20.0), (encoder, 0.0))
        )
    assert rescored == again != words


@pytest.mark.parametrize(("hits", "expected"), [(60, True), (92, False), (98, False)])
def test_a_round_falls_below_its_start_only_by_more_than_chance(
    monkeypatch: pytest.MonkeyPatch, hits: int, expected: bool
):
    """The start finds 95 of 100 counterparts among the first five."""
    counts = {"round": hits, "start": 95}
    monkeypatch.setattr(validate, "artifact_path", Path)
    monkeypatch.setattr(
        "sentemb_core.evaluation.validation_scores.read_hits",
        lambda folder, *_: np.where(np.arange(100) < counts[folder.name], 1.0, 0.0),
    )
    assert validate.falls_below(cast(Any, "round"), cast(Any, "start")) is expected
