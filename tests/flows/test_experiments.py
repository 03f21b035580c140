"""The experiments are well formed, and their settings give the trainings that they state."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from flows.cli.reproduce import table_settings
from flows.cli.settings import checked_as
from flows.experiments import declutr, infocse
from flows.experiments.index import ALIASES, EXPERIMENTS
from flows.experiments.methods import (
    DEFAULT_CORPORA,
    HICL,
    WITHOUT_TRAINING,
    few_shot,
    methods_small,
)
from flows.experiments.parts import METHODS, base_method
from flows.experiments.settings import STOPS, Reproduction, file_name, files_wanted
from flows.presets import method_preset
from sentemb_core.config.experiments import (
    SMALL,
    TITLE,
    Arm,
    Column,
    Experiment,
    Label,
    SelfTrain,
    Train,
)
from sentemb_core.config.methods import SNCSE, DeCLUTR, FineTune, SimCSE
from sentemb_core.config.presets import PRESETS
from sentemb_core.errors import UnreadableSourceError, UsageError
from sentemb_core.evaluation.paper_tables import paper_table, paper_tables

ALL = pytest.mark.parametrize("what", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
ONE_SETTING = {
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
"""Ablation -> the one setting in which its methods differ."""

NUMBERS = {
    **{"infocse.t1": 4, "infocse.t2": 7 * 6 + 4, "infocse.t4": 2, "infocse.t5": 2},
    **{"infocse.t6": 2, "infocse.t7": 8, "infocse.t8": 6, "infocse.t9": 6, "infocse.t12": 3},
}
"""Experiment -> numbers of the paper that have a cell of ours. Tables 3 and 10 have averages alone,
Table 11 lost its rows, and DeCLUTR's means are over 28 tasks."""

UNITS = {
    TITLE: ("R@1", "R@5", "R@10", "R@20"),
    "STS-B-retrieval": ("R@5",),
    **dict.fromkeys(("WDC", "Amazon-Google", "Abt-Buy"), ("R_cap@10",)),
}
"""Judge -> measures whose single values are kept; for all other judges nDCG@10."""


def asked(id: str, **given: Any) -> Reproduction:
    return Reproduction.model_validate({"experiment": id, "data": "data"} | given)


def trainings(what: Experiment, **given: Any) -> Iterator[Any]:
    """All trainings of an experiment by a method."""
    settings = asked(what.id, **given)
    for arm in settings.what.arms:
        steps = (step for step in settings.steps_of(arm) if isinstance(step, Train | SelfTrain))
        yield from (settings.training_of(step, 42) for step in steps)


def arm_of(id: str, label: str) -> Arm:
    return next(arm for arm in EXPERIMENTS[id].arms if arm.label == label)


@ALL
def test_an_experiment_is_well_formed(what: Experiment):
    labels = [arm.label for arm in (*what.arms, *what.paper_arms)]
    columns = [column.label for column in what.columns]
    assert len(set(labels)) == len(labels)
    assert len(set(columns)) == len(columns)
    assert what.axis is None or any(one.x is not None for one in (*what.arms, *what.columns))
    assert what.small.steps >= 300
    for claim in what.claims:
        for column in what.columns:
            if column.measure and column.label in (claim.columns or columns):
                undecided = "R@100" if "bce_" in what.id else ""
                assert column.measure in UNITS.get(column.judge, ("nDCG@10", undecided))


@ALL
def test_every_training_of_both_presets_is_valid(what: Experiment):
    for preset in ("small",) if what.small == what.paper else ("small", "paper"):
        assert all(one.steps >= 1 for one in trainings(what, preset=preset))


@pytest.mark.parametrize("what", [one for one in EXPERIMENTS.values() if one.id in paper_tables()])
def test_a_printed_number_has_a_cell_of_ours(what: Experiment):
    """A renamed label would lose its number in silence."""
    if what.id in ("infocse.t11", "declutr.t1"):  # no row labels; means over other tasks
        return
    table = paper_tables()[what.id]
    columns = {column for row in table.rows.values() for column in row}
    assert {arm.label for arm in what.arms} & set(table.rows)
    assert len(columns) == 1 or columns & {column.label for column in what.columns}


