"""The door `python -m flows` before anything runs: options, refusals, and an empty store."""

import json
import logging
import os
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from flows.cli.benchmark_commands import make_folder
from flows.cli.commands import plan_of
from flows.cli.run_options import RunOptions
from flows.cli.setting_paths import PATHS
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
from tasks.execution import InProcess, walking, without_prefect
from tasks.gate import GateOutcome
from tests.encoder.published import t5
from tests.flows.corpora import tiny_run, write_corpus
from tests.tiny import static

ROOT = Path(__file__).parents[3]

NAMED = ("--id-column", "id", "--sentences-column", "sentences")
"""What `corpus_file` has; where columns are guessed, a plan tells which."""


@pytest.fixture(autouse=True)
def _own_environment(tmp_path: Path):
    """A fresh home; what the door adds to environment and logging ends with the test."""
    logger = logging.getLogger()
    for handler in list(logger.handlers):
        stream = getattr(handler, "stream", None)
        if stream is not None and stream.closed:
            logger.removeHandler(handler)  # Prefect's console, on another test's stderr
    with mock.patch.dict(os.environ, {"SENTEMB_HOME": str(tmp_path / "home")}):
        yield


def test_a_table_takes_the_place_of_an_earlier_one_alone(tmp_path: Path):
    (tmp_path / "table.csv").write_text("mine")
    with pytest.raises(UsageError, match=r"E001 .*has table\.csv of something else"):
        make_folder(str(tmp_path))
    table = {"run": "benchmark-1", "models": {}, "scores": []}
    (tmp_path / "table.json").write_text(json.dumps(table))
    make_folder(str(tmp_path))


