"""Whole experiments on a tiny corpus: every kind of arm and column, errors, seconds, dry runs."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from httpx import ConnectError

from flows import reproduce as running
from flows.experiments import settings as experiment_settings
from flows.experiments.methods import WITHOUT_TRAINING
from flows.experiments.settings import Reproduction, files_wanted
from flows.reproduce import Trial, plan_reproduction, reproduce
from sentemb_core.config.experiments import (
    BEIR,
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
from sentemb_core.config.methods import CONPONO, Condenser, HiCL, InfoCSEAux, SimCSE
from sentemb_core.config.run import EncoderConfig
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.encoder.checkpoint import load_encoder
from sentemb_core.encoder.names import HEAD_FILE
from sentemb_core.errors import EmptyCorpusError, NoQueriesError, StorageError
from sentemb_core.evaluation import bootstrap
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs
from sentemb_core.training.state import read_steps
from sentemb_core.types import ArtifactRef
from tasks.artifacts import Trained, artifact_path
from tasks.claims import ArmResult, cells_of, value_of
from tasks.execution import dry_run, without_prefect
from tasks.experiment_table import ExperimentTable, marks, write_experiment
from tasks.run_monitor import resuming
from tasks.stage import STAGES
from tasks.validate import recall_at_5
from tests.flows.corpora import write_data_folder
from tests.flows.suites import write_beir
from tests.messages import pattern

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
SIMCSE = (Train(method=SimCSE()),)
ROUND, LABELS = SelfTrain(), Label(count=4)

WHOLE = Experiment(
    id="s999.t1",
    title="Every kind of arm and of column",
    arms=(
        Arm(label="random vectors", system="random"),
        Arm(label="BM25", system="BM25"),
        Arm(label="thesis BM25", system="thesis BM25"),
        Arm(label="start encoder"),
        Arm(label="whitening", steps=(Finish(map="whitening"),)),
        Arm(label="simcse", steps=SIMCSE, x=1),
        Arm(label="infocse_aux", steps=(Train(method=InfoCSEAux()),), x=2),
        Arm(label="first token", steps=SIMCSE, pooling="cls_before_pooler"),
        Arm(
            label="self-trained",
            steps=(Train(method=CONPONO()), ROUND, LABELS),
            corpus="blog_usgov",
        ),
    ),
    columns=(
        Column(label="Web", judge=TITLE, measure="R@5", corpus="blog_usgov"),
        Column(label="dev", judge="STS-B-dev"),
        Column(label="took", judge=SECONDS),
    ),
    claims=(
        Claim(
            text="(ours) SimCSE is better than nothing", better="simcse", than=("start encoder",)
        ),
        Claim(
            text="(ours) it is faster", better="simcse", than=("self-trained",), columns=("took",)
        ),
    ),
    labels=True,
    small=TINY,
    paper=TINY,
    differs="Everything.",
)
WEB, DEV, TOOK = WHOLE.columns


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny files under the names that the experiments read."""
    folder = tmp_path_factory.mktemp("data")
    texts = write_data_folder(folder)
    pq.write_table(pa.table({"title1": texts[:20] * 3}), folder / "product_abt_buy.parquet")
    quora = folder / "beir" / "quora"
    quora.mkdir(parents=True)
    write_beir(quora)
    return folder


@pytest.fixture
def settings(data: Path, monkeypatch: pytest.MonkeyPatch):
    """Settings of `WHOLE`, or of a variant of it."""
    monkeypatch.setattr(bootstrap, "RESAMPLES", 200)

    def of(what: Experiment = WHOLE, **changes: Any) -> Reproduction:
        given = {
            name: changes.pop(name) for name in ("encoder", "seeds", "preset") if name in changes
        }
        what = what.model_copy(update=changes)
        monkeypatch.setattr(experiment_settings, "EXPERIMENTS", {what.id: what})
        return Reproduction.model_validate({"experiment": what.id, "data": str(data)} | given)

    return of


@pytest.fixture(autouse=True)
def in_process(home: Path):
    """Stages run in this process, without Prefect."""
    with without_prefect():
        yield


def table_of(settings: Reproduction) -> ExperimentTable:
    return reproduce.fn(settings)


def results_of(settings: Reproduction) -> list[ArmResult]:
    return list(table_of(settings).results)