@pytest.mark.parametrize(
    "what", [*infocse.EXPERIMENTS, *declutr.EXPERIMENTS], ids=lambda one: one.id
)
def test_every_number_of_a_paper_finds_its_cell(what: Experiment):
    table = paper_table(what.id)
    rows = table.rows if table else {}
    columns = {column.label for column in what.columns}
    numbers = [name for arm in what.arms for name in rows.get(arm.label, {}) if name in columns]
    assert len(numbers) == NUMBERS.get(what.id, 0)


@pytest.mark.parametrize("id", ONE_SETTING)
def test_the_methods_of_an_ablation_differ_in_one_setting(id: str):
    methods: dict[str, list[dict[str, Any]]] = {}
    for arm in EXPERIMENTS[id].arms:
        for step in arm.steps:
            assert isinstance(step, Train)
            methods.setdefault(step.method.name, []).append(step.method.model_dump())
    for of_kind in methods.values():
        varied = {name for name in of_kind[0] if len({str(one.get(name)) for one in of_kind}) > 1}
        assert varied == {ONE_SETTING[id]}


def test_equal_labels_of_infocse_are_one_training():
    known: dict[str, Arm] = {}
    for arm in (arm for what in infocse.EXPERIMENTS for arm in what.arms):
        if arm.label in ("simcse", "esimcse", "diffcse", "infocse_aux", "rtd_mlm"):
            assert known.setdefault(arm.label, arm) == arm


@pytest.mark.parametrize(
    ("id", "steps"),
    [
        ("product_thesis.e2a", {156}),
        ("product_thesis.e2c", {15, 45, 46, 138, 148, 150}),
        ("product_thesis.batch", {150, 75, 38}),
        ("product_thesis.curve", {30, 90}),
        ("hicl.time", {30}),
        ("hicl.t10", {75}),
    ],
)
def test_trainings_below_the_usual_length(id: str, steps: set[int]):
    assert {one.steps for one in trainings(EXPERIMENTS[id]) if one.steps < 300} == steps


@pytest.mark.parametrize(
    ("id", "steps"),
    [
        ("product_thesis.e2a", {156, 312, 781, 1_562, 15_625}),
        ("product_thesis.e2b", {468, 936, 2_343, 4_686, 46_875}),
        ("product_thesis.e1", {1_562}),
        ("product_thesis.curve", {30, 90, 300, 900, 3_000, 9_000, 15_625}),
    ],
)
def test_the_papers_preset_has_the_papers_steps(id: str, steps: set[int]):
    assert {one.steps for one in trainings(EXPERIMENTS[id], preset="paper")} == steps


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("s000.t1", "mutual.t1"),
        ("s001.t12", "infocse.t12"),
        ("s002.alpha", "product_thesis.rescore"),
        ("s003.f2a", "declutr.f2a"),
        ("s004.t15", "hicl.t1"),
    ],
)
def test_an_old_id_is_an_alias(old: str, new: str):
    assert asked(old) == asked(new)


def test_an_alias_is_not_an_id():
    assert not ALIASES.keys() & EXPERIMENTS.keys()
    assert set(ALIASES.values()) <= EXPERIMENTS.keys()


@pytest.mark.parametrize(
    ("id", "given"),
    [
        ("mutual.t1x", {}),
        ("mutual.t1", {"seeds": [-1]}),
        ("mutual.t1", {"corpora": ["blog_usgov"]}),
        ("mutual.t1", {"batch_size": 9}),
        ("methods-small", {"seeds": []}),
        ("methods-small", {"methods": ["simcsee"]}),
        ("methods-small", {"counts": [100]}),
        ("few-shot", {"counts": [-5]}),
        ("few-shot", {"preset": "paper"}),
        ("few-shot", {"methods": ["whitening"]}),
        ("few-shot", {"corpora": ["plain_sentences"]}),
    ],
)
def test_wrong_settings_are_refused(id: str, given: dict[str, Any]):
    with pytest.raises(UsageError):
        checked_as(Reproduction, {"experiment": id, "data": "data"} | given)


