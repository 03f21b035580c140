"""The suite's list: names that are one task each, files by name, and what can be asked for."""

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


def test_every_group_has_tasks_and_every_task_wants_a_file():
    assert {task.group for task in SUITE} == set(GROUPS)
    assert all(task.files for task in SUITE)


def test_tasks_and_groups_are_asked_for_by_name_in_any_case_and_come_in_order():
    assert [task.name for task in chosen(["sts-b", "CRANFIELD"])] == ["Cranfield", "STS-B"]
    assert {task.group for task in chosen(USUAL)} == set(USUAL)
    assert chosen(["STS", "STS12"]) == chosen(["sts"])


def test_the_averages_are_those_of_the_papers():
    seven = [task.name for task in SUITE if task.group == "sts" and task.averaged]
    assert seven == ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"]
    probes = [task.name for task in SUITE if task.group == "transfer" and task.averaged]
    searched = [task.name for task in SUITE if task.group == "retrieval" and task.averaged]
    assert searched == ["Cranfield", "CACM", "NPL"]  # one measure, nDCG@10
    assert probes == ["MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC"]


def test_an_unknown_task_is_told_with_all_that_there_are():
    with pytest.raises(UsageError, match=r"no task 'quora'; known: retrieval, .*STS12"):
        chosen(["Quora"])


def test_the_nearest_name_of_an_unknown_task_is_told():
    with pytest.raises(UsageError, match=r"no task 'stsb'; did you mean 'STS-B'\?$"):
        chosen(["STSB"])


def test_a_task_is_read_back_as_the_kind_that_its_group_says():
    adapter = TypeAdapter(SuiteTask)
    for task in (*SUITE, beir_task("scifact")):
        assert adapter.validate_python(task.model_dump()) == task
    with pytest.raises(ValidationError):
        adapter.validate_python({"group": "retrieval", "name": "x", "files": ["y"]})


def test_a_beir_folder_is_a_task_of_its_name():
    task = beir_task("scifact")
    assert isinstance(task, RetrievalTask)
    assert (task.name, task.source, task.files[-1]) == ("scifact", "beir", "qrels/test.tsv")


def test_the_open_data_serve_what_they_should(larger_sets: Path):
    lacking = [
        task.name
        for task in SUITE
        if not all((larger_sets / file).is_file() for file in task.files)
    ]
    known = {"STS13", "STS15", "SUBJ", "MPQA", "TREC", "SNLI"}
    assert {name for name in lacking if "_" not in name} == known
    assert (larger_sets / POSITIVES).is_file()
