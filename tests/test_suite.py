from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from sentemb_core.config.suite import (
    GROUPS,
    POSITIVES,
    SUITE,
    USUAL,
    RetrievalTask,
    SuiteTask,
    beir_task,
    chosen,
)
from sentemb_core.errors import UsageError


def test_every_name_is_one_task_and_no_group():
    names = [task.name.lower() for task in SUITE]
    assert len({*names, *GROUPS}) == len(names) + len(GROUPS)
    assert {task.group for task in SUITE} == set(GROUPS)
    assert all(task.files for task in SUITE)


def test_tasks_are_chosen_by_name_or_group_in_any_case():
    assert [task.name for task in chosen(["sts-b", "CRANFIELD"])] == ["Cranfield", "STS-B"]
    assert {task.group for task in chosen(USUAL)} == set(USUAL)
    assert chosen(["STS", "STS12"]) == chosen(["sts"])


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("sts", ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"]),
        ("transfer", ["MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC"]),
        ("retrieval", ["Cranfield", "CACM", "NPL"]),  # one measure: nDCG@10
    ],
)
def test_averages_are_over_the_tasks_of_the_papers(group: str, names: list[str]):
    assert [task.name for task in SUITE if task.group == group and task.averaged] == names


@pytest.mark.parametrize(
    ("name", "values"),
    [("Quora", "'quora'.* retrieval, .*STS12"), ("STSB", r"'stsb'; [^,]*'STS-B'\?$")],
)
def test_an_unknown_task_is_answered_with_known_tasks(name: str, values: str):
    with pytest.raises(UsageError, match=values):
        chosen([name])


def test_a_task_is_read_back_as_its_kind():
    adapter = TypeAdapter(SuiteTask)
    for task in (*SUITE, beir_task("scifact")):
        assert adapter.validate_python(task.model_dump()) == task
    with pytest.raises(ValidationError):
        adapter.validate_python({"group": "retrieval", "name": "x", "files": ["y"]})


def test_a_beir_folder_is_a_task():
    task = beir_task("scifact")
    assert isinstance(task, RetrievalTask)
    assert (task.name, task.source, task.files[-1]) == ("scifact", "beir", "qrels/test.tsv")


def test_the_open_data_have_the_files_of_most_tasks(larger_sets: Path):
    lacking = [
        task.name
        for task in SUITE
        if not all((larger_sets / file).is_file() for file in task.files)
    ]
    known = {"STS13", "STS15", "SUBJ", "MPQA", "TREC", "SNLI"}
    assert {name for name in lacking if "_" not in name} == known
    assert (larger_sets / POSITIVES).is_file()
