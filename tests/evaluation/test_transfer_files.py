"""Transfer tasks out of files, and files that are refused."""

import math
from collections import Counter
from pathlib import Path

import pytest

from sentemb_core.config.suite import SUITE, ProbeTask, chosen
from sentemb_core.errors import BadDataError, MissingColumnError, UnreadableSourceError
from sentemb_core.evaluation.transfer_files import (
    READERS,
    read_labelled,
    read_phrases,
    read_probe,
    read_probing,
    read_relatedness,
    read_reviews,
)
from tests.parquet import write


def probe(name: str) -> ProbeTask:
    (task,) = chosen([name])
    assert isinstance(task, ProbeTask)
    return task


def test_file_without_parts_has_no_split(tmp_path: Path):
    found = read_labelled("cr", write(tmp_path / "a.parquet", text=["a", "b"], label=[1, 0]))
    assert (found.name, found.first, found.gold.tolist()) == ("cr", ["a", "b"], [1, 0])
    assert (found.second, found.split, found.kind) == (None, None, "classes")


def test_pairs_keep_their_parts(tmp_path: Path):
    columns = {"sentence1": ["a", "b"], "sentence2": ["c", "d"], "split": ["train", "test"]}
    found = read_labelled("mrpc", write(tmp_path / "a.parquet", label=["yes", "no"], **columns))
    assert (found.first, found.second) == (["a", "b"], ["c", "d"])
    assert (found.split, found.gold.tolist()) == (["train", "test"], [1, 0])


@pytest.mark.parametrize("label", [["a", "-", "b"], [1, -1, 2]])
def test_snli_pairs_without_a_class_are_left_out(tmp_path: Path, label: list[object], caplog):
    parts = ["train", "dev", "test"]
    write(
        tmp_path / probe("SNLI").files[0],
        sentence1=["p", "q", "r", "s", "t"],
        sentence2=["u", "v", "w", "x", "y"],
        label=[*label, label[0], label[2]],
        split=[*parts, "dev", "train"],
    )
    task = read_probe(probe("SNLI"), tmp_path)
    assert (task.name, task.first) == ("SNLI", ["p", "r", "s", "t"])
    assert task.second == ["u", "w", "x", "y"]
    assert (task.gold.tolist(), task.split) == ([0, 1, 0, 1], ["train", "test", "dev", "train"])
    assert [record.args for record in caplog.records] == [("SNLI", 1)]


def test_the_words_of_snli_are_numbered_in_alphabetical_order(tmp_path: Path):
    sides = {"sentence1": list("abc"), "sentence2": list("def"), "split": ["train", "dev", "test"]}
    label = ["neutral", "entailment", "contradiction"]
    write(tmp_path / probe("SNLI").files[0], label=label, **sides)
    task = read_probe(probe("SNLI"), tmp_path)
    assert (task.name, task.gold.tolist(), task.split) == ("SNLI", [2, 1, 0], sides["split"])


def test_three_files_are_three_parts(tmp_path: Path):
    paths = [
        write(tmp_path / f"{k}.parquet", sentence1=["a"], sentence2=["b"], kind=[f"c{k}"])
        for k in range(3)
    ]
    found = read_labelled("sick", *paths, target="kind")
    assert (found.split, found.gold.tolist()) == (["train", "dev", "test"], [0, 1, 2])


def test_phrases_replace_the_train_sentences(tmp_path: Path):
    sentences = write(
        tmp_path / "s.parquet",
        text=["a", "b", "c"],
        label=[0, 1, 0],
        split=["train", "test", "dev"],
    )
    phrases = write(tmp_path / "p.parquet", text=["x", "y"], label=[1, 0])
    found = read_phrases("sst2_phrases", sentences, phrases)
    assert found.first == ["x", "y", "b", "c"]
    assert (found.gold.tolist(), found.split) == ([1, 0, 1, 0], ["train", "train", "test", "dev"])


def test_scored_pairs_keep_their_scores(tmp_path: Path):
    paths = [
        write(tmp_path / f"{part}.parquet", sentence1=["a"] * 3, sentence2=["b"] * 3, score=score)
        for part, score in (("tr", [1.5, 2, None]), ("de", [0.0, 1, 2]), ("te", [3.0, 4, 5]))
    ]
    found = read_relatedness("stsb", *paths)
    assert (found.kind, found.gold.tolist()) == ("scores", [1.5, 2, 0, 1, 2, 3, 4, 5])
    assert found.split == ["train"] * 2 + ["dev"] * 3 + ["test"] * 3


def test_a_review_is_one_text(tmp_path: Path):
    path = write(
        tmp_path / "a.parquet",
        sentences=[["a b.", "c."], ["d."], ["e."]],
        label=[1, 0, 1],
        domain=["books", "dvd", "books"],
    )
    assert read_reviews("r", path).first == ["a b. c.", "d.", "e."]
    found = read_reviews("r", path, "books")
    assert (found.first, found.split) == (["a b. c.", "e."], None)
    with pytest.raises(BadDataError, match=r"0 .*domain cars"):
        read_reviews("r", path, "cars")


