"""DiffCSE (Chuang et al. 2022): the sentence vector must help to see what was edited."""

from sentemb_core.config.methods import DiffCSE, SimCSE
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.heads.batch_norm_mlp import batch_norm_mlp
from sentemb_core.heads.discriminator import Discriminator
from sentemb_core.heads.edit_detection import edit_detection
from sentemb_core.heads.generator import Generator
from sentemb_core.heads.layers import require_table
from sentemb_core.heads.mask_filler import require_head
from sentemb_core.methods.method import HeadState, Method
from sentemb_core.methods.simcse import simcse
from sentemb_core.methods.tokenizer_tools import masking, require_transformer
from sentemb_core.views.masked import with_masked_inputs
from sentemb_core.views.sentences import first


def diffcse(settings: DiffCSE, encoder: Encoder, pretrained: HeadState | None = None) -> Method:
    """SimCSE, and lambda times the loss of a discriminator that sees the vector after the head.

    Args:
        settings: lambda, masks, how the generator fills them.
        encoder: From a Condenser stage: its late language head is the generator.
        pretrained: That stage's head.

    Raises:
        RecipeError: there is none, and `random_head` is not set.
    """
    require_transformer(encoder, "diffcse")
    require_table(encoder)
    require_head(pretrained, random_head=settings.random_head)
    text = with_masked_inputs(first, masking(encoder, settings.mask_rate))
    base = simcse(SimCSE(temperature=settings.temperature), encoder, text)
    return base.joined(
        name="diffcse",
        head=batch_norm_mlp,
        terms={"edits": (settings.weight, edit_detection(*base.views))},
        networks=lambda encoder: {
            "discriminator": Discriminator(
                encoder,
                Generator(
                    encoder,
                    pretrained,
                    random_head=settings.random_head,
                    sample=settings.sample,
                ),
            )
        },
    )
