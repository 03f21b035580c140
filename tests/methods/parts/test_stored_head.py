"""The head of a Condenser stage: stored, read, copied, and refused if damaged."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer

from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.encoder.names import HEAD_FILE
from sentemb_core.errors import BadDataError
from sentemb_core.methods.parts.masked_language import MaskFiller
from sentemb_core.methods.parts.stored_head import (
    HeadShape,
    carry_head,
    head_in,
    head_shape,
    write_head,
)
from tests import tiny

SHAPE = HeadShape(layers=2, below=1)


@pytest.fixture
def headed(tmp_path: Path) -> Path:
    """The folder of an encoder with its head."""
    encoder = tiny.bert()
    save_encoder(encoder, tmp_path / "encoder", "# An encoder\n")
    write_head(MaskFiller(encoder).state_dict(), SHAPE, tmp_path / "encoder")
    return tmp_path / "encoder"


def test_a_head_is_read_as_it_was_written(tmp_path):
    weights = MaskFiller(tiny.bert()).state_dict()
    write_head(weights, SHAPE, tmp_path)
    first = (tmp_path / HEAD_FILE).read_bytes()
    write_head(weights, SHAPE, tmp_path)
    found = head_in(tmp_path)
    assert found is not None
    assert head_shape(tmp_path) == SHAPE
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], weights[name]) for name in weights)
    assert (tmp_path / HEAD_FILE).read_bytes() == first


def test_others_load_the_encoder_as_if_it_had_none(headed):
    bare = load_encoder(headed)
    vector = SentenceTransformer(str(headed)).encode(["w1 w2"])
    (headed / HEAD_FILE).unlink()
    assert SentenceTransformer(str(headed)).encode(["w1 w2"]).tolist() == vector.tolist()
    assert bare.dim == load_encoder(headed).dim


def test_a_head_goes_along_where_there_is_one(headed, tmp_path):
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
    carry_head(headed, tmp_path / "with")
    carry_head(tmp_path / "without", tmp_path / "with")
    carry_head(tmp_path / "without", tmp_path / "without")
    assert (tmp_path / "with" / HEAD_FILE).read_bytes() == (headed / HEAD_FILE).read_bytes()
    assert head_in(tmp_path / "without") is None


def test_a_head_of_others_has_no_shape(tmp_path):
    save_file({"language.bias": torch.zeros(3)}, tmp_path / HEAD_FILE)
    assert head_shape(tmp_path) is None


def test_a_damaged_head_is_refused_with_its_path(headed):
    whole = (headed / HEAD_FILE).read_bytes()
    for broken in (
        whole[:100],
        whole.replace(b'\\"below\\"', b'\\"above\\"'),
        whole.replace(b'\\"below\\":', b'\\"below\\",'),
    ):
        assert broken != whole
        (headed / HEAD_FILE).write_bytes(broken)
        with pytest.raises(BadDataError, match=HEAD_FILE):
            head_shape(headed)
    (headed / HEAD_FILE).write_bytes(whole[:100])
    with pytest.raises(BadDataError, match=HEAD_FILE):
        head_in(headed)
