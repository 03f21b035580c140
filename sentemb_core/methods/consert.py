"""ConSERT (Yan et al. 2021): two perturbations of what the embedding layer hands on."""

from sentemb_core.config.methods import Augmentation, ConSERT
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.contrast import all_pairs
from sentemb_core.methods.method import FullBatchForward, Method, Reader
from sentemb_core.methods.simcse import require_dropout
from sentemb_core.methods.tokenizer_tools import (
    require_embedding_layer,
    require_movable_positions,
    require_transformer,
)
from sentemb_core.pairs import sources
from sentemb_core.readers.adversarial import adversarial
from sentemb_core.readers.perturbed import (
    entry_dropout,
    feature_cutoff,
    perturbed,
    token_cutoff,
)
from sentemb_core.views.sentences import first

EDITS = {
    "token_cutoff": token_cutoff,
    "feature_cutoff": feature_cutoff,
    "dropout": entry_dropout,
}


def consert(settings: ConSERT, encoder: Encoder) -> Method:
    """Both views choose each other among all others (NT-Xent, twice the mean of all rows)."""
    require_transformer(encoder, "consert")
    if settings.first or settings.second:
        require_embedding_layer(encoder, "consert")
    if "shuffle" in (*settings.first, *settings.second):
        require_movable_positions(encoder, "consert's shuffle")
    if "adversarial" in settings.first and "adversarial" in settings.second:
        require_two_adversaries(settings, encoder)
    term = all_pairs("anchor", "positive", settings.temperature, encoder.similarity)
    return Method(
        name="consert",
        pairs=sources.identity,
        views={"anchor": first, "positive": first},
        readers={
            "anchor": augmented(settings.first, settings),
            "positive": augmented(settings.second, settings),
        },
        terms={"contrast": (2 * settings.weight, term)},
        dropout=settings.dropout,
    )


def require_two_adversaries(settings: ConSERT, encoder: Encoder) -> None:
    """That two adversarial views differ.

    Raises:
        RecipeError: There is no dropout, by which alone they do.
    """
    if not settings.dropout:
        raise RecipeError(
            "Two adversarial views of a sentence differ by dropout alone; found both without: set "
            "method.dropout to true, or make one view otherwise"
        )
    require_dropout(encoder, "consert")


def augmented(names: tuple[Augmentation, ...], settings: ConSERT) -> Reader | FullBatchForward:
    """The encoder under these perturbations, one after the other.

    Raises:
        RecipeError: An adversarial view together with others.
    """
    if "adversarial" in names:
        if len(names) > 1:
            raise RecipeError(
                "An adversarial view takes the gradient of the text as it is; found it together "
                f"with others ({', '.join(names)}): let it stand alone"
            )
        return adversarial(settings.epsilon)
    edits = [EDITS[name](settings.rate) for name in names if name != "shuffle"]
    return perturbed(*edits, shuffled="shuffle" in names)
