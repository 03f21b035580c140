"""`python -m flows` before anything runs: refusals, dry runs, and which run is resumed."""

import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NoReturn
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from flows.__main__ import app
from flows.cli.run import plan_of
from flows.cli.settings import settings
from flows.infocse_idc import self_train
from flows.pipeline import documents_of
from sentemb_core.encoder.checkpoint import save_encoder
from sentemb_core.errors import (
    BadDataError,
    RecipeError,
    RegistryError,
    SentembError,
    StorageError,
    UnreadableSourceError,
    UsageError,
)
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs, read_run, recording, write_run
from sentemb_core.training.checkpoint import Checkpoint, save_checkpoint
from sentemb_core.types import Json
from tasks.checks import check_run
from tasks.execution import without_prefect
from tasks.report import Outcome
from tests.encoder.published import t5
from tests.flows.corpora import tiny_run, write_corpus
from tests.repository import ROOT
from tests.tasks.made import outcome
from tests.tiny import static

COLUMNS = ("--id-column", "id", "--sentences-column", "sentences")
"""What `corpus_file` has."""


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path):
    with mock.patch.dict(os.environ, {"SENTEMB_HOME": str(tmp_path / "home")}):
        yield


@pytest.fixture
def dry_run(call, corpus_file):
    """Exit code, JSON and stderr of a dry run on the corpus."""

    def shown(*options: str) -> tuple[int, str, str]:
        encoder = () if "--encoder" in options else ("--encoder", "static")
        return call("run", str(corpus_file), *COLUMNS, *encoder, "--dry-run", "--json", *options)

    return shown


@pytest.fixture
def no_server(monkeypatch):
    monkeypatch.setattr("flows.cli.execute.served", lambda *_: nullcontext())