def test_every_option_of_a_run_stands_for_a_setting():
    assert list(vars(RunOptions())) == list(PATHS)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("rnu", 2, 'Did you mean "run"'),
        ("run CORPUS --stpes 3", 2, "Did you mean --steps"),
        ("run CORPUS --steps 0", 2, "Must be >= 1"),
        ("run CORPUS --set training.stps=3", 2, "did you mean 'steps'"),
        ("run CORPUS --set training.batch_size=1", 2, "E301 training.batch_size: a batch must"),
        ("run CORPUS --initialiser simcsee", 2, "did you mean 'simcse'"),
        ("run CORPUS --config nosuch.toml", 2, "no configuration file nosuch.toml"),
        ("run CORPUS --config flows", 2, "flows cannot be read as settings: "),
        ("run CORPUS --seed -1", 2, "--seed. Must be >= 0"),
        ("run CORPUS --set =3", 2, "--set wants KEY=VALUE"),
        ("run CORPUS --set initialiser=conpono", 2, "as in --set initialiser.KEY=VALUE"),
        ("run CORPUS --encoder nosuch", 2, "E401 An encoder is a folder, a file of word v"),
        ("run CORPUS --encoder nosuch", 2, "one of the registry (models:/NAME@champion)"),
        ("run CORPUS --encoder minlm", 2, "Check the name (did you mean 'minilm'?)"),
        (
            "run CORPUS --encoder MiniLM",
            2,
            "E401 There is no encoder 'MiniLM'; did you mean 'minilm'",
        ),
        ("run CORPUS --encoder ./nosuch", 2, "E401 An encoder is a folder or a name, or a f"),
        ("run CORPUS --encoder models:/x@champion", 2, "has no models:/x@champion: nothing is reg"),
        ("run CORPUS --encoder CORPUS", 2, "documents.jsonl' is a file of another kind"),
        (
            "run CORPUS --method consert --encoder minilm --set training.method.first=shuffle",
            2,
            """training.method.first is a list, even of one: --set 'training.method.first=["shuf""",
        ),
        (f"run CORPUS --encoder nosuch {' '.join(NAMED)} --dry-run", 2, "or set HF_HUB_OFFLINE=0"),
        ("run CORPUS --encoder flows", 2, "flows has none. Check the path; a model pub"),
        ("run", 2, "python -m flows run documents.jsonl"),
        ("run --text-column body", 2, "python -m flows run documents.jsonl"),
        ("run nosuch.jsonl", 3, "E103 No file or folder at nosuch.jsonl"),
        ("run CORPUS --text-column boddy", 3, "E104 No column 'boddy': found ['id', 'title',"),
        ("run CORPUS --id-column idd --dry-run", 3, "did you mean 'id'"),
        ("run CORPUS --id-column idd --dry-run --json", 3, "did you mean 'id'"),
        ("run CORPUS --encoding utf-88", 2, "Unknown encoding 'utf-88'"),
        ("run CORPUS --method hicl", 2, "E303 hicl needs the layers and the dropout of a"),
        ("run CORPUS --method hicl --dry-run", 2, "--encoder minilm"),
        ("run CORPUS --method conpono --initialiser condenser", 2, "E303 condenser needs the"),
        ("run CORPUS --method diffcse --encoder transformer", 2, "(--initialiser condenser), take"),
        ("run CORPUS --method rtd_mlm --encoder transformer", 2, "method.random_head=true)"),
        ("run CORPUS --method fine_tune", 2, "E001 Fine-tuning learns from labelled pairs, and"),
        ("run CORPUS --cycles 2", 2, "(--labels FILE, columns doc_id and counterpart)"),
        ("run CORPUS --labels nosuch.csv", 3, "E103 No file or folder at nosuch.csv"),
        ("run CORPUS --labels CORPUS", 3, "No column 'doc_id': found ['id', 'title', 'sent"),
        (
            "reproduce mutual.t1 --methods simcse",
            2,
            "--methods belongs to methods-small and few-sh",
        ),
        (
            "reproduce methods-small --counts 9",
            2,
            "--counts belongs to few-shot, and methods-small",
        ),
        (
            "reproduce few-shot --counts 0",
            2,
            "counts.0: Input should be greater than or equal to 2",
        ),
        ("reproduce few-shot --preset paper", 2, "--preset belongs to the papers' experiments"),
        (
            "reproduce mutual.t11 --batch-size 9",
            2,
            "there is no experiment 'mutual.t11'; did you mean",
        ),
        ("reproduce few-shott", 2, "there is no experiment 'few-shott'; did you mean 'few-shot'?"),
        ("gc --keep-runs -1", 2, "Must be >= 0"),
        ("serve --port 99999", 2, "Must be <= 65535"),
        ("resume", 2, "no run that is failed or killed"),
        ("status nosuch", 2, "There is no run 'nosuch'"),
        ("report", 2, "no run that is completed"),
        ("lineage abcdef", 2, "'abcdef' begins 0 of those in"),
        ("where /nosuch", 2, "E401 "),
        ("where flows", 2, "E401 An encoder's weights lie in a safetensors file"),
        ("search CORPUS budget --model models:/x@champion", 2, "The order is QUERY SOURCE; found"),
        ("canary nosuch.parquet --model models:/x@champion", 2, "nosuch.parquet is none"),
        ("canary flows --model models:/x@champion", 2, "nothing is registered yet"),
        ("canary flows --model x", 2, "A registered model is models:/NAME@ALIAS"),
    ],
)
def test_a_mistake_is_told_in_one_line(call, corpus_file, arguments: str, code: int, told: str):
    words = [str(corpus_file) if word == "CORPUS" else word for word in arguments.split()]
    found, said, errors = call(*words)
    assert (found, said) == (code, "")
    assert told in errors
    assert errors.startswith("error E")
    assert len(errors.splitlines()) == 1


