"""The experiments are well formed, and their settings give the trainings that they state."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from benchmarks.results_pages import load
from flows.cli.reproduce import table_settings
from flows.cli.settings import checked_as
from flows.experiments import declutr, infocse
from flows.experiments import settings as experiment_settings
from flows.experiments.index import ALIASES, EXPERIMENTS
from flows.experiments.methods import (
    DEFAULT_CORPORA,
    HICL,
    WITHOUT_TRAINING,
    few_shot,
    methods_small,
)
from flows.experiments.parts import (
    AT_MASK,
    CONVOLUTIONS,
    CUT,
    METHODS,
    PAIRS,
    PROBE,
    REGRESSION,
    base_method,
    shared_differences,
)
from flows.experiments.settings import STOPS, Reproduction, file_name, files_wanted
from flows.fine_tune import by_epochs
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
from sentemb_core.config.methods import SNCSE, DeCLUTR, FineTune, HiCL, SimCSE
from sentemb_core.config.presets import PRESETS
from sentemb_core.config.run import TrainingConfig
from sentemb_core.errors import UnreadableSourceError, UsageError
from sentemb_core.evaluation.paper_tables import paper_table, paper_tables
from tasks.paper_numbers import PaperNumbers
from tests.flows.corpora import write_data_folder

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
    **{"mutual.t1": (72, 0), "mutual.t2": (54, 0), "mutual.t3a": (36, 0), "mutual.t3b": (18, 0)},
    **{"mutual.t3c": (27, 0), "mutual.t3d": (27, 0), "mutual.t3e": (18, 0), "infocse.t1": (4, 0)},
    **{"infocse.t2": (91, 13), "infocse.t3": (52, 0), "infocse.t4": (2, 0), "infocse.t5": (3, 0)},
    **{"infocse.t6": (2, 0), "infocse.t7": (8, 0), "infocse.t8": (6, 0), "infocse.t9": (6, 0)},
    **{"infocse.t10": (49, 7), "infocse.t11": (9, 0), "infocse.t12": (4, 4)},
    **{"product_thesis.e1": (4, 6), "product_thesis.e2a": (0, 0), "product_thesis.e2b": (0, 0)},
    **{"product_thesis.e3a": (18, 0), "product_thesis.e3b": (18, 0), "product_thesis.e4": (0, 6)},
    **{
        "product_thesis.e5": (16, 0),
        "product_thesis.rescore": (0, 0),
        "product_thesis.bce": (3, 0),
    },
    **{"product_thesis.bce_quora": (4, 0), "product_thesis.bce_cqadupstack": (0, 4)},
    **{"product_thesis.dedup": (0, 2), "declutr.t1": (0, 0), "hicl.t1": (0, 1), "hicl.t5": (14, 2)},
    **{"hicl.t10": (0, 0), "hicl.time": (2, 0)},
}
"""Experiment -> numbers of the paper's table beside cells and averages of ours.