@pytest.mark.parametrize(
    ("arguments", "code", "values"),
    [
        ("rnu", "E001", ['"run"']),
        ("run CORPUS --stpes 3", "E001", ["--steps"]),
        ("run CORPUS --steps 0", "E001", ['"0"', "--steps", ">= 1"]),
        ("run CORPUS --initialiser simcsee", "E001", ["(--initialiser)", "'simcse'"]),
        ("run CORPUS --set training.batch_size=1", "E301", ["training.batch_size: "]),
        ("run CORPUS --config nosuch.toml", "E001", ["nosuch.toml"]),
        ("run CORPUS --config flows", "E001", ["flows"]),
        ("run CORPUS --seed -1", "E001", ["--seed", ">= 0"]),
        ("run CORPUS --set =3", "E001", ["--set", "'=3'"]),
        ("run CORPUS --encoder nosuch", "E401", ["models:/NAME@champion", "HF_HUB_OFFLINE=0"]),
        ("run CORPUS --encoder nosuch COLUMNS --dry-run", "E401", ["HF_HUB_OFFLINE=0"]),
        ("run CORPUS --encoder minlm", "E401", ["'minilm'"]),
        ("run CORPUS --encoder MiniLM", "E401", ["'minilm'"]),
        ("run CORPUS --encoder ./nosuch", "E401", ["./nosuch"]),
        ("run CORPUS --encoder models:/x@champion", "E702", ["models:/x@champion"]),
        ("run CORPUS --encoder CORPUS", "E401", ["documents.jsonl"]),
        ("run CORPUS --encoder flows", "E401", ["flows"]),
        (
            "run CORPUS --method consert --encoder minilm --set training.method.first=shuffle",
            "E001",
            ["""--set 'training.method.first=["shuffle"]'"""],
        ),
        ("run", "E001", ["python -m flows run documents.jsonl"]),
        ("run --text-column body", "E001", ["python -m flows run documents.jsonl"]),
        ("run nosuch.jsonl", "E103", ["nosuch.jsonl"]),
        ("run CORPUS --text-column boddy", "E104", ["'boddy'", "'title'"]),
        ("run CORPUS --id-column idd --dry-run", "E104", ["'idd'", "'id'"]),
        ("run CORPUS --id-column idd --dry-run --json", "E104", ["'idd'", "'id'"]),
        ("run CORPUS --encoding utf-88", "E001", ["utf-88"]),
        ("run CORPUS STATIC --method hicl", "E303", ["hicl", "--encoder minilm"]),
        (
            "run CORPUS --method hicl --encoder static --dry-run",
            "E303",
            ["hicl", "--encoder minilm"],
        ),
        (
            "run CORPUS --encoder static --method conpono --initialiser condenser",
            "E303",
            ["condenser"],
        ),
        ("run CORPUS --method diffcse --encoder transformer", "E303", ["--initialiser condenser"]),
        ("run CORPUS --method rtd_mlm --encoder transformer", "E303", ["random_head=true"]),
        ("run CORPUS --method fine_tune", "E001", ["--labels", "--counterpart-column"]),
        ("run CORPUS --cycles 2", "E001", ["--labels", "doc_id", "counterpart"]),
        ("run CORPUS --labels nosuch.csv", "E103", ["nosuch.csv"]),
        ("run CORPUS --labels CORPUS", "E104", ["'doc_id'", "['id', 'title', 'sent"]),
        (
            "reproduce mutual.t1 --methods simcse",
            "E001",
            ["--methods", "methods-small", "few-shot"],
        ),
        ("reproduce methods-small --counts 9", "E001", ["--counts", "few-shot"]),
        ("reproduce few-shot --counts 0", "E001", ["counts.0", " 2; found 0"]),
        ("reproduce few-shot --preset paper", "E001", ["--preset"]),
        ("reproduce mutual.t11 --steps 9", "E001", ["'mutual.t11'", "'mutual.t1'"]),
        ("reproduce few-shott", "E001", ["'few-shott'", "'few-shot'"]),
        ("gc --keep-runs -1", "E001", ["--keep-runs", ">= 0"]),
        ("gc extra", "E001", ["`gc`", "extra", "`python -m flows gc --help`"]),
        ("serve --port 99999", "E001", ["--port", "<= 65535"]),
        ("resume", "E001", ["failed", "killed"]),
        ("status nosuch", "E001", ["'nosuch'"]),
        ("report", "E001", ["completed"]),
        ("lineage abcdef", "E001", ["'abcdef'", " 0 "]),
        ("where /nosuch", "E401", ["/nosuch"]),
        ("where flows", "E401", ["flows"]),
        ("search CORPUS budget --model models:/x@champion", "E001", ["QUERY SOURCE"]),
        ("canary nosuch.parquet --model models:/x@champion", "E001", ["nosuch.parquet"]),
        ("canary flows --model models:/x@champion", "E702", ["models:/x@champion"]),
        ("canary flows --model x", "E702", ["models:/NAME@ALIAS"]),
    ],
)
def test_a_mistake_is_one_line_with_its_code(
    call, corpus_file, arguments: str, code: str, values: list[str]
):
    arguments = arguments.replace("COLUMNS", " ".join(COLUMNS))
    arguments = arguments.replace("STATIC", "--encoder static")
    words = [str(corpus_file) if word == "CORPUS" else word for word in arguments.split()]
    exit_code, out, error = call(*words)
    assert (exit_code, out) == (3 if code in ("E103", "E104") else 2, "")
    assert error.startswith(f"error {code} ")
    assert len(error.splitlines()) == 1
    assert [value for value in values if value not in error] == []


