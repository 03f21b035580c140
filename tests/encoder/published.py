"""Folders as others publish them, and as others and we read them."""

import json
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import processors
from transformers import PreTrainedModel, PreTrainedTokenizerFast, T5Config, T5EncoderModel

from sentemb_core.config.run import EncoderConfig
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.start import start_encoder
from tests import tiny

T5 = {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 3, "num_heads": 4}


def published(architecture, shape, folder: Path, **sizes: int) -> Path:
    """A model of random weights, with a tokenizer that ends a text and does not begin it."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: PreTrainedModel = architecture(
            shape(vocab_size=tiny.VOCABULARY + 1, pad_token_id=0, **sizes)
        )
    model.save_pretrained(folder)
    wrapped_tokenizer(ends_only=True).save_pretrained(folder)
    return folder


def wrapped_tokenizer(*, ends_only: bool) -> PreTrainedTokenizerFast:
    """The tiny tokenizer, which frames a text like BERT's, or ends it like those of decoders."""
    tokenizer = tiny.tokenizer()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "eos_token": "[SEP]"}
    if ends_only:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="$A [SEP]", special_tokens=[("[SEP]", 3)]
        )
    else:
        names |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    wrapped.model_input_names = ["input_ids", "attention_mask"]
    return wrapped


def t5(folder: Path, architecture=T5EncoderModel, shape=T5Config) -> Path:
    return published(architecture, shape, folder, **T5)


def read(name: object, **settings: object) -> Encoder:
    """The encoder of a folder, a file or a name."""
    return start_encoder(EncoderConfig(name=str(name), **settings), None)


def edit_json(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def folder_bytes(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def peer_vectors(folder: Path, texts: list[str], **options: object) -> np.ndarray:
    """The vectors of sentence-transformers."""
    peer = SentenceTransformer(str(folder), device="cpu")
    return peer.encode(texts, show_progress_bar=False, **options)


def saved_and_read(encoder: Encoder, texts: list[str], folder: Path, atol: float = 1e-5) -> Encoder:
    """Save, read and save again: equal bytes, equal vectors, also in sentence-transformers."""
    once, twice = folder / "once", folder / "twice"
    save_encoder(encoder, once, "card")
    ours = embed_texts(encoder, texts)
    np.testing.assert_allclose(peer_vectors(once, texts), ours, atol=atol)
    loaded = load_encoder(once)
    np.testing.assert_array_equal(embed_texts(loaded, texts), ours)
    save_encoder(loaded, twice, "card")
    assert folder_bytes(once) == folder_bytes(twice)
    return loaded
