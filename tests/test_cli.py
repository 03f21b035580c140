"""The door `sentemb`: results on stdout, words on stderr, a person's mistakes told in one line."""

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

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from sentemb_core.cli import app
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.card import CardFacts, model_card
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder, weights_digest
from sentemb_core.encoder.names import HEAD_FILE
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
    """Eight documents, each about its own two words, which its title has too."""
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


def test_vectors_of_documents_and_of_sentences_go_to_a_file(call, model, corpus, tmp_path):
    out = tmp_path / "vectors.parquet"
    code, said, _ = call("encode", model, corpus, str(out), *COLUMNS)
    assert (code, pq.read_table(out).num_rows) == (0, 8)
    assert said == f"8 vectors of 16 dimensions, one a document: {out}\n"
    asked = ("encode", model, corpus, str(out), "--by", "sentence", "--overwrite", *COLUMNS)
    code, said, _ = call(*asked, "--json")
    assert json.loads(said) == {"out": str(out), "rows": 24, "dim": 16, "by": "sentence"}
    table = pq.read_table(out)
    assert table.column_names == ["doc_id", "position", "sentence", "embedding"]
    assert table["position"].to_pylist() == [0, 1, 2] * 8
    assert [file.name for file in tmp_path.iterdir()] == ["vectors.parquet"]


@pytest.mark.parametrize("kind", ["a folder", "a file of word vectors"])
def test_vectors_come_back_from_the_device_that_computes(
    call, model, corpus, tmp_path, monkeypatch, kind
):
    words = tmp_path / "words.vec"
    words.write_text("".join(f"w{k} {k} {k * k} 1\n" for k in range(1, 20)))
    name = model if kind == "a folder" else str(words)
    here, there = (str(tmp_path / f"{side}.parquet") for side in ("here", "there"))
    assert call("encode", name, corpus, here, "--by", "sentence", *COLUMNS)[0] == 0
    for module in ("checkpoint", "devices"):
        monkeypatch.setattr(f"sentemb_core.encoder.{module}.compute_device", lambda: THERE)
    with SecondDevice():
        code, _, told = call("encode", name, corpus, there, "--by", "sentence", *COLUMNS)
    assert (code, pq.read_table(there).equals(pq.read_table(here))) == (0, True), told


def test_a_document_is_found_by_its_own_words(call, model, corpus):
    code, said, _ = call("search", model, "w8 w9", corpus, "--top", "2", "--json", *COLUMNS)
    hits = json.loads(said)
    assert (code, len(hits), hits[0]["doc_id"]) == (0, 2, "d2")
    assert hits[0]["score"] >= hits[1]["score"]


def test_a_found_document_shows_its_counterpart_and_its_nearest_sentence(call, model, tmp_path):
    row = {"id": "a", "title": "Of w1", "sentences": ["w1 w2", "w8 w9", "w3 w4"]}
    corpus = tmp_path / "titled.jsonl"
    corpus.write_text(json.dumps(row) + "\n")
    asked = ("search", model, "w8", str(corpus), *COLUMNS, "--counterpart-column", "title")
    (hit,) = json.loads(call(*asked, "--json")[1])
    assert (hit["counterpart"], hit["sentence"]) == ("Of w1", "w8 w9")
    assert all(told in call(*asked)[1] for told in ("title", "Of w1", "w8 w9"))


def test_an_id_is_never_cut(call, model, tmp_path):
    rows = [{"id": f"{'section/' * 30}{k}", "sentences": [f"w{k}", "w9 " * 60]} for k in (5, 6)]
    corpus = tmp_path / "long.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = call("search", model, "w5", str(corpus), *COLUMNS)[1]
    assert "…" not in said
    folded = "".join(part for part in said.split() if set(part) <= set("section/56"))
    assert all(row["id"] in folded for row in rows)


def test_a_wrong_path_of_an_encoder_is_told_without_waiting_for_torch(corpus):
    script = (
        "import sys; from sentemb_core.cli import app; from sentemb_core import console; "
        "console.run(app, sys.argv[1:]); assert 'torch' not in sys.modules"
    )
    command = [sys.executable, "-c", script, "search", "/nosuch", "w5", corpus, *COLUMNS]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0


