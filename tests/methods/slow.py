"""A transformer one row, one head and one token at a time, from the weights of ours."""

import math

import torch
from torch import Tensor, nn

from sentemb_core.encoder.encoder import Encoder

VISIBLE = {
    "all": lambda _token, _other: True,
    "past": lambda token, other: other <= token,
}


def norm(module: nn.LayerNorm, state: Tensor) -> Tensor:
    centred = state - state.mean()
    return centred / (centred.square().mean() + module.eps).sqrt() * module.weight + module.bias


def linear(module: nn.Linear, state: Tensor) -> Tensor:
    return module.weight @ state + module.bias


def gelu(state: Tensor) -> Tensor:
    return state * 0.5 * (1 + torch.erf(state / math.sqrt(2)))


def attention(module, states: list[Tensor], memory: list[Tensor], sees: str) -> list[Tensor]:
    """A whole BertAttention: heads, output layer, residual, norm."""
    heads, width = module.self.num_attention_heads, module.self.attention_head_size
    queries = [linear(module.self.query, state).view(heads, width) for state in states]
    keys = [linear(module.self.key, state).view(heads, width) for state in memory]
    values = [linear(module.self.value, state).view(heads, width) for state in memory]
    found = []
    for token, state in enumerate(states):
        parts = []
        for head in range(heads):
            shown = [k for k in range(len(memory)) if VISIBLE[sees](token, k)]
            scores = [queries[token][head] @ keys[k][head] / math.sqrt(width) for k in shown]
            total = sum(score.exp() for score in scores)
            shares = zip(shown, scores, strict=True)
            parts.append(sum(score.exp() / total * values[k][head] for k, score in shares))
        mixed = linear(module.output.dense, torch.cat(parts))
        found.append(norm(module.output.LayerNorm, mixed + state))
    return found


def layer(module, states: list[Tensor], sees: str = "all", cross=None, slot=None) -> list[Tensor]:
    seen = attention(module.attention, states, states, sees)
    if cross is not None:
        seen = attention(cross, seen, [slot], "all")
    done = []
    for state in seen:
        wide = gelu(linear(module.intermediate.dense, state))
        done.append(norm(module.output.LayerNorm, linear(module.output.dense, wide) + state))
    return done


def embeddings(encoder: Encoder, ids: list[int]) -> list[Tensor]:
    made = encoder.backbone.embeddings
    kind = made.token_type_embeddings.weight[0]
    return [
        norm(
            made.LayerNorm,
            made.word_embeddings.weight[token] + made.position_embeddings.weight[place] + kind,
        )
        for place, token in enumerate(ids)
    ]


def read(encoder: Encoder, ids: list[int], *, first: Tensor | None = None) -> list[list[Tensor]]:
    """States of the embedding layer and of every layer; `first` replaces the first embedding."""
    states = embeddings(encoder, ids)
    if first is not None:
        states = [first, *states[1:]]
    found = [states]
    for module in encoder.backbone.encoder.layer:
        found.append(layer(module, found[-1]))
    return found


def surprise(head, state: Tensor, table: Tensor, target: int) -> Tensor:
    """-log p(target) under a language head."""
    known = norm(head.norm, gelu(linear(head.dense, state)))
    logits = [table[token] @ known + head.bias[token] for token in range(len(table))]
    return sum(logit.exp() for logit in logits).log() - logits[target]
