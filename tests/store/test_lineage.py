"""The way back from a model to what it was made of.

Run: pytest tests/store/test_lineage.py
"""

import pytest

from sentemb_core.errors import BadEmbeddingError
from sentemb_core.store.lineage import Lineage, lineage
from sentemb_core.store.objects import Store
from sentemb_core.store.stages import Stage
from sentemb_core.types import ArtifactRef


def test_a_model_leads_back_to_its_sources(chain, store):
    model = chain.run_chain(rate=0.5).model
    origins = lineage(store, model).origins
    assert [origin.stage for origin in origins] == ["train", "graph", "encode"]
    assert origins[0].ref == model
    assert origins[0].parameters["rate"] == 0.5
    assert origins[2].parameters == {"text": "a"}
    assert all(origin.code for origin in origins)


def test_an_artifact_without_a_record_is_a_source(store, put):
    (origin,) = lineage(store, put()).origins
    assert origin.stage is None


def test_it_is_the_same_after_a_trip_through_json(chain, store):
    told = lineage(store, chain.run_chain().model)
    assert Lineage.model_validate_json(told.model_dump_json()) == told


def merge(parts: list[ArtifactRef]) -> ArtifactRef:
    with Store.default().writing("merged") as draft:
        (draft.path / "count").write_text(str(len(parts)))
    return draft.ref


def diverge(parts: list[ArtifactRef]) -> ArtifactRef:
    raise BadEmbeddingError(f"{len(parts)} vectors are not finite.")


DIVERGE = Stage("diverge", 1, diverge)


def test_a_bad_vector_is_told_with_the_encoder_behind_it(chain, store, put):
    model = put("model")
    vectors = Stage("merge", 1, merge).run(store, {"parts": [model, put("sentences")]})
    for inputs in ([put("other"), vectors], [vectors, model]):
        with pytest.raises(BadEmbeddingError) as refused:
            DIVERGE.run(store, {"parts": inputs})
        assert str(refused.value) == (
            f"E201 2 vectors are not finite. The encoder is model:{model.digest[:12]} "
            f"(`lineage {model.digest[:12]}` says how it was made)."
        )


def test_vectors_of_no_known_encoder_are_told_without_one(store, put):
    with pytest.raises(BadEmbeddingError, match=r"^E201 1 vectors are not finite\.$"):
        DIVERGE.run(store, {"parts": [put("other")]})
