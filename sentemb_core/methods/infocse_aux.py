"""InfoCSE with an auxiliary network (infocse): the sentence vector helps to fill masks."""

from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from sentemb_core.config.methods import InfoCSEAux, SimCSE
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.parts.copies import FrozenCopy, twin
from sentemb_core.methods.parts.heads import batch_norm_mlp, mlp
from sentemb_core.methods.parts.masked_language import (
    MaskFiller,
    load_head,
    masking,
    starting_head,
    with_masked_inputs,
)
from sentemb_core.methods.parts.method import HeadState, Learner, Method, Rows, SampleTerm
from sentemb_core.methods.parts.transformer_layers import require_table, skip_layer, token_table
from sentemb_core.methods.parts.views import first
from sentemb_core.methods.simcse import simcse


def infocse_aux(
    settings: InfoCSEAux, encoder: Encoder, pretrained: HeadState | None = None
) -> Method:
    """SimCSE, plus lambda times the mean masked-language loss of both views.

    `encoder` and `pretrained` are of a Condenser stage.

    Raises:
        RecipeError: there is no head and `random_head` is not set, or too few layers.
    """
    require_table(encoder)
    head = starting_head(pretrained, random_head=settings.random_head)
    depth = skip_layer(encoder, settings.skip_from)
    text = with_masked_inputs(first, masking(encoder, settings.mask_rate))
    base = simcse(SimCSE(temperature=settings.temperature), encoder, text)
    half = settings.weight / 2
    return base.joined(
        name="infocse_aux",
        head=batch_norm_mlp if settings.head == "batch_norm" else mlp,
        sample_terms={
            f"aggregated {view}": (half, SampleTerm(view, aggregated)) for view in base.views
        },
        networks=lambda encoder: {
            "auxiliary": AuxiliaryNetwork(
                encoder,
                head,
                detach=settings.detach,
                skip_from=depth,
                layers=settings.head_layers,
            )
        },
    )


class AuxiliaryNetwork(nn.Module):
    """Lower layers of a copy, which read the masked sentence, and a Condenser head on top.

    The head's output layer is tied to the token table of the copy, not of the learner. Its loss
    reaches the learner through the sentence vector alone (infocse, section 3.2).

    Args:
        encoder: Provides the lower layers. A frozen encoder (as in `rtd_mlm`) shares them.
        head: Of a Condenser stage; None: it starts with random weights (infocse, Table 4).
        detach: Whether the lower layers are frozen; else they learn (infocse, Table 6).
        skip_from: Number of lower layers; None: half of them (6 of 12).

    Raises:
        RecipeError: the head does not fit, or there are too few layers.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: HeadState | None,
        *,
        detach: bool = True,
        skip_from: int | None = None,
        layers: int = 2,
    ) -> None:
        super().__init__()
        depth = skip_layer(encoder, skip_from)
        self.filler = MaskFiller(encoder, layers)
        load_head(self.filler, head)
        self.lower = FrozenCopy(encoder, layers=depth) if detach else twin(encoder, layers=depth)

    def loss(self, rows: Rows) -> Float[Tensor, ""]:
        """Return the sum over targets, given the sentence vectors before the contrastive head."""
        early = self.lower.read(rows.inputs, rows.mask, layers=True).layers[-1]
        table = token_table(self.lower)
        return self.filler.loss(rows.reading.pooled, early, rows.mask, rows.targets, table)


def aggregated(learner: Learner, rows: Rows) -> Tensor:
    """The loss of the network `auxiliary`, which fills masks from the sentence vectors."""
    return cast(AuxiliaryNetwork, learner.networks["auxiliary"]).loss(rows)
