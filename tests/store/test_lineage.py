"""Lineage: the way back from a model to its sources."""

import hashlib

import pytest

from sentemb_core.errors import BadEmbeddingError
from sentemb_core.store import records
from sentemb_core.store.machine import processors
from sentemb_core.store.objects import Store
from sentemb_core.store.records import Lineage, lineage
from sentemb_core.store.stages import Stage
from sentemb_core.types import ArtifactRef


def test_a_model_leads_back_to_its_sources(chain, store, put):
    model = chain.run_chain(rate=0.5).model
    found = lineage(store, model)
    assert [origin.stage for origin in found.origins] == ["train", "graph", "encode"]
    assert found.origins[0].ref == model
    assert found.origins[0].parameters == {"rate": 0.5, "numeric.threads": processors()}
    assert found.origins[2].parameters == {"text": "a"}
    assert all(origin.code for origin in found.origins)
    assert Lineage.model_validate_json(found.model_dump_json()) == found
    (source,) = lineage(store, put()).origins
    assert source.stage is None


def write_record(store: Store, stage: str, inputs: list, outputs: list, created: float) -> None:
    key = hashlib.sha256(f"{stage} {created}".encode()).hexdigest()
    fields = {"inputs": inputs, "outputs": outputs, "result": None, "created": created}
    records.write(store, records.Record(stage=stage, key=key, parts={}, seconds=1.0, **fields))


def test_nearer_ancestors_come_first_and_each_once(store, put):
    model, left, right, source = (put("thing", text=name) for name in "abcd")
    write_record(store, "train", [left, right], [model], 4.0)
    write_record(store, "one", [source], [left], 2.0)
    write_record(store, "other", [source], [right], 3.0)
    assert [origin.ref for origin in lineage(store, model).origins] == [model, left, right, source]


def test_the_first_of_several_makers_counts_unless_it_read_the_artifact(store, put):
    ref, source, beside = (put("thing", text=name) for name in "abc")
    write_record(store, "hands_on", [ref], [ref, beside], 1.0)
    write_record(store, "first", [source], [ref], 2.0)
    write_record(store, "again", [], [ref], 3.0)
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


def test_a_bad_vector_is_reported_with_the_encoder_behind_it(store, put):
    model, farther = put("model"), put("model", text="of these vectors")
    stage = Stage("merge", 1, merge)
    vectors = stage.run(store, {"parts": [model, put("sentences")]})
    others = stage.run(store, {"parts": [farther]})
    for inputs in ([put("other"), vectors], [others, model]):
        with pytest.raises(BadEmbeddingError, match=rf"^E201 2 .*{model.digest[:12]}") as caught:
            DIVERGE.run(store, {"parts": inputs})
        assert str(model) in caught.value.encoder
    with pytest.raises(BadEmbeddingError, match=r"^E201 1 ") as caught:
        DIVERGE.run(store, {"parts": [put("other")]})
    assert caught.value.encoder == ""
