"""Prompts: as the folder or an option states them, kept, and applied by others as by us."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import encoder_digest, load_encoder, save_encoder
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.prompts import FAMILIES, Prompts, family_of, stated_prompts
from sentemb_core.errors import BadDataError, RecipeError, SentembError, UsageError
from sentemb_core.methods.parts.copies import twin
from tests.encoder.published import edit_json, read
from tests.encoder.starting import start

STATED = "config_sentence_transformers.json"
QUERY, DOCUMENT, TASK = "claim form: ", "by mail: ", "each month "
BOTH = {"query": QUERY, "document": DOCUMENT, "task": TASK}
TEXTS = ["the agency pays", "a benefit", "your claim " * 30]


def folder_with(folder: Path, **stated: object) -> Path:
    """A folder of a small BERT that states prompts."""
    save_encoder(start("transformer", max_length=30), folder, "card")
    edit_json(folder / STATED, creator="others", **stated)
    return folder


def prompts_of(folder: Path, **stated: object) -> Prompts:
    return load_encoder(folder_with(folder, **stated)).prompts


def texts_before(prompts: Prompts) -> list[str]:
    return [prompts.before(role) for role in ("text", "query", "document", "sentence")]


@pytest.mark.parametrize(
    ("stated", "before"),
    [
        ({}, ["", "", "", ""]),
        ({"prompts": {}}, ["", "", "", ""]),
        ({"prompts": {"query": QUERY, "document": ""}}, ["", QUERY, "", ""]),
        ({"prompts": {"query": None, "document": None}}, ["", "", "", ""]),
        ({"prompts": BOTH}, ["", QUERY, DOCUMENT, DOCUMENT]),
        ({"prompts": BOTH, "default_prompt_name": "task"}, [TASK, QUERY, DOCUMENT, DOCUMENT]),
        ({"prompts": {"query": QUERY, "passage": DOCUMENT}}, ["", QUERY, DOCUMENT, DOCUMENT]),
        ({"prompts": {"corpus": DOCUMENT, "document": ""}}, ["", "", DOCUMENT, DOCUMENT]),
        ({"prompts": {"task": TASK}}, ["", "", "", ""]),
        ({"prompts": {"task": TASK}, "default_prompt_name": "task"}, [TASK] * 4),
        ({"prompts": {"query": QUERY}, "default_prompt_name": "query"}, [QUERY, QUERY, "", ""]),
    ],
)
def test_a_role_has_the_prompt_that_the_folder_states(stated, before, tmp_path):
    assert texts_before(prompts_of(tmp_path, **stated)) == before


@pytest.mark.parametrize("stated", [{}, {"default_prompt_name": "task"}])
def test_others_apply_the_prompts_of_a_saved_encoder(stated, tmp_path):
    encoder = read(folder_with(tmp_path / "theirs", prompts=BOTH, **stated), max_length=30)
    save_encoder(encoder, tmp_path / "ours", "card")
    loaded = load_encoder(tmp_path / "ours")
    assert loaded.prompts == encoder.prompts
    assert encoder_digest(loaded) == encoder_digest(encoder)
    for folder in (tmp_path / "theirs", tmp_path / "ours"):
        peer = SentenceTransformer(str(folder), device="cpu")
        ways = {"text": peer.encode, "query": peer.encode_query, "document": peer.encode_document}
        for role, encode in ways.items():
            theirs = encode(TEXTS, show_progress_bar=False)
            np.testing.assert_allclose(embed_texts(loaded, TEXTS, role=role), theirs, atol=1e-5)
    sentences = embed_texts(loaded, TEXTS, role="sentence")
    np.testing.assert_array_equal(sentences, embed_texts(loaded, TEXTS, role="document"))


def test_an_encoder_without_prompts_states_none(tmp_path):
    save_encoder(start("transformer"), tmp_path, "card")
    stated = json.loads((tmp_path / STATED).read_text())
    assert stated == {"creator": "sentemb", "similarity_fn_name": "cosine"}


def test_prompts_are_a_part_of_the_encoder(tmp_path):
    folder = folder_with(tmp_path, prompts=BOTH)
    encoder, other = read(folder), read(folder, query_prompt="none")
    assert encoder_digest(encoder) != encoder_digest(other)
    assert twin(encoder).prompts == encoder.prompts
    assert Encoder(**encoder.parts(encoder.backbone, None)).prompts == encoder.prompts


@pytest.mark.parametrize(
    ("options", "before"),
    [
        ({"query_prompt": "ask: "}, ["", "ask: ", DOCUMENT, DOCUMENT]),
        ({"query_prompt": "task", "document_prompt": "none"}, ["", TASK, "", ""]),
        ({"document_prompt": "query"}, ["", QUERY, QUERY, QUERY]),
    ],
)
def test_an_option_replaces_the_prompt_of_the_folder(options, before, tmp_path):
    assert texts_before(read(folder_with(tmp_path, prompts=BOTH), **options).prompts) == before


def test_an_encoder_of_random_weights_takes_the_prompts_of_options():
    encoder = start("transformer", query_prompt=QUERY)
    assert texts_before(encoder.prompts) == ["", QUERY, "", ""]


@pytest.mark.parametrize("option", ["", "  ", "passage"])
@pytest.mark.parametrize("role", ["query_prompt", "document_prompt"])
def test_an_empty_prompt_and_an_unknown_name_are_refused(role, option, tmp_path):
    with pytest.raises(UsageError, match=r"E001 .*'task'"):
        read(folder_with(tmp_path, prompts=BOTH), **{role: option})


@pytest.mark.parametrize(
    ("stated", "error"),
    [
        ({"prompts": BOTH, "default_prompt_name": "search"}, UsageError),
        ({"default_prompt_name": "search"}, UsageError),
        ({"prompts": {"query": ["a"]}}, BadDataError),
        ({"prompts": ["query"]}, BadDataError),
    ],
)
def test_prompts_that_the_folder_states_wrongly_are_refused(stated, error, tmp_path):
    folder = folder_with(tmp_path, **stated)
    for way in (load_encoder, read):
        with pytest.raises(SentembError) as refused:
            way(folder)
        assert refused.value.code == error.code


def test_a_prompt_counts_towards_the_length(tmp_path):
    encoder = read(folder_with(tmp_path, prompts=BOTH), max_length=20)
    (tokens,) = encoder.tokenise(TEXTS[2:], "query")
    (prompt,) = encoder.tokenise([QUERY])
    assert len(tokens) == 20
    assert tokens[: len(prompt) - 1].tolist() == prompt[:-1].tolist()


def test_a_method_that_cuts_rows_refuses_the_prompt_of_documents(tmp_path):
    folder = folder_with(tmp_path, prompts=BOTH)
    with pytest.raises(RecipeError, match=DOCUMENT):
        _ = read(folder).framed
    assert read(folder, document_prompt="none").framed


@given(
    st.dictionaries(st.sampled_from(["query", "document", "passage", "task"]), st.text(max_size=9)),
    st.sampled_from(["query", "task", None]),
)
def test_prompts_are_the_same_after_they_were_stated(tmp_path_factory, by_name, default):
    folder = tmp_path_factory.mktemp("stated")
    stated = {"prompts": by_name}
    stated |= {"default_prompt_name": default} if default in by_name else {}
    (folder / STATED).write_text(json.dumps(stated))
    once = stated_prompts(folder)
    (folder / STATED).write_text(json.dumps(once.stated()))
    assert texts_before(stated_prompts(folder)) == texts_before(once)
    assert stated_prompts(folder).stated() == once.stated()


NAMES = [
    ("intfloat/e5-small-v2", "query: ", "passage: "),
    ("intfloat/multilingual-e5-base", "query: ", "passage: "),
    ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", "none"),
    ("Snowflake/snowflake-arctic-embed-xs", "Represent this", "none"),
    ("Snowflake/snowflake-arctic-embed-m-v2.0", "query: ", "none"),
    ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: "),
    ("Qwen/Qwen3-Embedding-0.6B", "Instruct: ", "none"),
    ("google/embeddinggemma-300m", "task: search result | query: ", "title: none | text: "),
]
OTHERS = ["minilm", "BAAI/bge-m3", "all-mpnet-base-v2", "someone/ge5-x", "e5-data/minilm"]


@pytest.mark.parametrize(("name", "query", "document"), NAMES)
def test_a_known_family_has_the_prompts_of_its_card(name, query, document):
    family = family_of(name, {})
    assert family.query.startswith(query)
    assert family.document == document
    assert family == family_of("/models/mine", {"_name_or_path": name})


def test_a_family_is_known_by_its_type():
    assert family_of("mine", {"model_type": "nomic_bert"}).label == "Nomic"
    assert all(family_of(name, {"model_type": "bert"}) is None for name in OTHERS)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_prompts_of_a_family_are_options(family):
    options = {"query": family.query, "document": family.document}
    before = texts_before(Prompts().replaced(**options))
    assert before[1:3] == [text if text != "none" else "" for text in options.values()]


@pytest.mark.parametrize("bare", [False, True])
def test_a_known_family_without_prompts_is_warned_about(bare, tmp_path, caplog):
    folder = folder_with(tmp_path / "e5-small", prompts={"query": "", "task": TASK})
    if bare:
        (folder / "modules.json").unlink()
    read(folder)
    (warned,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert warned.args[:4] == ("E5", str(folder), "'query: '", "'passage: '")
    caplog.clear()
    for option in ("query: ", "none"):
        read(folder, query_prompt=option)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
