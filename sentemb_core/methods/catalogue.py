"""The list of methods."""

from collections.abc import Callable
from dataclasses import dataclass

from sentemb_core.configs import TrainingConfig
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.conpono import conpono
from sentemb_core.methods.ict import ict
from sentemb_core.methods.infocse_idc import infocse_idc
from sentemb_core.methods.method import Method
from sentemb_core.methods.simcse import simcse

Recipe = Callable[[TrainingConfig, Encoder], Method]


@dataclass(frozen=True)
class Entry:
    """A method, what data it needs, and what it takes for positives."""

    name: str
    needs: str
    what: str
    recipe: Recipe


CATALOGUE = (
    Entry("infocse_idc", "documents", "sentences of one document in one cluster", infocse_idc),
    Entry("conpono", "documents", "neighbouring sentences of a document", conpono),
    Entry("ict", "documents", "a sentence and the rest of its document", ict),
    Entry("simcse", "sentences, a transformer", "a sentence under two dropouts", simcse),
)


def method_for(config: TrainingConfig, encoder: Encoder) -> Method:
    """The recipe that `config` names, for this encoder.

    Raises:
        RecipeError: its parts and the encoder cannot go together.
    """
    entry = next(entry for entry in CATALOGUE if entry.name == config.method)
    return entry.recipe(config, encoder)
