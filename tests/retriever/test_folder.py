"""A retriever's folder: equal after loading; refused when a part is missing or changed."""

import json

import numpy as np
import pytest

from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.errors import BadDataError
from sentemb_core.retriever.folder import DENSE_ONLY, RETRIEVER, TOKEN_MAP, load_retriever
from sentemb_core.retriever.folder import save_retriever as save
from sentemb_core.retriever.scores import scores_of_documents
from sentemb_core.retriever.spec import RetrieverSpec, Vectors
from tests import tiny
from tests.retriever import made

SPECS = {
    "whole": made.WHOLE,
    "root alone": RetrieverSpec(vectors=(Vectors(folder=""),)),
    "words alone": RetrieverSpec(words="bm25"),
    "texts": RetrieverSpec(vectors=(Vectors(folder=""),), unit="text", words="bm25"),
    "both": RetrieverSpec(vectors=(Vectors(folder=""),), unit="both"),
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_loaded_retriever_gives_the_same_scores(tmp_path, spec):
    retriever = made.retriever(spec)
    save(retriever, tmp_path / "r", "card")
    loaded = load_retriever(tmp_path / "r")
    assert loaded.spec == spec
    texts, documents = ["w5 w6", "w9 w7 w8"], [["w5", "w6 w7"], ["w8 w9"], ["w20 w21 w22"]]
    scores = [
        scores_of_documents(each.spec, each.read_texts(texts), each.read_documents(documents))(
            np.arange(2)
        )
        for each in (retriever, loaded)
    ]
    assert (scores[0] == scores[1]).all()
    assert (tmp_path / "r" / "README.md").read_text() == "card"


def test_the_root_is_an_ordinary_encoder(tmp_path):
    retriever = made.retriever()
    save(retriever, tmp_path, "card")
    root = load_encoder(tmp_path)
    assert all(
        (mine == theirs).all()
        for mine, theirs in zip(
            root.state_dict().values(), retriever.encoders[""].state_dict().values(), strict=True
        )
    )


def test_a_folder_of_an_encoder_is_dense_only(tmp_path):
    save_encoder(tiny.static(), tmp_path, "card")
    assert load_retriever(tmp_path).spec == DENSE_ONLY


def break_json(folder):
    (folder / RETRIEVER).write_text("{")


def state_another_form(folder):
    stated = json.loads((folder / RETRIEVER).read_text())
    (folder / RETRIEVER).write_text(json.dumps(stated | {"format": 2}))


def state_no_part(folder):
    stated = json.loads((folder / RETRIEVER).read_text())
    (folder / RETRIEVER).write_text(json.dumps(stated | {"spec": {}}))


def remove_token_map(folder):
    (folder / TOKEN_MAP).unlink()


def exchange_table(folder):
    save_encoder(tiny.static(seed=9), folder / "table", "card")


def exchange_root(folder):
    save_encoder(tiny.bert(seed=9), folder, "card")


def cut_token_map(folder):
    file = folder / TOKEN_MAP
    file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.parametrize(
    "damage",
    [
        break_json,
        state_another_form,
        state_no_part,
        remove_token_map,
        exchange_table,
        exchange_root,
        cut_token_map,
    ],
)
def test_a_damaged_folder_is_refused(tmp_path, damage):
    save(made.retriever(), tmp_path, "card")
    damage(tmp_path)
    with pytest.raises(BadDataError):
        load_retriever(tmp_path)
