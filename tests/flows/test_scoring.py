"""Baselines of a task: the random one depends on the seed, BM25 does not."""

from pathlib import Path

import pytest

from flows.scoring import result_on
from sentemb_core.config.suite import chosen
from sentemb_core.evaluation import bootstrap
from sentemb_core.store.objects import Store
from tasks.benchmark import placed, result_of
from tasks.execution import without_prefect
from tests.flows.suites import write_data

SEEDS = (42, 43, 44)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("name", "stage"), [("Cranfield", "score_fixed"), ("STS12", "score_fixed_similarity")]
)
def test_random_baseline_depends_on_the_seed_and_bm25_does_not(
    name: str, stage: str, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(bootstrap, "RESAMPLES", 50)
    (task,) = chosen([name])
    place = placed(task, write_data(tmp_path))
    with without_prefect():
        chance = [result_on(place, "random", seed=seed) for seed in SEEDS]
        words = [result_on(place, "BM25", seed=seed) for seed in SEEDS]
    assert len({result_of(ref).value for ref in chance}) > 1
    assert len(set(words)) == 1
    assert len(list((Store.default().root / "records" / stage).glob("*.json"))) == 4
