"""`index` and `search` of retrievers, in both command lines."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from flows.__main__ import app as flows
from sentemb_core.cli import app as core
from sentemb_core.cli_search import asked
from sentemb_core.encoder.checkpoint import save_encoder
from sentemb_core.errors import UsageError
from sentemb_core.retriever.folder import save_retriever
from sentemb_core.retriever.index import Index
from sentemb_core.retriever.index_files import stated_model
from sentemb_core.retriever.scores import scores_of_documents
from sentemb_core.retriever.spec import RetrieverSpec
from tests import tiny
from tests.retriever import made

COLUMNS = ("--id-column", "id", "--sentences-column", "sentences", "--counterpart-column", "title")
DOCUMENTS = made.documents(30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a retriever, one of words alone, an encoder, documents and their index."""
    folder = tmp_path_factory.mktemp("retrievers")
    save_retriever(made.retriever(), folder / "model", "card")
    save_retriever(made.retriever(RetrieverSpec(words="bm25")), folder / "words", "card")
    save_encoder(tiny.static(), folder / "encoder", "card")
    rows = [
        {"id": each.doc_id, "sentences": each.sentences, "title": each.counterpart}
        for each in DOCUMENTS
    ]
    write(folder / "documents.jsonl", *map(json.dumps, rows))
    write(folder / "queries.txt", "w5 w9", "w20 w21")
    write(folder / "ids.txt", *(f"d{k}" for k in range(5)))
    from sentemb_core import console

    console.run(core, ["index", *paths(folder, "model", "documents.jsonl", "index"), *COLUMNS])
    return folder


def write(file: Path, *lines: str) -> None:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def paths(folder: Path, *names: str) -> list[str]:
    return [str(folder / name) for name in names]


@pytest.fixture
def call(answer, home):
    """Exit code, stdout and stderr of `sentemb ...`, in this process."""
    return partial(answer, core)


def test_index_prints_the_bytes_of_a_document_by_part(call, folder, tmp_path):
    source = paths(folder, "model", "documents.jsonl")
    code, out, _ = call("index", *source, str(tmp_path / "new"), "--json", *COLUMNS)
    result = json.loads(out)
    assert (code, result["documents"], result["encoded"], result["dropped"]) == (0, 30, 30, 0)
    sizes = result["bytes_per_document"]
    assert {*sizes} == {"documents", "texts", "sentences", "tokens", "words"}
    files = [file for file in (tmp_path / "new").rglob("*") if file.is_file()]
    whole = sum(file.stat().st_size for file in files if file.name != "index.json")
    assert sum(sizes.values()) * 30 == pytest.approx(whole)


def test_an_update_encodes_new_and_changed_documents(call, folder, tmp_path):
    model, index, source = str(folder / "model"), str(tmp_path / "index"), tmp_path / "few.jsonl"
    rows = [{"id": f"x{k}", "sentences": [f"w{k + 5} w9"]} for k in range(6)]
    columns = COLUMNS[:4]
    write(source, *map(json.dumps, rows))
    assert call("index", model, str(source), index, *columns)[0] == 0
    rows[1]["sentences"] = ["w70"]
    write(source, *map(json.dumps, [*rows[:5], {"id": "new", "sentences": ["w71 w72"]}]))
    asked = ("index", model, str(source), index, *columns, "--update", "--json")
    result = json.loads(call(*asked)[1])
    assert (result["documents"], result["encoded"], result["dropped"]) == (6, 2, 1)
    hits = json.loads(call("search", model, "w71", index, "--json", "--top", "1")[1])
    assert hits[0]["doc_id"] == "new"


@pytest.mark.parametrize("program", [core, flows])
def test_an_update_takes_the_retriever_that_wrote_the_index(answer, folder, tmp_path, program):
    model, source, index = *paths(folder, "model", "documents.jsonl"), str(tmp_path / "index")
    assert answer(core, "index", model, source, index, *COLUMNS)[0] == 0
    later = tmp_path / "later.jsonl"
    write(later, json.dumps({"id": "new", "sentences": ["w71 w72"]}))
    asked = ("index", str(later), index, *COLUMNS[:4], "--update", "--json")
    code, out, error = answer(program, *asked)
    assert code == 0, error
    result = json.loads(out)
    assert (result["encoded"], result["dropped"]) == (1, 30)
    assert stated_model(Path(index)) == model


