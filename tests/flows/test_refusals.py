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
from sentemb_core.config.methods import METHOD_NAMES
from sentemb_core.config.run import MethodRun
from sentemb_core.errors import EmptyPairsError, NoNegativesError
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs, recording
from sentemb_core.types import Json
from tasks.checks import check_run, entry_of
from tasks.execution import without_prefect
from tests.flows.corpora import write_corpus

pytestmark = pytest.mark.usefixtures("home")

COLUMNS = {
    "corpus.id_column": "id",
    "corpus.sentences_column": "sentences",
    "corpus.counterpart_column": "title",
}
HEADED = ("training.method.random_head=true",)
BY_SNCSE = ('training.method.base={"name": "sncse"}', "training.method.segment=10")
TWO_LAYERED = ("initialiser.method=condenser", "initialiser.method.head_layers=1")


@pytest.mark.parametrize(
    ("method", "given", "refusal"),
    [
        (
            "consert",
            ("training.chunk=8", 'training.method.second=["adversarial"]'),
            "E303",
        ),
        (
            "consert",
            ('training.method.second=["adversarial", "shuffle"]',),
            "E303",
        ),
        ("sncse", ("encoder.max_length=12",), "E303"),
        ("hicl", BY_SNCSE, "E303"),
        (
            "simcse",
            ("training.method.mlm=0.1", "training.method.mask_rate=0"),
            "E303",
        ),
        (
            "declutr",
            ("training.method.mask_rate=0", "encoder.positions=600"),
            "E303",
        ),
        (
            "condenser",
            ("training.method.mask_rate=0",),
            r"E001 training\.method\.mask_rate.*greater than 0",
        ),
        ("declutr", ("encoder.positions=32",), "E303"),
        (
            "infocse_aux",
            (*HEADED, "training.method.skip_from=6"),
            "E303",
        ),
        ("infocse_aux", (), "E303"),
        ("diffcse", (), "E303"),
        (
            "infocse_aux",
            TWO_LAYERED,
            "E303",
        ),
        (
            "infocse_aux",
            ("initialiser.method=condenser", "training.method.skip_from=1", "encoder.layers=4"),
            "E303",
        ),
        (
            "rtd_mlm",
            ("initialiser.method=condenser", "initialiser.method.skip_from=1", "encoder.layers=4"),
            "E303",
        ),
        ("simcse", ("training.batch_size=1",), "E301"),
        (
            "infocse_idc",
            ("training.method.batches=cluster", "training.batch_size=3"),
            "E301",
        ),
        (
            "ict",
            ("training.method.context_tokens=8",),
            r"E001 training\.method\.context_tokens.*greater than or equal to 16",
        ),
        (
            "ict",
            ("encoder.max_length=8", "encoder.positions=10"),
            "E303",
        ),
        ("conpono", ("encoder.dim=30",), "E001"),
        (
            "conpono",
            ("encoder.name=static", "encoder.pooling=cls"),
            "E001",
        ),
        pytest.param(
            "conpono",
            ("encoder.name=minilm", "encoder.max_length=1000"),
            "E001",
            marks=pytest.mark.weights,
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused_before_any_stage(
    call, corpus_file: Path, method: str, given: tuple[str, ...], refusal: str
):
    options = [word for setting in given for word in ("--set", setting)]
    run = ("run", str(corpus_file), "--encoder", "transformer")
    for mode in (["--dry-run"], []):
        code, output, errors = call(
            *run, "--set", f"training.method.name={method}", *options, *mode
        )
        assert (code, output) == (2, "")
        assert errors.count("error E") == 1
        assert errors.splitlines()[-1].split()[1] == refusal.split()[0]
    assert last_runs(Store.default()) == []


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_every_method_fits_a_transformer_with_its_defaults(corpus_file: Path, method: str):
    first = {"initialiser.method": "condenser"} if entry_of(method).continues else {}
    given = COLUMNS | first | {"encoder.name": "transformer", "training.method.name": method}
    check_run(settings(None, given | {"corpus.source": str(corpus_file)}, []))


def test_a_queue_goes_together_with_a_gradient_cache(corpus_file: Path):
    """Its keys are read by a copy without gradients, outside of the cache."""
    given = COLUMNS | {"corpus.source": str(corpus_file), "encoder.name": "transformer"}
    check_run(settings(None, given, ["training.method.name=esimcse", "training.chunk=8"]))


def test_a_check_tells_no_warning_that_the_training_will_tell(corpus_file: Path, caplog):
    given = COLUMNS | {"corpus.source": str(corpus_file), "encoder.name": "transformer"}
    check_run(settings(None, given, ["training.method.name=declutr"]))
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
    """Of 45 documents one has a neighbour for its sentence: more than the share that is asked."""
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


def test_documents_of_one_sentence_are_refused_as_they_are_read(one_sentence_each: Path):
    with (
        without_prefect(Store.default()),
        recording(Store.default(), "one", [], {}) as log,
        pytest.raises(EmptyPairsError, match="E102"),
    ):
        train_once(run_on(one_sentence_each, "conpono"), lambda row: None)
    assert log.run.stages == []


@pytest.mark.parametrize("splitter", ["regex", "none"])
@pytest.mark.parametrize("column", ["title", "null"])
def test_sentences_alone_are_told_all_that_they_want(
    one_sentence_each: Path, splitter: str, column: str
):
    """Who only changes the splitter and the method meets no second refusal."""
    options = f"corpus.splitter={splitter}", f"corpus.counterpart_column={column}"
    with (
        without_prefect(Store.default()),
        recording(Store.default(), "one", [], {}),
        pytest.raises(EmptyPairsError, match="E102") as refusal,
    ):
        train_once(run_on(one_sentence_each, "conpono", *options), lambda row: None)
    assert ("--counterpart-column" in str(refusal.value)) is (column == "null")


@pytest.mark.parametrize(
    ("source", "method", "error", "refusal"),
    [
        (
            "corpus_file",
            "declutr",
            EmptyPairsError,
            "E102",
        ),
        ("one_document_of_two", "conpono", NoNegativesError, "E301"),
    ],
)
def test_documents_that_a_method_cannot_learn_from_are_refused_before_a_step(
    request: pytest.FixtureRequest, source: str, method: str, error: type[Exception], refusal: str
):
    config = run_on(request.getfixturevalue(source), method, "corpus.splitter=none")
    check_run(config)
    with (
        without_prefect(Store.default()),
        recording(Store.default(), "one", [], {}) as log,
        pytest.raises(error, match=refusal),
    ):
        train_once(config, lambda row: None)
    stages = {used.stage for used in log.run.stages}
    assert stages >= {"tokenise_sentences", "validate_encoder"}
    assert "train_encoder" not in stages
    assert not [*Store.default().root.rglob("step-*")]


@pytest.mark.parametrize(
    ("method", "more", "named"),
    [
        *((name, (), name) for name in ("conpono", "ict", "cpc")),
        ("simcse", ("initialiser.method=conpono",), "conpono"),
    ],
)
def test_a_method_that_pairs_sentences_says_so_before_anything_is_drawn(
    one_sentence_each: Path, method: str, more: tuple[str, ...], named: str
):
    """Without counterparts, too, where nothing could judge it either."""
    bare = ("corpus.splitter=none", "corpus.counterpart_column=null")
    for given in (("corpus.splitter=none",), bare):
        with (
            without_prefect(Store.default()),
            recording(Store.default(), "one", [], {}) as log,
            pytest.raises(EmptyPairsError, match=r"E102"),
        ):
            train_once(run_on(one_sentence_each, method, *given, *more), lambda row: None)
        assert {used.stage for used in log.run.stages} == {"read_corpus"}


def test_inverse_cloze_that_leaves_the_sentence_in_its_context_learns_from_single_ones(
    one_sentence_each: Path,
):
    config = run_on(one_sentence_each, "ict", "corpus.splitter=none", "training.method.removal=0")
    with without_prefect(Store.default()), recording(Store.default(), "one", [], {}) as log:
        train_once(config, lambda row: None)
    assert "train_encoder" in {used.stage for used in log.run.stages}


def test_rounds_need_documents_whatever_initialises_them(call, one_sentence_each: Path):
    columns = ("--id-column", "id", "--sentences-column", "sentences", "--splitter", "none")
    code, _, said = call("run", str(one_sentence_each), *columns)
    assert (code, "E102" in said) == (3, True), said


def test_sentences_that_nothing_judges_are_told_what_would(one_sentence_each: Path):
    bare = ("corpus.splitter=none", "corpus.counterpart_column=null")
    refusal = "E102"
    with (
        without_prefect(Store.default()),
        recording(Store.default(), "one", [], {}),
        pytest.raises(EmptyPairsError, match=refusal),
    ):
        train_once(run_on(one_sentence_each, "simcse", *bare), lambda row: None)


def test_no_initialiser_trains_for_a_method_that_cannot_learn_from_the_documents(
    corpus_file: Path,
):
    config = run_on(corpus_file, "declutr", "initialiser.method=simcse", "initialiser.steps=2")
    with (
        without_prefect(Store.default()),
        recording(Store.default(), "one", [], {}) as log,
        pytest.raises(EmptyPairsError, match="E102"),
    ):
        train_once(config, lambda row: None)
    assert "train_encoder" not in {used.stage for used in log.run.stages}


@pytest.mark.parametrize("plan", [["--dry-run"], []])
@pytest.mark.parametrize(
    ("wheels", "options", "refusal"),
    [
        (2, (), "E001"),
        (0, ("--set", "annotation.clustering=kmeans"), "E001"),
    ],
)
def test_two_faiss_wheels_or_none_for_k_means_are_refused_before_any_stage(
    call, corpus_file: Path, monkeypatch, plan: list[str], wheels: int, options, refusal: str
):
    monkeypatch.setattr(faiss_wheels, "_version", lambda name: "1" if wheels else None)
    columns = ("--id-column", "id", "--sentences-column", "sentences")
    code, _, said = call("run", str(corpus_file), *columns, *options, *plan)
    assert (code, bool(re.search(refusal, said))) == (2, True), said
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
    monkeypatch.setattr(faiss_wheels, "_version", lambda name: "1")
    monkeypatch.setattr("flows.cli.execute.served", lambda _: pytest.fail("it began"))
    code, said, refusal = call(*verb.replace("DATA", str(tmp_path)).split())
    assert (code, said) == (2, "")
    assert refusal.startswith("error E001")


def test_a_partition_needs_no_faiss(corpus_file: Path, monkeypatch):
    monkeypatch.setattr(faiss_wheels, "_version", lambda name: None)
    check_run(settings(None, {"corpus.source": str(corpus_file)}, []))