def test_documents_find_their_titles(call, model, corpus):
    column = ("--counterpart-column", "title")
    code, said, _ = call("evaluate", model, corpus, "--json", *column, *COLUMNS)
    scores = json.loads(said)
    systems = ["this encoder", "BM25", "random encoder"]
    assert (code, [*scores]) == (0, [*systems, "recall_at_5_less_bm25"])
    assert scores["this encoder"]["document_to_counterpart"]["recall_at_5"] == 1.0
    own, words = (scores[one]["document_to_counterpart"]["recall_at_5"] for one in systems[:2])
    lead = scores["recall_at_5_less_bm25"]
    assert lead["mean"] == pytest.approx(own - words)
    assert lead["low"] <= lead["mean"] <= lead["high"]


def test_halves_are_named_what_they_are(call, model, corpus):
    column = ("--counterpart-column", "title")
    assert "document to counterpart" in call("evaluate", model, corpus, *column, *COLUMNS)[1]
    said = call("evaluate", model, corpus, *COLUMNS)[1]
    assert "first half to second half" in said
    assert "R@5, first half to second half: this encoder less BM25 " in " ".join(said.split())
    assert "second half to first half" in said
    assert "counterpart" not in said


def test_one_document_is_drawn_with_its_clusters(call, model, corpus, tmp_path):
    picture = tmp_path / "graph.svg"
    code, said, _ = call(
        "annotate", model, corpus, "--document", "d3", "--picture", str(picture), *COLUMNS
    )
    assert code == 0
    assert f"Drawn: {picture}\n" in said
    assert picture.read_text().count("<svg") == 1


def test_a_picture_says_that_its_font_lacks_letters(call, model, tmp_path):
    file, picture = tmp_path / "news.jsonl", tmp_path / "graph.svg"
    row = {"id": "d", "sentences": ["It rains.", "雨が降る。"]}
    file.write_text(json.dumps(row) + "\n", encoding="utf-8")
    asked = ("--document", "d", "--picture", str(picture), "--id-column", "id")
    said = call("annotate", model, str(file), *asked)[1]
    assert f"Drawn: {picture} (? stands for letters that its font lacks)\n" in said


def test_an_index_is_known_by_its_encoder_and_no_other(call, model, corpus, tmp_path):
    index, other = tmp_path / "index.parquet", tmp_path / "other"
    call("encode", model, corpus, str(index), "--by", "sentence", *COLUMNS)
    code, said, _ = call("canary", model, str(index))
    assert (
        code,
        said.startswith(f"{index} is of {model}. The same encoder: the least alike of 24 canaries"),
    ) == (
        0,
        True,
    )
    save_encoder(tiny.static(seed=1), other, model_card(CardFacts(name="other", base="tiny")))
    code, said, told = call("canary", str(other), str(index), "--json")
    assert (code, json.loads(said)["same"], "E202 " in told) == (3, False, True)


@pytest.mark.parametrize("by", ["document", "sentence"])
def test_an_index_is_searched_as_its_corpus_is(call, model, corpus, tmp_path, by):
    titled, index = (*COLUMNS, "--counterpart-column", "title"), str(tmp_path / "index.parquet")
    call("encode", model, corpus, index, "--by", by, *titled)
    direct = json.loads(call("search", model, "w8", corpus, "--json", *titled)[1])
    code, said, _ = call("search", model, "w8", index, "--json")
    shown = ("doc_id", "counterpart") + ("sentence",) * (by == "sentence")
    assert code == 0
    assert [[hit[name] for name in shown] for hit in json.loads(said)] == [
        [hit[name] for name in shown] for hit in direct
    ]
    told = call("search", model, "w8", index)[1]
    assert ("w8 w9" in told, "nearest sentence" in told) == (True, by == "sentence")


def test_an_index_of_another_encoder_is_not_searched(call, model, corpus, tmp_path):
    index, other = str(tmp_path / "index.parquet"), tmp_path / "other"
    call("encode", model, corpus, index, *COLUMNS)
    save_encoder(tiny.static(seed=1), other, model_card(CardFacts(name="other", base="tiny")))
    code, said, told = call("search", str(other), "w5", index)
    assert (code, said) == (3, "")
    assert f"error E202 An index is searched with the encoder that wrote it: {index} was" in told