def loaded_by(*arguments: str) -> tuple[set[str], str]:
    """The heavy modules that a call imports, and its stderr."""
    code = (
        "import sys\nfrom flows.__main__ import app\nfrom sentemb_core import console\n"
        "console.run(app, sys.argv[1:])\n"
        "print(*{'prefect', 'mlflow', 'torch', 'flows.fine_tune', 'flows.reproduce'} "
        "& set(sys.modules))"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return set(done.stdout.splitlines()[-1].split()), done.stderr


@pytest.mark.parametrize(
    ("arguments", "modules", "code"),
    [
        ("--help", set(), ""),
        ("settings training --method hicl --encoder minilm --json", set(), ""),
        ("run CORPUS STATIC --method simcse", set(), "E303"),
        ("run CORPUS --text-column boddy", set(), "E104"),
        ("reproduce list --json", set(), ""),
        ("settings", set(), ""),
        ("settings xyz", set(), "E001"),
        ("canary INDEX --model models:/x@champion", set(), "E001 .*sentence.*--by sentence"),
        ("encode CORPUS INDEX --model models:/x@champion", set(), r"E001 .*/index\.parquet"),
        ("where FOLDER", set(), "E401"),
        (
            "run CORPUS STATIC --id-column id --sentences-column sentences --dry-run --json",
            set(),
            "",
        ),
    ],
)
def test_a_verb_imports_only_what_it_needs(
    corpus_file, tmp_path, arguments: str, modules: set[str], code: str
):
    index = tmp_path / "index.parquet"
    pq.write_table(pa.table({"doc_id": ["a"], "embedding": [[1.0]]}), index)
    places = {"CORPUS": str(corpus_file), "INDEX": str(index), "FOLDER": str(tmp_path)}
    arguments = arguments.replace("STATIC", "--encoder static")
    loaded, error = loaded_by(*(places.get(word, word) for word in arguments.split()))
    assert loaded == modules
    assert re.search(code, error)


BEFORE_PREPARE = """
import json, sys
from flows import environment
from flows.__main__ import app
from sentemb_core import console

loaded = {}

def prepare():
    loaded[verb] = "prefect" in sys.modules
    raise KeyboardInterrupt

environment.prepare = prepare
for verb, *words in json.loads(sys.argv[1]):
    console.run(app, [verb, *words])
print(json.dumps(loaded))
"""
"""Runs commands as far as `prepare`; prints by verb whether Prefect was imported before it."""


def test_every_verb_prepares_the_environment_before_it_imports_prefect(corpus_file, tmp_path):
    corpus, model = str(corpus_file), ("--model", "models:/x@champion")
    needed = {
        "run": (corpus,),
        "reproduce": ("mutual.t1", "--data", str(tmp_path)),
        "benchmark": ("minilm",),
        "compare": ("BM25", "minilm"),
        "lineage": ("models:/x@champion",),
        "encode": (corpus, str(tmp_path / "index.parquet"), *model),
        "index": (corpus, str(tmp_path / "index"), *model),
        "search": ("words", corpus, *model),
        "evaluate": (corpus, *model),
        "canary": (str(tmp_path), *model),
        "where": ("models:/x@champion",),
        "rollback": ("x",),
    }
    verbs = [verb for verb in app if not verb.startswith("-") and verb != "settings"]
    asked = json.dumps([(verb, *needed.get(verb, ())) for verb in verbs])
    command = [sys.executable, "-c", BEFORE_PREPARE, asked]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == dict.fromkeys(verbs, False)


@pytest.mark.parametrize(
    "options",
    [
        ["initialiser.method=condenser", "training.method=infocse_aux", "encoder.name=minilm"],
        ["training.method.name=diffcse", "training.method.random_head=true", "encoder.name=minilm"],
        ["training.method=fine_tune", "corpus.counterpart_column=title"],
        ["cycles.max_cycles=0"],
    ],
)
def test_parts_that_fit_are_accepted(corpus_file, options):
    check_run(settings(None, {"corpus.source": str(corpus_file)}, options))


def test_a_static_encoder_in_a_folder_is_refused_like_static(corpus_file, tmp_path):
    save_encoder(static(), tmp_path / "saved", "A card.")
    options = ["training.method=simcse", f"encoder.name={tmp_path / 'saved'}"]
    with pytest.raises(RecipeError, match=r"E303 simcse "):
        check_run(settings(None, {"corpus.source": str(corpus_file)}, options))


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
def test_a_dry_run_refuses_a_decoder(dry_run, tmp_path, kind):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "tokenizer.json").write_text("{}")
    code, _, error = dry_run("--encoder", str(tmp_path))
    assert (code, "E001 " in error, f"'{kind}'" in error) == (2, True, True)