def loaded_by(*arguments: str) -> tuple[str, str]:
    """The heavy ones among the modules that a call loads, and what it says on stderr."""
    code = (
        "import sys\nfrom flows.__main__ import app\nfrom sentemb_core import console\n"
        "console.run(app, sys.argv[1:])\n"
        "print(sorted({'prefect', 'mlflow', 'torch', 'flows.fine_tune', 'flows.method_cells'} "
        "& set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr


def test_a_method_without_its_parts_is_told_before_torch_is_loaded(corpus_file):
    loaded, told = loaded_by("run", str(corpus_file), "--method", "simcse")
    assert (loaded, "E303 simcse" in told) == ("[]\n", True)


@pytest.mark.parametrize(
    "options",
    [
        ["initialiser.method=condenser", "training.method=infocse_aux", "encoder.name=minilm"],
        ["training.method.name=diffcse", "training.method.random_head=true", "encoder.name=minilm"],
        ["training.method=fine_tune", "corpus.counterpart_column=title"],
        ["cycles.max_cycles=0"],
    ],
)
def test_what_fits_is_not_refused(corpus_file, options):
    check_run(settings(None, {"corpus.source": str(corpus_file)}, options))


def test_a_folder_with_a_static_encoder_is_refused_as_the_name_is(corpus_file, tmp_path):
    save_encoder(static(), tmp_path / "saved", "A card.")
    options = ["training.method=simcse", f"encoder.name={tmp_path / 'saved'}"]
    config = settings(None, {"corpus.source": str(corpus_file)}, options)
    with pytest.raises(RecipeError, match="simcse needs the layers and the dropout"):
        check_run(config)


@pytest.mark.parametrize("arguments", [(), ("training", "--method", "hicl", "--json"), ("xyz",)])
def test_the_settings_are_told_without_loading_torch(arguments: tuple[str, ...]):
    assert loaded_by("settings", *arguments)[0].splitlines()[-1].endswith("[]")


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
def test_a_dry_run_refuses_a_transformer_that_writes(call, corpus_file, tmp_path, kind):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    (tmp_path / "model.safetensors").touch()
    options = (*NAMED, "--dry-run")
    code, _, told = call("run", str(corpus_file), *options, "--encoder", str(tmp_path))
    assert code == 2
    assert "E001 A sentence encoder is a transformer that reads a sentence both ways" in told
    assert f"model_type '{kind}'" in told


@pytest.mark.parametrize(
    ("method", "code", "told"),
    [
        ("infocse_idc", 0, ""),
        ("simcse", 0, ""),
        ("consert", 2, "E303 consert works on the layer of embeddings"),
        ("ict", 2, "E303 A method that cuts, joins or frames rows wants one special token"),
    ],
)
def test_a_dry_run_tells_what_a_t5_can_learn_by(call, corpus_file, tmp_path, method, code, told):
    options = (*NAMED, "--dry-run")
    chosen = ("--encoder", str(t5(tmp_path / "t5")), "--method", method)
    found, _, said = call("run", str(corpus_file), *options, *chosen)
    assert (found, told in said) == (code, True)


def test_a_wrong_column_is_told_before_prefect_is_loaded(corpus_file):
    loaded, told = loaded_by("run", str(corpus_file), "--text-column", "boddy")
    assert (loaded, "E104" in told) == ("[]\n", True)


def test_an_index_of_documents_is_refused_before_mlflow_is_loaded(tmp_path):
    index = tmp_path / "index.parquet"
    pq.write_table(pa.table({"doc_id": ["a"], "embedding": [[1.0]]}), index)
    loaded, told = loaded_by("canary", str(index), "--model", "models:/x@champion")
    assert loaded == "[]\n"
    assert "E001" in told
    assert "no column sentence: write it with `encode --by sentence`" in told


def test_an_index_in_the_way_is_told_before_mlflow_is_loaded(corpus_file, tmp_path):
    index = tmp_path / "index.parquet"
    index.touch()
    asked = ("encode", str(corpus_file), str(index), "--model", "models:/x@champion")
    loaded, told = loaded_by(*asked)
    assert loaded == "[]\n"
    assert f"E001 `encode` writes a new file, and {index} is there" in told


def test_a_file_of_word_vectors_searches_as_a_registered_model_does(call, corpus_file, tmp_path):
    words = tmp_path / "words.vec"
    words.write_text("2 3\nbudget 1 0 0\nbenefit 0 1 0\n")
    index = tmp_path / "index.parquet"
    options = ["--model", str(words), "--id-column", "id"]
    assert call("encode", str(corpus_file), str(index), "--by", "sentence", *options)[0] == 0
    code, said, _ = call("search", "budget", str(index), *options[:2], "--json")
    best = json.loads(said)[0]
    assert code == 0
    assert "budget" in best["sentence"].lower()


def test_the_folder_of_an_encoder_is_told_without_loading_torch(tmp_path):
    assert loaded_by("where", str(tmp_path))[0] == "[]\n"


def test_a_plan_waits_for_prefect_and_its_own_flow_alone(corpus_file):
    said, _ = loaded_by("run", str(corpus_file), *NAMED, "--dry-run", "--json")
    assert said.splitlines()[-1] == "['prefect']"


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ("--method conpono --preset paper", 1),
        ("--method conpono --preset paper --set training.learning_rate=0.005", 0),
        ("--method conpono --preset paper --encoder minilm", 0),
        ("--method conpono", 0),
        ("--set initialiser.learning_rate=5e-5 --set training.learning_rate=5e-5", 2),
    ],
)
def test_a_rate_for_transformers_is_told_once_of_a_static_encoder(
    call, corpus_file, options: str, warned: int
):
    columns = (*NAMED, "--dry-run", "--json")
    code, _, told = call("run", str(corpus_file), *columns, *options.split())
    assert code == 0
    assert told.count("learning_rate is 5e-05, a rate for transformers") == warned