def test_an_index_is_no_corpus_and_takes_no_columns(call, model, corpus, tmp_path):
    index, other = str(tmp_path / "index.parquet"), str(tmp_path / "other.parquet")
    call("encode", model, corpus, index, *COLUMNS)
    code, _, told = call("encode", model, index, other)
    assert (code, f"E001 {index} is an index" in told) == (2, True)
    code, _, told = call("search", model, "w5", index, *COLUMNS)
    assert (code, "is an index, which takes no --sentences-column, --id-column:" in told) == (
        2,
        True,
    )


def test_vectors_never_take_the_place_of_their_documents(call, model, corpus, tmp_path):
    documents = tmp_path / "documents.parquet"
    rows = [json.loads(line) for line in Path(corpus).read_text().splitlines()]
    pq.write_table(pa.Table.from_pylist(rows), documents)
    before = documents.read_bytes()
    for asked in ((), ("--overwrite",)):
        code, _, told = call("encode", model, str(documents), str(documents), *asked, *COLUMNS)
        assert (code, "would be overwritten with their vectors" in told) == (2, True)
    assert documents.read_bytes() == before


def test_one_vector_is_no_plural(call, model, tmp_path):
    source, out = tmp_path / "one.jsonl", tmp_path / "vectors.parquet"
    source.write_text('{"id": "a", "sentences": ["w5 w6", "w7"]}\n')
    _, said, _ = call("encode", model, str(source), str(out), *COLUMNS)
    assert said == f"1 vector of 16 dimensions, one a document: {out}\n"


def test_an_index_that_is_served_is_replaced_on_request_alone(call, model, corpus, tmp_path):
    out = tmp_path / "vectors.parquet"
    out.write_bytes(b"what somebody serves")
    code, said, told = call("encode", model, corpus, str(out), *COLUMNS)
    assert (code, said, out.read_bytes()) == (2, "", b"what somebody serves")
    assert f"E001 `encode` writes a new file, and {out} is there" in told
    assert told.rstrip().endswith("or replace it with --overwrite.")
    assert call("encode", model, corpus, str(out), "--overwrite", *COLUMNS)[0] == 0
    assert pq.read_table(out).num_rows == 8


def test_titles_of_one_sentence_each_are_encoded_and_found(call, model, tmp_path):
    titles = tmp_path / "titles.csv"
    titles.write_text("id,text\n" + "".join(f"t{k},w{4 + k}\n" for k in range(9)))
    columns = ("--id-column", "id", "--text-column", "text")
    code, _, words = call("encode", model, str(titles), str(tmp_path / "v.parquet"), *columns)
    assert code == 0
    assert "pairs" not in words
    code, said, _ = call("search", model, "w7", str(titles), "--top", "1", "--json", *columns)
    assert (code, json.loads(said)[0]["doc_id"]) == (0, "t3")


def test_refused_rows_lie_beside_the_vectors(call, model, tmp_path):
    rows = [{"id": k, "text": "w4 w5." if k % 3 else "\0"} for k in range(9)]
    source = tmp_path / "some.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "vectors.parquet"
    columns = ("--id-column", "id", "--text-column", "text")
    code, _, words = call("encode", model, str(source), str(out), *columns)
    refused = tmp_path / "vectors.parquet.quarantine.parquet"
    assert code == 0
    assert f"3 of 9 rows refused (3 nul), with their places: {refused}" in words
    assert pq.read_table(refused)["reason"].to_pylist() == ["nul"] * 3
    source.write_text("".join(json.dumps(row) + "\n" for row in rows if row["text"] != "\0"))
    code, _, _ = call("encode", model, str(source), str(out), "--overwrite", *columns)
    assert (code, refused.exists()) == (0, False), "the refused rows of an earlier index"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("unheard of", "knows no word of the query"),
        ("w4 unheard", "1 of 2 tokens of the query are unknown to the encoder"),
        ("w4 w5 unheard", None),
    ],
)
def test_a_query_of_few_known_words_is_told(call, model, corpus, query, told):
    code, _, words = call("search", model, query, corpus, *COLUMNS)
    assert code == 0
    assert told in words if told else "of the query" not in words
    assert "the rest is cut" not in words