The others are of larger encoders, of baselines without weights, of private sets, or of a measure
over other sets.
"""

SMALL_TRAINING = {
    "steps": 300,
    "batch_size": 64,
    "chunk": None,
    "learning_rate": 2e-4,
    "optimizer": "adamw",
    "weight_decay": 0.01,
    "schedule": "linear",
    "warmup": 0.05,
    "clip": 1.0,
    "dtype": "bfloat16",
    "evaluate_every": None,
    "patience": None,
    "checkpoint_every": 100,
    "threads": 1,
    "seed": 42,
}
"""A training of the preset `small`; the key of its stage holds all of this."""

ALL_LABELS = Label(count=None)

UNITS = {
    TITLE: ("R@1", "R@5", "R@10", "R@20"),
    "STS-B-retrieval": ("R@5",),
    **dict.fromkeys(("WDC", "Amazon-Google", "Abt-Buy"), ("R_cap@10",)),
}
"""Judge -> measures whose single values are kept; for all other judges nDCG@10."""


def asked(id: str, **given: Any) -> Reproduction:
    return Reproduction.model_validate({"experiment": id, "data": "data"} | given)


def trainings(
    what: Experiment, kinds: Any = Train | SelfTrain, **given: Any
) -> Iterator[tuple[str, TrainingConfig]]:
    """Arm and settings of all trainings of these kinds."""
    settings = asked(what.id, **given)
    for arm in settings.what.arms:
        for step in settings.steps_of(arm):
            if isinstance(step, kinds):
                yield arm.label, settings.training_of(step, 42)


def arm_of(id: str, label: str) -> Arm:
    return next(arm for arm in EXPERIMENTS[id].arms if arm.label == label)


@ALL
def test_an_experiment_is_well_formed(what: Experiment):
    labels = [arm.label for arm in (*what.arms, *what.paper_arms)]
    columns = [column.label for column in what.columns]
    assert len(set(labels)) == len(labels)
    assert len(set(columns)) == len(columns)
    assert what.axis is None or any(one.x is not None for one in (*what.arms, *what.columns))
    assert re.fullmatch(
        r"(mutual|infocse|product_thesis|declutr|hicl)\.[a-zD0-9_]+|methods-small|few-shot", what.id
    )
    assert what.small.steps >= 300
    assert what.small.candidates >= 1_000
    base = f"{what.small.base.corpus}.parquet" in files_wanted(what, what.small)
    assert base == what.small.base.reads_corpus or what.id == "methods-small"
    if any(not claim.text.startswith("(ours)") for claim in what.claims):
        assert len(what.small.seeds) >= 3
    judged = [column.label for column in what.judged]
    for claim in what.claims:
        for column in what.columns:
            if column.measure and column.label in (claim.columns or judged):
                undecided = "R@100" if "bce_" in what.id else ""
                assert column.measure in UNITS.get(column.judge, ("nDCG@10", undecided))


@ALL
def test_every_training_of_both_presets_is_valid(what: Experiment):
    for preset in ("small",) if what.small == what.paper else ("small", "paper"):
        assert all(one.steps >= 1 for _, one in trainings(what, preset=preset))


def test_every_number_of_a_paper_finds_its_cell():
    """A renamed label would lose its number in silence."""
    found = {id: shown_numbers(what) for id, what in EXPERIMENTS.items() if paper_table(id)}
    assert found == NUMBERS
    assert {id.split(".")[0] for id in found} == {id.split(".")[0] for id in paper_tables()}


def shown_numbers(what: Experiment) -> tuple[int, int]:
    """Numbers of the paper beside cells of ours, and beside averages."""
    paper = PaperNumbers(what)
    arms = (*what.arms, *what.paper_arms)
    cells = [paper.of_cell(arm, column) for arm in arms for column in what.columns]
    averages = [paper.of_average(arm) for arm in arms] if what.averaged else []
    cells, averages = ([n for n in numbers if n is not None] for numbers in (cells, averages))
    return len(cells), len(averages)


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
        ("product_thesis.batch", {200, 150, 75, 38}),
        ("product_thesis.curve", {30, 90}),
        ("hicl.time", {30}),
        ("hicl.t10", {75}),
    ],
)
def test_trainings_below_the_usual_length(id: str, steps: set[int]):
    what = EXPERIMENTS[id]
    assert {one.steps for _, one in trainings(what) if one.steps < 300} == steps
    assert str(min(steps)) in what.small.differs


@pytest.mark.parametrize(
    ("id", "steps"),
    [
        ("product_thesis.e2a", {"10k": 156, "20k": 312, "50k": 781, "100k": 1_562, "1M": 15_625}),
        ("product_thesis.e2b", {"10k": 468, "20k": 936, "50k": 2_343, "100k": 4_686, "1M": 46_875}),
        ("product_thesis.e1", {"simcse": 1_562, "consert": 1_562}),
        ("product_thesis.rescore", {"simcse": 1_562, "BM25 + simcse": 1_562}),
        ("product_thesis.batch", {"32": 3_124, "64": 1_562, "512": 195}),
        ("product_thesis.dedup", {"titles": 1_562, "unique titles": 1_562}),
        ("product_thesis.e4", {"simcse": 4_686, "clm_autoencoder": 4_686}),
        ("product_thesis.curve", {"30 steps": 30, "3,000 steps": 3_000, "15,625 steps": 15_625}),
        ("declutr.t1", {"declutr": 30_952, "mlm only": 30_952}),
        ("hicl.t1", {"simcse": 3_906, "hicl (SimCSE)": 3_906}),
    ],
)
def test_the_papers_preset_has_the_papers_steps(id: str, steps: dict[str, int]):
    """Golden: epochs that drop a last short batch (erratum E26)."""
    by_arm = trainings(EXPERIMENTS[id], Train, preset="paper")
    found = {arm: training.steps for arm, training in by_arm}
    assert found.items() >= steps.items()
    assert "e2" not in id or found == steps
    if id == "product_thesis.e1":
        assert set(found.values()) == {1_562}
    if id == "product_thesis.curve":
        assert set(found.values()) == {30, 90, 300, 900, 3_000, 9_000, 15_625}


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
    assert not ALIASES.keys() & EXPERIMENTS.keys()
    assert set(ALIASES.values()) <= EXPERIMENTS.keys()


@pytest.mark.parametrize(
    ("id", "given", "values"),
    [
        ("mutual.t1x", {}, r"'mutual\.t1x'.*'mutual\.t1'"),
        ("s000.t1x", {}, r"'s000\.t1x'"),
        ("mutual.t1", {"seeds": [-1]}, r"seeds\.0.* 0; found -1"),
        ("mutual.t1", {"corpora": ["blog_usgov"]}, "--corpora.*methods-small.*few-shot"),
        ("mutual.t1", {"batch_size": 9}, "--batch-size.*methods-small.*few-shot"),
        ("methods-small", {"seeds": [-1]}, r"seeds\.0.* 0; found -1"),
        ("methods-small", {"seeds": []}, "seeds.* 1 item"),
        ("methods-small", {"methods": ["simcsee"]}, "'simcsee'.*'simcse'"),
        ("methods-small", {"counts": [100]}, "--counts.*few-shot"),
        ("few-shot", {"seeds": [1, -1]}, r"seeds\.1.* 0; found -1"),
        ("few-shot", {"counts": [-5]}, r"counts\.0.* 2; found -5"),
        ("few-shot", {"preset": "paper"}, "--preset.*few-shot"),
        ("few-shot", {"methods": ["whitening"]}, "'whitening'"),
        ("few-shot", {"corpora": ["plain_sentences"]}, "plain_sentences.*long_elife"),
    ],
)
def test_wrong_settings_are_refused(id: str, given: dict[str, Any], values: str):
    with pytest.raises(UsageError, match=values):
        checked_as(Reproduction, {"experiment": id, "data": "data"} | given)


def test_a_repeated_value_counts_once():
    assert asked("mutual.t1", seeds=[43, 42, 43]).seeds == (43, 42)
    for id in ("methods-small", "few-shot"):
        once = {"seeds": (1,), "corpora": ("blog_usgov",), "methods": ("simcse",)}
        twice = asked(id, **{name: 2 * values for name, values in once.items()})
        assert twice.model_dump(include=set(once)) == once
        assert asked(id, seeds=[43, 42, 43]).seeds == (43, 42)


@pytest.mark.parametrize("arms", ["arms", "paper_arms"])
@pytest.mark.parametrize("sample", [{"max_documents": 10}, {"share": 0.5}])
def test_labels_of_a_sample_are_refused(arms: str, sample: dict[str, float]):
    given = {arms: (Arm(label="an arm", steps=(Label(count=4),), **sample),)}
    column = Column(label="Web", judge=TITLE, corpus="blog_usgov")
    with pytest.raises(ValidationError, match="'an arm'"):
        Experiment(**({"arms": ()} | given), id="x", title="x", columns=(column,), paper=SMALL)


def test_each_setting_has_files_of_its_own():
    given = ({}, {"preset": "paper"}, {"seeds": (1, 7)}, {"steps": 5}, {"max_documents": 9})
    roberta = asked("mutual.t1", encoder="/models/roberta")
    assert [asked("mutual.t1", **one).name for one in given] + [roberta.name] == [
        "mutual.t1",
        "mutual.t1-paper",
        "mutual.t1-seeds-1-7",
        "mutual.t1-steps-5",
        "mutual.t1-max_documents-9",
        "mutual.t1-encoder-models_roberta-1df68655",
    ]
    many = asked("methods-small", methods=list(METHODS))
    assert len(many.name) < 200


def test_encoders_of_other_names_have_other_files():
    far = "/long" * 40
    names = ["minilm", "mini x", "mini_x", "mini(x", "org/mini", "org_mini", f"/a{far}", f"/b{far}"]
    files = [file_name(name) for name in names]
    assert len(set(files)) == len(names)
    assert (files[0], files[2], files[5]) == ("minilm", "mini_x", "org_mini")
    assert all(re.fullmatch(r"[\w.-]{1,89}", file, re.ASCII) for file in files)


def test_optional_columns_and_missing_files(tmp_path: Path):
    settings = Reproduction(experiment="infocse.t2", data=str(tmp_path))
    assert settings.left_out["STS13"] == ["sts_sts13.parquet"]
    assert "STS13" not in [column.label for column in settings.what.columns]
    assert "sts_sts13.parquet" not in settings.absent_files()
    with pytest.raises(UnreadableSourceError, match=r"plain_sentences\.parquet.*--data"):
        settings.check_files()
    (tmp_path / "sts_sts13.parquet").touch()
    settings = Reproduction(experiment="infocse.t2", data=str(tmp_path))
    assert "STS13" not in settings.left_out
    assert "STS13" in [column.label for column in settings.what.columns]
    with pytest.raises(UnreadableSourceError, match=r"hicl\.t5.*wikitext_103\.parquet"):
        Reproduction(experiment="hicl.t5", data=str(tmp_path)).check_files()


def test_a_folder_that_is_partly_there_names_its_missing_files(tmp_path: Path):
    settings = Reproduction(experiment="product_thesis.bce_cqadupstack", data=str(tmp_path))
    files = settings.absent_files()
    forum = "beir/cqadupstack/gis"
    with pytest.raises(UnreadableSourceError, match=r"parquet, beir/cqadupstack/, which"):
        settings.check_files()
    for file in files:
        if not file.startswith(forum):
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).touch()
    (tmp_path / "beir/cqadupstack/unix/qrels/test.tsv").unlink()
    missing = rf" {forum}/, beir/cqadupstack/unix/qrels/test\.tsv, which"
    with pytest.raises(UnreadableSourceError, match=missing):
        settings.check_files()
    for file in settings.absent_files():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    settings.check_files()
    assert settings.absent_files() == []


def test_a_record_names_its_folder_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "d").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("methods-small", "few-shot", "mutual.t1"):
        assert table_settings(name, {"data": "d"}).data == str(tmp_path / "d")


def test_the_list_has_every_experiment_and_its_missing_files(call, tmp_path: Path):
    rows = {row["id"]: row for row in json.loads(listed(call, "--data", str(tmp_path)))}
    assert set(rows) == {*EXPERIMENTS, *ALIASES}
    assert {name: rows[name]["same_as"] for name in ALIASES} == ALIASES
    assert "beir/quora/corpus.jsonl" in rows["product_thesis.e5"]["lacks"]
    write_data_folder(tmp_path)
    rows = {row["id"]: row for row in json.loads(listed(call, "--data", str(tmp_path)))}
    assert rows["infocse.t4"]["lacks"] == rows["few-shot"]["lacks"] == []
    assert rows["mutual.t1"]["lacks"] == [
        *("news_reuters21578.parquet", "session_mixed_titles.parquet")
    ]
    assert rows["methods-small"]["lacks"] == ["news_reuters21578.parquet", "long_elife.parquet"]


def listed(call, *options: str) -> str:
    code, out, _ = call("reproduce", "list", *options, "--json")
    assert code == 0
    return out


def test_without_a_data_folder_few_shot_alone_is_ready(call, monkeypatch: pytest.MonkeyPatch):
    """It runs on the shipped corpus."""
    monkeypatch.delenv("SENTEMB_DATA", raising=False)
    rows = json.loads(listed(call))
    assert [row["id"] for row in rows if row.get("lacks") == []] == ["few-shot"]
    lists = [(row["files"], row["lacks"]) for row in rows if row.get("lacks")]
    assert all(files == lacks for files, lacks in lists)
    assert len(lists) == len(EXPERIMENTS) - 1


@pytest.mark.parametrize("option", ["--steps", "--seeds"])
def test_the_list_refuses_options_of_a_table(call, option: str):
    code, out, err = call("reproduce", "list", option, "3")
    assert (code, out) == (UsageError.exit_code, "")
    assert err.startswith("error E001")
    assert option in err


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
    budget, usual = asked("mutual.t3c", encoder=encoder).budget, asked("mutual.t3c").budget
    assert (budget.learning_rate, budget.round_learning_rate) == (first, rounds)
    same = usual.base.encoder.name == encoder
    assert same == (budget.learning_rate == usual.learning_rate) == (encoder == "static")


def test_a_start_encoder_that_does_not_exist_is_refused(call, tmp_path: Path):
    write_data_folder(tmp_path)
    code, _, err = call(
        "reproduce", "infocse.t4", "--data", str(tmp_path), "--encoder", "no/such", "--dry-run"
    )
    assert code
    assert "E401" in err
    assert "no/such" in err


def test_another_start_encoder_and_more_seeds_are_a_table():
    given = {"preset": "paper", "seeds": [1, 2, 3, 4, 5], "encoder": "roberta-base", "data": "d"}
    settings = table_settings("hicl.t15", given)
    assert isinstance(settings, Reproduction)
    assert settings.name.startswith("hicl.t1-paper-")
    assert settings.budget.base.encoder.name == "roberta-base"
    assert settings.budget.base.encoder.pooling == "cls_before_pooler"
    assert settings.budget.seeds == (1, 2, 3, 4, 5)


def test_given_settings_replace_those_of_the_preset():
    settings = asked("mutual.t1", seeds=(7,), steps=5, candidates=10)
    budget = settings.budget
    assert (budget.seeds, budget.steps, budget.candidates) == ((7,), 5, 10)
    assert settings.training_of(Train(method=SimCSE()), 7).steps == 5
    paper = asked("mutual.t1", preset="paper").budget
    assert (paper.batch_size, paper.base.encoder.name) == (3_200, "bert-base-uncased")


@pytest.mark.parametrize("fast", ["float32", "bfloat16"])
def test_a_training_computes_in_the_fastest_precision(monkeypatch: pytest.MonkeyPatch, fast: str):
    monkeypatch.setattr(experiment_settings, "FAST", fast)
    settings = asked("infocse.t2")
    trained = (settings.training_of(step, 42) for step in (Train(method=SimCSE()), ALL_LABELS))
    assert [one.dtype for one in trained] == [fast, fast]
    static = asked("mutual.t2")
    assert static.training_of(Train(method=SimCSE()), 42).dtype == "float32"


def test_a_training_of_the_preset_small_has_its_golden_settings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(experiment_settings, "FAST", "bfloat16")
    method = {"name": "simcse", "temperature": 0.05, "mlm": 0.0, "mask_rate": 0.15}
    training = asked("infocse.t2").training_of(Train(method=SimCSE()), 42)
    assert training.model_dump() == SMALL_TRAINING | {"method": method}
    static = asked("mutual.t2")
    words = {"batch_size": 128, "steps": 600, "dtype": "float32", "learning_rate": 2e-3}
    training = static.training_of(SelfTrain(), 42)
    assert training.model_dump(exclude={"method"}) == SMALL_TRAINING | words
    tuning = by_epochs(static.training_of(ALL_LABELS, 42), 640, static.limits)
    assert tuning.method == FineTune()
    assert tuning.model_dump(exclude={"method", "checkpoint_every"}) == {
        **{name: value for name, value in SMALL_TRAINING.items() if name != "checkpoint_every"},
        **{"steps": 100, "learning_rate": 2e-3, "dtype": "float32"},
        **{"evaluate_every": 10, "patience": 3},
    }


def test_the_papers_fine_tuning_has_its_own_batch_and_patience():
    settings = asked("mutual.t2", preset="paper")
    tuning = by_epochs(settings.training_of(ALL_LABELS, 42), 640, settings.limits)
    assert (tuning.method.name, tuning.batch_size, tuning.optimizer) == ("fine_tune", 64, "adam")
    assert (tuning.steps, tuning.evaluate_every, tuning.patience) == (200, 10, 2)


@pytest.mark.parametrize("id", ["mutual.t2", "mutual.t3a"])
def test_a_table_with_labels_states_how_long_they_train(id: str):
    settings, paper = asked(id), asked(id, preset="paper").limits
    batch = settings.training_of(ALL_LABELS, 42).batch_size
    numbers = (settings.limits.epochs, batch, settings.limits.patience)
    assert numbers == (10, 64, 3)
    stated = r"Labels are read \w+ \w+ {} \D+ {}, \D+ {} \D+ {} and {}\."
    limits = re.compile(stated.format(*numbers, paper.epochs, paper.patience))
    assert limits.search(settings.budget.differs)
    ours = {"methods-small", "few-shot"}
    labelled = {one.id for one in EXPERIMENTS.values() if one.labels} - ours
    assert {one.id for one in EXPERIMENTS.values() if limits.search(one.small.differs)} == labelled


@pytest.mark.parametrize(
    ("id", "arm", "pooling", "similarity"),
    [
        ("mutual.t1", "start encoder", None, None),
        ("mutual.t1", "simcse", "cls_before_pooler", None),
        ("mutual.t1", "mirror_bert", "mean", None),
        ("mutual.t1", "ict", None, "dot"),
        ("mutual.t1", "infocse_idc", None, "dot"),
        ("mutual.t2", "start encoder, 100 labels", None, "dot"),
        ("product_thesis.e1", "simcse", "mean", None),
        ("declutr.t1", "declutr", "mean", None),
        ("hicl.t1", "simcse", "cls_before_pooler", None),
    ],
)
def test_with_the_papers_preset_a_method_pools_its_own_way(
    id: str, arm: str, pooling: str | None, similarity: str | None
):
    settings, small = asked(id, preset="paper"), asked(id)
    encoder = settings.encoder_of(arm_of(id, arm))
    assert (encoder.pooling, encoder.similarity) == (pooling, similarity)
    assert encoder.name == settings.budget.base.encoder.name
    assert small.encoder_of(arm_of(id, arm)) == small.budget.base.encoder
    assert small.steps_of(arm_of(id, arm)) == arm_of(id, arm).steps


@pytest.mark.parametrize("id", [one.id for one in infocse.EXPERIMENTS + declutr.EXPERIMENTS])
def test_a_curve_rises_along_its_axis_and_its_labels_have_the_places(id: str):
    curves: dict[str, list[Arm]] = {}
    for arm in EXPERIMENTS[id].arms if EXPERIMENTS[id].axis else ():
        if arm.x is not None:
            curves.setdefault(arm.curve, []).append(arm)
    assert bool(curves) == bool(EXPERIMENTS[id].axis)
    for arms in curves.values():
        places = [arm.x for arm in arms if arm.x is not None]
        assert places == sorted(set(places))
        for arm in arms:
            assert float(arm.label.split(", ")[-1].removesuffix(" %")) == arm.x


def with_difference(sentence: str) -> set[str]:
    return {one.id for one in EXPERIMENTS.values() if sentence in one.differs}


def test_a_shared_difference_stands_in_every_table_that_it_concerns():
    figures = {f"declutr.f{figure}" for figure in ("2a", "2b", "2c", "3")}
    probing = {"infocse.t10", "declutr.t1", "declutr.snli", "hicl.t11"}
    assert with_difference(PROBE) == probing | figures
    assert with_difference(REGRESSION) == {"declutr.t1"} | figures
    assert with_difference(PAIRS) == {"declutr.snli"}
    assert with_difference(CONVOLUTIONS) == {"infocse.t2", "infocse.t10"}
    assert with_difference(AT_MASK) == {"hicl.t1", "hicl.t3", "hicl.t4", "hicl.t16", "hicl.f2"}
    arm = Arm(label="a", steps=(Train(method=HiCL(base=SNCSE())),))
    column = Column(label="dev", judge="STS-B-dev")
    what = Experiment(id="x", title="x", arms=(arm,), columns=(column,), paper=SMALL)
    assert list(shared_differences(what)) == [CUT, AT_MASK]


@ALL
def test_a_training_below_the_usual_length_is_a_difference(what: Experiment):
    """Longer trainings in small batches read as many texts."""
    if "." in what.id:
        lengths = [(one.steps, one.batch_size) for _, one in trainings(what, Train)]
        below = [one for one in lengths if one[0] < 300 or one[0] * one[1] < 300 * 64]
        assert bool(re.search(r"\b300 steps of 64\b", what.small.differs)) == bool(below)


@pytest.mark.parametrize(
    ("id", "column", "average", "numbers"),
    [
        (
            "product_thesis.bce_quora",
            "Quora",
            False,
            {"bce": 59.8, "simcse": 96.2, "start encoder": 86.1, "BM25": 97.3},
        ),
        (
            "product_thesis.bce_cqadupstack",
            None,
            True,
            {"bce": 8.7, "simcse": 38.2, "start encoder": 19.0, "BM25": 60.6},
        ),
    ],
)
def test_the_papers_recall_is_compared_with_our_recall_alone(
    id: str, column: str | None, average: bool, numbers: dict[str, float]
):
    what = EXPERIMENTS[id]
    paper = PaperNumbers(what)
    cells = {
        (arm.label, one.label): paper.of_cell(arm, one) for arm in what.arms for one in what.columns
    }
    assert {arm: value for (arm, _), value in cells.items() if value is not None} == (
        {} if average else numbers
    )
    assert {label.partition(",")[0] for (_, label), value in cells.items() if value} == (
        {column} if column else set()
    )
    averages = {arm.label: paper.of_average(arm) for arm in what.arms} if what.averaged else {}
    assert {arm: value for arm, value in averages.items() if value is not None} == (
        numbers if average else {}
    )
    assert {one.measure for one in what.averaged} <= {"R@100"}


@pytest.mark.parametrize(
    "id", ["product_thesis.e2a", "product_thesis.e2b", "product_thesis.rescore"]
)
def test_a_number_of_another_measure_is_in_no_cell(id: str):
    what = EXPERIMENTS[id]
    paper = PaperNumbers(what)
    assert {paper.of_cell(arm, one) for arm in what.arms for one in what.columns} == {None}
    assert {paper.of_average(arm) for arm in what.arms} == {None}
    if len(what.columns) == 1:
        assert paper.heading(what.columns[0]) == "eProduct R_cap@10"


@pytest.mark.parametrize(
    "id",
    [
        *("mutual.t1", "infocse.t2", "infocse.t7", "product_thesis.e3a", "product_thesis.e5"),
        *("product_thesis.bce", "hicl.time"),
    ],
)
def test_numbers_of_one_measure_are_in_their_cells(id: str):
    what = EXPERIMENTS[id]
    paper = PaperNumbers(what)
    cells = [(arm, one) for arm in what.arms for one in what.columns]
    beside = [paper.of_cell(*cell) for cell in cells if paper.in_place(*cell) is not None]
    assert beside
    assert None not in beside


def test_with_the_papers_preset_documents_are_whole():
    sizes = [
        asked("mutual.t1", preset=preset).corpus("blog_usgov").max_sentences
        for preset in ("small", "paper")
    ]
    assert sizes == [12, None]
    what = EXPERIMENTS["hicl.t8"]
    assert [one.base.encoder.max_length for one in (what.small, what.paper)] == [128, 512]


@pytest.mark.parametrize(
    ("id", "arm", "setting", "small", "paper"),
    [
        ("mutual.t1", "ict", "context_tokens", 128, 288),
        ("declutr.t1", "declutr", "longest", 126, 510),
        ("declutr.t1", "declutr", "shortest", 16, 32),
        ("hicl.t6", "simcse, first 32 tokens", "longest", 32, 32),
        ("hicl.t6", "simcse, whole sequences", "segment", 128, 512),
        ("hicl.t6", "hicl (SimCSE)", "segment", 32, 32),
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
    assert list(prompts.values()) == [SNCSE().before_positive] * 3


@pytest.mark.parametrize("figure", ["declutr.f2a", "declutr.f2b", "declutr.f2c"])
def test_declutrs_figures_have_a_second_temperature_under_the_papers_preset(figure: str):
    def method(settings: Reproduction, arm: Arm) -> DeCLUTR:
        (step,) = arm.steps
        return settings.method_of(step)

    small, paper = (asked(figure, preset=preset) for preset in ("small", "paper"))
    assert {method(small, arm).temperature for arm in small.what.arms} == {0.05}
    usual, colder = paper.what.arms[: len(small.what.arms)], paper.what.arms[len(small.what.arms) :]
    assert usual == small.what.arms
    warm = {arm.label: method(paper, arm) for arm in usual}
    for arm in colder:
        label, _, _ = arm.label.partition(", ")
        assert method(paper, arm) == warm[label].model_copy(update={"temperature": 5e-4})
    assert len(colder) >= 2


@pytest.mark.parametrize(
    ("id", "method", "batch", "rate", "schedule", "warmup"),
    [
        ("infocse.t2", "simcse", 64, 3e-5, "linear", 0.0),
        ("infocse.t2", "mirror_bert", 200, 2e-5, "constant", 0.0),
        ("infocse.t2", "consert", 96, 5e-7, "linear", 0.1),
        ("infocse.t2", "sg_opt", 16, 5e-5, "linear", 0.1),
        ("infocse.t2", "infocse_aux", 64, 7e-6, "linear", 0.0),
        *(("mutual.t1", name, 3_200, 2e-5, "constant", 0.0) for name in ("simcse", "conpono")),
        ("mutual.t1", "declutr", 3_200, 2e-5, "constant", 0.0),
    ],
)
def test_with_the_papers_preset_a_method_trains_as_the_table_or_its_own_paper(
    id: str, method: str, batch: int, rate: float, schedule: str, warmup: float
):
    settings = asked(id, preset="paper")
    (step,) = arm_of(id, method).steps
    training = settings.training_of(step, 42)
    assert (training.batch_size, training.learning_rate) == (batch, rate)
    assert (training.schedule, training.warmup) == (schedule, warmup)
    assert training.method == settings.method_of(step)
    if id == "infocse.t2":
        assert (training.steps, training.seed) == (31_250, 42)
        assert settings.budget.batch, "each method has its own"
    else:
        assert (training.optimizer, training.chunk) == ("adam", 128)
        assert settings.training_of(SelfTrain(), 42).learning_rate == rate


@pytest.mark.parametrize("id", [what.id for what in EXPERIMENTS.values() if "hicl." in what.id])
def test_all_rows_of_hicl_train_in_one_precision_under_the_papers_preset(id: str):
    trained = trainings(EXPERIMENTS[id], Train, preset="paper")
    assert len({training.dtype for _, training in trained}) == 1


@ALL
def test_a_papers_preset_trains_each_method_by_its_own_preset(what: Experiment):
    """Except for settings of the whole table, those of the arm itself, and the end."""
    if "." not in what.id:
        return
    settings = asked(what.id, preset="paper")
    budget = settings.budget
    for step in (step for arm in what.arms for step in arm.steps if isinstance(step, Train)):
        training = settings.training_of(step, 42)
        stated = {"method", "steps", *budget.stated, *STOPS}
        stated |= {name for name in ("batch_size", "learning_rate") if getattr(step, name)}
        presets = PRESETS[step.method.name]
        preset = next(presets[name] for name in budget.presets if name in presets)
        for name in preset.keys() - stated:
            assert getattr(training, name) == preset[name], name
        for name in budget.stated.keys() - {"steps", "batch_size"}:
            assert getattr(training, name) == budget.stated[name], name
        assert [getattr(training, name) for name in STOPS] == [
            budget.stated.get(name) for name in STOPS
        ]
        assert training.batch_size == step.batch_size or "batch_size" in {*budget.stated, *preset}


def test_inner_products_have_no_temperature():
    cycles = asked("mutual.t3a", preset="paper")
    arm = next(one for one in cycles.what.arms if one.label.startswith("++"))
    steps = cycles.steps_of(arm)
    assert {type(step) for step in steps} == {Train, SelfTrain, Label}
    assert {step.method.temperature for step in steps} == {1.0}
    assert {step.method.temperature for step in arm.steps} == {0.05}
    (step,) = asked("mutual.t1", preset="paper").steps_of(arm_of("mutual.t1", "ict"))
    method = asked("mutual.t1", preset="paper").method_of(step)
    assert (method.temperature, method.context_tokens) == (1.0, 288)
    for id in ("methods-small", "few-shot"):
        ours = asked(id, methods=["infocse_idc", "infocse_idc_dot"], encoder="static")
        for name, temperature in (("infocse_idc", 0.05), ("infocse_idc_dot", 1.0)):
            labels = ", 100 labels" if id == "few-shot" else ""
            (arm,) = (one for one in ours.what.arms if one.label == f"{name}{labels}")
            assert ours.encoder_of(arm, 42).similarity == ("dot" if temperature == 1 else None)
            trained = [ours.training_of(step, 42).method for step in ours.steps_of(arm)]
            assert {one.temperature for one in trained} == {temperature}
            assert (trained[-1].name == "fine_tune") == (id == "few-shot")
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
    assert asked("methods-small").pool.gate_share == 0.3
    assert asked("few-shot").pool.label_share == 0.5


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
    for given in ({"methods": ["simcse"]}, {"corpora": ["blog_usgov"]}):
        assert "long_elife" not in asked("methods-small", **given).corpora_read
    alone = methods_small(corpora=("long_elife",))
    assert {corpus for arm in alone.arms for corpus, _ in alone.by_corpus(arm)} == {"long_elife"}


@pytest.mark.parametrize("start", ["transformer", "minilm"])
@pytest.mark.parametrize("corpus", DEFAULT_CORPORA)
def test_every_row_of_methods_small_has_results(corpus: str, start: str):
    titled = corpus != "plain_sentences"
    (table,) = (one for one in load("methods") if one.id == f"methods-small {corpus} {start}")
    rows = {arm.label for arm in methods_small(start, corpora=(corpus,)).arms}
    rows -= set() if titled else {"bm25_rescored", "bm25_product_thesis"}
    assert {row.system for row in table.rows} == rows
    errors = {row.system: row.note.split()[0] for row in table.rows if row.note}
    documents = {"ict", "cpc", "conpono", "infocse_idc", "infocse_idc_kmeans", "infocse_idc_dot"}
    refused = {"declutr"} if titled else {"declutr", *documents}
    assert errors == dict.fromkeys(refused, "E102")


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


@pytest.mark.parametrize(("start", "steps"), [("transformer", 1_000), ("minilm", 200)])
def test_rows_of_methods_small_take_equal_steps(start: str, steps: int):
    settings = asked("methods-small", encoder=start)
    longer = {"infocse_aux", "infocse_aux_random_head", "diffcse", "diffcse_random_generator"}
    longer |= {"rtd_mlm"}
    for arm in settings.what.arms:
        taken = [settings.training_of(one, 42).steps for one in arm.steps if one.kind != "finish"]
        stage = 3 * steps if start == "transformer" and arm.label in longer else 0
        assert sum(taken) == (stage + steps if taken else 0), arm.label


def test_sg_opt_does_not_pool_as_its_frozen_copy():
    for label, pooling in (("sg_opt", "cls_before_pooler"), ("simcse", None)):
        (arm,) = (one for one in methods_small("minilm").arms if one.label == label)
        assert arm.pooling == pooling


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


def test_products_are_evaluated_as_plain_sentences_are(tmp_path: Path):
    """They have no titles."""
    what = methods_small(corpora=("product_abt_buy",), rows=("simcse",))
    assert [one.judge for one in what.columns] == [
        one.judge for one in methods_small(corpora=("plain_sentences",)).columns
    ]
    wanted = files_wanted(what, what.small)
    assert wanted[0] == "product_abt_buy.parquet"
    for file in wanted:
        (tmp_path / file).touch()
    settings = asked(
        "methods-small", data=str(tmp_path), corpora=["product_abt_buy"], methods=["simcse"]
    )
    settings.check_files()
    (tmp_path / "stsb_dev.parquet").unlink()
    with pytest.raises(UnreadableSourceError, match=r"stsb_dev\.parquet.*--data"):
        settings.check_files()


def test_few_shot_curves_begin_without_labels():
    what = few_shot(counts=(10, 20))
    points = {(arm.curve, arm.x) for arm in what.arms if arm.curve}
    methods = {(name, x) for name in ("conpono", "infocse_idc") for x in (0, 10, 20)}
    assert points == methods | {(n, x) for n in ("no method", "infocse_plus") for x in (10, 20)}
    assert len(what.claims) == 2
