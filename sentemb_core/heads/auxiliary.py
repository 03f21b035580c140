"""The auxiliary network of InfoCSE-aux (infocse): it must fill masks, and the vector knows."""

from collections.abc import Mapping

from jaxtyping import Float, Int
from torch import Tensor, nn

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.heads.copies import FrozenCopy, twin
from sentemb_core.heads.layers import skip_layer, token_table
from sentemb_core.heads.mask_filler import MaskFiller, load_head


class AuxiliaryNetwork(nn.Module):
    """Lower layers of a copy, which read the masked sentence, and a Condenser's head on them.

    The head's output layer is tied to the copy's token table, not to the learner's: its loss
    reaches the learner through the sentence vector alone (infocse, section 3.2).

    Args:
        encoder: Whose lower layers. A frozen one (as `rtd_mlm` has for both) shares them.
        head: State dict of the `MaskFiller` that a Condenser stage trained.
        random_head: Whether to start without one (infocse, Table 4).
        detach: Whether the lower layers stay as they are; else they learn (infocse, Table 6).
        skip_from: How many lower layers; none: half of them (6 of 12).
        layers: Of the head.

    Raises:
        RecipeError: There is no such head, it does not fit, or there are too few layers.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: Mapping[str, Tensor] | None,
        *,
        random_head: bool = False,
        detach: bool = True,
        skip_from: int | None = None,
        layers: int = 2,
    ) -> None:
        super().__init__()
        depth = skip_layer(encoder, skip_from)
        self.filler = MaskFiller(encoder, layers)
        load_head(self.filler, head, random_head=random_head)
        self.lower = FrozenCopy(encoder, layers=depth) if detach else twin(encoder, layers=depth)

    def loss(
        self,
        vectors: Float[Tensor, "rows dim"],
        inputs: Int[Tensor, "rows time"],
        mask: Int[Tensor, "rows time"],
        targets: Int[Tensor, "rows time"],
    ) -> Float[Tensor, ""]:
        """The sum over targets.

        Args:
            vectors: Of the sentences, raw (before the head of the contrastive loss).
            inputs: The masked sentences.
            mask: 1 on real tokens.
            targets: What the masked tokens were.
        """
        early = self.lower.read(inputs, mask, layers=True).layers[-1]
        return self.filler.loss(vectors, early, mask, targets, token_table(self.lower))