def test_a_query_is_shown_and_read_as_far_as_it_can_be(call, model, corpus):
    code, said, words = call("search", model, "w4 " * 500, corpus, *COLUMNS)
    assert code == 0
    assert "the rest is cut" in words
    assert said.count("w4") < 60


def test_an_exported_encoder_is_the_same_and_never_lands_on_another(call, model, tmp_path):
    folder = tmp_path / "copy"
    assert call("export", model, str(folder))[0] == 0
    assert load_encoder(folder).dim == load_encoder(Path(model)).dim
    assert (folder / "README.md").read_text() == (Path(model) / "README.md").read_text()
    assert not (folder / HEAD_FILE).exists()
    code, _, told = call("export", model, str(folder))
    assert (code, "is not empty" in told) == (2, True)


def test_a_card_that_travels_says_what_the_copy_reads_and_no_place_of_this_machine(
    call, model, tmp_path
):
    """Of a foreign folder the length is stated in another card, and here it is 32."""
    foreign, folder = tmp_path / "foreign", tmp_path / "copy"
    shutil.copytree(model, foreign)
    stated = foreign / "config_sentence_transformers.json"
    stated.write_text(json.dumps(json.loads(stated.read_text()) | {"creator": "somebody"}))
    (foreign / "README.md").write_bytes(b"It reads 512 tokens. \xff")
    assert call("export", str(foreign), str(folder))[0] == 0
    card = (folder / "README.md").read_text()
    assert "It reads 32 tokens" in card
    assert str(tmp_path) not in card
    assert load_encoder(folder).max_length == 32


def test_an_exported_encoder_keeps_the_head_of_its_condenser_stage(call, model, tmp_path):
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / HEAD_FILE).write_bytes(b"weights")
    assert call("export", str(tmp_path / "model"), str(tmp_path / "copy"))[0] == 0
    assert (tmp_path / "copy" / HEAD_FILE).read_bytes() == b"weights"


def test_an_encoder_is_exported_to_read_more_or_less_of_a_text_and_its_card_says_so(
    call, model, tmp_path
):
    folder = tmp_path / "copy"
    told = json.loads(call("export", model, str(folder), "--max-length", "9", "--json")[1])
    found = load_encoder(folder)
    assert told["max_length"] == found.max_length == 9
    assert len(found.tokenise(["w5 " * 50])[0]) == 9
    assert "It reads 9 tokens" in (folder / "README.md").read_text()
    assert load_encoder(Path(model)).max_length != 9


def test_a_whitened_encoder_is_an_encoder_of_fewer_dimensions_and_a_flow_keeps_all(
    call, model, corpus, tmp_path
):
    told = {}
    for by, more in (("whitening", ("--keep", "4")), ("soft_whitening", ()), ("flow", ())):
        folder = tmp_path / by
        words = ("postprocess", model, corpus, str(folder), "--by", by, *more, *COLUMNS)
        code, said, _ = call(*words, "--json")
        told[by] = json.loads(said)
        assert (code, load_encoder(folder).dim) == (0, told[by]["dim"])
        assert f"behind a {by.replace('_', ' ')}" in (folder / "README.md").read_text()
    assert [told[by]["dim"] for by in ("whitening", "soft_whitening", "flow")] == [4, 15, 16]
    assert {one["sentences"] for one in told.values()} == {24}
    out = tmp_path / "vectors.parquet"
    assert call("encode", str(tmp_path / "whitening"), corpus, str(out), *COLUMNS)[0] == 0
    words = ("postprocess", model, corpus, str(tmp_path / "new"), "--by", "flow", "--keep", "4")
    code, _, refused = call(*words, *COLUMNS)
    assert (code, "A flow keeps every dimension" in refused) == (2, True)