def trial_of(
    settings: Reproduction, arm: Arm, base: ArtifactRef | None = None, seed: int = 1
) -> Trial:
    base = base or running.base_encoder(settings, settings.budget.base.encoder)
    return Trial(settings=settings, arm=arm, corpus="blog_usgov", columns=[], seed=seed, base=base)


def computed() -> list[str]:
    """Stages of the last run that computed something."""
    return [used.stage for used in last_runs(Store.default())[0].stages if not used.hit]


def columns_by_arm(results: Sequence[ArmResult]) -> dict[str, tuple[str, ...]]:
    columns: dict[str, tuple[str, ...]] = {}
    for arm, column in cells_of(results):
        columns[arm] = (*columns.get(arm, ()), column)
    return columns


def test_every_arm_has_its_numbers_and_a_second_run_computes_nothing(settings, tmp_path: Path):
    table = table_of(settings())
    results = list(table.results)
    assert {one.error for one in results} == {""}
    trained = ("simcse", "infocse_aux", "first token", "self-trained")
    untrained = ("random vectors", "BM25", "start encoder", "whitening")
    assert columns_by_arm(results) == {
        "thesis BM25": ("Web",),
        **dict.fromkeys(untrained, ("Web", "dev")),
        **dict.fromkeys(trained, ("Web", "dev", "took")),
    }
    for (_, column), seeds in cells_of(results).items():
        assert [one.seed for one in seeds] == [1, 2]
        assert column != "took" or all(value_of(one, TOOK) > 0 for one in seeds)
    assert {one.verdict for one in table.claims} <= {"holds", "does not hold", "not decided"}
    assert len(table.claims) == len(WHOLE.claims)
    assert (write_experiment(table, tmp_path / "out") / "table.png").stat().st_size > 5_000
    assert {"measure_overlap", "claim_interval", "literal_bm25_scores"} <= set(computed())
    stages = last_runs(Store.default())[0].stages
    assert len({one.key for one in stages if one.stage == "start_encoder"}) == 1
    condensed = next(one.key for one in stages if one.stage == "train_encoder")
    assert [one.key for one in stages].count(condensed) == 1

    for changes in ({}, {"differs": "Nothing."}):
        assert results_of(settings(**changes)) == results
        assert computed() == []


def test_arms_that_share_a_training_have_both_its_seconds_and_its_log(settings):
    twins = tuple(Arm(label=label, steps=SIMCSE) for label in "ab")
    loss = Column(label="loss", judge=LOSS)
    results = results_of(settings(arms=twins, columns=(DEV, TOOK, loss), claims=(), seeds=(1,)))
    first, second = ([one for one in results if one.arm == arm] for arm in "ab")
    assert [one.model_copy(update={"arm": "b"}) for one in first] == second
    assert all(one.log and one.seconds > 0 for one in second)
    losses = read_steps(artifact_path(second[-1].log))["loss"]
    assert value_of(second[-1], loss) == pytest.approx(losses[-1])


def test_a_resumed_table_continues_its_record(settings):
    asked = settings(arms=WHOLE.arms[5:6], columns=(DEV,), claims=(), seeds=(1,))
    results = results_of(asked)
    (before,) = last_runs(Store.default())
    with resuming(before.id):
        assert results_of(asked) == results
    (after,) = last_runs(Store.default())
    assert (after.id, after.stages) == (before.id, before.stages)


def test_seconds_are_of_training_and_annotation_alone(settings):
    assert STAGES.keys() >= running.TRAINING
    arm = Arm(label="conpono", steps=(Train(method=CONPONO()),), corpus="blog_usgov")
    base = TINY.base.model_copy(update={"times": 0})
    tiny = TINY.model_copy(update={"base": base})
    results = results_of(settings(arms=(arm,), columns=(TOOK,), claims=(), small=tiny, seeds=(1,)))
    stages = last_runs(Store.default())[0].stages
    (training,) = (used.seconds for used in stages if used.stage == "train_encoder")
    assert results[0].seconds == training
    assert results[0].seconds < sum(used.seconds for used in stages)


