"""The command line `sentemb`: results on stdout, messages on stderr, one line per error."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from shutil import rmtree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from sentemb_core.cli import app
from sentemb_core.cli_inputs import require_order
from sentemb_core.config.run import BUILT_IN_ENCODERS
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.card import CardFacts, model_card
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder, weights_digest
from sentemb_core.encoder.names import HEAD_FILE, is_encoder_folder
from tests import tiny
from tests.second_device import THERE, SecondDevice

COLUMNS = ("--id-column", "id", "--sentences-column", "sentences")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save_encoder(tiny.static(), folder, model_card(CardFacts(name="tiny", base="tiny")))
    return str(folder)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> str:
    """Eight documents of two words each; the title has the same words."""
    path = tmp_path_factory.mktemp("corpus") / "documents.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for k in range(8):
            first, second = f"w{4 + 2 * k}", f"w{5 + 2 * k}"
            row = {
                "id": f"d{k}",
                "title": f"{first} {second}",
                "sentences": [first, second, f"{second} {second} {first}"],
            }
            file.write(json.dumps(row) + "\n")
    return str(path)


@pytest.fixture
def call(answer):
    """Exit code, stdout and stderr of `sentemb ...`, in this process."""
    return partial(answer, app)


@pytest.fixture
def titled(tmp_path) -> str:
    row = {"id": "a", "title": "Of w1", "sentences": ["w1 w2", "w8 w9", "w3 w4"]}
    return written(tmp_path / "titled.jsonl", row)


def written(path: Path, *rows: object) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def other_encoder(folder: Path) -> str:
    save_encoder(tiny.static(seed=1), folder, model_card(CardFacts(name="other", base="tiny")))
    return str(folder)


@pytest.mark.parametrize(
    ("by", "rows", "columns"),
    [
        ("document", 8, ["doc_id", "embedding"]),
        ("sentence", 24, ["doc_id", "position", "sentence", "embedding"]),
    ],
)
def test_encode_writes_one_row_per_document_or_sentence(
    call, model, corpus, tmp_path, by, rows, columns
):
    out = tmp_path / "vectors.parquet"
    asked = ("encode", model, corpus, str(out), "--by", by, *COLUMNS)
    assert re.search(rf"\b{rows}\b.*\b16\b.*{out}", call(*asked)[1])
    result = json.loads(call(*asked, "--overwrite", "--json")[1])
    assert result == {"out": str(out), "rows": rows, "dim": 16, "by": by}
    table = pq.read_table(out)
    assert (table.num_rows, table.column_names) == (rows, columns)
    if by == "sentence":
        assert table["position"].to_pylist() == [0, 1, 2] * 8
    assert [file.name for file in tmp_path.iterdir()] == ["vectors.parquet"]


@pytest.mark.parametrize("kind", ["folder", "word vectors"])
def test_vectors_do_not_depend_on_the_device(call, model, corpus, tmp_path, monkeypatch, kind):
    words = tmp_path / "words.vec"
    words.write_text("".join(f"w{k} {k} {k * k} 1\n" for k in range(1, 20)))
    name = model if kind == "folder" else str(words)
    here, there = (str(tmp_path / f"{side}.parquet") for side in ("here", "there"))
    assert call("encode", name, corpus, here, "--by", "sentence", *COLUMNS)[0] == 0
    monkeypatch.setattr("sentemb_core.encoder.devices.compute_device", lambda: THERE)
    with SecondDevice():
        code, _, error = call("encode", name, corpus, there, "--by", "sentence", *COLUMNS)
    assert (code, pq.read_table(there).equals(pq.read_table(here))) == (0, True), error


def test_search_finds_a_document_by_its_words(call, model, corpus):
    code, out, _ = call("search", model, "w8 w9", corpus, "--top", "2", "--json", *COLUMNS)
    hits = json.loads(out)
    assert (code, len(hits), hits[0]["doc_id"]) == (0, 2, "d2")
    assert hits[0]["score"] >= hits[1]["score"]


def test_a_hit_has_its_counterpart_and_its_nearest_sentence(call, model, titled):
    asked = ("search", model, "w8", titled, *COLUMNS, "--counterpart-column", "title")
    (hit,) = json.loads(call(*asked, "--json")[1])
    assert (hit["counterpart"], hit["sentence"]) == ("Of w1", "w8 w9")
    assert all(text in call(*asked)[1] for text in ("title", "Of w1", "w8 w9"))


def test_an_id_is_never_cut_and_a_sentence_is(call, model, tmp_path):
    rows = [{"id": f"{'section/' * 30}{k}", "sentences": [f"w{k}", "w9 " * 60]} for k in (5, 6)]
    out = call("search", model, "w5", written(tmp_path / "long.jsonl", *rows), *COLUMNS)[1]
    folded = "".join(part for part in out.split() if set(part) <= set("section/56"))
    assert all(row["id"] in folded for row in rows)
    assert "…" not in out
    endless = "w5" * 2_000
    source = written(tmp_path / "endless.jsonl", {"id": "a", "sentences": [endless, "w6"]})
    assert 2 < call("search", model, endless, source, *COLUMNS)[1].count("w5") < 300
    [hit] = json.loads(call("search", model, endless, source, "--json", *COLUMNS)[1])
    assert hit["sentence"] == endless


def imported_by(*arguments: str) -> set[str]:
    """Heavy modules that a call imports."""
    code = (
        "import sys\nfrom sentemb_core import console\nfrom sentemb_core.cli import app\n"
        "console.run(app, sys.argv[1:])\nprint()\n"
        "print(*{'torch', 'transformers'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("arguments", "modules"),
    [
        ("--help", set()),
        ("methods", set()),
        ("search /nosuch w5 CORPUS", set()),
        ("annotate minilm CORPUS --id-column id --document nosuch", set()),
        ("search MODEL w5 CORPUS --id-column id", {"torch"}),
    ],
)
def test_a_command_imports_only_what_it_needs(model, corpus, arguments, modules):
    words = [{"MODEL": model, "CORPUS": corpus}.get(word, word) for word in arguments.split()]
    assert imported_by(*words) == modules


def test_evaluate_scores_encoder_and_bm25(call, model, corpus):
    column = ("--counterpart-column", "title")
    code, out, _ = call("evaluate", model, corpus, "--json", *column, *COLUMNS)
    scores = json.loads(out)
    assert (code, [*scores["systems"]]) == (0, ["this retriever", "BM25"])
    for way in ("document to counterpart", "counterpart to document"):
        own, bm25 = (system[way]["R@5"]["mean"] for system in scores["systems"].values())
        lead = scores["gains"][way]["R@5"]
        assert own == 1.0
        assert lead["mean"] == pytest.approx(own - bm25)
        assert lead["low"] <= lead["mean"] <= lead["high"]


def test_evaluate_names_counterparts_or_halves(call, model, corpus):
    counterparts = call("evaluate", model, corpus, "--counterpart-column", "title", *COLUMNS)[1]
    halves = call("evaluate", model, corpus, *COLUMNS)[1]
    assert ("counterpart" in counterparts, "half" in counterparts) == (True, False)
    assert ("counterpart" in halves, "half" in halves) == (False, True)
    for directions in (("first half", "second half"), ("second half", "first half")):
        assert " to ".join(directions) in " ".join(halves.split())
    assert re.search(r"MRR@10.* BM25 ", " ".join(halves.split()))


def test_annotate_draws_a_document(call, model, corpus, tmp_path):
    picture = tmp_path / "graph.svg"
    asked = ("--document", "d3", "--picture", str(picture), *COLUMNS)
    code, out, _ = call("annotate", model, corpus, *asked)
    assert (code, str(picture) in out) == (0, True)
    assert picture.read_text().count("<svg") == 1
    result = json.loads(call("annotate", model, corpus, *asked, "--json")[1])
    assert len(result["sentences"]) == len(result["clusters"]) == 3


def test_annotate_counts_the_sentences_that_it_encodes(call, model, corpus, monkeypatch):
    monkeypatch.setattr("sentemb_core.progress.EVERY", 0.0)
    err = call("annotate", model, corpus, "--document", "d1", *COLUMNS)[2]
    shown = [line for line in err.splitlines() if "encode sentences" in line]
    done, total = re.search(r"(\d+) of (\d+)", shown[-1]).groups()
    assert done == total


def test_annotate_says_that_the_font_lacks_letters(call, model, tmp_path):
    source = written(tmp_path / "news.jsonl", {"id": "d", "sentences": ["It rains.", "雨が降る。"]})
    asked = ("--document", "d", "--picture", str(tmp_path / "graph.svg"), "--id-column", "id")
    assert "?" in call("annotate", model, source, *asked)[1].splitlines()[-1]


def test_canary_knows_the_encoder_of_an_index(call, model, corpus, tmp_path):
    index = tmp_path / "index.parquet"
    call("encode", model, corpus, str(index), "--by", "sentence", *COLUMNS)
    assert json.loads(call("canary", model, str(index), "--json")[1])["same"]
    code, out, _ = call("canary", model, str(index))
    assert (code, out.startswith(str(index)), model in out, " 24 " in out) == (0, True, True, True)
    code, out, error = call("canary", other_encoder(tmp_path / "other"), str(index), "--json")
    assert (code, json.loads(out)["same"], "E202 " in error) == (3, False, True)


@pytest.mark.parametrize("by", ["document", "sentence"])
def test_an_index_gives_the_hits_of_its_corpus(call, model, corpus, tmp_path, by):
    columns, index = (*COLUMNS, "--counterpart-column", "title"), str(tmp_path / "index.parquet")
    call("encode", model, corpus, index, "--by", by, *columns)
    direct = json.loads(call("search", model, "w8", corpus, "--json", *columns)[1])
    code, out, _ = call("search", model, "w8", index, "--json")
    names = ("doc_id", "counterpart") + ("sentence",) * (by == "sentence")
    assert code == 0
    assert [[hit[name] for name in names] for hit in json.loads(out)] == [
        [hit[name] for name in names] for hit in direct
    ]
    text = call("search", model, "w8", index)[1]
    assert ("w8 w9" in text, "sentence" in text) == (True, by == "sentence")


def test_an_index_is_searched_only_by_its_encoder_and_without_columns(
    call, model, corpus, tmp_path
):
    index, out = str(tmp_path / "index.parquet"), str(tmp_path / "out.parquet")
    call("encode", model, corpus, index, *COLUMNS)
    for arguments, code, value in (
        (("search", other_encoder(tmp_path / "other"), "w5", index), "E202", ""),
        (("search", model, "w5", index, *COLUMNS), "E001", ".*--sentences-column, --id-column"),
        (("encode", model, index, out), "E001", ""),
    ):
        exit_code, text, error = call(*arguments)
        assert (exit_code, text) == (3 if code == "E202" else 2, "")
        assert re.search(f"^error {code} .*{index}{value}", error, re.MULTILINE)


def test_encode_never_overwrites_its_documents(call, model, corpus, tmp_path):
    documents = tmp_path / "documents.parquet"
    rows = [json.loads(line) for line in Path(corpus).read_text().splitlines()]
    pq.write_table(pa.Table.from_pylist(rows), documents)
    before = documents.read_bytes()
    for asked in ((), ("--overwrite",)):
        code, _, error = call("encode", model, str(documents), str(documents), *asked, *COLUMNS)
        assert (code, f"E001 {documents}" in error) == (2, True)
    assert documents.read_bytes() == before


def test_encode_replaces_another_file_only_on_request(call, model, corpus, tmp_path):
    out = tmp_path / "vectors.parquet"
    out.write_bytes(b"an index in use")
    code, text, error = call("encode", model, corpus, str(out), *COLUMNS)
    assert (code, text, out.read_bytes()) == (2, "", b"an index in use")
    assert re.search(f"E001 .*{out}.*--overwrite", error)
    assert call("encode", model, corpus, str(out), "--overwrite", *COLUMNS)[0] == 0
    assert pq.read_table(out).num_rows == 8


def test_documents_of_one_sentence_are_encoded_and_found(call, model, tmp_path):
    titles = tmp_path / "titles.csv"
    titles.write_text("id,text\n" + "".join(f"t{k},w{4 + k}\n" for k in range(9)))
    columns = ("--id-column", "id", "--text-column", "text")
    code, _, log = call("encode", model, str(titles), str(tmp_path / "v.parquet"), *columns)
    assert (code, "pair" in log) == (0, False)
    out = call("search", model, "w7", str(titles), "--top", "1", "--json", *columns)[1]
    assert json.loads(out)[0]["doc_id"] == "t3"


def test_refused_rows_are_written_beside_the_vectors(call, model, tmp_path):
    rows = [{"id": k, "text": "w4 w5." if k % 3 else "\0"} for k in range(9)]
    source, out = tmp_path / "some.jsonl", tmp_path / "vectors.parquet"
    columns = ("--id-column", "id", "--text-column", "text")
    code, _, log = call("encode", model, written(source, *rows), str(out), *columns)
    refused = tmp_path / "vectors.parquet.quarantine.parquet"
    assert code == 0
    assert re.search(rf"3 of 9 .*\b3 nul\b.*{refused}", log)
    assert pq.read_table(refused)["reason"].to_pylist() == ["nul"] * 3
    written(source, *(row for row in rows if row["text"] != "\0"))
    assert call("encode", model, str(source), str(out), "--overwrite", *columns)[0] == 0
    assert not refused.exists(), "the refused rows of an earlier index"


@pytest.mark.parametrize(
    ("query", "warning"),
    [
        ("unheard of", "query"),
        ("w4 unheard", "1 of 2"),
        ("w4 w5 unheard", None),
        ("w4 " * 500, "tokens"),
    ],
)
def test_a_query_that_is_unknown_or_too_long_is_warned_of(call, model, corpus, query, warning):
    code, out, log = call("search", model, query, corpus, *COLUMNS)
    lines = [line for line in log.splitlines() if "query" in line]
    assert (code, len(lines)) == (0, int(warning is not None))
    assert warning is None or warning in lines[0]
    assert out.count("w4") < 60


@pytest.mark.parametrize("words", [5, 20])
def test_encode_and_search_log_the_share_of_cut_sentences(call, model, tmp_path, words):
    """The encoder reads 12 tokens; one of four sentences is as long as asked."""
    rows = [{"id": f"d{k}", "sentences": ["w4", "w5"]} for k in range(2)]
    rows[0]["sentences"][0] = "w6 " * words
    source, out = written(tmp_path / "rows.jsonl", *rows), str(tmp_path / "v.parquet")
    for arguments in (("encode", model, source, out), ("search", model, "w4", source)):
        (line,) = [
            line for line in call(*arguments, *COLUMNS)[2].splitlines() if " cut at " in line
        ]
        assert "12 tokens" in line
        assert (f"{25.0 if words > 12 else 0.0}%" in line, "--max-length" in line) == (
            True,
            words > 12,
        )


def test_an_exported_encoder_keeps_card_and_head(call, model, tmp_path):
    source, folder = tmp_path / "model", tmp_path / "copy"
    shutil.copytree(model, source)
    (source / HEAD_FILE).write_bytes(b"weights")
    assert call("export", str(source), str(folder))[0] == 0
    assert load_encoder(folder).dim == load_encoder(Path(model)).dim
    for name in ("README.md", HEAD_FILE):
        assert (folder / name).read_bytes() == (source / name).read_bytes()
    code, _, error = call("export", model, str(folder))
    assert (code, str(folder) in error) == (2, True), "it is not empty"
    assert call("export", model, str(tmp_path / "plain"))[0] == 0
    assert not (tmp_path / "plain" / HEAD_FILE).exists()


def test_the_card_of_a_foreign_encoder_is_ours_and_has_no_local_path(call, tmp_path):
    foreign, folder = tmp_path / "foreign", tmp_path / "copy"
    save_encoder(tiny.bert(), foreign, "card")
    stated = foreign / "config_sentence_transformers.json"
    stated.write_text(json.dumps(json.loads(stated.read_text()) | {"creator": "somebody"}))
    (foreign / "README.md").write_bytes(b"It reads 9 tokens. \xff")
    settings = foreign / "sentence_bert_config.json"
    settings.write_text('{"max_seq_length": 60}')
    assert call("export", str(foreign), str(folder))[0] == 0
    card = (folder / "README.md").read_text()
    assert ("32 tokens" in card, "60 of" in card, str(tmp_path) in card) == (True, True, False)
    encoder = load_encoder(folder)
    assert (encoder.max_length, encoder.text_length) == (32, 60)


def test_an_encoder_is_exported_with_another_length(call, model, tmp_path):
    folder = tmp_path / "copy"
    result = json.loads(call("export", model, str(folder), "--max-length", "9", "--json")[1])
    encoder = load_encoder(folder)
    assert result["max_length"] == encoder.max_length == encoder.text_length == 9
    assert len(encoder.tokenise(["w5 " * 50])[0]) == 9
    assert "9 tokens" in (folder / "README.md").read_text()
    assert load_encoder(Path(model)).max_length != 9


def test_an_exported_encoder_keeps_the_prompts_that_options_state(call, model, corpus, tmp_path):
    folder, index = tmp_path / "copy", str(tmp_path / "index.parquet")
    prompts = {"query": "w70: ", "document": "w8 w9 "}
    options = [part for role in prompts for part in (f"--{role}-prompt", prompts[role])]
    assert call("export", model, str(folder), *options)[0] == 0
    encoder = load_encoder(folder)
    assert encoder.prompts.by_name == prompts
    assert call("encode", str(folder), corpus, index, "--by", "sentence", *COLUMNS)[0] == 0
    first, vector = (pq.read_table(index)[name][0].as_py() for name in ("sentence", "embedding"))
    assert embed_texts(encoder, [prompts["document"] + first])[0] == pytest.approx(vector, abs=1e-6)
    assert json.loads(call("canary", str(folder), index, "--json")[1])["same"]
    for source in (index, corpus):
        columns = COLUMNS if source == corpus else ()
        hits = json.loads(call("search", str(folder), "w14", source, "--json", *columns)[1])
        (query,) = embed_texts(encoder, [prompts["query"] + "w14"])
        own = embed_texts(encoder, ["w14", "w15", "w15 w15 w14"], role="document").mean(axis=0)
        assert hits[0]["doc_id"] == "d5"
        assert hits[0]["score"] == pytest.approx(query @ own / np.linalg.norm(own), abs=1e-5)
    assert call("search", model, "w14", index)[0] == 3  # the encoder without prompts


@pytest.mark.parametrize("prompt", ["", "question"])
def test_an_empty_prompt_or_an_unknown_name_is_e001(call, model, tmp_path, prompt):
    code, _, error = call("export", model, str(tmp_path / "copy"), "--query-prompt", prompt)
    assert (code, "E001" in error) == (2, True)


@pytest.mark.parametrize(
    ("by", "keep", "dim"), [("whitening", 4, 4), ("soft_whitening", None, 15), ("flow", None, 16)]
)
def test_postprocess_saves_an_encoder_with_a_map(call, model, corpus, tmp_path, by, keep, dim):
    folder, out = tmp_path / by, tmp_path / "vectors.parquet"
    options = ("--by", by, *(("--keep", str(keep)) if keep else ()), *COLUMNS)
    code, text, _ = call("postprocess", model, corpus, str(folder), *options, "--json")
    result = json.loads(text)
    assert (code, result["dim"], result["sentences"]) == (0, dim, 24)
    assert load_encoder(folder).dim == dim
    assert by.replace("_", " ") in (folder / "README.md").read_text()
    assert call("encode", str(folder), corpus, str(out), *COLUMNS)[0] == 0


def test_a_flow_cannot_drop_dimensions(call, model, corpus, tmp_path):
    options = (str(tmp_path / "new"), "--by", "flow", "--keep", "4", *COLUMNS)
    code, _, error = call("postprocess", model, corpus, *options)
    assert (code, "--keep" in error) == (2, True)


def test_word_vectors_of_a_corpus_are_an_encoder(call, tmp_path):
    pytest.importorskip("gensim", reason="gensim is not installed")
    folder = tmp_path / "words"
    rows = [
        {"id": f"d{k}", "sentences": ["Lego bricks", "rare" * (k == 0) + "tax"]} for k in range(6)
    ]
    asked = ("words", written(tmp_path / "toys.jsonl", *rows), str(folder), "--dim", "8", *COLUMNS)
    code, out, _ = call(*asked, "--json")
    assert (code, json.loads(out)) == (0, {"folder": str(folder), "words": 3, "dim": 8})
    known, unknown = embed_texts(load_encoder(folder), ["lego tax", "falcon"])
    assert (known.any(), unknown.any()) == (True, False)
    code, _, error = call(*asked)
    assert (code, str(folder) in error) == (2, True), "the folder is not empty"


def test_without_gensim_no_corpus_is_read_for_word_vectors(call, corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    code, _, error = call("words", corpus, str(tmp_path / "words"), *COLUMNS)
    assert (code, "E401" in error, "sentemb[words]" in error) == (2, True, True)


@pytest.mark.parametrize("verb", ["encode MODEL CORPUS OUT", "search MODEL w5 CORPUS"])
def test_a_bad_vector_names_document_encoder_and_revision(call, corpus, tmp_path, verb):
    diverged, folder = tiny.static(), tmp_path / "diverged"
    with torch.no_grad():
        diverged.backbone.embedding.weight[9] = float("nan")
    save_encoder(diverged, folder, model_card(CardFacts()))
    words = verb.replace("MODEL", str(folder)).replace("CORPUS", corpus)
    code, _, error = call(*words.replace("OUT", str(tmp_path / "out.parquet")).split(), *COLUMNS)
    revision = weights_digest(load_encoder(folder))
    assert (code, "E201 " in error) == (3, True)
    assert re.search(r"sentences \[\d.* sentence \d of document '\w+'", error)
    assert (str(folder) in error, revision in error) == (True, True)
    assert revision != weights_digest(tiny.static())


def test_methods_are_listed_with_their_needs_and_presets(call):
    code, out, _ = call("methods", "--json")
    methods = {entry["name"]: entry for entry in json.loads(out)}
    assert code == 0
    assert methods["simcse"]["presets"][:2] == ["paper", "mlm"]
    assert methods["conpono"]["needs"] == "documents"
    headed = [name for name, entry in methods.items() if "Condenser" in entry["needs"]]
    assert headed == ["infocse_aux", "diffcse", "rtd_mlm"]
    text = call("methods")[1]
    assert all(name in text for name in methods)
    assert (text.count("Condenser"), "--counterpart-column" in text) == (3, True)


@pytest.mark.parametrize(
    ("arguments", "code", "values"),
    [
        ("serch MODEL word CORPUS", "E001", ['"search"']),
        ("search MODEL word CORPUS --tpo 3", "E001", ["--top"]),
        ("search MODEL word CORPUS --k 3", "E001", ["--k", "search --help"]),
        ("encode MODEL", "E001", ["SOURCE", "`sentemb encode --help`"]),
        ("search MODEL word CORPUS --top 0", "E001", ["--top", ">= 1"]),
        ("search MODEL word CORPUS --on-duplicate erorr", "E001", ['"error"']),
        ("search MODEL word CORPUS --encoding utf-88", "E001", ["utf-88"]),
        ("annotate MODEL CORPUS", "E001", ["--document"]),
        ("annotate MODEL CORPUS --documnt 1", "E001", ["--document"]),
        ("search word CORPUS --model MODEL", "E001", ["MODEL", "--model"]),
        ("run CORPUS", "E001", ["python -m flows"]),
        ("search MODEL", "E001", ["QUERY"]),
        ("methods simcse", "E001", ["simcse"]),
        ("search nosuch word CORPUS", "E401", ["nosuch"]),
        ("search /nosuch word CORPUS", "E401", ["/nosuch"]),
        ("canary models:/x@champion CORPUS", "E001", ["flows where models:/x@champion"]),
        ("search static word CORPUS", "E001", ["static"]),
        ("search MODEL CORPUS word", "E001", ["MODEL QUERY SOURCE", "'word'"]),
        ("search CORPUS word MODEL", "E001", ["MODEL QUERY SOURCE"]),
        ("encode CORPUS MODEL out.parquet", "E001", ["MODEL SOURCE"]),
        ("annotate CORPUS minilm --document d1", "E001", ["MODEL SOURCE", "'minilm'"]),
        ("canary CORPUS minilm", "E001", ["MODEL INDEX"]),
        ("search CORPUS word CORPUS", "E401", ["documents.jsonl"]),
        ("search MODEL word nosuch.jsonl", "E103", ["nosuch.jsonl"]),
        ("search MODEL word CORPUS --text-column boddy", "E104", ["'boddy'", "'id'"]),
        ("search MODEL word CORPUS --sentences-column sentense", "E104", ["'sentences'"]),
        ("annotate MODEL CORPUS --id-column id --document d99", "E100", ["'d99'", "'d0'"]),
        ("annotate MODEL CORPUS --document d1 --picture graph.xyz", "E001", ["graph.xyz"]),
        ("evaluate CORPUS MODEL", "E001", ["MODEL SOURCE"]),
        ("evaluate MODEL CORPUS --candidates 1", "E001", ["--candidates", ">= 2"]),
        ("encode MODEL CORPUS nofolder/vectors.parquet", "E001", ["nofolder"]),
        ("encode MODEL CORPUS vectors.txt", "E001", ["parquet"]),
        ("export MODEL CORPUS", "E001", ["documents.jsonl"]),
        ("export MODEL CORPUS/copy", "E001", ["documents.jsonl"]),
        ("export MODEL /proc/copy", "E601", ["/proc/copy"]),
        ("canary MODEL nosuch.parquet", "E001", ["nosuch.parquet"]),
        ("canary MODEL CORPUS", "E001", ["documents.jsonl"]),
        ("search MODEL EMPTY CORPUS --id-column id", "E001", []),
    ],
)
def test_a_mistake_is_one_line_with_its_code(call, model, corpus, arguments, code, values):
    words = [
        " " if word == "EMPTY" else word.replace("MODEL", model).replace("CORPUS", corpus)
        for word in arguments.split()
    ]
    exit_code, out, errors = call(*words)
    assert (exit_code, out) == ({"E103": 3, "E104": 3, "E100": 3, "E601": 5}.get(code, 2), "")
    error = errors.splitlines()[-1]
    assert error.startswith(f"error {code} ")
    assert [value for value in values if value not in error] == []
    assert "Traceback" not in errors


def test_the_error_of_an_empty_corpus_names_its_quarantine(call, model, tmp_path):
    source = tmp_path / "broken.jsonl"
    source.write_text("no JSON\n")
    code, _, error = call("search", model, "w5", str(source))
    path = Path(re.search(r"\S+quarantine\.parquet", error)[0])
    assert (code, pq.read_table(path)["reason"].to_pylist()) == (3, ["broken-row"])
    rmtree(path.parent)


def test_no_temporary_folder_is_left(call, model, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert call("search", model, "w5", corpus, *COLUMNS)[0] == 0
    assert call("annotate", model, corpus, "--document", "d99", *COLUMNS)[0] == 3
    assert list(tmp_path.iterdir()) == []


def test_a_repeated_id_is_an_error_on_request(call, model, tmp_path):
    row = {"id": "a", "sentences": ["w5 w6", "w7"]}
    asked = ("search", model, "w5", written(tmp_path / "twice.jsonl", row, row), *COLUMNS)
    assert call(*asked)[0] == 0
    code, _, error = call(*asked, "--on-duplicate", "error")
    assert code == 3
    assert re.search(r"E105 .*'a' in twice\.jsonl, line 1, b", error)


def test_a_query_may_be_longer_than_any_path(tmp_path: Path):
    require_order("QUERY SOURCE", "a long question " * 400, str(tmp_path))
    require_order("QUERY SOURCE", "a\0b", str(tmp_path))


def test_a_folder_named_like_a_built_in_encoder_needs_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in BUILT_IN_ENCODERS:
        Path(name).mkdir()
        assert not is_encoder_folder(name)
        assert is_encoder_folder(f"./{name}")


# Errors that end a command


@pytest.fixture
def failing(call, model, corpus, monkeypatch):
    """Call `search` while its last step raises an error; the last line of stderr."""

    def called(error: BaseException | None, *options: str) -> tuple[int, str, str]:
        def fail(*_: object) -> None:
            if error is None:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(5)
            else:
                raise error

        monkeypatch.setattr("sentemb_core.document_vectors.nearest_documents", fail)
        code, _, errors = call("search", model, "word", corpus, *COLUMNS, *options)
        return code, errors.splitlines()[-1], errors

    return called


def test_debug_shows_the_traceback(call, corpus, model):
    code, _, errors = call("search", model, "word", corpus, "--id-column", "idd", "--debug")
    assert (code, errors.count("Traceback")) == (3, 1)
    assert errors.splitlines()[-1].startswith("error E104 ")


def test_an_unexpected_error_is_one_line_with_its_place(failing):
    code, line, _ = failing(KeyError("unforeseen"))
    assert code == 1
    assert line.startswith("error E000 KeyError: 'unforeseen' (fail in ")


@pytest.mark.parametrize("debug", [[], ["--debug"]], ids=["", "debug"])
def test_no_error_shows_a_password(failing, monkeypatch, debug):
    monkeypatch.setenv("SOME_TOKEN", "hidden-token")
    error = ConnectionError("https://me:hidden-word@host/ refused hidden-token")
    _, line, errors = failing(error, *debug)
    assert "ConnectionError: https://***@host/ refused ***" in line
    assert "hidden" not in errors


def test_an_interrupt_and_a_termination_are_exit_codes(failing):
    before = signal.getsignal(signal.SIGTERM)
    for error, expected in ((KeyboardInterrupt(), 130), (None, 143)):
        code, line, _ = failing(error)
        assert (code, line.startswith("error ")) == (expected, True)
    assert signal.getsignal(signal.SIGTERM) is before