@pytest.mark.parametrize(
    ("method", "code", "error"),
    [
        ("infocse_idc", 0, ""),
        ("simcse", 0, ""),
        ("consert", 2, "E303 consert "),
        ("ict", 2, "E303 "),
    ],
)
def test_a_dry_run_knows_what_a_t5_can_train(dry_run, tmp_path, method, code, error):
    found, _, errors = dry_run("--encoder", str(t5(tmp_path / "t5")), "--method", method)
    assert (found, error in errors) == (code, True)


def test_a_file_of_word_vectors_encodes_and_searches(call, corpus_file, tmp_path):
    words = tmp_path / "words.vec"
    words.write_text("2 3\nbudget 1 0 0\nbenefit 0 1 0\n")
    index = tmp_path / "index.parquet"
    options = ["--model", str(words), "--id-column", "id"]
    assert call("encode", str(corpus_file), str(index), "--by", "sentence", *options)[0] == 0
    code, out, _ = call("search", "budget", str(index), *options[:2], "--json")
    assert (code, "budget" in json.loads(out)[0]["sentence"].lower()) == (0, True)


@pytest.mark.parametrize(
    ("options", "warnings"),
    [
        ("--labels FILE", ["FILE"]),
        ("--labels FILE --cycles 1", []),
        ("--labels FILE --counterpart-column title", ["FILE", "'title'"]),
        ("--counterpart-column title", []),
        ("--counterpart-column title --label-count 10", ["--label-count"]),
        ("--counterpart-column title --label-count 10 --method fine_tune", []),
        ("--counterpart-column title --cycles 0", ["--cycles"]),
        ("--counterpart-column title --cycles 2 --label-count 0", ["--label-count"]),
    ],
)
def test_labels_without_effect_are_warned_of(dry_run, tmp_path, options: str, warnings: list[str]):
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"doc_id": "d1", "counterpart": "a query"}\n')
    code, _, errors = dry_run(*options.replace("FILE", str(labels)).split())
    lines = [line for line in errors.splitlines() if line.startswith("warning ")]
    assert (code, len(lines)) == (0, len(warnings))
    for line, value in zip(lines, warnings, strict=True):
        assert value.replace("FILE", str(labels)) in line


def test_warnings_about_a_preset_are_printed(dry_run):
    code, _, errors = dry_run("--method", "conpono", "--preset", "paper")
    (line,) = [line for line in errors.splitlines() if ".learning_rate" in line]
    assert (code, line.startswith("warning training.learning_rate is 5e-05,")) == (0, True)


@pytest.mark.parametrize("options", ["--method fine_tune", "--cycles 1"])
def test_a_single_label_is_refused_before_anything_runs(call, corpus_file, options: str):
    asked = (*COLUMNS, "--counterpart-column", "title", *options.split(), "--label-count", "1")
    code, _, error = call("run", str(corpus_file), *asked)
    assert code == UsageError.exit_code
    assert re.search(r"labels\.count \(--label-count\).*\b1\b", error)
    assert last_runs(Store.default()) == []


def test_documents_without_ids_are_warned_of_if_their_halves_decide(call, tmp_path):
    file = str(write_corpus(tmp_path / "documents.jsonl", 60))
    asked = ("run", file, "--encoder", "static", "--sentences-column", "sentences", "--dry-run")
    assert "--id-column" in call(*asked)[2].split("warning")[-1]
    for known in (["--id-column", "id"], ["--counterpart-column", "title"]):
        assert "warning" not in call(*asked, *known)[2]
    assert "warning" not in call(*asked, "--set", "register_model=false")[2]


