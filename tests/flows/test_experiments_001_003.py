"""InfoCSE-aux's and DeCLUTR's experiments: what a curve varies, and which numbers find a cell."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.experiments import declutr, infocse
from flows.experiments.index import EXPERIMENTS
from flows.pipeline import documents_of
from sentemb_core.config.experiments import Arm, Experiment, Train
from sentemb_core.config.run import CorpusConfig
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import load_encoder
from sentemb_core.evaluation.paper_tables import paper_table
from sentemb_core.store.objects import Store
from tasks.artifact_files import artifact_path
from tasks.encode import word_vectors
from tasks.execution import without_prefect

OURS = (*infocse.EXPERIMENTS, *declutr.EXPERIMENTS)

VARIED = {
    "infocse.t1": "mlm",
    "infocse.t4": "random_head",
    "infocse.t5": "weight",
    "infocse.t6": "detach",
    "infocse.t7": "mask_rate",
    "infocse.t8": "weight",
    "declutr.f2a": "anchors",
    "declutr.f2b": "positives",
    "declutr.f2c": "strategy",
    "declutr.f3": "mlm",
}
"""Experiment -> the one setting that its arms' methods differ in."""

JOINED = {
    **{"infocse.t1": 4, "infocse.t2": 7 * 6 + 4, "infocse.t4": 2, "infocse.t5": 2, "infocse.t6": 2},
    **{"infocse.t7": 8, "infocse.t8": 6, "infocse.t9": 6, "infocse.t12": 3},
}
"""Experiment -> how many numbers of the paper stand beside a cell of ours; Tables 3 and 10 have
averages alone, Table 11 lost its rows, and DeCLUTR's means are over 28 tasks."""


def methods_of(what: Experiment) -> dict[str, list[dict[str, Any]]]:
    """Of the arms that train, by the method's name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for arm in what.arms:
        for step in arm.steps:
            assert isinstance(step, Train)
            found.setdefault(step.method.name, []).append(step.method.model_dump())
    return found


def printed(what: Experiment) -> Iterator[tuple[str, str]]:
    table = paper_table(what.id)
    rows = table.rows if table else {}
    columns = {column.label for column in what.columns}
    for arm in what.arms:
        yield from ((arm.label, column) for column in rows.get(arm.label, {}) if column in columns)


@pytest.mark.parametrize("id", VARIED)
def test_the_methods_of_an_ablation_differ_in_one_setting(id: str):
    for methods in methods_of(EXPERIMENTS[id]).values():
        varied = {name for name in methods[0] if len({str(one.get(name)) for one in methods}) > 1}
        assert varied == {VARIED[id]}


@pytest.mark.parametrize("id", [one.id for one in OURS if one.axis])
def test_a_curve_rises_along_its_axis_and_its_labels_say_where(id: str):
    curves: dict[str, list[Arm]] = {}
    for arm in EXPERIMENTS[id].arms:
        if arm.x is not None:
            curves.setdefault(arm.curve, []).append(arm)
    for arms in curves.values():
        places = [arm.x for arm in arms if arm.x is not None]
        assert places == sorted(set(places))
        for arm in arms:
            assert float(arm.label.split(", ")[-1].removesuffix(" %")) == arm.x


@pytest.mark.parametrize("what", OURS, ids=lambda one: one.id)
def test_every_number_of_the_paper_that_we_can_serve_finds_its_cell(what: Experiment):
    assert len(list(printed(what))) == JOINED.get(what.id, 0)


def test_arms_of_one_name_are_one_training_wherever_they_stand():
    known: dict[str, Arm] = {}
    for what in infocse.EXPERIMENTS:
        for arm in what.arms:
            if arm.label in ("simcse", "esimcse", "diffcse", "infocse_aux", "rtd_mlm"):
                assert known.setdefault(arm.label, arm) == arm


@pytest.mark.usefixtures("home")
def test_word_vectors_come_from_the_corpus_and_are_the_same_under_one_seed(corpus_file: Path):
    pytest.importorskip("gensim")
    corpus = CorpusConfig(source=str(corpus_file), id_column="id", sentences_column="sentences")
    with without_prefect(Store.default()):
        documents = documents_of(corpus)
        first, other = (word_vectors(documents, None, seed) for seed in (1, 2))
        encoder = load_encoder(artifact_path(first))
        assert word_vectors(documents, None, 1) == first != other
    known, unknown = embed_texts(encoder, ["river flood water", "zebra"])
    assert np.linalg.norm(known) == pytest.approx(1, abs=1e-3)
    assert not unknown.any()