def test_a_head_of_the_base_goes_with_it_under_another_pooling(settings):
    arm = Arm(label="cls", steps=(Train(method=InfoCSEAux()),), pooling="cls")
    trial = trial_of(settings(), arm)
    start = running.start_encoder(trial)
    store = Store.default()
    heads = [(store.path(one) / HEAD_FILE).read_bytes() for one in (trial.base, start)]
    assert trial.base != start
    assert heads[0] == heads[1]


def test_every_arm_can_start_from_a_given_encoder_with_a_head(settings, tmp_path: Path):
    stage = running.base_encoder(settings(), TINY.base.encoder)
    copytree(Store.default().path(stage), tmp_path / "condensed")
    given = settings(
        arms=(WHOLE.arms[6],), columns=(DEV,), claims=(), encoder=str(tmp_path / "condensed")
    )
    table = table_of(given)
    assert {(one.arm, one.error) for one in table.results} == {("infocse_aux", "")}
    (note,) = [note for note in table.notes() if str(tmp_path / "condensed") in note]
    assert note.startswith("Differences ")


def test_an_arm_that_needs_a_head_is_refused_without_one(settings):
    headless = settings(claims=(), encoder="transformer")
    with dry_run() as plan:
        plan_reproduction(headless)
    refused = {one.part: one.why for one in plan.statuses if one.verdict == "REFUSED"}
    assert set(refused) == {
        f"infocse_aux on {corpus}, seed {seed}"
        for corpus in ("blog_usgov", "plain_sentences")
        for seed in (1, 2)
    }
    for why in refused.values():
        assert re.search(pattern("infocse_aux transformer --encoder models:/stage/1"), why)
        assert why.startswith("E303 ")
    assert {one.verdict for one in plan.statuses if one.part in refused} == {"REFUSED"}


def test_a_base_without_training_reads_no_corpus(settings, monkeypatch: pytest.MonkeyPatch):
    base = Base(encoder=EncoderConfig(name="minilm"), times=0)
    small = TINY.model_copy(update={"base": base})
    what = WHOLE.model_copy(update={"arms": WHOLE.arms[-1:], "columns": (WEB,), "small": small})
    assert files_wanted(what, small) == ["blog_usgov.parquet"]
    assert "plain_sentences.parquet" in files_wanted(what, TINY)
    asked = settings(what, claims=())
    monkeypatch.delattr(running, "documents_of")
    with dry_run() as plan:
        running.base_encoder(asked, base.encoder)
    assert [one.stage for one in plan.statuses] == ["start_encoder"]


def test_arms_that_have_less_than_they_request(settings):
    arms = (
        Arm(label="all", steps=(Label(count=None),), corpus="blog_usgov"),
        Arm(label="four", steps=(LABELS,), corpus="blog_usgov"),
        Arm(label="++", steps=(*[Label(count=1_000)] * 2, LABELS), corpus="blog_usgov"),
        Arm(label="ten", steps=SIMCSE, max_documents=10),
        Arm(label="100k", steps=SIMCSE, max_documents=100_000),
    )
    asked = settings(arms=arms, columns=(WEB, DEV), claims=(), seeds=(1,))
    table = table_of(asked)
    less: dict[str, list[str]] = {}
    for one in table.results:
        less.setdefault(one.arm, []).extend(one.less)
    trial = trial_of(asked, arms[0])
    texts = running.texts_of(trial, trial.base, "blog_usgov")
    labels = running.labels_of(texts, None, trial).count
    assert 4 < labels < 40
    sentences = pq.read_metadata(asked.file("plain_sentences")).num_rows
    corpora = ["40 documents of blog_usgov", f"{sentences} documents of plain_sentences"]
    assert {arm: list(dict.fromkeys(found)) for arm, found in less.items()} == {
        **{"all": [], "four": [], "++": [f"{labels} labels of blog_usgov"], "ten": []},
        "100k": corpora,
    }
    named = f"++ ({labels} labels of blog_usgov); 100k ({', '.join(corpora)})."
    assert [note.endswith(named) for note in table.notes()].count(True) == 1


