"""The papers' experiments: every one is well formed, and one runs whole on a tiny corpus."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import experiment as running
from flows import row_steps
from flows.cli.reproduce import table_settings
from flows.cli.settings import checked_as
from flows.experiment import experiment
from flows.experiments import index, judging, learning
from flows.experiments.hicl import OF_BASE_ALONE
from flows.experiments.index import (
    ALSO,
    EXPERIMENTS,
    OURS,
    STOPS,
    Reproduction,
    files_wanted,
)
from flows.experiments.shared_differences import (
    AT_MASK,
    CONVOLUTIONS,
    CUT,
    PAIRS,
    PROBE,
    REGRESSION,
    comparing,
    shared,
)
from flows.fine_tune import by_epochs
from sentemb_core.config.experiments import (
    LOSS,
    SECONDS,
    SMALL,
    TITLE,
    Arm,
    Base,
    Claim,
    Column,
    Experiment,
    Finish,
    Label,
    SelfTrain,
    Step,
    Train,
)
from sentemb_core.config.methods import CONPONO, SNCSE, DeCLUTR, FineTune, HiCL, InfoCSEAux, SimCSE
from sentemb_core.config.presets import PRESETS
from sentemb_core.config.run import EncoderConfig
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.encoder.checkpoint import load_encoder
from sentemb_core.encoder.names import HEAD_FILE
from sentemb_core.errors import (
    EmptyCorpusError,
    NoQueriesError,
    UnreadableSourceError,
    UsageError,
)
from sentemb_core.evaluation import bootstrap
from sentemb_core.evaluation.paper_tables import paper_tables
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs
from sentemb_core.types import ArtifactRef
from tasks.artifact_files import artifact_path
from tasks.claims import ArmResult, cells_of, value_of
from tasks.execution import dry_run, without_prefect
from tasks.experiment_table import ExperimentTable, training_budget, write_experiment
from tasks.run_result import Trained
from tests.flows.corpora import write_data_folder

pytestmark = pytest.mark.usefixtures("home")

TINY = SMALL.model_copy(
    update={
        "steps": 2,
        "batch_size": 8,
        "seeds": (1, 2),
        "base": Base(
            encoder=EncoderConfig(name="transformer", dim=16, vocabulary=300, positions=64),
            times=1.0,
        ),
    }
)

WHOLE = Experiment(
    id="s999.t1",
    title="Every kind of arm and of column",
    arms=(
        Arm(label="random vectors", system="random"),
        Arm(label="BM25", system="BM25"),
        Arm(label="start encoder"),
        Arm(label="whitening", steps=(Finish(map="whitening"),)),
        Arm(label="simcse", steps=(Train(method=SimCSE()),), x=1),
        Arm(label="infocse_aux", steps=(Train(method=InfoCSEAux()),), x=2),
        Arm(label="first token", steps=(Train(method=SimCSE()),), pooling="cls_before_pooler"),
        Arm(
            label="self-trained",
            steps=(Train(method=CONPONO()), SelfTrain(), Label(count=4)),
            corpus="blog_usgov",
        ),
    ),
    columns=(
        Column(label="Web", judge=TITLE, measure="R@5", corpus="blog_usgov"),
        Column(label="dev", judge="STS-B-dev"),
        Column(label="took", judge=SECONDS),
    ),
    claims=(
        Claim(text="SimCSE is better than nothing", better="simcse", than=("start encoder",)),
        Claim(text="it is faster", better="simcse", than=("self-trained",), columns=("took",)),
    ),
    labels=True,
    small=TINY,
    paper=TINY,
    differs="Everything.",
)


LABELS = [column.label for column in WHOLE.columns]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Tiny files under the names that the experiment wants."""
    folder = tmp_path_factory.mktemp("data")
    write_data_folder(folder)
    return str(folder)


@pytest.fixture
def asked(data: str, monkeypatch: pytest.MonkeyPatch) -> Reproduction:
    monkeypatch.setattr(bootstrap, "RESAMPLES", 200)
    monkeypatch.setattr(index, "EXPERIMENTS", {WHOLE.id: WHOLE})
    return Reproduction(experiment=WHOLE.id, data=data)


def tabled(asked: Reproduction) -> ExperimentTable:
    with without_prefect(Store.default()):
        return experiment.fn(asked)


def made(asked: Reproduction) -> list[ArmResult]:
    return list(tabled(asked).results)


def test_every_arm_has_its_numbers_and_a_second_run_runs_no_body(
    asked: Reproduction, tmp_path, monkeypatch
):
    told = tabled(asked)
    findings = list(told.results)
    assert {one.error for one in findings} == {""}
    cells = cells_of(findings)
    columns = {column.label: column for column in WHOLE.columns}
    for (arm, column), seeds in cells.items():
        assert [one.seed for one in seeds] == [1, 2]
        values = [value_of(one, columns[column]) for one in seeds]
        assert all(value > 0 for value in values) or column != "took", arm
    numbers = {arm.label: [column for a, column in cells if a == arm.label] for arm in WHOLE.arms}
    assert numbers == {
        "random vectors": ["Web", "dev"],
        "BM25": ["Web", "dev"],
        "start encoder": ["Web", "dev"],
        "whitening": ["Web", "dev"],
        **{
            arm: ["Web", "dev", "took"]
            for arm in ("simcse", "infocse_aux", "first token", "self-trained")
        },
    }
    assert {one.verdict for one in told.claims} <= {"holds", "does not hold", "not decided"}
    assert len(told.claims) == len(WHOLE.claims)
    assert (write_experiment(told, tmp_path / "out") / "table.png").stat().st_size > 5_000

    reworded = WHOLE.model_copy(
        update={"differs": "Nothing.", "small": TINY.with_difference("In other words.")}
    )
    for what in (WHOLE, reworded):
        monkeypatch.setattr(index, "EXPERIMENTS", {WHOLE.id: what})
        again = Reproduction(experiment=asked.experiment, data=asked.data)
        assert (again.what.differs, again.budget.differs) == (what.differs, what.small.differs)
        assert made(again) == findings
        assert [used.stage for used in last_runs(Store.default())[0].stages if not used.hit] == []


