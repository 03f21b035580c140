"""What stands beside encoders on a task: chance of the arm's own seed, words once."""

from pathlib import Path

import pytest

from flows.experiments.index import EXPERIMENTS, Reproduction
from flows.experiments.judging import on_task
from sentemb_core.evaluation import bootstrap
from sentemb_core.experiments import Column
from sentemb_core.store.objects import Store
from tasks.benchmark import result_of
from tasks.caching import without_prefect
from tests.flows.suites import write_data

SEEDS = (42, 43, 44)


@pytest.mark.usefixtures("home")
def test_chance_is_drawn_seed_by_seed_and_words_are_counted_once(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(bootstrap, "RESAMPLES", 50)
    asked = Reproduction(experiment=next(iter(EXPERIMENTS)), data=str(write_data(tmp_path)))
    column = Column(label="Cranfield", judge="Cranfield")
    with without_prefect(Store.default()):
        chance = [on_task(asked, "random", column, seed) for seed in SEEDS]
        words = [on_task(asked, "BM25", column, seed) for seed in SEEDS]
    assert len({result_of(ref).value for ref in chance}) > 1
    assert len(set(words)) == 1
    assert len(list((Store.default().root / "records" / "score_fixed").glob("*.json"))) == 4
