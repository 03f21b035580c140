"""Settings and corpora that a method cannot use are refused, as early as they are known.

Settings and encoder are checked before any stage, in a dry run as in a run. Documents are checked
before the first training step.
"""

import json
import logging
import re
from pathlib import Path

import pytest

from flows.cli.settings import settings
from flows.train_method import train_once
from sentemb_core.annotation import faiss_wheels
from sentemb_core.config.methods import METHOD_NAMES, METHODS
from sentemb_core.config.run import MethodRun
from sentemb_core.errors import EmptyPairsError, NoNegativesError
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs
from sentemb_core.types import Json
from tasks.checks import check_run
from tests.flows.corpora import bodies_run, probed, write_corpus
from tests.messages import pattern

pytestmark = pytest.mark.usefixtures("home")

COLUMNS = {
    "corpus.id_column": "id",
    "corpus.sentences_column": "sentences",
    "corpus.counterpart_column": "title",
}
HEAD = "method.random_head=true"
CONDENSER = "initialiser.method=condenser"
LAYERS = "encoder.layers=4"


@pytest.mark.parametrize(
    ("method", "given", "values"),
    [
        ("consert", ("chunk=8", 'method.second=["adversarial"]'), "E303 consert chunk 8"),
        ("consert", ('method.second=["adversarial", "shuffle"]',), "E303 adversarial, shuffle"),
        ("sncse", ("encoder.max_length=12",), "E303 12 encoder.max_length"),
        ("hicl", ('method.base={"name": "sncse"}', "method.segment=10"), "E303 10 method.segment"),
        ("simcse", ("method.mlm=0.1", "method.mask_rate=0"), "E303 0.0 .15"),
        ("declutr", ("method.mask_rate=0", "encoder.positions=600"), "E303 0.0 .15"),
        (
            "condenser",
            ("method.mask_rate=0",),
            "E001 training.method.mask_rate greater than 0 found 0",
        ),
        ("declutr", ("encoder.positions=32",), "E303 declutr 32 to 512 30 shortest"),
        ("infocse_aux", (HEAD, "method.skip_from=6"), "E303 skip_from 6 2 layers"),
        ("infocse_aux", (), "E303 head random_head=true"),
        ("diffcse", (), "E303 head random_head=true"),
        (
            "infocse_aux",
            (CONDENSER, "initialiser.method.head_layers=1"),
            "E303 infocse_aux 1 layer head_layers 2 training.method.head_layers=1",
        ),
        (
            "infocse_aux",
            (CONDENSER, "method.skip_from=1", LAYERS),
            "E303 infocse_aux layer 2 skip_from 1 training.method.skip_from=2",
        ),
        (
            "rtd_mlm",
            (CONDENSER, "initialiser.method.skip_from=1", LAYERS),
            "E303 rtd_mlm layer 1 skip_from 2 training.method.skip_from=1",
        ),
        ("simcse", ("batch_size=1",), "E301 training.batch_size 2 1"),
        ("infocse_idc", ("method.batches=cluster", "batch_size=3"), "E301 batch_size 3 4"),
        (
            "ict",
            ("method.context_tokens=8",),
            "E001 training.method.context_tokens greater than or equal to 16 found 8",
        ),
        (
            "ict",
            ("encoder.max_length=8", "encoder.positions=10"),
            "E303 16 context_tokens 288 10 positions",
        ),
        ("conpono", ("encoder.dim=30",), "E001 4 30"),
        ("conpono", ("encoder.name=static", "encoder.pooling=cls"), "E001 static 'mean' 'cls'"),
        pytest.param(
            "conpono",
            ("encoder.name=minilm", "encoder.max_length=1000"),
            "E001 max_length 512 1000",
            marks=pytest.mark.weights,
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused_before_any_stage(
    call, corpus_file: Path, method: str, given: tuple[str, ...], values: str
):
    full = ("encoder.", "initialiser.")  # any other setting is one of the training
    named = [one if one.startswith(full) else f"training.{one}" for one in given]
    options = [word for setting in named for word in ("--set", setting)]
    run = ("run", str(corpus_file), "--encoder", "transformer")
    for mode in (["--dry-run"], []):
        code, output, errors = call(
            *run, "--set", f"training.method.name={method}", *options, *mode
        )
        assert (code, output) == (2, "")
        assert errors.count("error E") == 1
        error, refusal, found = errors.splitlines()[-1].split(maxsplit=2)
        assert (error, refusal) == ("error", values.split()[0])
        assert re.search(pattern(values.partition(" ")[2]), found)
    assert last_runs(Store.default()) == []


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_every_method_fits_a_transformer_with_its_defaults(corpus_file: Path, method: str):
    first = {"initialiser.method": "condenser"} if METHODS[method].encoder == "condensed" else {}
    given = COLUMNS | first | {"encoder.name": "transformer", "training.method.name": method}
    check_run(settings(None, given | {"corpus.source": str(corpus_file)}, []))


def test_a_check_logs_no_warning_and_takes_a_queue_with_a_gradient_cache(
    corpus_file: Path, caplog: pytest.LogCaptureFixture
):
    """A queue's keys are read by a copy without gradients, outside of the cache."""
    given = COLUMNS | {"corpus.source": str(corpus_file), "encoder.name": "transformer"}
    for options in (
        ["training.method.name=esimcse", "training.chunk=8"],
        ["training.method.name=declutr"],
    ):
        check_run(settings(None, given, options))
    assert not caplog.records
    assert logging.getLogger("sentemb_core").isEnabledFor(logging.WARNING)


@pytest.fixture(scope="module")
def one_sentence_each(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus of these tests with the first sentence of every document alone."""
    whole = write_corpus(tmp_path_factory.mktemp("corpus") / "whole.jsonl")
    rows = [json.loads(line) for line in whole.read_text("utf-8").splitlines()]
    return written(whole.with_name("short.jsonl"), [cut(row, 1) for row in rows])


@pytest.fixture(scope="module")
def one_document_of_two(one_sentence_each: Path) -> Path:
    """45 documents, of which one has two sentences: more than the least share."""
    rows = [json.loads(line) for line in one_sentence_each.read_text("utf-8").splitlines()]
    longer = rows[0] | {"sentences": [*rows[0]["sentences"], "And another word."]}
    return written(one_sentence_each.with_name("one.jsonl"), [longer, *rows[1:45]])


def cut(row: Json, sentences: int) -> Json:
    return row | {"sentences": row["sentences"][:sentences]}


def written(path: Path, rows: list[Json]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def run_on(source: Path, method: str, *more: str) -> MethodRun:
    """One step of a small transformer, which would leave a checkpoint."""
    given = COLUMNS | {"corpus.source": str(source), "training.method.name": method}
    small = ("encoder.name=transformer", "encoder.dim=16", "training.steps=1")
    config = settings(None, given, [*small, "training.checkpoint_every=1", *more])
    assert isinstance(config, MethodRun)
    return config


def refused_by(config: MethodRun, values: str) -> tuple[str, list[str]]:
    """The refusal of a run with these values, and the stages before it."""
    with probed() as log, pytest.raises((EmptyPairsError, NoNegativesError)) as refusal:
        train_once(config, lambda row: None)
    assert re.match(pattern(values), str(refusal.value))
    return str(refusal.value), [used.stage for used in log.run.stages]


UNSPLIT = ("corpus.splitter=none",)
BARE = (*UNSPLIT, "corpus.counterpart_column=null")
READ = ["read_corpus"]
"""Without counterparts no data validates a method; one that pairs sentences is refused before."""


@pytest.mark.parametrize(
    ("method", "options", "values", "stages"),
    [
        ("conpono", (), "E102 60 of 60 splitter", []),
        ("simcse", BARE, "E102 halves 0 --counterpart-column", READ),
        *(
            (method, (*columns, *more), f"E102 {named} 60 of 60", READ)
            for columns in (UNSPLIT, BARE)
            for method, more, named in (
                *((name, (), name) for name in ("conpono", "ict", "cpc")),
                ("simcse", ("initialiser.method=conpono",), "conpono"),
            )
        ),
    ],
)
def test_documents_of_one_sentence_are_refused_as_early_as_possible(
    one_sentence_each: Path, method: str, options: tuple[str, ...], values: str, stages: list[str]
):
    assert refused_by(run_on(one_sentence_each, method, *options), values)[1] == stages


@pytest.mark.parametrize("splitter", ["regex", "none"])
@pytest.mark.parametrize("column", ["title", "null"])
def test_single_sentences_are_refused_with_everything_they_need(
    one_sentence_each: Path, splitter: str, column: str
):
    """A user who changes the splitter and the method meets no second refusal."""
    options = f"corpus.splitter={splitter}", f"corpus.counterpart_column={column}"
    message, _ = refused_by(run_on(one_sentence_each, "conpono", *options), "E102 simcse")
    for option in ("--counterpart-column", "--labels"):
        assert (option in message) is (column == "null")


@pytest.mark.parametrize(
    ("source", "method", "values"),
    [
        ("corpus_file", "declutr", "E102 declutr 0 of 60 longest"),
        ("one_document_of_two", "conpono", "E301 1 of 45"),
    ],
)
def test_documents_that_a_method_cannot_learn_from_are_refused_before_a_step(
    request: pytest.FixtureRequest, source: str, method: str, values: str
):
    config = run_on(request.getfixturevalue(source), method, "corpus.splitter=none")
    check_run(config)
    _, stages = refused_by(config, values)
    assert {*stages} >= {"tokenise_sentences", "validate_encoder"}
    assert "train_encoder" not in stages
    assert not [*Store.default().root.rglob("step-*")]


def test_inverse_cloze_that_leaves_the_sentence_in_its_context_learns_from_single_ones(
    one_sentence_each: Path,
):
    config = run_on(one_sentence_each, "ict", "corpus.splitter=none", "training.method.removal=0")
    assert "train_encoder" in bodies_run(train_once, config, lambda row: None)


@pytest.mark.server
def test_rounds_need_documents_whatever_initialises_them(
    prefect_server, call, one_sentence_each: Path
):
    columns = ("--id-column", "id", "--sentences-column", "sentences", "--splitter", "none")
    code, _, errors = call("run", str(one_sentence_each), *columns)
    assert code == 3
    assert re.search(pattern("E102 infocse_idc 60 of 60"), errors)


def test_no_initialiser_trains_for_a_method_that_cannot_learn_from_the_documents(
    corpus_file: Path,
):
    config = run_on(corpus_file, "declutr", "initialiser.method=simcse", "initialiser.steps=2")
    _, stages = refused_by(config, "E102 declutr 0 of 60 longest")
    assert "train_encoder" not in stages


@pytest.mark.parametrize("plan", [["--dry-run"], []])
@pytest.mark.parametrize(
    ("wheels", "options", "values"),
    [
        (2, (), "E001 faiss-cpu and faiss-gpu Uninstall"),
        (0, ("--set", "annotation.clustering=kmeans"), "E001 k-means neither 'partition'"),
    ],
)
def test_two_faiss_wheels_or_none_for_k_means_are_refused_before_any_stage(
    call, corpus_file: Path, monkeypatch, plan: list[str], wheels: int, options, values: str
):
    monkeypatch.setattr(faiss_wheels, "distributions", lambda name: range(wheels))
    columns = ("--id-column", "id", "--sentences-column", "sentences")
    code, _, errors = call("run", str(corpus_file), *columns, *options, *plan)
    assert code == 2
    assert re.search(pattern(values), errors)
    assert last_runs(Store.default()) == []


@pytest.mark.parametrize(
    "verb",
    [
        "demo",
        "reproduce few-shot",
        "reproduce methods-small --data data --corpora blog_usgov",
        "benchmark minilm --tasks sts12 --data DATA",
        "compare minilm BM25 --tasks cranfield --data DATA",
    ],
)
def test_no_verb_runs_with_two_faiss_wheels(call, monkeypatch, tmp_path: Path, verb: str):
    for file in ("sts_sts12", "ir_cranfield_docs", "ir_cranfield_queries", "ir_cranfield_qrels"):
        (tmp_path / f"{file}.parquet").touch()
    monkeypatch.setattr(faiss_wheels, "distributions", lambda name: {name})
    monkeypatch.setattr("flows.cli.execute.served", lambda *_: pytest.fail("it began"))
    code, output, errors = call(*verb.replace("DATA", str(tmp_path)).split())
    assert (code, output) == (2, "")
    assert errors.startswith("error E001 ")
    assert re.search(pattern("faiss-cpu and faiss-gpu"), errors)


def test_a_partition_needs_no_faiss(corpus_file: Path, monkeypatch):
    monkeypatch.setattr(faiss_wheels, "distributions", lambda name: ())
    check_run(settings(None, {"corpus.source": str(corpus_file)}, []))
