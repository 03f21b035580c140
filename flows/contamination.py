"""What of its judges' texts training read: stages behind the cells of a table."""

from collections.abc import Mapping, Sequence
from functools import partial

from flows.isolate_errors import attempted
from flows.pipeline import documents_of
from sentemb_core.config.run import CorpusConfig, ValidationConfig
from sentemb_core.types import ArtifactRef
from tasks.benchmark import Placed, measure_overlap
from tasks.corpus import draw_validation_pool


def overlap_with(
    documents: ArtifactRef, places: Sequence[Placed], *, beir_documents: bool = True
) -> ArtifactRef:
    """What a training corpus has of the texts of these tasks, of BEIR's documents if asked."""
    return measure_overlap(
        documents,
        [one.task for one in places],
        [one.digests for one in places],
        [one.folder for one in places],
        beir_documents,
    )


def pools_of_titles(
    corpora: Mapping[str, CorpusConfig], pool: ValidationConfig
) -> dict[str, ArtifactRef]:
    """Name -> the pool drawn from its corpus; one that is refused has none: its cells say why."""

    def drawn(corpus: CorpusConfig) -> ArtifactRef:
        return draw_validation_pool(documents_of(corpus), pool)

    found = {
        name: attempted(f"pool of {name}", partial(drawn, corpus))[0]
        for name, corpus in corpora.items()
    }
    return {name: one for name, one in found.items() if one}