def test_a_dry_run_computes_nothing(dry_run, tmp_path):
    code, out, _ = dry_run()
    plan = json.loads(out)
    assert (code, plan[0]["stage"], plan[0]["verdict"]) == (0, "read_corpus", "MISS")
    assert len(plan) == 11
    assert not (tmp_path / "home" / "objects").exists()


def test_the_table_of_a_dry_run_has_parts_and_counts(call, corpus_file):
    asked = ("run", str(corpus_file), "--encoder", "static", *COLUMNS, "--dry-run")
    lines = call(*asked)[1].splitlines()
    assert any(" after conpono  train_encoder " in line for line in lines)
    assert sum(line.startswith("11 of 11 ") for line in lines) == 1


def test_a_dry_run_logs_guessed_columns(call, tmp_path):
    corpus = tmp_path / "tickets.csv"
    corpus.write_text('id,body\n1,"One here. Two here."\n2,"Three here. Four here."\n')
    code, _, errors = call("run", str(corpus), "--dry-run")
    assert (code, "'body'" in errors, "--id-column id" in errors) == (0, True, True)


def test_a_lost_server_is_reported_without_its_password(call, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://me:word@127.0.0.1:9/api")
    code, _, errors = call("gc")
    assert (code, os.environ["PREFECT_API_URL"]) == (0, "")
    assert "http://***@127.0.0.1:9/api" in errors


def test_the_home_defaults_to_the_working_folder(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENTEMB_HOME", "")
    code, _, error = call("status")
    assert (code, str(tmp_path / ".sentemb") in error) == (2, True)
    assert "python -m flows run documents.jsonl" in error
    assert {found.name for found in tmp_path.iterdir()} <= {".sentemb"}


# Which run is resumed


def ended(run: str, config: Json) -> None:
    """Record a run that a person ended."""
    with pytest.raises(KeyboardInterrupt), recording(Store.default(), run, [], config):
        raise KeyboardInterrupt


def completed(run: str, config: Json) -> None:
    with recording(Store.default(), run, [], config):
        pass


def failed(run: str, config: Json, error: Exception) -> None:
    with pytest.raises(type(error)), recording(Store.default(), run, [], config):
        raise error


def waiting_config(tmp_path: Path, name: str) -> Json:
    return tiny_run(tmp_path / "gone.jsonl", name=name).model_dump(mode="json")


def test_a_failed_run_is_resumed_and_has_no_report(call, corpus_file):
    failed("broken", tiny_run(corpus_file).model_dump(mode="json"), KeyError())
    out = call("status")[1]
    assert re.search("broken .*'tiny'.*failed", out.splitlines()[0])
    assert "python -m flows resume broken" in out
    code, out, _ = call("status", "--json")
    assert (code, json.loads(out)[0]["verdict"]) == (0, "MISS")
    for arguments, value in (
        (["report", "broken"], "python -m flows resume broken"),
        (["report"], "broken (failed)"),
    ):
        code, _, error = call(*arguments)
        assert (code, value in error) == (2, True)


def test_a_run_without_a_given_id_is_named_with_its_error_and_without_secrets(call, tmp_path):
    config = tiny_run(tmp_path / "gone.jsonl").model_dump(mode="json")
    failed("broken", config, KeyError("too few https://me:word@host"))
    first = call("resume")[2].splitlines()[0]
    assert "broken (failed: 'too few https://***@host'" in first
    assert "***" not in call("resume", "broken")[2].splitlines()[0]


def test_only_unfinished_runs_are_resumed(call):
    with recording(Store.default(), "done", [], {}):
        code, _, error = call("resume", "done")
        assert (code, "done" in error) == (2, True)
    code, _, error = call("resume", "done")
    assert (code, "python -m flows status done" in error) == (2, True)


def test_a_run_waits_until_a_later_run_finishes_its_settings(call, corpus_file, tmp_path):
    waiting = tiny_run(corpus_file, name="waiting").model_dump(mode="json")
    ended("first", waiting)
    assert last_runs(Store.default())[0].state == "killed"
    assert "killed" in call("status")[1].splitlines()[0]
    completed("second", tiny_run(corpus_file).model_dump(mode="json"))
    command = "python -m flows resume first"
    lines = call("status")[1].splitlines()
    assert re.search("second .*'tiny'.*completed", lines[0])
    assert re.search(r"first\b.*killed", lines[1])
    assert command in lines[2]
    assert command not in call("status", "second")[1]
    completed("third", waiting)
    assert command not in call("status")[1]
    assert call("resume")[0] == 2


@pytest.mark.parametrize(
    ("error", "order"),
    [
        (BadDataError("too few"), ["first", "zero", "refused"]),
        (RecipeError("no"), ["first", "zero", "refused"]),
        (StorageError("full"), ["refused", "first", "zero"]),
        (
            UnreadableSourceError("d of `datasets` ends in row 3. The network broke off: run it."),
            ["refused", "first", "zero"],
        ),
    ],
)
def test_a_run_that_would_fail_again_is_resumed_last(
    call, tmp_path, error: SentembError, order: list[str]
):
    configs = {name: waiting_config(tmp_path, name) for name in ("zero", "first", "refused")}
    ended("zero", configs["zero"])
    ended("first", configs["first"])
    failed("refused", configs["refused"], error)
    lines = call("resume")[2].splitlines()
    named = [run for line in lines[:2] for run in line.replace("(", " ").split() if run in configs]
    assert named == order
    states = {"zero": "killed", "first": "killed", "refused": "failed"}
    assert all(f"{run} ({states[run]}" in "".join(lines[:2]) for run in order)
    for run in ("zero", "first"):
        completed(f"{run}-again", configs[run])
    first, second, *_ = call("resume")[2].splitlines()
    assert re.search(r"run refused \(failed: E", first)
    assert not {"zero", "first"} & {*second.replace("(", " ").split()}


@pytest.mark.parametrize("step", [0, 1_400])
def test_resume_names_the_stage_and_the_step(call, corpus_file, monkeypatch, step: int):
    config = tiny_run(corpus_file)

    def stop(row: object) -> None:
        raise KeyboardInterrupt

    with without_prefect(), suppress(KeyboardInterrupt):
        self_train(config, stop)
    ended("half", config.model_dump(mode="json"))
    if step:
        work = Store.default().work(f"train_encoder-{plan_of(config).next_key}")
        save_checkpoint(work, step, Checkpoint({"weight": torch.zeros(1)}, ""))
    plan = json.loads(call("status", "--json")[1])
    why = next(status["why"] for status in plan if status["verdict"] == "MISS")
    assert ("1,400" in why, why == "first time") == (bool(step), not step)
    monkeypatch.setattr("flows.cli.run.run_flow", lambda flow: flow())
    monkeypatch.setattr("flows.cli.run.run_of", lambda _: 1 / 0)
    first, line, *_ = call("resume")[2].splitlines()
    assert "half (killed)" in first
    assert line.startswith("8 ")
    assert "train_encoder (after conpono)" in line
    assert f"step {step:,}" in line


def test_a_run_whose_corpus_changed_is_not_resumed(call, tmp_path, monkeypatch):
    config = tiny_run(write_corpus(tmp_path / "documents.jsonl", 60))
    with (
        suppress(KeyboardInterrupt),
        recording(Store.default(), "half", [], config.model_dump(mode="json")),
    ):
        with without_prefect():
            documents_of(config.corpus)
        raise KeyboardInterrupt
    monkeypatch.setattr("flows.cli.run.run_flow", lambda _: 1 / 0)
    assert call("resume")[0] == 1, "it continued"
    write_corpus(tmp_path / "documents.jsonl", 80)
    code, _, error = call("resume")
    assert code == 2
    assert re.search(r"documents\.jsonl .*\bhalf\b", error.splitlines()[-1])


def interrupted_run(monkeypatch, error: BaseException) -> None:
    """Make every flow record a run named half, and end with this error."""

    def flow(config) -> NoReturn:
        ended("half", config.model_dump(mode="json"))
        half = read_run(Store.default(), "half")
        other = {"id": "other", "state": "running", "started": half.started + 9}
        write_run(Store.default(), half.model_copy(update=other))  # of another process
        raise error

    monkeypatch.setattr("flows.cli.run.run_of", flow)
    monkeypatch.setattr("flows.cli.run.begin", lambda config: None)  # plans the flow


@pytest.mark.usefixtures("no_server")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), RegistryError("no answer")])
def test_an_interrupted_run_says_how_to_resume_it(call, corpus_file, monkeypatch, error):
    interrupted_run(monkeypatch, error)
    code, _, errors = call("run", str(corpus_file), "--id-column", "id")
    assert code == (130 if isinstance(error, KeyboardInterrupt) else RegistryError.exit_code)
    assert "models:/documents" in errors
    *_, saved, last = errors.splitlines()
    assert re.search(r"\b0 finished stages.*python -m flows resume half", saved)
    assert last.startswith("error " if isinstance(error, KeyboardInterrupt) else "error E702 no")