def test_a_repeated_value_counts_once():
    assert asked("mutual.t1", seeds=[43, 42, 43]).seeds == (43, 42)
    assert asked("few-shot", methods=["simcse", "simcse"]).methods == ("simcse",)


@pytest.mark.parametrize("sample", [{"max_documents": 10}, {"share": 0.5}])
def test_labels_of_a_sample_are_refused(sample: dict[str, float]):
    arm = Arm(label="a", steps=(Label(count=4),), **sample)
    column = Column(label="Web", judge=TITLE, corpus="blog_usgov")
    with pytest.raises(ValidationError):
        Experiment(id="x", title="x", arms=(arm,), columns=(column,), paper=SMALL)


def test_each_setting_has_files_of_its_own():
    given = ({}, {"preset": "paper"}, {"seeds": (1, 7)}, {"steps": 5}, {"max_documents": 9})
    names = {asked("mutual.t1", **one).name for one in (*given, {"encoder": "/models/roberta"})}
    assert len(names) == 6
    assert "mutual.t1" in names
    many = asked("methods-small", methods=list(METHODS))
    assert len(many.name) < 200
    marks = [asked("mutual.t1", **one).marks for one in given]
    assert set(marks) == {"mutual.t1"}
    assert asked("mutual.t1", encoder="minilm").marks == "mutual.t1 minilm"


def test_encoders_of_other_names_have_other_files():
    far = "/long" * 40
    names = ["minilm", "mini x", "mini_x", "mini(x", "org/mini", "org_mini", f"/a{far}", f"/b{far}"]
    files = [file_name(name) for name in names]
    assert len(set(files)) == len(names)
    assert all(len(file) <= 89 and "/" not in file for file in files)


def test_optional_columns_and_missing_files(tmp_path: Path):
    settings = Reproduction(experiment="infocse.t2", data=str(tmp_path))
    assert "STS13" in settings.left_out
    assert "STS13" not in [column.label for column in settings.what.columns]
    with pytest.raises(UnreadableSourceError):
        settings.check_files()


def test_a_folder_that_is_partly_there_names_its_missing_files(tmp_path: Path):
    settings = Reproduction(experiment="product_thesis.bce_cqadupstack", data=str(tmp_path))
    for file in settings.absent_files():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    settings.check_files()
    (tmp_path / "beir/cqadupstack/unix/qrels/test.tsv").unlink()
    assert settings.absent_files() == ["beir/cqadupstack/unix/qrels/test.tsv"]


def test_a_record_names_its_folder_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "d").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("methods-small", "few-shot", "mutual.t1"):
        assert table_settings(name, {"data": "d"}).data == str(tmp_path / "d")


def test_the_list_has_every_experiment_and_its_missing_files(call, tmp_path: Path):
    code, out, _ = call("reproduce", "list", "--data", str(tmp_path), "--json")
    rows = {row["id"]: row for row in json.loads(out)}
    assert (code, set(rows)) == (0, {*EXPERIMENTS, *ALIASES})
    assert {name: rows[name]["same_as"] for name in ALIASES} == ALIASES
    assert "beir/quora/corpus.jsonl" in rows["product_thesis.e5"]["lacks"]


@pytest.mark.parametrize("preset", ["small", "paper"])
def test_another_start_encoder_has_no_condenser_stage(preset: str):
    usual = asked("infocse.t8", preset=preset).budget
    budget = asked("infocse.t8", preset=preset, encoder="roberta-base").budget
    assert (usual.base.times > 0, budget.base.times) == (True, 0)
    assert budget.base.encoder == usual.base.encoder.model_copy(update={"name": "roberta-base"})
    same = {"steps", "batch_size", "presets", "stated", "seeds"}
    assert budget.model_dump(include=same) == usual.model_dump(include=same)
    assert (budget.learning_rate == usual.learning_rate) == (preset == "paper")