def test_notes_have_hicls_segments_and_the_loss_of_a_condenser_stage(
    settings, monkeypatch: pytest.MonkeyPatch
):
    losses = []
    language_of = running.language_of
    monkeypatch.setattr(
        running, "language_of", lambda ref: losses.append(language_of(ref)) or losses[-1]
    )
    stage = Train(method=Condenser())
    arms = (
        Arm(label="hicl", steps=(Train(method=HiCL(segment=30)),)),
        Arm(label="after a stage", steps=(stage, Train(method=InfoCSEAux()))),
        Arm(label="simcse", steps=SIMCSE),
    )
    results = results_of(settings(arms=arms, columns=(WEB,), claims=(), seeds=(1,)))
    assert {one.error for one in results} == {""}
    assert {one.arm: len(one.notes) for one in results} == {
        "hicl": 1,
        "after a stage": 1,
        "simcse": 0,
    }
    notes = {one.arm: " ".join(one.notes) for one in results}
    shares = dict(re.findall(r"(\d+) in (\d+\.\d)%", notes["hicl"]))
    assert "blog_usgov" in notes["hicl"]
    assert sum(map(float, shares.values())) == pytest.approx(100, abs=0.2)
    assert max(map(int, shares)) > 1
    (loss,) = losses
    assert loss.tokens > 0
    assert loss.unigram < loss.condensed, "two steps teach nothing"
    values = f"{loss.late:.2f} {loss.condensed:.2f} {loss.unigram:.2f}"
    assert re.search(pattern(values), notes["after a stage"])


@pytest.mark.parametrize(("share", "documents"), [(None, 40), (0.4, 16), (0.1, 4)])
def test_a_share_is_of_the_corpus(settings, share: float | None, documents: int):
    trial = trial_of(settings(), Arm(label="a", share=share))
    texts = running.texts_of(trial, trial.base, "blog_usgov", sampled=True)
    assert running.document_count(texts.documents) == documents


@pytest.mark.parametrize(("distinct", "texts"), [(False, 60), (True, 20)])
def test_a_distinct_arm_reads_every_text_once(settings, distinct: bool, texts: int):
    trial = trial_of(settings(), Arm(label="a", distinct=distinct))
    read = running.texts_of(trial, trial.base, "product_abt_buy", sampled=True)
    assert len(TokenCorpus.open(artifact_path(read.sentences))) == texts


@pytest.mark.parametrize("restart", [False, True])
def test_a_round_continues_or_restarts_from_the_initialiser(
    settings, monkeypatch: pytest.MonkeyPatch, restart: bool
):
    starts, models = [], []
    train = running.train_encoder

    def watched(encoder, *rest, **named):
        trained = train(encoder, *rest, **named)
        starts.append(encoder)
        models.append(trained.model)
        return Trained(model=trained.model, log=trained.log)

    trial = trial_of(
        settings(),
        Arm(label="a", steps=(Train(method=CONPONO()), ROUND, SelfTrain(restart=restart))),
    )
    monkeypatch.setattr(running, "train_encoder", watched)
    running.trained_encoder(trial, trial.base)
    initialiser, first, _ = models
    assert starts[1:] == [initialiser, initialiser if restart else first]


@pytest.mark.parametrize(
    ("scores", "steps", "kept"),
    [
        ([0.6, 0.5], (LABELS, ROUND, LABELS), 1),
        ([0.5, 0.6], (LABELS, ROUND, LABELS), 3),
        ([0.5, 0.5], (LABELS, ROUND, LABELS), 1),  # the first of equals
        ([0.9, 0.5], (LABELS, LABELS), 1),
        ([0.9, 0.5], (LABELS, ROUND, LABELS, Finish(map="whitening")), 4),
        ([], (ROUND, ROUND), 2),
    ],
)
def test_of_several_fine_tuned_encoders_the_best_on_validation_is_kept(
    monkeypatch: pytest.MonkeyPatch, scores: list[float], steps: tuple[Step, ...], kept: int
):
    validation = iter(scores)
    monkeypatch.setattr(running, "after_step", lambda step, encoder, *_: encoder + 1)
    monkeypatch.setattr(running, "validate_encoder", lambda *_: next(validation))
    monkeypatch.setattr(running, "recall_at_5", float)
    ref = ArtifactRef(kind="x", digest="0" * 64, size=0)
    texts = running.Texts(documents=ref, sentences=ref, pool=ref)
    assert running.encoder_after(steps, 0, texts, None) == kept