@pytest.mark.usefixtures("no_server")
def test_a_run_that_the_registry_refuses_prints_its_outcome(call, corpus_file, monkeypatch):
    interrupted_run(monkeypatch, RegistryError("no answer"))
    found = outcome("half")
    monkeypatch.setattr(
        "flows.cli.run.stored_outcome", lambda run: found if run.id == "half" else None
    )
    code, out, errors = call("run", str(corpus_file), "--id-column", "id", "--json")
    assert (code, errors.splitlines()[-1][:10]) == (RegistryError.exit_code, "error E702")
    assert Outcome.model_validate_json(out) == found


def interrupt(_: object) -> NoReturn:
    raise KeyboardInterrupt


def test_a_run_that_was_interrupted_before_its_record_has_no_id_to_resume(
    call, corpus_file, monkeypatch
):
    monkeypatch.setattr("flows.cli.execute.served", interrupt)
    assert "resume" not in call("run", str(corpus_file), "--id-column", "id")[2]
    assert "`resume`" not in call("reproduce", "few-shot", "--data", str(ROOT / "data"))[2]


@pytest.mark.parametrize("asked", ["models:/tiny@champion", "models:/tiny", "tiny", "other"])
def test_a_name_in_place_of_an_id_is_answered_with_ids(call, tmp_path, asked):
    for run, name in (("one", "tiny"), ("two", "news")):
        completed(run, tiny_run(tmp_path / "a.jsonl", name=name).model_dump(mode="json"))
    for verb in ("promote", "register", "report", "status", "resume"):
        code, _, error = call(verb, asked)
        assert (code, "one (completed)" in error) == (2, True)
        assert ("two (completed)" in error) == (asked == "other")


@pytest.mark.slow
def test_a_failed_run_ends_with_one_line_and_its_traceback_is_in_the_log(tmp_path: Path):
    corpus = tmp_path / "empty.jsonl"
    corpus.write_text('{"id": 1, "sentences": []}\n{"id": 2, "sentences": [" "]}\n')
    done = subprocess.run(
        [sys.executable, "-m", "flows", "run", str(corpus), "--id-column", "id", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    lines = done.stderr.splitlines()
    log = tmp_path / "home" / "logs" / "sentemb.log"
    assert str(log) in lines[-2]
    assert re.search(r"^error E101 .*\(2 .*: 2 empty\)", lines[-1])
    assert "Traceback" not in done.stderr
    assert done.stderr.count("(2 rows read: 2 empty)") == 2, "where it happened, and at the end"
    assert "Traceback" in log.read_text()