def test_a_static_encoder_in_a_folder_is_one_too(call, corpus_file, tmp_path):
    save_encoder(static(), tmp_path / "mine", "")
    columns = (*NAMED, "--dry-run", "--json")
    own = ("--encoder", str(tmp_path / "mine"), "--set", "training.learning_rate=5e-5")
    assert "a rate for transformers" in call("run", str(corpus_file), *columns, *own)[2]


@pytest.mark.parametrize(("options", "warned"), [("", 1), ("--cycles 1", 0)])
def test_a_file_of_labels_that_nothing_learns_from_is_told(
    call, corpus_file, tmp_path, options: str, warned: int
):
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"doc_id": "d1", "counterpart": "a query"}\n')
    columns = (*NAMED, "--dry-run", "--json")
    named = ("--labels", str(labels), *options.split())
    told = call("run", str(corpus_file), *columns, *named)[2]
    assert told.count("nothing learns from them") == warned


@pytest.mark.parametrize(("labels", "column"), [(True, True), (True, False), (False, True)])
def test_a_column_in_whose_place_labels_judge_is_told(
    call, corpus_file, tmp_path, labels: bool, column: bool
):
    file = tmp_path / "labels.jsonl"
    file.write_text('{"doc_id": "d1", "counterpart": "a query"}\n')
    asked = ("--labels", str(file)) if labels else ()
    asked += ("--counterpart-column", "title") if column else ()
    told = call("run", str(corpus_file), *NAMED, *asked, "--dry-run", "--json")[2]
    words = f"warning the labels of {file} judge: the texts of column 'title' are not looked for."
    assert told.count(words) == (labels and column)


@pytest.mark.parametrize(("options", "warned"), [("", 1), ("--method fine_tune", 0)])
def test_a_number_of_labels_that_nothing_learns_from_is_told(
    call, corpus_file, options: str, warned: int
):
    columns = (*NAMED, "--counterpart-column")
    asked = ("title", "--label-count", "10", *options.split(), "--dry-run", "--json")
    code, _, told = call("run", str(corpus_file), *columns, *asked)
    assert code == 0
    assert told.count("nothing learns from labels, of which") == warned


@pytest.mark.parametrize(
    ("options", "zero"),
    [("--cycles 0", "--cycles"), ("--cycles 2 --label-count 0", "--label-count"), ("", None)],
)
def test_cycles_that_learn_no_label_are_told_to_be_self_training(
    call, corpus_file, options: str, zero: str | None
):
    asked = (*NAMED, "--counterpart-column", "title", *options.split(), "--dry-run", "--json")
    code, _, told = call("run", str(corpus_file), *asked)
    assert (code, "this is self-training alone" in told) == (0, zero is not None)
    assert zero is None or f"({zero}) is 0" in told


@pytest.mark.parametrize("options", ["--method fine_tune", "--cycles 1"])
def test_a_single_label_is_refused_before_anything_runs(call, corpus_file, options: str):
    asked = (*NAMED, "--counterpart-column", "title", *options.split(), "--label-count", "1")
    code, _, told = call("run", str(corpus_file), *asked)
    assert (code, last_runs(Store.default())) == (UsageError.exit_code, [])
    assert "two documents at least, and labels.count (--label-count) is 1" in told