@pytest.mark.parametrize("stated", [{}, {"evaluate_every": 2, "patience": 1}])
def test_a_validated_training_stops_by_the_pool(
    settings, monkeypatch: pytest.MonkeyPatch, stated: dict[str, int]
):
    pools: list[ArtifactRef | None] = []

    def watched(encoder, sentences, config, validation_pool=None, **annotation):
        pools.append(validation_pool)
        return Trained(model=encoder, log=encoder)

    asked = settings(small=TINY.model_copy(update={"stated": stated}))
    trial = trial_of(asked, Arm(label="a", steps=(Train(method=CONPONO()), ROUND)))
    texts = running.texts_of(trial, trial.base, "blog_usgov")
    monkeypatch.setattr(running, "train_encoder", watched)
    running.trained_encoder(trial, trial.base)
    assert pools == [texts.pool if stated else None] * 2


def test_self_training_of_the_papers_preset_has_inner_products(settings):
    paper = TINY.model_copy(update={"base": TINY.base.model_copy(update={"times": 0})})
    asked = settings(paper=paper, preset="paper")
    trial = trial_of(asked, WHOLE.arms[-1])
    start = running.start_encoder(trial)
    trained = running.trained_encoder(trial, start)
    kinds = [load_encoder(artifact_path(one)).similarity for one in (trial.base, trained)]
    assert kinds == ["cosine", "dot"]


def test_an_arm_that_fails_leaves_the_others(settings, monkeypatch: pytest.MonkeyPatch):
    after_step = running.after_step

    def fails_for_simcse(step, *rest):
        if isinstance(step, Train) and step.method.name == "simcse":
            raise ZeroDivisionError("of nothing")
        return after_step(step, *rest)

    monkeypatch.setattr(running, "after_step", fails_for_simcse)
    results = results_of(settings(arms=WHOLE.arms[4:8], claims=(), seeds=(1,)))
    failed = {one.arm: one.error for one in results if one.error}
    assert failed == dict.fromkeys(("simcse", "first token"), "E000 ZeroDivisionError: of nothing")
    assert {one.arm for one in results if not one.error} == {"whitening", "infocse_aux"}