def test_the_seeds_share_one_base_encoder(asked: Reproduction):
    made(asked)
    (record,) = last_runs(Store.default())
    condensed = next(used for used in record.stages if used.stage == "train_encoder")
    assert [used.key for used in record.stages].count(condensed.key) == 1
    starts = {used.key for used in record.stages if used.stage == "start_encoder"}
    assert len(starts) == 1


def test_the_head_of_the_base_goes_with_it_under_another_pooling(asked: Reproduction):
    arm = Arm(label="cls", steps=(Train(method=InfoCSEAux()),), pooling="cls")
    with without_prefect(Store.default()):
        base = learning.base_of(asked)
        read = learning.read_by(arm, asked, base)
    store = Store.default()
    heads = [(store.path(made) / HEAD_FILE).read_bytes() for made in (base, read)]
    assert base != read
    assert heads[0] == heads[1]


def test_every_arm_can_start_from_a_given_encoder_whose_head_is_gone_on_with(
    asked: Reproduction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The infocse's second stage from a Condenser checkpoint of a user."""
    with without_prefect(Store.default()):
        stage = learning.base_of(asked)
    given = tmp_path / "condensed"
    copytree(Store.default().path(stage), given)
    other = Reproduction(experiment=WHOLE.id, data=asked.data, encoder=str(given))
    alone = {"arms": WHOLE.arms[5:6], "columns": WHOLE.columns[1:2], "claims": ()}
    monkeypatch.setattr(index, "EXPERIMENTS", {WHOLE.id: WHOLE.model_copy(update=alone)})
    table = tabled(other)
    assert {(one.arm, one.error) for one in table.results} == {("infocse_aux", "")}
    assert table.differs.startswith(f"Every arm starts from {given} as it is")


@pytest.mark.parametrize("preset", ["small", "paper"])
def test_a_given_encoder_is_pre_trained_by_no_stage(data: str, preset: Literal["small", "paper"]):
    """The infocse has one for BERT; its other settings stay the preset's."""
    usual = Reproduction(experiment="infocse.t8", data=data, preset=preset).budget
    budget = Reproduction(
        experiment="infocse.t8", data=data, preset=preset, encoder="roberta-base"
    ).budget
    assert usual.base.times > 0
    assert budget.base.times == 0
    assert budget.base.encoder == usual.base.encoder.model_copy(update={"name": "roberta-base"})
    same = {"steps", "batch_size", "presets", "stated", "seeds"}
    assert budget.model_dump(include=same) == usual.model_dump(include=same)
    assert (budget.learning_rate == usual.learning_rate) == (preset == "paper")


@pytest.mark.parametrize(
    ("encoder", "first", "rounds"), [("static", 5e-3, 2e-3), ("minilm", 5e-5, 5e-5)]
)
def test_a_given_encoder_learns_at_the_rates_of_its_kind(
    data: str, encoder: str, first: float, rounds: float
):
    """A static one is what mutual's tables start from anyway: naming it changes no rate."""
    budget = Reproduction(experiment="mutual.t3c", data=data, encoder=encoder).budget
    assert (budget.learning_rate, budget.round_learning_rate) == (first, rounds)
    usual = Reproduction(experiment="mutual.t3c", data=data).budget
    same = usual.base.encoder.name == encoder
    assert same == (budget.learning_rate == usual.learning_rate) == (encoder == "static")


def test_arms_that_had_less_than_they_asked_for_are_named_beneath(asked: Reproduction, monkeypatch):
    sentences = pq.read_metadata(asked.file("plain_sentences")).num_rows
    arms = (
        Arm(label="all", steps=(Label(count=None),), corpus="blog_usgov"),
        Arm(label="four", steps=(Label(count=4),), corpus="blog_usgov"),
        Arm(label="++", steps=(*[Label(count=1_000)] * 2, Label(count=4)), corpus="blog_usgov"),
        Arm(label="ten", steps=(Train(method=SimCSE()),), max_documents=10),
        Arm(label="100k", steps=(Train(method=SimCSE()),), max_documents=100_000),
    )
    what = WHOLE.model_copy(update={"arms": arms, "claims": ()})
    monkeypatch.setattr(index, "EXPERIMENTS", {what.id: what})
    found = made(asked)
    with without_prefect(Store.default()):
        texts = learning.texts_of(asked, learning.base_of(asked), "blog_usgov")
        labels = row_steps.labels_of(texts, asked.pool.label_share, count=None).count
    assert 4 < labels < 40
    assert {(one.arm, less) for one in found for less in one.less} == {
        ("++", f"{labels} labels of blog_usgov"),
        ("100k", "40 documents of blog_usgov"),
        ("100k", f"{sentences} documents of plain_sentences"),
    }


def test_an_arm_by_hicl_tells_the_share_of_texts_with_several_segments(
    asked: Reproduction, caplog: pytest.LogCaptureFixture
):
    with without_prefect(Store.default()), caplog.at_level("INFO", logger="sentemb_core.run"):
        base = learning.base_of(asked)
        for method in (SimCSE(), HiCL(segment=30)):
            arm = Arm(label="an arm", steps=(Train(method=method),))
            learning.arm_encoder(asked, base, arm, "blog_usgov", 1)
    (told,) = [line for line in caplog.messages if "segment" in line]
    assert re.fullmatch(r"hicl: \d+\.\d % of 40 texts have more than one segment", told)


def test_an_arm_that_fails_leaves_the_others(asked: Reproduction, monkeypatch):
    after_step = row_steps.after_step

    def fails_for_simcse(step, *rest):
        if isinstance(step, Train) and step.method.name == "simcse":
            raise ZeroDivisionError("of nothing")
        return after_step(step, *rest)

    monkeypatch.setattr(row_steps, "after_step", fails_for_simcse)
    failed = {one.arm: one.error for one in made(asked) if one.error}
    assert failed == dict.fromkeys(("simcse", "first token"), "E000 ZeroDivisionError: of nothing")


def test_a_plan_tells_of_every_arm(asked: Reproduction):
    with dry_run(Store.default()) as plan:
        running.walked(asked)
    assert "measure_overlap" in {told.stage for told in plan.statuses}
    with dry_run(Store.default()) as plan:
        found = list(running.all_findings(asked, learning.base_of(asked)))
    assert {one.arm for arm in found for one in arm} == {arm.label for arm in WHOLE.arms}
    assert {one.error for arm in found for one in arm} == {""}
    assert plan.incomplete, "how many labels there are is not known yet, nor how long one learns"
    assert {"train_encoder", "export_pairs"} <= {told.stage for told in plan.statuses}


def test_arms_that_share_a_training_have_both_its_seconds_and_its_log(
    asked: Reproduction, monkeypatch
):
    twins = tuple(Arm(label=label, steps=(Train(method=SimCSE()),)) for label in "ab")
    loss = Column(label="loss", judge=LOSS)
    what = WHOLE.model_copy(
        update={"arms": twins, "columns": (*WHOLE.columns[1:], loss), "claims": ()}
    )
    monkeypatch.setattr(index, "EXPERIMENTS", {what.id: what})
    first, second = (
        [one for one in made(asked) if (one.arm, one.seed) == (arm, 1)] for arm in "ab"
    )
    assert [one.model_copy(update={"arm": "b"}) for one in first] == second
    assert all(one.log and one.seconds > 0 for one in second)


RANDOM_ENCODERS, TAUGHT = SelfTrain(), Label(count=4)


@pytest.mark.parametrize(
    ("scores", "steps", "kept"),
    [
        ([0.6, 0.5], (TAUGHT, RANDOM_ENCODERS, TAUGHT), 1),
        ([0.5, 0.6], (TAUGHT, RANDOM_ENCODERS, TAUGHT), 3),
        ([0.5, 0.5], (TAUGHT, RANDOM_ENCODERS, TAUGHT), 1),  # the first of equals
        ([0.9, 0.5], (TAUGHT, TAUGHT), 1),  # no cycle, and held against one
        ([0.9, 0.5], (TAUGHT, RANDOM_ENCODERS, TAUGHT, Finish(map="whitening")), 4),
        ([], (RANDOM_ENCODERS, RANDOM_ENCODERS), 2),
    ],
)
def test_of_several_fine_tuned_encoders_the_best_on_validation_is_the_arms(
    asked: Reproduction, monkeypatch, scores: list[float], steps: tuple[Step, ...], kept: int
):
    """After so many steps."""
    made, told = [f"after {number}" for number in range(len(steps) + 1)], iter(scores)

    def next_one(step: Step, before: str, *_: object) -> str:
        return made[made.index(before) + 1]

    monkeypatch.setattr(learning, "read_by", lambda *_: made[0])
    monkeypatch.setattr(
        learning, "texts_of", lambda *_: SimpleNamespace(sentences=1, validation_pool=1)
    )
    monkeypatch.setattr(row_steps, "after_step", next_one)
    monkeypatch.setattr(row_steps, "validate_encoder", lambda *_: next(told))
    monkeypatch.setattr(row_steps, "recall_at_5", lambda score: score)
    arm = Arm(label="a", steps=steps)
    assert learning.arm_encoder(asked, None, arm, "blog_usgov", 1) == f"after {kept}"


def test_the_record_and_the_plan_have_all_of_which_the_table_is_made(asked: Reproduction):
    made(asked)
    used = {one.stage for one in last_runs(Store.default())[0].stages}
    with dry_run(Store.default()) as plan:
        running.walked(asked)
    told = {(one.stage, one.verdict) for one in plan.statuses}
    for stage in ("measure_overlap", "claim_interval"):
        assert stage in used
        assert (stage, "HIT") in told


def test_a_corpus_that_cannot_be_read_for_its_overlap_is_told(
    asked: Reproduction, monkeypatch: pytest.MonkeyPatch
):
    def refused(*_: object, **__: object) -> ArtifactRef:
        raise EmptyCorpusError("no text")

    monkeypatch.setattr(judging, "overlap_with", refused)
    told = tabled(asked)
    assert set(told.unmeasured) == {"blog_usgov", "plain_sentences"}
    assert any("E101 no text" in note for note in told.notes())
    assert set(told.json()["overlap_errors"]) == set(told.unmeasured)


def test_a_judge_that_refuses_leaves_the_other_columns_alone(
    asked: Reproduction, monkeypatch: pytest.MonkeyPatch
):
    judge = running.column_result

    def refusing(asked, base, arm, system, column, seed):
        if column.label == "dev":
            raise NoQueriesError("nobody asks")
        return judge(asked, base, arm, system, column, seed)

    monkeypatch.setattr(running, "column_result", refusing)
    errors = {
        column: {one.error for one in made(asked) if one.column == column} for column in LABELS
    }
    assert errors == {"Web": {""}, "dev": {"E502 nobody asks"}, "took": {""}}


def test_a_plan_holds_no_claim_whose_results_are_not_all_known(asked: Reproduction):
    """Some of its seeds would be those of another claim."""
    tabled(asked.model_copy(update={"seeds": (1,)}))
    with dry_run(Store.default()) as plan:
        running.walked(asked)
    assert "claim_interval" not in {one.stage for one in plan.statuses}


def test_a_base_that_is_taken_as_it_is_reads_no_corpus(
    asked: Reproduction, monkeypatch: pytest.MonkeyPatch
):
    """As BERT is under the paper's budgets."""
    base = Base(encoder=EncoderConfig(name="minilm"), times=0)
    small = TINY.model_copy(update={"base": base})
    what = WHOLE.model_copy(
        update={"arms": WHOLE.arms[-1:], "columns": WHOLE.columns[:1], "small": small}
    )
    assert index.files_wanted(what, small) == ["blog_usgov.parquet"]
    assert "plain_sentences.parquet" in index.files_wanted(what, TINY)
    monkeypatch.setattr(index, "EXPERIMENTS", {what.id: what})
    monkeypatch.delattr(learning, "documents_of")
    with dry_run(Store.default()) as plan:
        learning.base_of(Reproduction(experiment=what.id, data=asked.data))
    assert [told.stage for told in plan.statuses] == ["start_encoder"]


def test_absent_files_are_named_before_anything_runs(tmp_path: Path):
    asked = Reproduction(experiment="mutual.t1", data=str(tmp_path))
    with pytest.raises(
        UnreadableSourceError, match=r"reads plain_sentences\.parquet, news.*--data"
    ):
        asked.check_files()


def test_of_a_folder_that_is_there_in_part_what_it_lacks_is_named(tmp_path: Path):
    asked = Reproduction(experiment="product_thesis.bce_cqadupstack", data=str(tmp_path))
    folders = {str(Path(file).parent) for file in asked.absent_files() if "stack" in file}
    with pytest.raises(UnreadableSourceError, match=r"parquet, beir/cqadupstack/, and there is"):
        asked.check_files()
    for folder in folders - {"beir/cqadupstack/gis/qrels", "beir/cqadupstack/gis"}:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for file in asked.absent_files():
        if "/gis/" not in file:
            (tmp_path / file).touch()
    (tmp_path / "beir/cqadupstack/unix/qrels/test.tsv").unlink()
    lacks = r"reads beir/cqadupstack/gis/, beir/cqadupstack/unix/qrels/test\.tsv, and there"
    with pytest.raises(UnreadableSourceError, match=lacks):
        asked.check_files()


def test_an_unknown_experiment_is_a_mistake_with_a_way_out(data: str):
    with pytest.raises(UsageError, match=r"did you mean 'mutual\.t1'"):
        checked_as(Reproduction, {"experiment": "mutual.t1x", "data": data})


def test_articles_beside_sentences_want_a_file_of_the_users(data: str, tmp_path: Path):
    """WikiText-103 is not among the open files (hicl, Table 5)."""
    file = "wikitext_103.parquet"
    with pytest.raises(UnreadableSourceError, match=f"hicl.t5 reads .*{file}"):
        Reproduction(experiment="hicl.t5", data=data).check_files()
    own = Path(copytree(data, tmp_path / "own"))
    texts = [f"It rains in {k}. It snows in {k}, as it did before." for k in range(20)]
    pq.write_table(pa.table({"text": texts}), own / file)
    asked = Reproduction(experiment="hicl.t5", data=str(own), encoder="transformer")
    assert file not in asked.absent_files()
    with without_prefect(Store.default()):
        read = learning.texts_of(asked, learning.base_of(asked), "wikitext_103").sentences
    assert len(TokenCorpus.open(artifact_path(read))) == 40


def test_five_seeds_of_another_encoder_are_a_table(data: str):
    given = {"preset": "paper", "seeds": [1, 2, 3, 4, 5], "encoder": "roberta-base", "data": data}
    asked = table_settings("hicl.t15", given)
    assert isinstance(asked, Reproduction)
    assert asked.name.startswith("hicl.t1-paper-")
    assert asked.budget.base.encoder.name == "roberta-base"
    assert asked.budget.base.encoder.pooling == "cls_before_pooler"
    assert asked.budget.seeds == (1, 2, 3, 4, 5)


def test_an_encoder_that_is_not_there_is_told_before_anything_runs(data: str, call):
    code, _, err = call(
        "reproduce", "infocse.t4", "--data", data, "--encoder", "no/such", "--dry-run"
    )
    assert code
    assert "E401" in err


def test_a_plan_tells_which_rows_want_a_head_that_the_encoder_lacks(asked: Reproduction, call):
    code, told, _ = call(
        "reproduce",
        WHOLE.id,
        "--data",
        asked.data,
        "--encoder",
        "transformer",
        "--dry-run",
        "--json",
    )
    assert code == 0
    stages = json.loads(told)
    refused = {one["part"]: one["why"] for one in stages if one["verdict"] == "REFUSED"}
    assert set(refused) == {
        f"infocse_aux on {corpus}, seed {seed}"
        for corpus in ("blog_usgov", "plain_sentences")
        for seed in (1, 2)
    }
    for why in refused.values():
        assert why.startswith("E303 infocse_aux goes on with the head of a Condenser stage, and")
        assert why.endswith("--encoder models:/stage/1.")
    assert not {one["stage"] for one in stages if one["part"] in refused} - {""}
    code, told, _ = call(
        "reproduce", WHOLE.id, "--data", asked.data, "--encoder", "transformer", "--dry-run"
    )
    assert code == 0
    assert told.endswith("4 parts are refused.\n")


def test_rows_that_word_vectors_cannot_have_are_told_to_be_left_out():
    told = r"SimCSE.* left out: word vectors have no "
    for name in ("mutual.t2", "mutual.t3d"):
        assert re.search(told, EXPERIMENTS[name].small.differs)


@pytest.mark.parametrize("name", ["mutual.t2", "mutual.t3a"])
def test_tables_of_labels_say_how_long_these_are_learnt(name: str, data: str):
    asked = Reproduction(experiment=name, data=data)
    passes = f"Labels are read {asked.limits.epochs} times at most, in batches of "
    own = f"{asked.training_of(ALL_LABELS, 42).batch_size}, and no more after "
    assert f"{passes}{own}{asked.limits.patience} times without gain" in asked.budget.differs
    paper = Reproduction(experiment=name, data=data, preset="paper").limits
    assert f"in place of {paper.epochs} and {paper.patience}." in asked.budget.differs
    labelled = {one.id for one in EXPERIMENTS.values() if one.labels}
    assert {one.id for one in EXPERIMENTS.values() if passes in one.small.differs} == labelled


def test_a_second_name_of_an_experiment_is_that_experiment(data: str):
    assert not ALSO.keys() & EXPERIMENTS.keys()
    for name, other in ALSO.items():
        assert Reproduction(experiment=name, data=data).what.id == EXPERIMENTS[other].id


def test_the_list_says_what_is_ready_and_what_is_wanted(data: str, call):
    code, said, _ = call("reproduce", "list", "--data", data, "--json")
    told = {row["id"]: row for row in json.loads(said)}
    assert (code, set(told)) == (0, {*EXPERIMENTS, *OURS, *ALSO})
    assert {name: told[name]["same_as"] for name in ALSO} == ALSO
    assert told["infocse.t4"]["lacks"] == []
    assert told["mutual.t1"]["lacks"] == [
        *("news_reuters21578.parquet", "session_mixed_titles.parquet")
    ]
    assert "beir/quora/corpus.jsonl" in told["product_thesis.e5"]["lacks"]
    assert told["methods-small"]["lacks"] == ["news_reuters21578.parquet", "long_elife.parquet"]
    assert told["few-shot"]["lacks"] == []


def test_without_a_data_folder_few_shot_alone_is_ready(call, monkeypatch):
    """It runs on the shipped corpus."""
    monkeypatch.delenv("SENTEMB_DATA", raising=False)
    told = json.loads(call("reproduce", "list", "--json")[1])
    assert [row["id"] for row in told if row.get("lacks") == []] == ["few-shot"]
    lists = [(row["files"], row["lacks"]) for row in told if row.get("lacks")]
    assert all(files == lacks for files, lacks in lists)
    assert len(lists) == len(EXPERIMENTS) + 1


@pytest.mark.parametrize("option", ["--steps", "--markdown"])
def test_a_list_refuses_what_only_a_table_reads(call, option: str):
    code, said, told = call("reproduce", "list", option, "3")
    assert (code, said) == (UsageError.exit_code, "")
    assert f"{option} says how a table is made" in told


def test_what_is_asked_for_wins_over_the_preset(data: str):
    asked = Reproduction(experiment="mutual.t1", data=data, seeds=(7,), steps=5, candidates=10)
    budget = asked.budget
    assert (budget.seeds, budget.steps, budget.candidates) == ((7,), 5, 10)
    assert asked.training_of(Train(method=SimCSE()), 7).steps == 5
    paper = Reproduction(experiment="mutual.t1", data=data, preset="paper").budget
    assert (paper.batch_size, paper.base.encoder.name) == (3_200, "bert-base-uncased")


ALL_LABELS = Label(count=None)

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


@pytest.mark.parametrize("fast", ["float32", "bfloat16"])
def test_a_training_computes_in_what_the_machine_multiplies_fastest(
    data: str, monkeypatch: pytest.MonkeyPatch, fast: str
):
    """Where it is emulated, bfloat16 takes ten times as long as float32."""
    monkeypatch.setattr(index, "FAST", fast)
    asked = Reproduction(experiment="infocse.t2", data=data)
    made = (asked.training_of(Train(method=SimCSE()), 42), asked.training_of(ALL_LABELS, 42))
    assert [one.dtype for one in made] == [fast, fast]
    of_words = Reproduction(experiment="mutual.t2", data=data)
    assert of_words.training_of(Train(method=SimCSE()), 42).dtype == "float32"


def test_a_training_of_the_preset_small_is_what_it_was(data: str, monkeypatch: pytest.MonkeyPatch):
    """Its key holds all of this: another value would be another training."""
    monkeypatch.setattr(index, "FAST", "bfloat16")
    asked = Reproduction(experiment="infocse.t2", data=data)
    method = {"name": "simcse", "temperature": 0.05, "mlm": 0.0, "mask_rate": 0.15}
    assert asked.training_of(Train(method=SimCSE()), 42).model_dump() == SMALL_TRAINING | {
        "method": method
    }
    words = {"batch_size": 128, "steps": 600, "dtype": "float32"}
    of_words = Reproduction(experiment="mutual.t2", data=data)
    assert of_words.training_of(SelfTrain(), 42).model_dump(exclude={"method"}) == (
        SMALL_TRAINING | words | {"learning_rate": 2e-3}
    )
    tuning = by_epochs(of_words.training_of(ALL_LABELS, 42), 640, of_words.limits)
    assert tuning.method == FineTune()
    assert tuning.model_dump(exclude={"method", "checkpoint_every"}) == {
        **{key: value for key, value in SMALL_TRAINING.items() if key != "checkpoint_every"},
        **{"steps": 100, "learning_rate": 2e-3, "dtype": "float32"},
        **{"evaluate_every": 10, "patience": 3},
    }


@pytest.mark.parametrize(
    ("method", "batch", "rate", "schedule", "warmup"),
    [
        ("simcse", 64, 3e-5, "linear", 0.0),
        ("mirror_bert", 200, 2e-5, "constant", 0.0),
        ("consert", 96, 5e-7, "linear", 0.1),
        ("sg_opt", 16, 5e-5, "linear", 0.1),
        ("infocse_aux", 64, 7e-6, "linear", 0.0),
    ],
)
def test_with_the_papers_preset_each_method_is_trained_its_own_way(
    data: str, method: str, batch: int, rate: float, schedule: str, warmup: float
):
    asked = Reproduction(experiment="infocse.t2", data=data, preset="paper")
    (step,) = next(arm.steps for arm in asked.what.arms if arm.label == method)
    made = asked.training_of(step, 42)
    assert (made.batch_size, made.learning_rate, made.schedule) == (batch, rate, schedule)
    assert (made.warmup, made.steps, made.seed) == (warmup, 31_250, 42)
    assert made.method == step.method
    assert training_budget(asked.what, asked.budget).endswith(asked.budget.batch)


@pytest.mark.parametrize("what", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_every_training_of_the_papers_preset_is_of_its_methods_preset(what: Experiment, data: str):
    """But for what the paper says of its whole table, what the arm itself is about, and its end."""
    asked = Reproduction(experiment=what.id, data=data, preset="paper")
    budget = asked.budget
    for step in (step for arm in what.arms for step in arm.steps if isinstance(step, Train)):
        made = asked.training_of(step, 42)
        told = {"method", "steps", *budget.stated, *(("batch_size",) if step.batch_size else ())}
        told |= STOPS
        presets = PRESETS[step.method.name]
        preset = next(presets[name] for name in budget.presets if name in presets)
        for name in preset.keys() - told:
            assert getattr(made, name) == preset[name], name
        for name in budget.stated.keys() - {"steps", "batch_size"}:
            assert getattr(made, name) == budget.stated[name], name
        assert [getattr(made, name) for name in STOPS] == [
            budget.stated.get(name) for name in STOPS
        ]
        assert made.batch_size == step.batch_size or "batch_size" in budget.stated.keys() | preset


@pytest.mark.parametrize("method", ["simcse", "conpono", "declutr"])
def test_mutual_trains_all_of_its_table_by_adam_at_a_constant_rate(data: str, method: str):
    asked = Reproduction(experiment="mutual.t1", data=data, preset="paper")
    (step,) = next(arm.steps for arm in asked.what.arms if arm.label == method)
    made = asked.training_of(step, 42)
    assert (made.optimizer, made.schedule, made.warmup) == ("adam", "constant", 0)
    assert (made.learning_rate, made.batch_size, made.chunk) == (2e-5, 3_200, 128)
    assert asked.training_of(SelfTrain(), 42).learning_rate == 2e-5


def test_the_papers_fine_tuning_has_its_own_batch_and_patience(data: str):
    asked = Reproduction(experiment="mutual.t2", data=data, preset="paper")
    tuning = by_epochs(asked.training_of(ALL_LABELS, 42), 640, asked.limits)
    assert (tuning.method.name, tuning.batch_size, tuning.optimizer) == ("fine_tune", 64, "adam")
    assert (tuning.steps, tuning.evaluate_every, tuning.patience) == (200, 10, 2)


@pytest.mark.parametrize(
    ("name", "arm", "pooling", "similarity"),
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
def test_with_the_papers_preset_a_method_reads_the_base_its_own_way(
    data: str, name: str, arm: str, pooling: str | None, similarity: str | None
):
    """Unless the table says how, as infocse, product_thesis and hicl do."""
    one = next(one for one in EXPERIMENTS[name].arms if one.label == arm)
    asked = Reproduction(experiment=name, data=data, preset="paper")
    read = asked.encoder_of(one)
    assert (read.pooling, read.similarity) == (pooling, similarity)
    assert read.name == asked.budget.base.encoder.name
    small = Reproduction(experiment=name, data=data)
    assert small.encoder_of(one) == small.budget.base.encoder
    assert small.steps_of(one) == one.steps


def test_inner_products_have_no_temperature(data: str):
    asked = Reproduction(experiment="mutual.t3a", data=data, preset="paper")
    arm = next(one for one in asked.what.arms if one.label.startswith("++"))
    steps = asked.steps_of(arm)
    assert {type(step) for step in steps} == {Train, SelfTrain, Label}
    assert {step.method.temperature for step in steps} == {1.0}
    assert {step.method.temperature for step in arm.steps} == {0.05}
    ict = next(arm for arm in EXPERIMENTS["mutual.t1"].arms if arm.label == "ict")
    (step,) = asked.steps_of(ict)
    method = asked.method_of(step)
    assert (method.temperature, method.context_tokens) == (1.0, 288)


def test_an_arm_of_the_papers_preset_is_an_encoder_of_inner_products(
    asked: Reproduction, monkeypatch
):
    paper = TINY.model_copy(update={"base": TINY.base.model_copy(update={"times": 0})})
    monkeypatch.setattr(index, "EXPERIMENTS", {WHOLE.id: WHOLE.model_copy(update={"paper": paper})})
    asked = asked.model_copy(update={"preset": "paper"})
    arm = WHOLE.arms[-1]
    with without_prefect(Store.default()):
        base = learning.base_of(asked)
        trained = learning.arm_encoder(asked, base, arm, "blog_usgov", 1)
    found = [load_encoder(artifact_path(one)).similarity for one in (base, trained)]
    assert found == ["cosine", "dot"]


@pytest.mark.parametrize("what", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_under_each_preset_the_table_says_what_differs(what: Experiment):
    small, paper = (
        ExperimentTable(what, budget, [], {}).differs for budget in (what.small, what.paper)
    )
    for differs, budget in ((small, what.small), (paper, what.paper)):
        assert budget.differs.endswith(".")
        assert differs == f"{budget.differs} {what.differs}".rstrip()
    assert "2 layers" not in paper, "is of the small base encoder"


def trainings(what: Experiment) -> Iterator[tuple[int, int]]:
    """Steps and batch of every training by a method under the small preset."""
    asked = Reproduction(experiment=what.id, data="")
    for step in (step for arm in what.arms for step in arm.steps if isinstance(step, Train)):
        training = asked.training_of(step, 42)
        yield training.steps, training.batch_size


@pytest.mark.parametrize("what", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_a_training_below_the_usual_length_is_told(what: Experiment):
    """Longer ones in small batches read as many texts."""
    below = [one for one in trainings(what) if one[0] < 300 or one[0] * one[1] < 300 * 64]
    assert ("below the usual 300 steps of 64" in what.small.differs) == bool(below)


@pytest.mark.parametrize(
    ("id", "told"),
    [
        ("product_thesis.e2a", {156}),
        ("product_thesis.e2c", {15, 45, 46, 138, 148, 150}),
        ("product_thesis.batch", {150, 75, 38}),
        ("product_thesis.curve", {30, 90}),
        ("hicl.time", {30}),
        ("hicl.t10", {75}),
    ],
)
def test_the_steps_below_the_usual_ones_are_those_told(id: str, told: set[int]):
    what = EXPERIMENTS[id]
    assert {steps for steps, _ in trainings(what) if steps < 300} == told
    assert str(min(told)) in what.small.differs


def telling(sentence: str) -> set[str]:
    """Experiments whose table says it."""
    return {one.id for one in EXPERIMENTS.values() if sentence in one.differs}


def test_what_experiments_share_is_told_by_each_that_its_arms_or_columns_concern():
    figures = {f"declutr.f{figure}" for figure in ("2a", "2b", "2c", "3")}
    assert telling(PROBE) == {"infocse.t10", "declutr.t1", "declutr.snli", "hicl.t11"} | figures
    assert telling(REGRESSION) == {"declutr.t1"} | figures
    assert telling(PAIRS) == {"declutr.snli"}
    assert telling(CONVOLUTIONS) == {"infocse.t2"}
    assert telling(AT_MASK) == {"hicl.t1"}


def test_where_a_base_method_stands_beside_hicl_it_is_said_to_read_sentences():
    """Another table's "pre-sliced" says so of its own."""
    kinds = {
        id: {type(step.method) for arm in one.arms for step in arm.steps if isinstance(step, Train)}
        for id, one in EXPERIMENTS.items()
    }
    both = {id for id, methods in kinds.items() if {HiCL, SimCSE} <= methods}
    assert telling(OF_BASE_ALONE) == both - {"hicl.t6"}
    assert {"hicl.t1", "hicl.t10"} <= both


def test_hicl_over_sncse_is_judged_by_a_vector_that_it_did_not_train():
    arm = Arm(label="a", steps=(Train(method=HiCL(base=SNCSE())),))
    what = WHOLE.model_copy(update={"arms": (arm,)})
    assert list(shared(what)) == [CUT, AT_MASK]


def test_with_the_papers_preset_documents_are_whole(data: str):
    asked = [
        Reproduction.model_validate({"experiment": "mutual.t1", "data": data, "preset": preset})
        for preset in ("small", "paper")
    ]
    assert [one.corpus("blog_usgov").max_sentences for one in asked] == [12, None]


def test_long_reviews_are_read_whole_or_as_far_as_the_encoder_can(data: str):
    what = EXPERIMENTS["hicl.t8"]
    assert [one.base.encoder.max_length for one in (what.small, what.paper)] == [128, 512]


@pytest.mark.parametrize("stated", [{}, {"evaluate_every": 2, "patience": 1}])
def test_a_training_that_is_validated_stops_by_the_pool(asked: Reproduction, monkeypatch, stated):
    budget = TINY.model_copy(update={"stated": stated})
    what = WHOLE.model_copy(update={"small": budget})
    monkeypatch.setattr(index, "EXPERIMENTS", {WHOLE.id: what})
    given: list[object] = []

    def watched(encoder, sentences, config, validation_pool=None, **annotation):
        given.append(validation_pool)
        return Trained(model=encoder, log=encoder)

    with without_prefect(Store.default()):
        base = learning.base_of(asked)
        texts = learning.texts_of(asked, base, "blog_usgov")
        monkeypatch.setattr(row_steps, "train_encoder", watched)
        arm = Arm(label="a", steps=(Train(method=CONPONO()), SelfTrain()))
        learning.arm_encoder(asked, base, arm, "blog_usgov", 1)
    assert texts.validation_pool is not None
    assert given == [texts.validation_pool if stated else None] * 2


@pytest.mark.parametrize(
    ("name", "arm", "setting", "small", "paper"),
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
def test_texts_are_as_long_as_the_encoder_of_the_preset_reads(
    data: str, name: str, arm: str, setting: str, small: int, paper: int
):
    (step,) = next(one.steps for one in EXPERIMENTS[name].arms if one.label == arm)
    for preset, expected in (("small", small), ("paper", paper)):
        asked = Reproduction.model_validate({"experiment": name, "data": data, "preset": preset})
        assert getattr(asked.method_of(step), setting) == expected


def test_hicl_has_its_own_prompt_over_sncse_under_the_papers_preset_alone(data: str):
    prompts = {
        (preset, arm.label): base.before_positive
        for preset in ("small", "paper")
        for asked in [Reproduction(experiment="hicl.t1", data=data, preset=preset)]
        for arm in asked.what.arms
        for step in arm.steps
        for base in [comparing(asked.method_of(step))]
        if isinstance(base, SNCSE)
    }
    own = {("paper", "hicl (SNCSE)"): "The sentence of"}
    theirs = [(preset, label) for preset, label in prompts if (preset, label) not in own]
    assert len(theirs) == 3
    assert prompts == own | dict.fromkeys(theirs, SNCSE().before_positive)


@pytest.mark.parametrize("figure", ["declutr.f2a", "declutr.f2b", "declutr.f2c"])
def test_declutrs_figure_has_its_other_temperature_under_the_papers_preset(data: str, figure: str):
    small, paper = (
        Reproduction.model_validate({"experiment": figure, "data": data, "preset": preset})
        for preset in ("small", "paper")
    )
    assert {asked_for(small, arm).temperature for arm in small.what.arms} == {0.05}
    ours, colder = paper.what.arms[: len(small.what.arms)], paper.what.arms[len(small.what.arms) :]
    assert ours == small.what.arms
    twins = {arm.label: asked_for(paper, arm) for arm in ours}
    for arm in colder:
        label, _, _ = arm.label.partition(", ")
        warm = twins[label].model_copy(update={"temperature": 5e-4})
        assert asked_for(paper, arm) == warm
    assert len(colder) >= 2


def asked_for(asked: Reproduction, arm: Arm) -> DeCLUTR:
    """How the only step of an arm trains."""
    (step,) = arm.steps
    method = asked.method_of(step)
    assert isinstance(method, DeCLUTR)
    return method


MAIN = {
    TITLE: ("R@5", "R@20"),
    "STS-B-retrieval": ("R@5",),
    **dict.fromkeys(("WDC", "Amazon-Google", "Abt-Buy"), ("R_cap@10",)),
}
"""Judge -> measures whose single values it keeps; of all others nDCG@10."""


@pytest.mark.parametrize("arms", ["arms", "paper_arms"])
@pytest.mark.parametrize("sample", [{"max_documents": 10}, {"share": 0.5}])
def test_labels_of_a_sample_are_refused(arms: str, sample: dict[str, float]):
    arm = Arm(label="a", steps=(Label(count=4),), **sample)
    with pytest.raises(ValueError, match="'a' learns labels of a sample"):
        Experiment(**dict(WHOLE) | {"arms": (), "claims": (), arms: (arm,)})


@pytest.mark.parametrize("what", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_an_experiment_is_well_formed(what: Experiment):
    assert re.fullmatch(r"s00[0-4]\.[a-zD0-9_]+", what.id)
    labels = [arm.label for arm in what.arms]
    assert len(set(labels)) == len(labels)
    columns = [column.label for column in what.columns]
    assert len(set(columns)) == len(columns)
    assert f"{what.small.base.corpus}.parquet" in files_wanted(what, what.small)
    for claim in what.claims:
        for column in what.columns:
            if column.measure and column.label in (claim.columns or columns):
                undecided = "R@100" if what.id.startswith("product_thesis.bce_") else ""
                kept = MAIN.get(column.judge, ("nDCG@10", undecided))
                assert column.measure in kept, "has single values"
    assert what.small.steps >= 300
    assert what.small.candidates >= 1_000
    assert what.axis is None or any(one.x is not None for one in (*what.arms, *what.columns))
    if any(not claim.text.startswith("(ours)") for claim in what.claims):
        assert len(what.small.seeds) >= 3


LOST = {"infocse.t11", "declutr.t1"}
"""Rows without labels; columns that are averages of tasks that are not at hand."""


@pytest.mark.parametrize(
    "what",
    [what for what in EXPERIMENTS.values() if what.id in paper_tables().keys() - LOST],
    ids=lambda what: what.id,
)
def test_a_printed_number_stands_beside_ours_wherever_a_row_and_a_column_match(what: Experiment):
    """A label that drifts from the paper's row would lose its number in silence."""
    table = paper_tables()[what.id]
    rows = {arm.label for arm in what.arms} & set(table.rows)
    printed = {column for row in table.rows.values() for column in row}
    assert rows
    # one column stands beside our average, or our only one
    assert len(printed) == 1 or printed & {column.label for column in what.columns}