def test_a_dry_run_says_what_would_run_and_runs_nothing(call, corpus_file, tmp_path):
    code, said, _ = call("run", str(corpus_file), *NAMED, "--dry-run", "--json")
    plan = json.loads(said)
    assert (code, plan[0]["stage"], plan[0]["verdict"]) == (0, "read_corpus", "MISS")
    assert not (tmp_path / "home" / "objects").exists()


def test_a_dry_run_tells_what_is_guessed_of_the_source(call, tmp_path):
    corpus = tmp_path / "tickets.csv"
    corpus.write_text('id,body\n1,"One here. Two here."\n2,"Three here. Four here."\n')
    code, _, told = call("run", str(corpus), "--dry-run")
    assert code == 0
    assert "text from column 'body' (guessed); ids: row numbers (--id-column id takes" in told


def test_a_server_that_is_gone_is_told_and_stops_nothing(call, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://me:word@127.0.0.1:9/api")
    code, _, told = call("gc")
    assert (code, os.environ["PREFECT_API_URL"]) == (0, "")
    assert told == (
        "No Prefect server answers at http://***@127.0.0.1:9/api: runs start a short-lived one.\n"
    )


def test_an_empty_store_is_whole_and_has_no_garbage(call):
    assert json.loads(call("fsck", "--json")[1])["ok"] == 0
    code, said, _ = call("gc")
    assert (code, said) == (
        0,
        "Removed nothing: 0.0 MB; 0 artifacts kept. What is younger than an hour always is.\n",
    )


def test_a_failed_run_is_the_one_to_resume_and_none_to_report(call, corpus_file):
    config = tiny_run(corpus_file).model_dump(mode="json")
    with pytest.raises(KeyError), recording(Store.default(), "broken", [], config):
        raise KeyError
    first, second, *_ = call("status")[1].splitlines()
    assert first == f"Run broken of '{config['name']}', the last: failed"
    assert second == "`python -m flows resume broken` goes on with it."
    code, said, _ = call("status", "--json")
    assert (code, json.loads(said)[0]["verdict"]) == (0, "MISS")
    code, _, told = call("report", "broken")
    assert (code, "`python -m flows resume broken` finishes it" in told) == (2, True)
    code, _, told = call("report")
    assert (code, "The last: broken (failed)" in told) == (2, True)


def test_a_run_that_nobody_named_is_named_before_it_goes_on(call, tmp_path):
    config = tiny_run(tmp_path / "gone.jsonl").model_dump(mode="json")
    with pytest.raises(KeyError), recording(Store.default(), "broken", [], config):
        raise KeyError("too few https://me:word@host")
    told = call("resume")[2]
    assert told.startswith(
        "Going on with run broken, which did not finish (failed: 'too few https://***@host'"
    )
    assert "Going on" not in call("resume", "broken")[2]


def test_only_what_did_not_finish_is_resumed(call):
    with recording(Store.default(), "done", [], {}):
        code, _, told = call("resume", "done")
        assert (code, "Run done is running in another process" in told) == (2, True)
    code, _, told = call("resume", "done")
    assert (code, "Run done is finished, there is nothing to go on with" in told) == (2, True)


def test_a_run_that_somebody_ended_did_not_fail_and_says_how_to_go_on(call, corpus_file):
    config = tiny_run(corpus_file).model_dump(mode="json")
    with pytest.raises(KeyboardInterrupt), recording(Store.default(), "ended", [], config):
        raise KeyboardInterrupt
    assert last_runs(Store.default())[0].state == "killed"
    assert ": killed\n`python -m flows resume ended` goes on with it.\n" in call("status")[1]


def ended(run: str, config: Json) -> None:
    """A record of a run that a person ended."""
    with pytest.raises(KeyboardInterrupt), recording(Store.default(), run, [], config):
        raise KeyboardInterrupt


def test_status_names_a_run_that_waits_behind_a_later_one_until_it_is_made_up_for(
    call, corpus_file
):
    waiting = tiny_run(corpus_file, name="waiting").model_dump(mode="json")
    ended("first", waiting)
    with recording(Store.default(), "second", [], tiny_run(corpus_file).model_dump(mode="json")):
        pass
    told = call("status")[1].splitlines()
    assert told[:3] == [
        "Run second of 'tiny', the last: completed.",
        "Run first waits: killed",
        "`python -m flows resume first` goes on with it.",
    ]
    assert "waits" not in call("status", "second")[1]
    with recording(Store.default(), "third", [], waiting):
        pass
    assert "waits" not in call("status")[1]


def test_the_run_that_waits_is_the_one_that_resume_goes_on_with(call, tmp_path):
    """A failed and a repeated one in between is none."""
    waiting, repeated = (
        tiny_run(tmp_path / "gone.jsonl", name=name).model_dump(mode="json")
        for name in ("waiting", "repeated")
    )
    ended("first", waiting)
    ended("second", repeated)
    with recording(Store.default(), "third", [], repeated):
        pass
    assert call("resume")[2].startswith("Going on with run first, which did not finish")
    with recording(Store.default(), "fourth", [], waiting):
        pass
    code, _, told = call("resume")
    assert (code, "There is no run that is failed or killed" in told) == (2, True)


@pytest.mark.parametrize(
    ("error", "resumed", "others"),
    [
        (BadDataError("too few"), "first", "zero (killed), refused (failed)"),
        (RecipeError("no"), "first", "zero (killed), refused (failed)"),
        (StorageError("full"), "refused", "first (killed), zero (killed)"),
        (
            UnreadableSourceError("d of `datasets` ends in row 3. The network broke off: run it."),
            "refused",
            "first (killed), zero (killed)",
        ),
    ],
)
def test_a_run_that_would_fail_again_is_resumed_after_all_others(
    call, tmp_path, error: SentembError, resumed: str, others: str
):
    zero, first, refused = (
        tiny_run(tmp_path / "gone.jsonl", name=name).model_dump(mode="json")
        for name in ("zero", "first", "refused")
    )
    ended("zero", zero)
    ended("first", first)
    with pytest.raises(SentembError), recording(Store.default(), "refused", [], refused):
        raise error
    told = call("resume")[2].splitlines()
    assert told[0].startswith(f"Going on with run {resumed}, which did not finish (")
    assert told[1] == f"Others wait, for `resume ID`: {others}."
    for run, config in (("zero", zero), ("first", first)):
        with recording(Store.default(), f"{run}-again", [], config):
            pass
    told = call("resume")[2].splitlines()
    assert told[0].startswith("Going on with run refused, which did not finish (failed: E")
    assert "Others" not in told[1]


@pytest.mark.parametrize(
    ("step", "how"),
    [(0, "starts anew: no checkpoint of it is kept."), (1_400, "goes on after its step 1,400.")],
)
def test_resume_says_where_it_goes_on(call, corpus_file, monkeypatch, step: int, how: str):
    config = tiny_run(corpus_file)

    def stop(row: object) -> None:
        raise KeyboardInterrupt

    with without_prefect(Store.default()), suppress(KeyboardInterrupt):
        self_train(config, stop)
    ended("half", config.model_dump(mode="json"))
    if step:
        work = Store.default().work(f"train_encoder-{plan_of(config).next_key}")
        save_checkpoint(work, step, Checkpoint({"weight": torch.zeros(1)}, ""))
    why = f"begun, goes on after step {step:,}" if step else "first time"
    told = json.loads(call("status", "--json")[1])
    assert next(one["why"] for one in told if one["verdict"] == "MISS") == why
    monkeypatch.setattr("flows.cli.commands.running", nullcontext)
    monkeypatch.setattr("flows.cli.commands.run_of", lambda _: 1 / 0)
    told = call("resume")[2].splitlines()
    assert told[:2] == [
        "Going on with run half, which did not finish (killed).",
        f"8 finished stages are kept. train_encoder (after conpono) {how}",
    ]


def test_a_run_whose_corpus_has_changed_is_not_resumed(call, tmp_path, monkeypatch):
    config = tiny_run(write_corpus(tmp_path / "documents.jsonl", 60))
    settings = config.model_dump(mode="json")
    with suppress(KeyboardInterrupt), recording(Store.default(), "half", [], settings):
        with without_prefect(Store.default()):
            documents_of(config.corpus)
        raise KeyboardInterrupt
    monkeypatch.setattr("flows.cli.commands.running", nullcontext)
    monkeypatch.setattr("flows.cli.commands.run_of", lambda _: 1 / 0)
    assert call("resume")[0] == 1, "it went on"
    write_corpus(tmp_path / "documents.jsonl", 80)
    code, _, told = call("resume")
    assert code == 2
    assert "documents.jsonl has changed since run half read it. Put the file back" in told


def test_halves_of_documents_without_ids_are_warned_of(call, tmp_path):
    file = str(write_corpus(tmp_path / "documents.jsonl", 60))
    asked = ("run", file, "--sentences-column", "sentences", "--dry-run")
    warned = "warning the documents have no ids and are called by their rows"
    assert warned in call(*asked)[2]
    for known in (["--id-column", "id"], ["--counterpart-column", "title"]):
        assert warned not in call(*asked, *known)[2]
    assert warned not in call(*asked, "--set", "register_model=false")[2]


def test_who_ends_a_run_is_told_what_is_kept_and_how_to_go_on(call, corpus_file, monkeypatch):
    config = tiny_run(corpus_file)
    file = Path(os.environ["SENTEMB_HOME"]) / "config.json"
    file.parent.mkdir()
    file.write_text(config.model_dump_json())
    monkeypatch.setattr("flows.cli.running.served", lambda _: nullcontext())
    monkeypatch.setattr(
        "flows.cli.commands.run_of",
        lambda _: ended_by_hand(config.model_dump(mode="json")),
    )
    code, _, told = call("run", "--config", str(file))
    assert code == 130
    assert told.splitlines()[0] == (
        "The encoder will be registered as models:/tiny (--name: another name)."
    )
    assert told.splitlines()[-2:] == [
        "0 finished stages are kept, and a training up to its last checkpoint: "
        "`python -m flows resume half` goes on from there.",
        "error interrupted",
    ]


def test_another_process_in_the_same_home_is_not_taken_for_the_run_that_ended(
    call, corpus_file, monkeypatch
):
    def ends_while_another_begins(config: Json) -> NoReturn:
        ended("half", config)
        half = read_run(Store.default(), "half")
        other = {"id": "other", "state": "running", "started": half.started + 9}
        write_run(Store.default(), half.model_copy(update=other))
        raise KeyboardInterrupt

    monkeypatch.setattr("flows.cli.running.served", lambda _: nullcontext())
    monkeypatch.setattr(
        "flows.cli.commands.run_of",
        lambda config: ends_while_another_begins(config.model_dump(mode="json")),
    )
    told = call("run", str(corpus_file), "--id-column", "id")[2]
    assert "`python -m flows resume half` goes on from there" in told


def ended_by_hand(config: Json) -> NoReturn:
    ended("half", config)
    raise KeyboardInterrupt


def test_a_run_that_finds_no_registry_says_how_it_is_registered_later(
    call, corpus_file, monkeypatch
):
    def fails_to_register(config: Json) -> NoReturn:
        ended("half", config)
        raise RegistryError("no answer")

    monkeypatch.setattr("flows.cli.running.served", lambda _: nullcontext())
    monkeypatch.setattr(
        "flows.cli.commands.run_of",
        lambda config: fails_to_register(config.model_dump(mode="json")),
    )
    code, _, told = call("run", str(corpus_file), "--id-column", "id")
    assert code == RegistryError.exit_code
    *_, kept, error = told.splitlines()
    assert "`python -m flows resume half` goes on from there" in kept
    assert error == "error E702 no answer"


def test_who_ends_a_run_before_it_began_has_nothing_to_resume(call, corpus_file, monkeypatch):
    monkeypatch.setattr("flows.cli.running.served", lambda _: raises_interrupt())
    told = call("run", str(corpus_file), "--id-column", "id")[2]
    assert "the same command goes on from there" in told
    assert "resume" not in told


def raises_interrupt() -> NoReturn:
    raise KeyboardInterrupt


def test_an_interrupted_table_says_that_resume_does_not_write_its_file(call, tmp_path, monkeypatch):
    monkeypatch.setattr("flows.cli.running.served", lambda _: raises_interrupt())
    file = tmp_path / "RESULTS.md"
    file.write_text("<!-- few-shot:begin -->\n<!-- few-shot:end -->\n")
    data = ("--data", str(Path(__file__).parents[3] / "data"))
    told = call("reproduce", "few-shot", *data, "--markdown", str(file))[2]
    assert f"{file} is as it was, and `resume` leaves it so: repeat the whole command." in told
    assert "`resume`" not in call("reproduce", "few-shot", *data)[2]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            "models:/tiny@champion",
            "not by its model or its name. Those of 'tiny': one (completed).",
        ),
        ("models:/tiny", "not by its model or its name. Those of 'tiny': one (completed)."),
        ("tiny", "not by its model or its name. Those of 'tiny': one (completed)."),
        ("other", "The last: two (completed), one (completed)."),
    ],
)
def test_a_model_or_a_name_in_place_of_an_id_is_told_the_ids(call, tmp_path, asked, told):
    for run, name in (("one", "tiny"), ("two", "news")):
        config = tiny_run(tmp_path / "a.jsonl", name=name).model_dump(mode="json")
        with recording(Store.default(), run, [], config):
            pass
    for verb in ("promote", "register", "report", "status", "resume"):
        code, _, error = call(verb, asked)
        assert (code, told in error) == (2, True)


