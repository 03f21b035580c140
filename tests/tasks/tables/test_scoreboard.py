"""What of a benchmark has no number, and why."""

import pytest

from sentemb_core.config.suite import chosen
from sentemb_core.evaluation.label_free import MEASURES
from sentemb_core.types import ArtifactRef
from tasks.benchmark import Placed
from tasks.tables import scoreboard, scoreboard_lines, scoreboard_tables
from tasks.tables.scoreboard import Scoreboard, ScoreCell, agreements, averages, no_agreement
from tasks.tables.scoreboard_page import diagnosis_panel

SAMPLE = "pairs of stsb_dev"


def encoder(place: int) -> ArtifactRef:
    return ArtifactRef(kind="model", digest=f"{place}" * 64, size=1)


def board(*models: str, tasks: tuple[str, ...]) -> Scoreboard:
    ref = ArtifactRef(kind="diagnosis", digest="1" * 64, size=1)
    return Scoreboard(
        run="r",
        models=dict.fromkeys(models, "m"),
        encoders={name: encoder(place) for place, name in enumerate(models)},
        fixed=[],
        tasks=[Placed(task=task, folder="f") for task in chosen(tasks)],
        scores=[],
        leads={},
        diagnoses={SAMPLE: dict.fromkeys(models, ref)},
        fusions={},
    )


def cells(*models: str, **measures: str) -> list[ScoreCell]:
    return [
        ScoreCell(
            group="retrieval",
            task=task.replace("_", "-"),
            system=model,
            measure=measure,
            value=place / 10,
            low=0,
            high=1,
            units=9,
            measures={"P@10": 0.1},
        )
        for task, measure in measures.items()
        for place, model in enumerate(models)
    ]


@pytest.fixture(autouse=True)
def _diagnoses(monkeypatch: pytest.MonkeyPatch):
    class Told:
        held_out = True

        def model_dump(self) -> dict[str, float]:
            return dict.fromkeys(MEASURES, 0.0)

    for module in (scoreboard, scoreboard_lines):
        monkeypatch.setattr(module, "diagnosis_of", lambda ref: Told())


def test_scores_of_several_measures_have_no_rank_correlation_and_that_is_said(monkeypatch):
    three, tasks = ("a", "b", "c"), ("Abt-Buy", "STS-B-retrieval")
    mixed = cells(*three, Abt_Buy="R_cap@10") + cells(*three, **{"STS-B-retrieval": "R@5"})
    asked = board(*three, tasks=tasks)
    assert averages(asked, mixed, "retrieval") == {}
    assert agreements(asked, mixed, SAMPLE) == {}
    (told,) = no_agreement(asked, mixed)
    assert told == "No rho with retrieval: of R_cap@10 and R@5 there is no average."
    monkeypatch.setattr(scoreboard_tables, "cells_of", lambda board: mixed)
    monkeypatch.setattr(scoreboard_tables, "lengths_note", lambda encoders: "")
    shown = scoreboard_tables.scoreboard_tables(asked)
    assert any(told in one for one in shown if isinstance(one, str))
    assert told in diagnosis_panel(asked, mixed, SAMPLE).notes
    two = board(*three[:2], tasks=tasks)
    assert no_agreement(two, mixed) == [], "too few models to have one of anything"


def test_scores_of_one_measure_want_no_excuse():
    three = ("a", "b", "c")
    alike = cells(*three, Abt_Buy="R_cap@10", Amazon_Google="R_cap@10")
    asked = board(*three, tasks=("Abt-Buy", "Amazon-Google"))
    assert set(averages(asked, alike, "retrieval")) == {*three}
    assert no_agreement(asked, alike) == []


def test_one_encoder_under_two_names_is_one_model_of_a_rank_correlation(monkeypatch):
    class Told(dict[str, float]):
        model_dump = dict.copy

    values = iter([0.1, 0.2, 0.3, 0.1] * 2)
    monkeypatch.setattr(
        scoreboard, "diagnosis_of", lambda ref: Told(dict.fromkeys(MEASURES, next(values)))
    )
    four = ("a", "b", "c", "again")
    asked = board(*four, tasks=("Cranfield",))
    *found, again = cells(*four, Cranfield="nDCG@10")
    found.append(again.model_copy(update={"value": found[0].value}))
    twice = asked.model_copy(update={"encoders": asked.encoders | {"again": encoder(0)}})
    assert agreements(asked, found, SAMPLE)["retrieval"].models == 4
    agreed = agreements(twice, found, SAMPLE)["retrieval"]
    assert agreed == (3, dict.fromkeys(MEASURES, pytest.approx(1)))


def test_two_encoders_under_three_names_are_too_few():
    three = ("a", "b", "again")
    asked = board(*three, tasks=("Abt-Buy", "STS-B-retrieval"))
    mixed = cells(*three, Abt_Buy="R_cap@10") + cells(*three, **{"STS-B-retrieval": "R@5"})
    assert no_agreement(asked, mixed) != []
    twice = asked.model_copy(update={"encoders": asked.encoders | {"again": encoder(0)}})
    assert no_agreement(twice, mixed) == []
