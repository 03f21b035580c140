"""InfoCSE with an auxiliary network (infocse): the sentence vector must help to fill masks."""

from sentemb_core.config.methods import InfoCSEAux, SimCSE
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.heads.auxiliary import AuxiliaryNetwork
from sentemb_core.heads.batch_norm_mlp import batch_norm_mlp
from sentemb_core.heads.layers import require_table, skip_layer
from sentemb_core.heads.mask_filler import require_head
from sentemb_core.heads.mlp import mlp
from sentemb_core.heads.sample_losses import aggregated
from sentemb_core.methods.method import HeadState, Method, SampleTerm
from sentemb_core.methods.simcse import simcse
from sentemb_core.methods.tokenizer_tools import masking, require_transformer
from sentemb_core.views.masked import with_masked_inputs
from sentemb_core.views.sentences import first


def infocse_aux(
    settings: InfoCSEAux, encoder: Encoder, pretrained: HeadState | None = None
) -> Method:
    """SimCSE, and lambda times the mean loss of the masks of both views.

    Args:
        settings: lambda, masks, and whether the masked layers stay as they are.
        encoder: From a Condenser stage.
        pretrained: That stage's head.

    Raises:
        RecipeError: there is none and `random_head` is not set, or too few layers.
    """
    require_transformer(encoder, "infocse_aux")
    require_table(encoder)
    require_head(pretrained, random_head=settings.random_head)
    depth = skip_layer(encoder, settings.skip_from)
    text = with_masked_inputs(first, masking(encoder, settings.mask_rate))
    base = simcse(SimCSE(temperature=settings.temperature), encoder, text)
    half = settings.weight / 2
    return base.joined(
        name="infocse_aux",
        head=batch_norm_mlp if settings.head == "batch_norm" else mlp,
        sample_terms={
            f"aggregated {view}": (half, SampleTerm(view, aggregated())) for view in base.views
        },
        networks=lambda encoder: {
            "auxiliary": AuxiliaryNetwork(
                encoder,
                pretrained,
                random_head=settings.random_head,
                detach=settings.detach,
                skip_from=depth,
                layers=settings.head_layers,
            )
        },
    )
