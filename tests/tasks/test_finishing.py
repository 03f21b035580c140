"""A registry or a gate that fails costs nobody the report."""

import pytest

from sentemb_core.config.run import CorpusConfig, InfoCSEIDC
from sentemb_core.errors import OutOfMemoryError, RegistryDownError, SentembError, UnsafeModelError
from tasks import finishing
from tasks.publish import Outcome
from tests.tasks.made import ROWS, ref, training


@pytest.mark.parametrize("error", [RegistryDownError, UnsafeModelError, OutOfMemoryError])
def test_whatever_error_the_landing_tells_the_report_is_written_and_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, error: type[SentembError]
):
    notes: list[str] = []

    def land(*_: object) -> None:
        raise error("The champion cannot be opened.")

    monkeypatch.setattr(finishing, "landed", land)
    monkeypatch.setattr(finishing, "write_report_of", lambda _, __, note: notes.append(note))
    outcome = Outcome(
        run="night-1",
        training=training(ROWS, 0),
        encoder=ref("model"),
        report="report.html",
        landing=None,
        timings=[],
    )
    config = InfoCSEIDC(corpus=CorpusConfig(source="d.jsonl"))
    with pytest.raises(error):
        finishing.landed_or_reported(outcome, config)
    (note,) = notes
    assert "`python -m flows resume night-1` goes on with it" in note