@pytest.mark.parametrize("given", [(), ("--sentences-column", "other")])
def test_an_update_reads_the_source_with_the_options_of_the_index(call, folder, tmp_path, given):
    model, source, index = str(folder / "model"), tmp_path / "s.jsonl", str(tmp_path / "index")
    row = {"name": "a", "sentences": ["w5 w9"], "other": ["w20"], "title": "w5 w6"}
    write(source, json.dumps(row))
    columns = ("--id-column", "name", "--text-column", "title")
    assert call("index", model, str(source), index, *columns)[0] == 0
    columns = ("--sentences-column", "sentences", "--counterpart-column", "title")
    assert call("index", str(source), index, *columns, "--update")[0] == 0
    code, out, error = call("index", str(source), index, "--update", "--json", *given)
    assert (code, json.loads(out)["encoded"]) == (0, len(given) // 2)
    assert ("--sentences-column" in error) == bool(given)
    (hit,) = json.loads(call("search", model, "w5", index, "--json")[1])
    assert (hit["doc_id"], hit["counterpart"]) == ("a", "w5 w6")


@pytest.mark.parametrize("program", [core, flows])
def test_an_index_whose_retriever_is_gone_is_opened_with_its_new_place(
    answer, folder, tmp_path, program
):
    old, new, index = (str(tmp_path / name) for name in ("old", "new", "index"))
    save_retriever(made.retriever(), Path(old), "card")
    source = str(folder / "documents.jsonl")
    assert answer(core, "index", old, source, index, *COLUMNS)[0] == 0
    Path(old).rename(new)
    update = ("index", source, index, *COLUMNS, "--update", "--json")
    code, _, error = answer(program, *update)
    assert (code, "E401" in error, index in error) == (2, True, True)
    named = ("index", new, *update[1:]) if program is core else (*update, "--model", new)
    code, out, _ = answer(program, *named)
    assert (code, json.loads(out)["encoded"]) == (0, 0)


@pytest.mark.parametrize("source", ["index", "documents.jsonl"])
@pytest.mark.parametrize("by", ["hybrid", "dense", "words"])
def test_search_has_the_scores_of_the_retriever(call, folder, source, by):
    model, columns = made.retriever(), COLUMNS if source != "index" else ()
    asked = ("search", *paths(folder, "model"), "w5 w9", *paths(folder, source))
    hits = json.loads(call(*asked, "--by", by, "--top", "3", "--json", *columns)[1])
    changes = {"hybrid": {}, "dense": {"words": None}, "words": {"vectors": (), "tokens": False}}
    spec = model.spec.model_copy(update=changes[by])
    read = model.read_documents([document.sentences for document in DOCUMENTS])
    scores = scores_of_documents(spec, model.read_texts(["w5 w9"]), read)(np.array([0]))[0]
    best = np.argsort(-scores)[:3]
    assert [hit["doc_id"] for hit in hits] == [DOCUMENTS[row].doc_id for row in best]
    assert [hit["score"] for hit in hits] == pytest.approx(scores[best].tolist(), abs=1e-2)
    assert [hit["counterpart"] for hit in hits] == [DOCUMENTS[row].counterpart for row in best]
    assert all((hit["sentence"] is None) == (by == "words") for hit in hits)


@pytest.mark.parametrize("source", ["index", "documents.jsonl"])
def test_a_file_of_queries_and_a_file_of_ids(call, folder, source):
    columns = COLUMNS if source != "index" else ()
    model, searched = paths(folder, "model", source)
    files = ("--queries", str(folder / "queries.txt"), "--among", str(folder / "ids.txt"))
    code, out, _ = call("search", model, searched, *files, "--top", "2", "--json", *columns)
    results = json.loads(out)
    assert (code, [result["query"] for result in results]) == (0, ["w5 w9", "w20 w21"])
    found = {hit["doc_id"] for result in results for hit in result["hits"]}
    assert found <= {f"d{k}" for k in range(5)}
    assert [len(result["hits"]) for result in results] == [2, 2]
    shown = call("search", model, searched, *files, "--top", "2", *columns)[1]
    assert all(hit["doc_id"] in shown for result in results for hit in result["hits"])


def test_blank_lines_of_a_file_are_left_out_with_one_warning(call, folder, tmp_path):
    write(tmp_path / "queries.txt", "w5 w9", "", "w20 w21", " \t", "")
    write(tmp_path / "ids.txt", "", *(f"d{k}" for k in range(5)))
    model, index = paths(folder, "model", "index")
    queries = ("search", model, index, "--queries", str(tmp_path / "queries.txt"), "--json")
    code, out, error = call(*queries)
    assert (code, [each["query"] for each in json.loads(out)]) == (0, ["w5 w9", "w20 w21"])
    (line,) = [line for line in error.splitlines() if "queries.txt" in line]
    assert "3" in line
    code, out, error = call("search", model, "w5", index, "--among", str(tmp_path / "ids.txt"))
    assert (code, "ids.txt" in error) == (0, True)


def test_an_index_states_which_rows_it_leaves_out(call, folder, tmp_path):
    rows = [{"id": f"d{k}", "text": f"w{k} w5. w6 w{k}.", "title": f"w{k} w9"} for k in range(4)]
    rows[2]["text"] = rows[2]["title"]
    write(tmp_path / "rows.jsonl", *map(json.dumps, rows))
    asked = ("index", str(folder / "encoder"), str(tmp_path / "rows.jsonl"))
    columns = ("--id-column", "id", "--text-column", "text", "--counterpart-column", "title")
    code, out, _ = call(*asked, str(tmp_path / "noted"), *columns)
    refused = tmp_path / "noted.quarantine.parquet"
    assert code == 0
    assert out.splitlines()[-1].endswith(f": {refused}")
    assert "1 of 4 rows" in out.splitlines()[-1]
    assert refused.is_file()
    found = json.loads(call(*asked, str(tmp_path / "json"), *columns, "--json")[1])
    assert (found["documents"], found["refused"]) == (3, {"only-counterpart": 1})


def test_an_encoder_alone_has_an_index_of_its_vectors(call, folder, tmp_path):
    source = paths(folder, "encoder", "documents.jsonl")
    assert call("index", *source, str(tmp_path / "index"), *COLUMNS)[0] == 0
    direct = json.loads(call("search", source[0], "w5 w9", source[1], "--json", *COLUMNS)[1])
    hits = json.loads(call("search", source[0], "w5 w9", str(tmp_path / "index"), "--json")[1])
    assert [hit["doc_id"] for hit in hits] == [hit["doc_id"] for hit in direct]
    assert [hit["score"] for hit in hits] == pytest.approx([hit["score"] for hit in direct])


def test_flows_searches_an_index_with_the_model_that_wrote_it(answer, home, folder, tmp_path):
    model, source = paths(folder, "model", "documents.jsonl")
    index = str(tmp_path / "index")
    code, _, error = answer(flows, "index", source, index, "--model", model, *COLUMNS)
    assert code == 0, error
    assert stated_model(Path(index)) == model
    hits = answer(flows, "search", "w5 w9", index, "--json")[1]
    assert hits == answer(flows, "search", "w5 w9", index, "--model", model, "--json")[1]
    assert hits == answer(flows, "search", "w5 w9", source, "--model", model, "--json", *COLUMNS)[1]
    queries = ("--queries", str(folder / "queries.txt"), "--json")
    assert len(json.loads(answer(flows, "search", index, *queries)[1])) == 2


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("search encoder w5 index", "E202"),
        ("search model w5 index --id-column id", "E001"),
        ("search words w5 documents.jsonl --by dense COLUMNS", "E001"),
        ("search encoder w5 documents.jsonl --by words COLUMNS", "E001"),
        ("search model w5", "E001"),
        ("search model w5 index --queries queries.txt", "E001"),
        ("search model index --queries nosuch.txt", "E103"),
        ("search model index --queries empty.txt", "E001"),
        ("search model index --queries blank.txt", "E001"),
        ("search model index --queries latin.txt", "E103"),
        ("search model w5 index --among queries.txt", "E100"),
        ("search model BLANK index", "E001"),
        ("index model documents.jsonl index COLUMNS", "E001"),
        ("index model documents.jsonl new COLUMNS --update", "E103"),
        ("index encoder documents.jsonl index COLUMNS --update", "E202"),
        ("index model documents.jsonl index COLUMNS --update --no-texts", "E001"),
        ("index model index new", "E001"),
        ("index documents.jsonl new", "E001"),
        ("index documents.jsonl new --update", "E103"),
        ("index documents.jsonl model --update", "E103"),
        ("index documents.jsonl documents.jsonl --update", "E103"),
        ("index documents.jsonl unnamed COLUMNS --update", "E001"),
        ("index documents.jsonl cut COLUMNS --update", "E103"),
        ("search model w5 vectors.parquet --by words", "E001"),
    ],
)
def test_errors_have_codes(call, folder, command, code):
    write(folder / "empty.txt")
    write(folder / "blank.txt", " ", "")
    (folder / "latin.txt").write_bytes("Überschuss".encode("latin-1"))
    if "vectors" in command:
        asked = paths(folder, "encoder", "documents.jsonl", "vectors.parquet")
        call("encode", *asked, *COLUMNS, "--overwrite")
    if "unnamed" in command:
        Index.build(made.retriever(), DOCUMENTS[:2], folder / "unnamed")
    if "cut" in command:
        index = Index.build(made.retriever(), DOCUMENTS[:2], folder / "cut", model="model")
        (index.folder / "tokens.npy").unlink()
    words = [" " if word == "BLANK" else word for word in command.split()]
    names = {"new", *(file.name for file in folder.iterdir()), "nosuch.txt"}
    words[1:] = [str(folder / word) if word in names else word for word in words[1:]]
    words = [part for word in words for part in (COLUMNS if word == "COLUMNS" else [word])]
    status, out, error = call(*words)
    assert (out, code in error) == ("", True), error
    assert status in (2, 3)
    assert not (folder / "new").exists()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("q", "s", None), (["q"], "s")),
        (("s", None, "file"), (["a", "b c"], "s")),
        (("q", None, None), None),
        (("q", "s", "file"), None),
    ],
)
def test_queries_are_a_text_or_the_lines_of_a_file(tmp_path, given, expected):
    write(tmp_path / "file", "a", "b c")
    query, source, file = given
    file = file and tmp_path / file
    if expected is None:
        with pytest.raises(UsageError):
            asked(query, source, file)
    else:
        assert asked(query, source, file) == expected
