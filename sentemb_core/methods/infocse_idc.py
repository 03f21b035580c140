"""InfoCSE with intra-document clustering (mutual): train on the annotated pairs."""

from dataclasses import replace

from sentemb_core.config.methods import CONPONO, InfoCSEIDCPairs
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.conpono import conpono
from sentemb_core.methods.parts.info_nce import contrast
from sentemb_core.methods.parts.method import Method
from sentemb_core.methods.parts.pairs import cluster_pairs
from sentemb_core.methods.parts.views import first


def infocse_idc(settings: InfoCSEIDCPairs, encoder: Encoder) -> Method:
    """CONPONO's loss over pairs of one cluster in place of neighbours.

    With cluster batches every sentence is encoded once, as anchor and as candidate.
    """
    neighbours = conpono(CONPONO(temperature=settings.temperature), encoder)
    paired = replace(neighbours, name="infocse_idc", pairs=cluster_pairs)
    if settings.batches == "pair":
        return paired
    term = contrast("sentence", "sentence", settings.temperature)
    return replace(paired, views={"sentence": first}, terms={"contrast": (1.0, term)})
