"""How a backbone counts the places of a text's tokens, where it has a table of them."""

from torch import nn


def positions_of(backbone: nn.Module) -> int | None:
    """Tokens a sentence may have; none where positions are not a table."""
    table = _table(backbone)
    return None if table is None else table.num_embeddings - _first(table)


def first_position(backbone: nn.Module) -> int:
    """The position of a text's first token; 0 where positions are not a table."""
    table = _table(backbone)
    return 0 if table is None else _first(table)


def _table(backbone: nn.Module) -> nn.Embedding | None:
    for name, module in backbone.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module
    return None


def _first(table: nn.Embedding) -> int:
    """RoBERTa and its kin count from behind their padding's position."""
    return 0 if table.padding_idx is None else table.padding_idx + 1