@pytest.mark.parametrize(
    ("encoder", "first", "rounds"), [("static", 5e-3, 2e-3), ("minilm", 5e-5, 5e-5)]
)
def test_another_start_encoder_learns_at_the_rates_of_its_kind(
    encoder: str, first: float, rounds: float
):
    budget = asked("mutual.t3c", encoder=encoder).budget
    assert (budget.learning_rate, budget.round_learning_rate) == (first, rounds)


def test_a_start_encoder_that_does_not_exist_is_refused(call, tmp_path: Path):
    code, _, err = call(
        "reproduce", "mutual.appD", "--data", str(tmp_path), "--encoder", "no/such", "--dry-run"
    )
    assert code
    assert "E401" in err or "E103" in err


def test_with_the_papers_preset_documents_are_whole():
    sizes = [
        asked("mutual.t1", preset=preset).corpus("blog_usgov").max_sentences
        for preset in ("small", "paper")
    ]
    assert sizes == [12, None]


@pytest.mark.parametrize(
    ("id", "arm", "setting", "small", "paper"),
    [
        ("mutual.t1", "ict", "context_tokens", 128, 288),
        ("declutr.t1", "declutr", "longest", 126, 510),
        ("declutr.t1", "declutr", "shortest", 16, 32),
        ("hicl.t6", "simcse, first 32 tokens", "longest", 32, 32),
        ("hicl.t6", "simcse, whole sequences", "segment", 128, 512),
        ("hicl.t6", "hicl (SimCSE)", "longest", 128, 512),
        ("hicl.time", "hicl (128 tokens)", "longest", 128, 128),
    ],
)
def test_texts_are_as_long_as_the_presets_encoder_reads(
    id: str, arm: str, setting: str, small: int, paper: int
):
    (step,) = arm_of(id, arm).steps
    for preset, expected in (("small", small), ("paper", paper)):
        assert getattr(asked(id, preset=preset).method_of(step), setting) == expected


def test_hicl_has_its_own_prompt_over_sncse_under_the_papers_preset_alone():
    prompts = {
        (preset, arm.label): base.before_positive
        for preset in ("small", "paper")
        for settings in [asked("hicl.t1", preset=preset)]
        for arm in settings.what.arms
        for step in arm.steps
        for base in [base_method(settings.method_of(step))]
        if isinstance(base, SNCSE)
    }
    assert prompts.pop(("paper", "hicl (SNCSE)")) == "The sentence of"
    assert set(prompts.values()) == {SNCSE().before_positive}


@pytest.mark.parametrize("figure", ["declutr.f2a", "declutr.f2b", "declutr.f2c"])
def test_declutrs_figures_have_a_second_temperature_under_the_papers_preset(figure: str):
    def method(settings: Reproduction, arm: Arm) -> DeCLUTR:
        (step,) = arm.steps
        return settings.method_of(step)

    small, paper = (asked(figure, preset=preset) for preset in ("small", "paper"))
    assert {method(small, arm).temperature for arm in small.what.arms} == {0.05}
    usual, colder = paper.what.arms[: len(small.what.arms)], paper.what.arms[len(small.what.arms) :]
    warm = {arm.label: method(paper, arm) for arm in usual}
    for arm in colder:
        label, _, _ = arm.label.partition(", ")
        assert method(paper, arm) == warm[label].model_copy(update={"temperature": 5e-4})
    assert len(colder) >= 2


def test_a_papers_preset_trains_each_method_by_its_own_preset_but_does_not_stop_it():
    settings = asked("infocse.t2", preset="paper")
    for label in ("consert", "mirror_bert", "sg_opt"):
        (step,) = arm_of("infocse.t2", label).steps
        training = settings.training_of(step, 42)
        presets = PRESETS[step.method.name]
        preset = presets.get("code", presets.get("paper", {}))
        for name in preset.keys() - STOPS - {"method", "steps"}:
            assert getattr(training, name) == preset[name]
        assert training.evaluate_every is None


