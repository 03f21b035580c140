"""Stores as released versions left them: all is read as it was meant, or refused with a reason.

`tests/golden/make_store.py` adds one at each release.
"""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from flows.cli.records import outcome_of
from flows.cli.run import walk
from flows.cli.settings import checked
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import load_encoder
from sentemb_core.store import records, stages, status
from sentemb_core.store.maintenance import fsck
from sentemb_core.store.objects import Store
from sentemb_core.store.records import lineage
from sentemb_core.store.status import Status
from tasks.execution import dry_run
from tasks.report import write_report_of
from tasks.validate import scores_of

GOLDEN = Path(__file__).parents[1] / "golden"
STORES = sorted(GOLDEN.glob("store-*.tar.xz"))
NO_REASON = ("", records.FIRST_TIME)


def unpack(archive: Path, folder: Path) -> None:
    """Plain files alone: `extractall` has its filter from Python 3.11.4 on, and later needs it."""
    with tarfile.open(archive) as packed:
        for member in packed:
            if content := packed.extractfile(member):
                file = folder / member.name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content.read())


@pytest.fixture(params=STORES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def older(request, home: Path, monkeypatch) -> dict:
    """What is known of the store that now is this home."""
    unpack(request.param, home)
    monkeypatch.chdir(home)  # where its corpus is
    facts = request.param.with_name(request.param.name.replace(".tar.xz", ".json"))
    return json.loads(facts.read_text("utf-8"))


def test_there_is_a_store_of_a_released_version():
    assert STORES


def test_every_artifact_is_whole_and_every_record_is_read(older):
    found = fsck(Store.default())
    assert (found.healthy, found.ok, found.stray) == (True, older["artifacts"], [])
    read = list(records.all_records(Store.default()))
    assert len(read) == older["records"]
    for record in read:
        assert isinstance(records.look_up(Store.default(), record.stage, record.key), type(record))


def test_scores_and_vectors_are_what_they_were(older):
    _, outcome = outcome_of(older["run"])
    recalls = {
        row.label: scores_of(row.scores)["test"].document_to_counterpart.recall_at_5
        for row in outcome.training.rows
    }
    assert recalls == older["recall_at_5"]
    encoder = load_encoder(Store.default().path(outcome.encoder))
    np.testing.assert_allclose(
        embed_texts(encoder, older["sentences"]), older["vectors"], atol=1e-5
    )


def test_its_report_is_written_anew_from_all_its_artifacts(older, tmp_path):
    found, outcome = outcome_of(older["run"])
    here = outcome.model_copy(update={"report": str(tmp_path / "report" / "report.html")})
    page = write_report_of(here, checked(found.config)).read_text("utf-8")
    assert all(label in page for label in older["recall_at_5"])


def test_a_model_leads_back_to_its_corpus(older):
    _, outcome = outcome_of(older["run"])
    stages = [origin.stage for origin in lineage(Store.default(), outcome.encoder).origins]
    assert stages[0] == "publish_encoder"
    assert {"train_encoder", "start_encoder", "read_corpus"} <= set(stages)


def plan_of(run: str) -> list[Status]:
    found, _ = outcome_of(run)
    with dry_run(Store.default()) as plan:
        walk(checked(found.config))
    return plan.statuses


def test_each_stage_hits_or_says_what_has_changed(older):
    told = plan_of(older["run"])
    assert told[0].stage == "read_corpus"
    assert [one for one in told if one.verdict == "MISS" and one.why in NO_REASON] == []


def test_what_other_libraries_made_is_not_taken_for_ones_own(older, monkeypatch):
    now = stages.library_versions
    monkeypatch.setattr(stages, "library_versions", lambda names: now(names) | {"torch": "9.9"})
    monkeypatch.setattr(status, "SHOWN", 9)  # what reading knows by now has changed, too
    told = plan_of(older["run"])
    assert {one.verdict for one in told} == {"MISS", "AFTER"}
    assert all("9.9" in one.why for one in told if one.verdict == "MISS")
