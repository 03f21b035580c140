"""The main job on the documents of the throw-away prototype, judged as the prototype judged.

    python -m benchmarks.prototype_documents reuters --seeds 42 43 44 --more="--encoder minilm"

Its sample: documents with a title and at least five sentences in an order of their own, the first
3,000 of them, cut to 40 sentences, and the titles of the first 1,000. All of those ask, and
sentence-transformers encodes. Another pool gives other numbers; this one makes them comparable.
"""

import argparse
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow.parquet as pq

from benchmarks.main_job import RULE, outcome_of, row
from sentemb_core.store.objects import Store
from tasks.tables.markdown import markdown_table

FILES = {
    "reuters": ("news_reuters21578.parquet", "sentences", "title", 5),
    "blog": ("blog_usgov.parquet", "sentences", "title", 5),
    "sessions": ("session_mixed_titles.parquet", "titles", "ad_title", 1),
}
"""Corpus -> file, columns of sentences and counterpart, and the fewest sentences."""

DOCUMENTS, TITLED, LONGEST = 3_000, 1_000, 40
DEPTHS = (1, 5, 20)

Documents = list[tuple[list[str], str]]


def documents(corpus: str) -> Documents:
    """Sentences and title of every document of the sample, in the prototype's order."""
    file, sentences, title, least = FILES[corpus]
    rows = pq.read_table(Path(os.environ["SENTEMB_DATA"]) / file).to_pylist()
    found = [
        (row[sentences], row[title]) for row in rows if row[title] and len(row[sentences]) >= least
    ]
    random.Random(0).shuffle(found)
    return [(list(dict.fromkeys(texts))[:LONGEST], name) for texts, name in found[:DOCUMENTS]]


def rows_of(sample: Documents) -> Iterator[str]:
    """Of a JSONL file: a training sees only the titles that are looked for."""
    for number, (sentences, title) in enumerate(sample):
        named = {"title": title} if number < TITLED else {}
        yield json.dumps({"id": str(number), "sentences": sentences} | named) + "\n"


def recalls(encoder: Path, sample: Documents) -> list[float]:
    """Of the titled documents, at each depth document to title and back; ties are no miss."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(encoder), device="cpu")
    asked = sample[:TITLED]
    offsets = np.cumsum([0, *(len(sentences) for sentences, _ in asked)])
    texts = [sentence for sentences, _ in asked for sentence in sentences]
    vectors = np.asarray(model.encode(texts, normalize_embeddings=True))
    means = np.add.reduceat(vectors, offsets[:-1])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    titles = np.asarray(model.encode([title for _, title in asked], normalize_embeddings=True))
    scores = means @ titles.T
    own = np.diag(scores)
    ranks = (scores > own[:, None]).sum(1), (scores > own).sum(0)
    return [float((rank < k).mean()) for k in DEPTHS for rank in ranks]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", choices=FILES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44])
    parser.add_argument("--more", default="", help="Options for every run.")
    asked = parser.parse_args()
    sample = documents(asked.corpus)
    found: list[dict[str, list[float]]] = []
    with TemporaryDirectory() as folder:
        file = Path(folder) / "documents.jsonl"
        file.write_text("".join(rows_of(sample)), encoding="utf-8")
        for seed in asked.seeds:
            outcome = outcome_of(
                f"python -m flows run {file} --id-column id --sentences-column sentences "
                f"--counterpart-column title --name prototype_{asked.corpus} {RULE} "
                f"--set register_model=false --seed {seed} {asked.more}"
            )
            made = outcome.training.rows + outcome.training.controls
            places = {one.label: Store.default().path(one.encoder) for one in made}
            found.append({label: recalls(place, sample) for label, place in places.items()})
    ways = "document → title", "title → document"
    head = ["encoder", *(f"{way} R@{k}" for k in DEPTHS for way in ways)]
    print(markdown_table(head, [row(label, found) for label in found[0]]))


if __name__ == "__main__":
    main()
