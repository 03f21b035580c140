"""Which stages read a library that no other stage does: its version is in their keys."""

from importlib.metadata import version

import pytest

from sentemb_core.configs import CorpusConfig
from sentemb_core.store.stages import LIBRARIES
from sentemb_core.suite import chosen
from sentemb_core.types import ArtifactRef
from tasks.benchmark import score_retrieval, score_transfer
from tasks.caching import StageTask
from tasks.corpus import read_corpus
from tasks.encode import word_vectors
from tasks.validate import bm25_scores

REF = ArtifactRef(kind="documents", digest="a" * 64, size=3)
(PROBE,), (COLLECTION,) = chosen(["tree_depth"]), chosen(["cranfield"])
SCORED = {"encoder": REF, "digests": (), "folder": ""}


@pytest.mark.parametrize(
    ("stage", "arguments", "more"),
    [
        (word_vectors, {"documents": REF, "benchmark": None, "seed": 1}, {"gensim"}),
        (read_corpus, {"place": "x", "config": CorpusConfig(source="s")}, {"syntok"}),
        (bm25_scores, {"documents": REF, "benchmark": REF}, {"bm25s"}),
        (score_transfer, SCORED | {"task": PROBE}, {"scikit-learn"}),
        (score_retrieval, SCORED | {"task": COLLECTION, "vectors": "text"}, {"syntok"}),
    ],
)
def test_a_key_has_the_versions_of_what_the_stage_reads(
    stage: StageTask, arguments: dict, more: set[str]
):
    parts = stage.stage.key(arguments).parts
    found = {name: told for name, told in parts.items() if name.startswith("libraries.")}
    assert found == {
        f"libraries.{name}": version(name).partition("+")[0] for name in {*LIBRARIES, *more}
    }