@pytest.mark.parametrize(("alias", "code"), [("champion", 0), ("challenger", 4)])
def test_the_gate_is_asked_without_a_server_and_its_answer_says_what_serves(
    call, monkeypatch, alias: str, code: int
):
    def landed(*_: object) -> GateOutcome:
        assert isinstance(walking(), InProcess)
        return GateOutcome(uri="models:/tiny/2", alias=alias, reason="Why.", standing="It stands.")

    run = SimpleNamespace(config={"corpus": {"source": "a.jsonl"}})
    outcome = SimpleNamespace(training=None, encoder=None, run="run-1")
    monkeypatch.setattr("flows.cli.store_commands.outcome_of", lambda _: (run, outcome))
    monkeypatch.setattr("tasks.gate.landed", landed)
    found, said, told = call("promote")
    assert (found, said or told) == (
        code,
        "It stands. Why.\n" if code == 0 else "error E701 It stands. Why.\n",
    )


def test_a_run_that_was_not_to_be_registered_is_promoted_unasked_with_a_word(call, monkeypatch):
    config = {"corpus": {"source": "a.jsonl"}, "register_model": False}
    run = SimpleNamespace(id="run-1", config=config)
    outcome = SimpleNamespace(training=None, encoder=None, run="run-1")
    landing = GateOutcome(uri="models:/tiny/2", alias="champion", reason="Why.")
    monkeypatch.setattr("flows.cli.store_commands.outcome_of", lambda _: (run, outcome))
    monkeypatch.setattr("tasks.gate.landed", lambda *_: landing)
    told = "Run run-1, the last that finished, was made with register_model=false"
    assert call("promote")[2].startswith(told)
    assert call("promote", "run-1")[2] == ""


