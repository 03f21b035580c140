"""The number that rounds, epochs and cycles are judged by."""

from types import SimpleNamespace

import pytest

from sentemb_core.types import ArtifactRef
from tasks import validate


def test_validation_alone_decides(monkeypatch: pytest.MonkeyPatch):
    told = {
        split: SimpleNamespace(
            document_to_counterpart=SimpleNamespace(recall_at_5=recall),
            counterpart_to_document=SimpleNamespace(recall_at_5=recall / 2),
        )
        for split, recall in (("validation", 0.2), ("gate", 0.4), ("test", 0.6))
    }
    monkeypatch.setattr(validate, "scores_of", lambda _: told)
    assert validate.recall_at_5(ArtifactRef(kind="scores", digest="0" * 64, size=1)) == 0.2
