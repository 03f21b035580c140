"""Folders as others publish them: random weights, and a tokenizer of their family."""

from pathlib import Path

import torch
from tokenizers import processors
from transformers import PreTrainedModel, PreTrainedTokenizerFast, T5Config, T5EncoderModel

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
    tokenizer = tiny.tokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A [SEP]", special_tokens=[("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "eos_token": "[SEP]"}
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    wrapped.model_input_names = ["input_ids", "attention_mask"]
    wrapped.save_pretrained(folder)
    return folder


def t5(folder: Path, architecture=T5EncoderModel, shape=T5Config) -> Path:
    return published(architecture, shape, folder, **T5)