def test_a_home_without_runs_says_how_to_begin_one(call, tmp_path):
    code, _, told = call("status")
    assert (code, str(tmp_path) in told) == (2, True)
    assert "`python -m flows run documents.jsonl` begins" in told


def test_a_home_that_is_named_empty_is_the_usual_one(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENTEMB_HOME", "")
    _, _, told = call("status")
    assert f"in {tmp_path / '.sentemb'}. " in told
    assert {found.name for found in tmp_path.iterdir()} <= {".sentemb"}


def test_a_plan_says_whose_a_stage_is_and_how_much_would_run(call, corpus_file):
    _, said, _ = call("run", str(corpus_file), *NAMED, "--dry-run")
    assert " after conpono  train_encoder " in said
    assert said.splitlines()[-1] == (
        "11 of 11 stages would run, and then what their results (scores, counts) decide."
    )


@pytest.mark.slow
def test_a_run_that_fails_ends_with_one_line_and_its_log_has_the_rest(tmp_path: Path):
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
    told = done.stderr.splitlines()
    log = tmp_path / "home" / "logs" / "sentemb.log"
    assert told[-2] == f"log {log}"
    assert told[-1].startswith("error E101 corpus has 0 usable documents (2 read: 2 empty)")
    assert "Traceback" not in done.stderr
    assert done.stderr.count("corpus has 0 usable") == 2  # where it happened, and at the end
    assert "Traceback" in log.read_text()