@pytest.mark.parametrize(
    ("sentences", "values"),
    [
        (
            [["a."], []],
            {None: "domain None, 1 ", "dvd": "domain dvd, 1 ", "cars": "domain cars, 0 "},
        ),
        ([["a."], ["b.", None]], dict.fromkeys((None, "dvd", "cars"), r"sentences .*row 1\b")),
        (["A film.", "A play."], dict.fromkeys((None, "dvd", "cars"), r"a\.parquet holds text")),
    ],
)
def test_reviews_need_lists_of_sentences(
    tmp_path: Path, sentences: list[object], values: dict[str | None, str]
):
    columns = {"sentences": sentences, "label": [1, 0], "domain": ["dvd", "dvd"]}
    path = write(tmp_path / "a.parquet", **columns)
    for domain, value in values.items():
        with pytest.raises(BadDataError, match=value):
            read_reviews("r", path, domain)


def test_a_probing_file_is_read(tmp_path: Path):
    path = tmp_path / "tense.txt"
    path.write_text("tr\tPAST\tit was .\nva\tPRES\tit is .\nte\tPAST\tthey were .\n")
    found = read_probing("tense", path)
    assert found.first == ["it was .", "it is .", "they were ."]
    assert (found.split, found.gold.tolist()) == (["train", "dev", "test"], [0, 1, 0])


def test_probing_text_may_contain_unicode_line_ends(tmp_path: Path):
    path = tmp_path / "tense.txt"
    path.write_bytes("tr\tPAST\tit\u2028was .\r\nva\tPRES\tit\x85is .\r\nte\tPAST\tno .".encode())
    assert read_probing("tense", path).first == ["it\u2028was .", "it\x85is .", "no ."]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("tr\tA\tit .\ndev\tA\tit .\n", r"1 of 2 lines .*\['dev', 'A', 'it \.'\]"),
        ("tr\tA\tit .\ntr\tit .\n", r"1 of 2 lines .*\['tr', 'it \.'\]"),
        ("\n", r"bad\.txt is empty"),
        ("tr\tA\tit .\nva\tA\tit .\n", r"bad\.txt lacks te\b"),
        ("tr\tA\tit .\nte\tA\tit .\n", r"bad\.txt lacks va\b"),
    ],
    ids=["unknown part", "two cells", "empty", "no test", "no dev"],
)
def test_bad_probing_file_is_refused(tmp_path: Path, text: str, values: str):
    (tmp_path / "bad.txt").write_text(text)
    with pytest.raises(BadDataError, match=values):
        read_probing("bad", tmp_path / "bad.txt")


def test_pairs_need_both_texts(tmp_path: Path):
    write(tmp_path / "transfer_mrpc.parquet", text=["a", "b"], label=[0, 1])
    with pytest.raises(MissingColumnError, match=r"lacks sentence1, sentence2\. .* text\b"):
        read_probe(probe("MRPC"), tmp_path)


def test_broken_files_differ_in_code(tmp_path: Path):
    with pytest.raises(UnreadableSourceError):
        read_labelled("mr", tmp_path / "absent.parquet")
    with pytest.raises(UnreadableSourceError):
        read_probing("tense", tmp_path / "absent.txt")
    with pytest.raises(MissingColumnError, match=r"lacks label\. .* text\b"):
        read_labelled("mr", write(tmp_path / "a.parquet", text=["a"]))
    with pytest.raises(BadDataError, match=r"d\.parquet"):
        read_labelled("mr", write(tmp_path / "d.parquet", text=[], label=[]))


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("sentence1", ["a", None]),
        ("sentence2", [1, 2]),
        ("label", [0, math.nan]),
        ("label", ["yes", None]),
        ("split", ["train", None]),
    ],
)
def test_row_without_a_value_is_named(tmp_path: Path, name: str, cells: list):
    columns = {"sentence1": [*"ab"], "sentence2": [*"cd"], "label": [0, 1], "split": ["train"] * 2}
    path = write(tmp_path / "a.parquet", **columns | {name: cells})
    bad = "0, 1" if cells == [1, 2] else "1"
    with pytest.raises(BadDataError, match=rf"Column {name} .*row {bad}, "):
        read_labelled("mr", path)


def test_task_reads_the_files_that_it_names(tmp_path: Path):
    for file in (files := ("one.parquet", "two.parquet", "three.parquet")):
        write(tmp_path / file, sentence1=[file], sentence2=["a"], entailment=["yes"])
    found = read_probe(ProbeTask(name="x", files=files, source="sick_entailment"), tmp_path)
    assert (found.name, found.first) == ("x", list(files))


def test_every_reader_belongs_to_a_task_of_the_suite():
    assert READERS.keys() <= {task.source for task in SUITE if isinstance(task, ProbeTask)}


COUNTS = {
    "MR": {"all": 10_662},
    "CR": {"all": 3_775},
    "MRPC": {"train": 4_076, "test": 1_725},
    "SST2": {"train": 67_349, "dev": 872, "test": 1_821},
    "SICK-E": {"train": 4_500, "dev": 500, "test": 4_927},
    "SICK-R-regression": {"train": 4_500, "dev": 500, "test": 4_927},
    "STS-B-regression": {"train": 5_749, "dev": 1_500, "test": 1_379},
    "IMDB": {"all": 14_960},
    "Blitzer-books": {"all": 1_956},
}


@pytest.mark.parametrize("name", COUNTS)
def test_real_sets_have_their_published_sizes(larger_sets: Path, name: str):
    found = read_probe(probe(name), larger_sets)
    assert Counter(found.split or ["all"] * len(found)) == COUNTS[name]
