"""Extrapolate hours and disk of large corpora from measured rates: the tables of docs/scale.md.

    python -m benchmarks.sizing

A run reads and tokenises, then encodes, annotates and trains MiniLM once (384 dimensions, bfloat16)
on a pair per document. Time without a rate is left out: start, validation and the retriever, which
do not grow with the corpus, and the network.
"""

from typing import NamedTuple

CORPORA = {
    "News (mutual, Table 4)": (1_500_000, 19.51),
    "Web Document (the same)": (3_213_835, 28.90),
    "Web Browsing (the same)": (3_000_000, 43.28),
    "30 million documents of 29 sentences": (30_000_000, 29.0),
}
"""Documents, and sentences of a document."""

ONCE = (2.160 - 0.579) / 72_000
"""CPU-seconds a sentence of `read_corpus`, which runs on one core:
`benchmarks.growth.costs_of(16_000)` less `costs_of(4_000)`, which is 72,000 sentences."""

IN_SHARDS = (
    5.337 - 1.535 + 0.270 - 0.088 + 0.022 - 0.007 + 0.028 - 0.010 + 0.479 - 0.129 + 0.063 - 0.055
) / 72_000
"""CPU-seconds a sentence of `tokenise_sentences`, `build_graph`, `prune_graph`,
`add_related`, `cluster_sentences` and `export_pairs`, from the same runs."""

BYTES = 52.1 + 207.1 + 768.3 + 96.4 + 16.0 + 1.0 + 4.0
"""Bytes a sentence of documents, tokens, vectors, graph, edges, clusters and pairs: the artifacts
of `benchmarks.scale.annotated` on 80 posts of the blog (2,841 sentences)."""

WORKER = 0.776
"""GB of a worker (`python -m benchmarks.scale`)."""


class Machine(NamedTuple):
    """Cores, workers, and sentences encoded and pairs trained in a second (docs/performance.md)."""

    name: str
    cores: int
    workers: int
    encoded: float
    trained: float

    def hours(self, documents: float, sentences: float) -> dict[str, float]:
        """Return the hours of each part of a run."""
        seconds = {
            "once": sentences * ONCE,
            "in shards": sentences * IN_SHARDS / self.cores,
            "encode": sentences / self.encoded,
            "train": documents / self.trained,
        }
        return {part: spent / 3_600 for part, spent in seconds.items()}


MACHINES = (
    Machine("16 cores", 16, 16, encoded=16 / 2 * 1_224, trained=16 * 61.3),
    Machine("an H200, 16 cores", 16, 1, encoded=64_544, trained=9_575),
    Machine("eight H200, 128 cores", 128, 8, encoded=8 * 64_544, trained=9_575),
)
"""Two cores encode 1,224 sentences in a second, and one trains 61.3 pairs in a CPU-second. An H200
encodes 64,544 sentences and trains 9,575 pairs. Training uses one GPU."""


def main() -> None:
    """Print the hours and the disk of each corpus, then the parts of the largest."""
    print("| corpus | sentences |", " | ".join(machine.name for machine in MACHINES), "| disk |")
    print("|---|---:|" + "---:|" * len(MACHINES) + "---:|")
    documents = sentences = 0.0
    for corpus, (documents, length) in CORPORA.items():
        sentences = documents * length
        hours = (sum(machine.hours(documents, sentences).values()) for machine in MACHINES)
        cells = " | ".join(f"{each:.1f} h" for each in hours)
        disk = f"{sentences * BYTES / 1e9:,.0f} GB"
        print(f"| {corpus} | {sentences / 1e6:,.0f} M | {cells} | {disk} |")
    print("\n| the largest corpus | once | in shards | encode | train | memory of the workers |")
    print("|---|" + "---:|" * 5)
    for machine in MACHINES:
        cells = " | ".join(f"{part:.1f} h" for part in machine.hours(documents, sentences).values())
        print(f"| {machine.name} | {cells} | {machine.workers * WORKER:.1f} GB |")


if __name__ == "__main__":
    main()
