"""What the keys of the real stages hold: versions of libraries, and every argument but places."""

import pkgutil
from importlib import import_module
from importlib.metadata import version

import pytest

import tasks
from sentemb_core.config.run import CorpusConfig
from sentemb_core.config.suite import chosen
from sentemb_core.store.stages import LIBRARIES
from sentemb_core.types import ArtifactRef
from tasks.benchmark import encode_collection, score_transfer
from tasks.corpus import read_corpus
from tasks.encode import word_vectors
from tasks.stage import STAGES, StageTask
from tasks.validate import bm25_scores

REF = ArtifactRef(kind="documents", digest="a" * 64, size=3)
(PROBE,), (COLLECTION,) = chosen(["tree_depth"]), chosen(["cranfield"])
SCORED = {"encoder": REF, "digests": (), "folder": ""}


@pytest.mark.parametrize(
    ("stage", "arguments", "more"),
    [
        (word_vectors, {"documents": REF, "validation_pool": None, "seed": 1}, {"gensim"}),
        (
            read_corpus,
            {"place": "x", "config": CorpusConfig(source="s")},
            {"syntok", "markdown-it-py"},
        ),
        (bm25_scores, {"documents": REF, "validation_pool": REF}, {"bm25s"}),
        (score_transfer, SCORED | {"task": PROBE}, {"scikit-learn"}),
        (encode_collection, SCORED | {"task": COLLECTION, "form": "text"}, {"syntok"}),
    ],
)
def test_a_key_has_the_versions_of_what_the_stage_reads(
    stage: StageTask, arguments: dict, more: set[str]
):
    parts = stage.stage.key(arguments).parts
    found = {name: part for name, part in parts.items() if name.startswith("libraries.")}
    assert found == {
        f"libraries.{name}": version(name).partition("+")[0] for name in {*LIBRARIES, *more}
    }


def test_nothing_but_a_place_and_how_often_is_saved_is_left_out_of_a_key():
    for module in pkgutil.walk_packages(tasks.__path__, "tasks."):
        import_module(module.name)
    ignored = {
        name
        for stage in STAGES.values()
        if stage.function.__module__.startswith("tasks.") and stage.name != "shard_size"
        for name in stage.ignore
    }
    assert STAGES["shard_size"].ignore == ("documents",), "kept when the corpus grows"
    places = {"place", "corpus_place", "file", "folder", "folders"}
    assert ignored == places | {"config.checkpoint_every"}