def test_word_vectors_of_a_corpus_are_an_encoder_of_its_words(call, tmp_path):
    pytest.importorskip("gensim", reason="gensim is not installed: pip install 'sentemb[words]'")
    source, folder = tmp_path / "toys.jsonl", tmp_path / "words"
    rows = [
        {"id": f"d{k}", "sentences": ["Lego bricks", "rare" * (k == 0) + "tax"]} for k in range(6)
    ]
    source.write_text("\n".join(map(json.dumps, rows)))
    words = ("words", str(source), str(folder), "--dim", "8", *COLUMNS)
    code, said, _ = call(*words, "--json")
    assert (code, json.loads(said)) == (0, {"folder": str(folder), "words": 3, "dim": 8})
    encoder = load_encoder(folder)
    known, unknown = embed_texts(encoder, ["lego tax", "falcon"])
    assert (known.any(), unknown.any()) == (True, False)
    code, _, refused = call(*words)
    assert (code, "name a new folder" in refused) == (2, True)


def test_without_gensim_no_corpus_is_read_for_its_words(call, corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    code, _, refused = call("words", corpus, str(tmp_path / "words"), *COLUMNS)
    assert (code, "E401" in refused, "sentemb[words]" in refused) == (2, True, True)


@pytest.mark.parametrize("verb", ["encode MODEL CORPUS OUT", "search MODEL w5 CORPUS"])
def test_a_bad_vector_is_told_with_the_encoder_and_its_revision(call, corpus, tmp_path, verb):
    diverged, folder = tiny.static(), tmp_path / "diverged"
    with torch.no_grad():
        diverged.backbone.embedding.weight[9] = float("nan")
    save_encoder(diverged, folder, model_card(CardFacts()))
    words = verb.replace("MODEL", str(folder)).replace("CORPUS", corpus)
    code, _, told = call(*words.replace("OUT", str(tmp_path / "out.parquet")).split(), *COLUMNS)
    assert code == 3
    assert "E201 " in told
    assert re.search(r"first at sentences \[\d.* That is sentence \d of document '\w+'[.,]", told)
    revision = weights_digest(load_encoder(folder))
    assert f"The encoder is {folder} (its weights have SHA-256 {revision})." in told
    assert revision != weights_digest(tiny.static())


def test_methods_are_listed_with_what_they_need(call):
    code, said, _ = call("methods", "--json")
    assert code == 0
    listed = {entry["name"]: entry for entry in json.loads(said)}
    assert listed["conpono"]["needs"] == "documents"
    assert listed["simcse"]["presets"][:2] == ["paper", "mlm"]


def test_what_begins_with_the_head_of_a_condenser_stage_says_so(call):
    headed = "sentences; a transformer and its head from a Condenser stage"
    listed = json.loads(call("methods", "--json")[1])
    names = [entry["name"] for entry in listed if entry["needs"] == headed]
    assert names == ["infocse_aux", "diffcse", "rtd_mlm"]
    assert call("methods")[1].count("head from a Condenser stage") == 3


def test_whoever_has_sentences_alone_is_told_what_judges_them(call):
    said = " ".join(call("methods")[1].split())
    assert said.endswith("want a column of counterparts (--counterpart-column).")


def test_methods_are_listed_without_waiting_for_torch():
    listing = "import sys; from sentemb_core.cli import methods; methods()"
    script = f"{listing}; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("serch MODEL word CORPUS", 2, 'Did you mean "search"'),
        ("search MODEL word CORPUS --tpo 3", 2, "Did you mean --top"),
        ("search MODEL word CORPUS --k 3", 2, "Unknown option: --k. See `search --help`."),
        ("search MODEL word CORPUS --top 0", 2, "--top. Must be >= 1"),
        ("search MODEL word CORPUS --on-duplicate erorr", 2, 'Did you mean "error"'),
        ("search MODEL word CORPUS --encoding utf-88", 2, "Unknown encoding 'utf-88'"),
        ("annotate MODEL CORPUS", 2, "`annotate` wants --document: Id of the document. See"),
        ("annotate MODEL CORPUS --documnt 1", 2, "Did you mean --document instead of --documnt?"),
        ("search word CORPUS --model MODEL", 2, "`search` takes MODEL by its place, before what"),
        ("run CORPUS", 2, "may be the other door's: `sentemb` (an encoder in a folder) or"),
        ("search MODEL", 2, "`search` wants QUERY: What to look for. See `search --help`"),
        ("methods simcse", 2, "`methods` takes no simcse: see `methods --help`"),
        ("search nosuch word CORPUS", 2, "E401 "),
        ("search /nosuch word CORPUS", 2, "'/nosuch' is a path, and there is no folder"),
        ("canary models:/x@champion CORPUS", 2, "`python -m flows where models:/x@champion` pri"),
        ("search static word CORPUS", 2, "learns its vocabulary from a corpus"),
        ("search MODEL CORPUS word", 2, "as the QUERY, and 'word' as the SOURCE: swap them"),
        ("search CORPUS word MODEL", 2, "E001 The order is MODEL QUERY SOURCE; found "),
        ("encode CORPUS MODEL out.parquet", 2, "as the SOURCE: swap them"),
        ("evaluate CORPUS MODEL", 2, "a file or a folder without an encoder, as the MODEL"),
        ("annotate CORPUS minilm --document d1", 2, "as the MODEL, and 'minilm' as the SOURCE"),
        ("canary CORPUS minilm", 2, "The order is MODEL INDEX; found "),
        ("search CORPUS word CORPUS", 2, "documents.jsonl' is a file of another kind"),
        ("search MODEL word nosuch.jsonl", 3, "E103 No file or folder at nosuch.jsonl"),
        ("search MODEL word CORPUS --text-column boddy", 3, "E104 No column 'boddy': found ['id',"),
        ("search MODEL word CORPUS --sentences-column sentense", 3, "did you mean 'sentences'"),
        ("annotate MODEL CORPUS --document d99", 3, "No document has the id 'd99'"),
        ("annotate MODEL CORPUS --document d1 --picture graph.xyz", 2, "extensions"),
        ("evaluate MODEL CORPUS --candidates 1", 2, "--candidates. Must be >= 2"),
        ("encode MODEL CORPUS nofolder/vectors.parquet", 2, "There is no folder nofolder"),
        ("encode MODEL CORPUS vectors.txt", 2, "must have extension"),
        ("export MODEL CORPUS", 2, "is a file: name a new folder"),
        ("export MODEL CORPUS/copy", 2, "documents.jsonl is a file. Name a new folder"),
        ("export MODEL /proc/copy", 5, "E601 /proc/copy could not be written"),
        ("canary MODEL nosuch.parquet", 2, "E001 An index is a Parquet file as"),
        ("canary MODEL CORPUS", 2, "E001 An index is a Parquet file as"),
    ],
)
def test_a_mistake_is_told_in_one_line(call, model, corpus, arguments: str, code: int, told: str):
    words = arguments.replace("MODEL", model).replace("CORPUS", corpus).split()
    named = ("--id-column", "id") if code == 3 and "--document" in words else ()
    found, said, errors = call(*words, *named)
    assert (found, said) == (code, "")
    assert told in errors
    assert errors.splitlines()[-1].startswith("error E")
    assert not errors.strip().endswith("..")
    assert "Traceback" not in errors