def test_inner_products_have_no_temperature():
    settings = asked("mutual.t2", preset="paper")
    arm = arm_of("mutual.t2", "infocse_idc, 1,000 labels")
    assert settings.encoder_of(arm).similarity == "dot"
    methods = [settings.training_of(step, 42).method for step in settings.steps_of(arm)]
    assert {method.temperature for method in methods} == {1.0}
    assert isinstance(methods[-1], FineTune)


def test_a_batch_size_is_of_every_training_but_fine_tuning():
    settings = asked("few-shot", batch_size=9, methods=["conpono"])
    arm = settings.what.arms[-1]
    assert [settings.training_of(step, 1).batch_size for step in arm.steps] == [9, 64]


def test_a_pool_of_a_paper_keeps_no_gate_split_and_ours_has_those_of_a_run():
    assert asked("mutual.t1").pool.gate_share == 0
    assert (asked("methods-small").pool.gate_share, asked("few-shot").pool.label_share) == (
        0.3,
        0.5,
    )


def columns_with(what: Experiment, label: str) -> set[str]:
    arm = next(arm for arm in what.arms if arm.label == label)
    return {corpus for corpus, _ in what.by_corpus(arm)}


def test_each_row_of_methods_small_has_the_corpora_that_it_can_read():
    what = methods_small()
    assert columns_with(what, "simcse") == set(DEFAULT_CORPORA)
    assert columns_with(what, "declutr") == {*DEFAULT_CORPORA, "long_elife"}
    for name in HICL:
        assert columns_with(what, name) == {"blog_usgov", "news_reuters21578"}
    assert {arm.label for arm in what.arms} >= {*METHODS, *WITHOUT_TRAINING}
    assert "long_elife.parquet" in files_wanted(what, what.small)
    alone = methods_small(corpora=("long_elife",))
    assert {corpus for arm in alone.arms for corpus, _ in alone.by_corpus(arm)} == {"long_elife"}


@pytest.mark.parametrize(
    ("start", "rate", "stage_steps", "own_steps"),
    [("minilm", 1e-4, 100, 100), ("transformer", 5e-4, 3_000, 1_000)],
)
def test_a_row_after_a_condenser_stage(start: str, rate: float, stage_steps: int, own_steps: int):
    settings = asked("methods-small", encoder=start)
    arm = next(arm for arm in settings.what.arms if arm.label == "diffcse")
    stage, own = (settings.training_of(step, 1) for step in arm.steps)
    assert (stage.method.name, stage.learning_rate, stage.steps) == ("condenser", rate, stage_steps)
    usual = method_preset(start)["training"]["learning_rate"]
    assert (own.method.name, own.learning_rate, own.steps) == ("diffcse", usual, own_steps)


def test_random_weights_of_our_experiments_differ_from_seed_to_seed():
    arm = Arm(label="simcse", steps=(Train(method=SimCSE()),))
    assert {asked("methods-small").encoder_of(arm, seed).seed for seed in (1, 2)} == {1, 2}
    assert {asked("infocse.t1").encoder_of(arm, seed).seed for seed in (1, 2)} == {42}


@pytest.mark.parametrize(
    ("start", "shares"), [("static", [0.25, 0.25, None, 0.5, None]), ("minilm", [0.5, None] * 2)]
)
def test_infocse_plus_has_labels_in_both_cycles(start: str, shares: list[float | None]):
    """Each cycle has half of the steps of a method without cycles."""
    what = few_shot(start, counts=(4,))
    (arm,) = (arm for arm in what.arms if arm.label == "infocse_plus, 4 labels")
    assert [getattr(step, "times", None) for step in arm.steps] == shares
    assert {step.count for step in arm.steps if isinstance(step, Label)} == {4}


def test_few_shot_curves_begin_without_labels():
    what = few_shot(counts=(10, 20))
    points = {(arm.curve, arm.x) for arm in what.arms if arm.curve}
    methods = {(name, x) for name in ("conpono", "infocse_idc") for x in (0, 10, 20)}
    assert points == methods | {(n, x) for n in ("no method", "infocse_plus") for x in (10, 20)}
    assert len(what.claims) == 2