@pytest.mark.parametrize("error", [StorageError("full"), ConnectError("no answer")])
def test_a_full_disk_and_a_lost_server_end_the_table(
    settings, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(running, "after_step", fails)
    with pytest.raises(type(error)):
        results_of(settings(columns=(DEV,), claims=()))
    assert last_runs(Store.default())[0].state == "failed"


def test_a_judge_that_fails_leaves_the_other_columns(settings, monkeypatch: pytest.MonkeyPatch):
    evaluated = running.evaluated

    def refusing(trial, start, system, column):
        if column.label == "dev":
            raise NoQueriesError("no query")
        return evaluated(trial, start, system, column)

    monkeypatch.setattr(running, "evaluated", refusing)
    errors: dict[str, set[str]] = {}
    for one in results_of(settings(arms=WHOLE.arms[5:6], claims=())):
        errors.setdefault(one.column, set()).add(one.error)
    assert errors == {"Web": {""}, "dev": {"E502 no query"}, "took": {""}}


def test_a_corpus_whose_overlap_cannot_be_measured_is_named(
    settings, monkeypatch: pytest.MonkeyPatch
):
    def refused(*_: object, **__: object) -> ArtifactRef:
        raise EmptyCorpusError("no text")

    monkeypatch.setattr(running, "overlap_with", refused)
    table = table_of(settings())
    corpora = ("blog_usgov", "plain_sentences")
    assert table.unmeasured == dict.fromkeys(corpora, "E101 no text")
    for corpus in corpora:
        assert any(re.search(pattern(f"{corpus} E101"), note) for note in table.notes())
    assert set(table.json()["overlap_errors"]) == set(table.unmeasured)


def test_contamination_covers_every_corpus_that_training_reads(settings):
    table = table_of(settings(arms=WHOLE.arms[3:4], claims=()))
    assert settings().corpora_read == ["plain_sentences", "blog_usgov"]
    assert {name: one.exact for name, one in table.overlaps.items()} == {"STS-B-dev": 1.0}
    assert {name: one.n_candidates for name, one in table.pools.items()} == {"Web": 15}


def test_a_dry_run_visits_every_arm(settings):
    asked = settings()
    with dry_run() as plan:
        plan_reproduction(asked)
    stages = {one.stage for one in plan.statuses}
    assert {"train_encoder", "export_pairs", "measure_overlap"} <= stages
    assert "claim_interval" not in stages
    assert plan.incomplete, "the number of labels is not known yet"
    parts = {one.part.partition(" on ")[0] for one in plan.statuses if one.part}
    assert parts >= {arm.label for arm in WHOLE.arms}


def test_a_dry_run_has_no_claim_before_all_its_results_are_known(settings):
    asked = {"arms": WHOLE.arms[3:6], "claims": WHOLE.claims[:1]}
    results_of(settings(**asked, seeds=(1,)))
    with dry_run() as plan:
        plan_reproduction(settings(**asked))
    assert "claim_interval" not in {one.stage for one in plan.statuses}


def test_a_dry_run_after_the_run_hits_the_claims(settings):
    asked = settings(arms=WHOLE.arms[3:6], claims=WHOLE.claims[:1])
    results_of(asked)
    with dry_run() as plan:
        plan_reproduction(asked)
    assert ("claim_interval", "HIT") in {(one.stage, one.verdict) for one in plan.statuses}
    assert {one.verdict for one in plan.statuses} <= {"HIT", "SAME"}


RESCORED = Experiment(
    id="s999.t2",
    title="Words and vectors",
    arms=(
        Arm(label="BM25", system="BM25"),
        Arm(label="simcse", steps=SIMCSE),
        Arm(label="chosen", steps=SIMCSE, alpha="chosen"),
        *(Arm(label=f"{alpha:g}", steps=SIMCSE, alpha=alpha) for alpha in (0.0, 10.0, 1000.0)),
    ),
    columns=(WEB, Column(label="Quora", judge=f"{BEIR}quora", measure="R@100")),
    small=TINY.model_copy(update={"seeds": (1,)}),
    paper=TINY,
)


def test_words_and_vectors_together_are_judged_by_titles_alone(settings):
    table = table_of(settings(RESCORED))
    alphas = ("0", "10", "1000")
    assert {one.error for one in table.results} == {""}
    both = dict.fromkeys(("BM25", "simcse"), ("Web", "Quora"))
    assert columns_by_arm(table.results) == both | dict.fromkeys(("chosen", *alphas), ("Web",))
    validation = {one.arm: recall_at_5(one.result) for one in table.results if one.column == "Web"}
    assert validation["0"] == validation["BM25"]
    assert validation["chosen"] >= max(validation[alpha] for alpha in alphas)
    assert {name: one.texts for name, one in table.overlaps.items()} == {"quora queries": 4}
    assert {name: one.n_candidates for name, one in table.pools.items()} == {"Web": 40}
    assert any(re.search(pattern("Web 0 of 40"), note) for note in table.notes())
    assert table.json()["pools"]["Web"]["in_other_documents"] == 0
    column = RESCORED.columns[1].model_copy(update={"x": 100.0})
    what = RESCORED.model_copy(update={"columns": (column,), "axis": "k"})
    curves = ExperimentTable(what, RESCORED.small, table.results, {})
    assert [(mark.curve, mark.x) for mark in marks(curves)] == [("BM25", 100.0), ("simcse", 100.0)]
    assert curves.table().head() == ["", "Quora R@100"], "arms have no place on the axis"


def ours(data: Path, experiment: str, **given: Any) -> Reproduction:
    small = {"steps": 2, "candidates": 20, "seeds": (1,)}
    return Reproduction.model_validate(
        {"experiment": experiment, "data": str(data)} | small | given
    )


def errors_of(results: Sequence[ArmResult]) -> dict[tuple[str, str], str]:
    return {
        (one.arm, one.column.partition(" ")[0]): one.error.partition(" ")[0]
        for one in results
        if one.error
    }


def test_methods_small_has_a_number_or_a_code_in_every_cell(data: Path):
    rows = ["word_vectors", "bm25_rescored", "bm25_product_thesis", "whitening", "first_last_mean"]
    trained = ["conpono", "infocse_idc", "infocse_idc_dot", "sg_opt", "infocse_aux", "hicl"]
    asked = ours(
        data, "methods-small", corpora=["blog_usgov", "plain_sentences"], methods=rows + trained
    )
    table = table_of(asked)
    single = [(name, "plain_sentences") for name in ("conpono", "infocse_idc", "infocse_idc_dot")]
    assert errors_of(table.results) == dict.fromkeys(single, "E102")
    assert {one.error.split()[1] for one in table.results if one.error} == {"conpono"}
    numbers = columns_by_arm(table.results)
    recalls = tuple(f"blog_usgov R@{k}" for k in (1, 5, 10))
    pairs = tuple(f"plain_sentences {name}" for name in ("STS-B dev", "SICK-R test"))
    for name in ("random vectors", "BM25", "start encoder", "whitening", "word_vectors"):
        assert numbers[name] == recalls + pairs
    assert numbers["bm25_rescored"] == numbers["bm25_product_thesis"] == recalls
    assert numbers["conpono"] == (*recalls, "blog_usgov seconds")
    assert len(numbers["infocse_aux"]) == 7
    differences = {row.system for row in table.differences}
    assert differences == {"random vectors", "BM25", *rows, *trained}
    check_differences(table)
    for one in table.results:
        seconds = one.column.endswith(" seconds") and not one.error
        assert (one.seconds > 0) == (seconds or (one.arm in trained and not one.error))
    assert results_of(asked) == list(table.results)
    assert computed() == []


def check_differences(table: ExperimentTable) -> None:
    """Each difference is that of the arm and its baseline, inside its interval."""
    arms = {arm.label: arm for arm in table.what.arms}
    columns = {column.heading: column for column in table.what.columns}
    assert table.differences
    for row in table.differences:
        column = columns[row.factors["column"]]
        own, base = (table.by_seed(arms[name], column) for name in (row.system, row.baseline))
        assert row.value == pytest.approx(own[1] - base[1], abs=1e-9)
        assert row.low <= row.value <= row.high


def test_rows_without_a_gradient_differ_and_take_no_seconds(data: Path):
    whole = {"corpora": ["blog_usgov", "plain_sentences"], "candidates": 1_000}
    table = table_of(ours(data, "methods-small", methods=list(WITHOUT_TRAINING), **whole))
    assert {(one.error, one.seconds) for one in table.results} == {("", 0.0)}
    scores = {one.arm: one.result for one in table.results if one.column == "blog_usgov R@5"}
    assert scores["BM25"] != scores["bm25_product_thesis"]
    for label in ("blog_usgov R@5", "plain_sentences STS-B dev"):
        (column,) = (one for one in table.what.columns if one.label == label)
        arms = (arm for arm in table.what.arms if arm.label in WITHOUT_TRAINING)
        values = {value for arm in arms for value in table.by_seed(arm, column).values()}
        assert len(values) > len(WITHOUT_TRAINING) / 2


def test_static_vectors_have_no_first_token(data: Path):
    asked = ours(
        data,
        "methods-small",
        corpora=["blog_usgov"],
        encoder="static",
        methods=["cls_before_pooler"],
    )
    errors = {one.arm: one.error for one in results_of(asked) if one.error}
    assert set(errors) == {"cls_before_pooler"}
    assert re.search(pattern("E001 static 'mean' 'cls_before_pooler'"), errors.popitem()[1])


def test_rows_after_a_condenser_stage_share_it_and_both_have_its_seconds(data: Path):
    def last_of(*methods: str) -> dict[str, ArmResult]:
        asked = ours(data, "methods-small", corpora=["blog_usgov"], methods=list(methods))
        return {one.arm: one for one in results_of(asked)}

    rows = last_of("infocse_aux", "infocse_aux_random_head", "simcse")
    stages = last_runs(Store.default())[0].stages
    trained = {one.key for one in stages if one.stage == "train_encoder"}
    assert len(trained) == 4, "one stage for both, and one training for each row"
    assert rows["infocse_aux"].notes == rows["infocse_aux_random_head"].notes != ()
    assert rows["simcse"].notes == ()
    both, alone = last_of("infocse_aux", "rtd_mlm"), last_of("rtd_mlm")
    assert both["rtd_mlm"].seconds == alone["rtd_mlm"].seconds > 0
    assert both["infocse_aux"].seconds > 0


def test_variants_of_self_training_differ(data: Path):
    names = ["infocse_idc", "infocse_idc_kmeans", "infocse_idc_dot"]
    whole = {"corpora": ["blog_usgov"], "candidates": 1_000}
    results = results_of(ours(data, "methods-small", methods=names, **whole))
    assert {one.error for one in results} == {""}
    scores = {one.arm: one.result for one in results if one.column == "blog_usgov R@5"}
    assert len({scores[name].digest for name in names}) == len(names)
    stages = last_runs(Store.default())[0].stages
    assert {"cluster_by_kmeans", "cluster_sentences"} <= {one.stage for one in stages}
    rounds = {one.key for one in stages if one.stage == "train_encoder"}
    assert len(rounds) == 2 + 3, "an initialiser for each similarity, and a round for each row"


def test_each_corpus_of_methods_small_has_a_start_encoder_of_its_own(data: Path):
    asked = ours(
        data, "methods-small", corpora=["blog_usgov", "plain_sentences"], methods=["simcse"]
    )
    results_of(asked)
    starts = [one for one in last_runs(Store.default())[0].stages if one.stage == "start_encoder"]
    assert len({one.key for one in starts}) == 2


def test_a_refused_corpus_is_the_error_of_its_own_cells(
    data: Path, monkeypatch: pytest.MonkeyPatch
):
    documents_of = running.documents_of

    def refused(config):
        if "blog_usgov" in config.source:
            raise EmptyCorpusError("no text")
        return documents_of(config)

    monkeypatch.setattr(running, "documents_of", refused)
    asked = ours(
        data, "methods-small", corpora=["blog_usgov", "plain_sentences"], methods=["simcse"]
    )
    errors = errors_of(results_of(asked))
    assert set(errors) == {
        (arm, "blog_usgov") for arm in ("random vectors", "BM25", "start encoder", "simcse")
    }
    assert set(errors.values()) == {"E101"}
    few_shot = results_of(ours(data, "few-shot", methods=["conpono"], counts=[4, 8]))
    assert {one.error for one in few_shot} == {"E101 no text"}
    assert {one.arm for one in few_shot} >= {f"conpono, {n} labels" for n in (0, 4, 8)}


def test_few_shot_has_every_method_at_every_number_of_labels(data: Path, tmp_path: Path):
    asked = ours(data, "few-shot", methods=["conpono", "infocse_idc", "simcse"], counts=[4, 8])
    table = table_of(asked)
    errors = {arm: code for (arm, _), code in errors_of(table.results).items()}
    assert errors == {f"simcse, {n} labels": "E303" for n in (0, 4, 8)}
    curves = {f"{name}, {n} labels" for name in ("conpono", "infocse_idc") for n in (0, 4, 8)}
    plus = {f"{name}, {n} labels" for name in ("no method", "infocse_plus") for n in (4, 8)}
    fixed = {"random vectors", "BM25", "start encoder"}
    assert set(columns_by_arm(table.results)) == curves | plus | fixed
    check_differences(table)
    seconds = {one.arm: one.seconds for one in table.results if not one.error}
    assert {arm for arm, of in seconds.items() if of > 0} == curves | plus
    folder = write_experiment(table, tmp_path / "out")
    assert (folder / "table.png").read_bytes()[:4] == b"\x89PNG"
    rows = json.loads((folder / "table.json").read_text())["rows"]
    points = {
        (row["factors"]["curve"], row["factors"]["x"])
        for row in rows
        if "curve" in row.get("factors", {}) and "value" in row
    }
    assert points == {
        *((name, n) for name in ("conpono", "infocse_idc") for n in ("0", "4", "8")),
        *((name, n) for name in ("no method", "infocse_plus") for n in ("4", "8")),
    }


def test_wikitext_is_a_file_of_the_user(data: Path, tmp_path: Path):
    own = Path(copytree(data, tmp_path / "own"))
    texts = [f"It rains in {k}. It snows in {k}, as it did before." for k in range(20)]
    pq.write_table(pa.table({"text": texts}), own / "wikitext_103.parquet")
    asked = Reproduction(experiment="hicl.t5", data=str(own), encoder="transformer")
    assert "wikitext_103.parquet" not in asked.absent_files()
    trial = trial_of(asked, Arm(label="a"))
    read = running.texts_of(trial, trial.base, "wikitext_103").sentences
    assert len(TokenCorpus.open(artifact_path(read))) == 40