def test_the_quarantine_of_an_empty_corpus_is_where_the_error_says(call, model, tmp_path):
    source = tmp_path / "broken.jsonl"
    source.write_text("no JSON\n")
    code, _, told = call("search", model, "w5", str(source))
    (path,) = [Path(word[:-1]) for word in told.split() if word.endswith("quarantine.parquet.")]
    assert (code, pq.read_table(path)["reason"].to_pylist()) == (3, ["broken-row"])
    rmtree(path.parent)


def test_no_corpus_is_left_behind(call, model, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert call("search", model, "w5", corpus, *COLUMNS)[0] == 0
    assert call("annotate", model, corpus, "--document", "d99", *COLUMNS)[0] == 3
    assert list(tmp_path.iterdir()) == []


def test_a_table_shows_the_beginning_of_a_sentence_without_end(call, model, tmp_path):
    endless = "w5" * 2_000  # a code block, or a script without spaces
    source = tmp_path / "endless.jsonl"
    source.write_text(json.dumps({"id": "a", "sentences": [endless, "w6"]}) + "\n")
    told = call("search", model, endless, str(source), *COLUMNS)[1]
    assert "w5w5" in told
    assert told.count("w5") < 300
    [hit] = json.loads(call("search", model, endless, str(source), "--json", *COLUMNS)[1])
    assert hit["sentence"] == endless


def test_an_empty_query_is_refused(call, model, corpus):
    code, _, told = call("search", model, " ", corpus, *COLUMNS)
    assert (code, "E001 A query is a text" in told) == (2, True)


def test_a_repeated_id_is_an_error_if_one_asks_for_it(call, model, tmp_path):
    twice = tmp_path / "twice.jsonl"
    twice.write_text('{"id": "a", "sentences": ["w5 w6", "w7"]}\n' * 2)
    assert call("search", model, "w5", str(twice), *COLUMNS)[0] == 0
    code, _, told = call("search", model, "w5", str(twice), "--on-duplicate", "error", *COLUMNS)
    assert code == 3
    assert "E105 A document id occurs once: found again 'a' in twice.jsonl, line 1, b" in told


def test_debug_shows_where_an_error_came_from(call, corpus, model):
    code, _, told = call("search", model, "word", corpus, "--id-column", "idd", "--debug")
    assert (code, told.count("Traceback")) == (3, 1)
    assert told.splitlines()[-1].startswith("error E104 ")


def test_an_error_that_nobody_foresaw_is_one_line_too(call, model, corpus, monkeypatch):
    def broken(*_: object) -> None:
        raise KeyError("unforeseen")

    monkeypatch.setattr("sentemb_core.document_vectors.nearest_documents", broken)
    code, _, told = call("search", model, "word", corpus, *COLUMNS)
    assert code == 1
    assert told.splitlines()[-1].startswith("error E000 KeyError: 'unforeseen' (broken in ")


@pytest.mark.parametrize("debug", [[], ["--debug"]], ids=["", "debug"])
def test_no_error_tells_a_password(call, model, corpus, monkeypatch, debug):
    def broken(*_: object) -> None:
        raise ConnectionError("https://me:hidden-word@host/ refused hidden-token")

    monkeypatch.setenv("SOME_TOKEN", "hidden-token")
    monkeypatch.setattr("sentemb_core.document_vectors.nearest_documents", broken)
    _, _, told = call("search", model, "word", corpus, *COLUMNS, *debug)
    assert "ConnectionError: https://***@host/ refused ***" in told
    assert "hidden" not in told


def test_an_interrupt_is_an_exit_code(call, model, corpus, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sentemb_core.document_vectors.nearest_documents", interrupted)
    code, _, told = call("search", model, "word", corpus, *COLUMNS)
    assert (code, told.splitlines()[-1]) == (130, "error interrupted")


def test_a_termination_ends_like_an_interrupt(call, model, corpus, monkeypatch):
    def terminated(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("sentemb_core.document_vectors.nearest_documents", terminated)
    code, _, told = call("search", model, "word", corpus, *COLUMNS)
    assert (code, told.splitlines()[-1]) == (143, "error interrupted")
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_unknown_document_is_told_before_an_encoder_is_loaded(tmp_path):
    corpus = tmp_path / "two.jsonl"
    corpus.write_text('{"id": "a", "text": "One. Two."}\n{"id": "b", "text": "Three."}\n')
    code = (
        "import sys\nfrom sentemb_core import console\nfrom sentemb_core.cli import app\n"
        "console.run(app, sys.argv[1:])\nprint('torch' in sys.modules)"
    )
    words = ["annotate", "minilm", str(corpus), "--id-column", "id", "--document", "c"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert "No document has the id 'c'; the first ids are ['a', 'b']" in done.stderr
    assert done.stdout == "False\n"


def test_a_static_encoder_searches_without_waiting_for_transformers(model, corpus):
    code = (
        "import sys\nfrom sentemb_core import console\nfrom sentemb_core.cli import app\n"
        "assert console.run(app, sys.argv[1:]) == 0\nassert 'transformers' not in sys.modules"
    )
    words = ["search", model, "word", corpus, *COLUMNS]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
