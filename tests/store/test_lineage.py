"""The way back from a model to what it was made of.

Run: pytest tests/store/test_lineage.py
"""

import hashlib

import pytest

from sentemb_core.errors import BadEmbeddingError
from sentemb_core.store import records
from sentemb_core.store.machine import processors
from sentemb_core.store.objects import Store
from sentemb_core.store.records import Lineage, lineage
from sentemb_core.store.stages import Stage
from sentemb_core.types import ArtifactRef


def test_a_model_leads_back_to_its_sources(chain, store):
    model = chain.run_chain(rate=0.5).model
    origins = lineage(store, model).origins
    assert [origin.stage for origin in origins] == ["train", "graph", "encode"]
    assert origins[0].ref == model
    assert origins[0].parameters == {"rate": 0.5, "numeric.threads": processors()}
    assert origins[2].parameters == {"text": "a"}
    assert all(origin.code for origin in origins)


def test_an_artifact_without_a_record_is_a_source(store, put):
    (origin,) = lineage(store, put()).origins
    assert origin.stage is None


def test_it_is_the_same_after_a_trip_through_json(chain, store):
    told = lineage(store, chain.run_chain().model)
    assert Lineage.model_validate_json(told.model_dump_json()) == told


def filed(store: Store, stage: str, inputs: list, outputs: list, created: float) -> None:
    """A record of a stage that put these out."""
    key = hashlib.sha256(f"{stage} {created}".encode()).hexdigest()
    told = {"inputs": inputs, "outputs": outputs, "result": None, "created": created}
    records.write(store, records.Record(stage=stage, key=key, parts={}, seconds=1.0, **told))


def test_nearer_ancestors_come_first_and_each_is_told_once(store, put):
    model, left, right, source = (put("thing", text=name) for name in "abcd")
    filed(store, "train", [left, right], [model], 4.0)
    filed(store, "one", [source], [left], 2.0)
    filed(store, "other", [source], [right], 3.0)
    assert [origin.ref for origin in lineage(store, model).origins] == [model, left, right, source]


def test_of_several_makers_the_first_is_told_and_none_that_took_it_in(store, put):
    ref, source, beside = (put("thing", text=name) for name in "abc")
    filed(store, "hands_on", [ref], [ref, beside], 1.0)
    filed(store, "first", [source], [ref], 2.0)
    filed(store, "again", [], [ref], 3.0)
    origins = lineage(store, beside).origins
    assert [origin.stage for origin in origins] == ["hands_on", "first", None]
    assert [origin.ref for origin in origins] == [beside, ref, source]


def merge(parts: list[ArtifactRef]) -> ArtifactRef:
    with Store.default().writing("merged") as draft:
        (draft.path / "count").write_text(str(len(parts)))
    return draft.ref


def diverge(parts: list[ArtifactRef]) -> ArtifactRef:
    raise BadEmbeddingError(f"{len(parts)} vectors are not finite.")


DIVERGE = Stage("diverge", 1, diverge)


def test_a_bad_vector_is_told_with_the_encoder_behind_it(chain, store, put):
    model, farther = put("model"), put("model", text="of these vectors")
    stage = Stage("merge", 1, merge)
    vectors = stage.run(store, {"parts": [model, put("sentences")]})
    others = stage.run(store, {"parts": [farther]})
    for inputs in ([put("other"), vectors], [others, model]):
        with pytest.raises(BadEmbeddingError) as refused:
            DIVERGE.run(store, {"parts": inputs})
        assert str(refused.value) == (
            f"E201 2 vectors are not finite. The encoder is model:{model.digest[:12]} "
            f"(`lineage {model.digest[:12]}` says how it was made)."
        )


def test_vectors_of_no_known_encoder_are_told_without_one(store, put):
    with pytest.raises(BadEmbeddingError, match=r"^E201 1 vectors are not finite\.$"):
        DIVERGE.run(store, {"parts": [put("other")]})
