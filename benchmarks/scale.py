"""Annotate a corpus undivided, in shards, by two workers, and with a worker killed.

    python -m benchmarks.scale                   # 600 posts, of which 700 sentences make 40 shards
    python -m benchmarks.scale --documents 2306 --full 2700 --ways undivided shards

Each way has a process and a home of its own. CPU-seconds count workers and imports. The exit code
is 1 if the pairs or the joined vectors of two ways in shards differ.
"""

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from flows.annotation_variants import annotate
from flows.environment import QUIET
from flows.pipeline import documents_of
from sentemb_core.config.run import AnnotationConfig, CorpusConfig, EncoderConfig, InfoCSEIDC
from sentemb_core.types import Json
from tasks.corpus import tokenise_sentences
from tasks.encode import encode_sentences, start_encoder
from tasks.execution import without_prefect
from tasks.workers import workers_of

BLOG = Path(__file__).parents[1] / "data" / "blog_usgov.parquet"
UNDIVIDED = "undivided"
WAYS = {UNDIVIDED: 1, "shards": 1, "workers": 2, "killed": 2}
"""Way -> workers."""

KILL_AFTER = 15.0
"""Seconds, of which a worker takes some five to start."""


def annotated(documents: int, full: int, workers: int) -> Json:
    """Encode and annotate the corpus with MiniLM; return the digests."""
    corpus = CorpusConfig(
        source=str(BLOG),
        sentences_column="sentences",
        max_documents=documents,
        shard_sentences=full,
    )
    with (
        without_prefect(),
        workers_of(InfoCSEIDC(corpus=corpus, workers=workers)),
    ):
        documents = documents_of(corpus)
        encoder = start_encoder("minilm", EncoderConfig(name="minilm"), documents)
        sentences = tokenise_sentences(documents, None, encoder)
        vectors = encode_sentences(encoder, sentences, "float32", "float16")
        pairs = annotate(encoder, sentences, AnnotationConfig(), vectors).pairs
    return {"vectors": vectors.digest, "pairs": pairs.digest}


def kill_a_worker() -> None:
    time.sleep(KILL_AFTER)
    multiprocessing.active_children()[0].kill()


def measured(way: str, documents: int, full: int) -> Json:
    """Run one way in a process of its own; return digests, seconds, memory and disk."""
    with tempfile.TemporaryDirectory() as home:
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        settings = ("--documents", str(documents), "--full", str(full), "--run", way)
        command = [sys.executable, "-m", "benchmarks.scale", *settings]
        out = subprocess.run(
            command,
            env=QUIET | os.environ | {"SENTEMB_HOME": home},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = sum(file.stat().st_size for file in Path(home).rglob("*") if file.is_file())
    return json.loads(out.splitlines()[-1]) | {
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "seconds": time.monotonic() - began,
        "disk": used,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=600)
    parser.add_argument("--full", type=int, default=700, help="Sentences of a full shard.")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--run", choices=WAYS, help="Run this way here; print what it found.")
    given = parser.parse_args()
    if given.run:
        run_way(given.run, given.documents, given.full)
        return 0
    print("way        CPU s  seconds  memory MB  disk MB")
    rows: dict[str, Json] = {}
    for way in given.ways:
        row = rows[way] = measured(way, given.documents, given.full)
        numbers = (row["cpu"], row["seconds"], row["memory"] / 1024, row["disk"] / 2**20)
        print("{:9} {:6.1f} {:8.1f} {:10.0f} {:8.0f}".format(way, *numbers), flush=True)
    divided = [row for way, row in rows.items() if way != UNDIVIDED]
    same = all(len({row[name] for row in divided}) <= 1 for name in ("vectors", "pairs"))
    print(f"equal digests: {same}")
    return int(not same)


def run_way(way: str, documents: int, full: int) -> None:
    """Run one way in this process; print its digests, and the memory of its largest process."""
    if way == "killed":
        threading.Thread(target=kill_a_worker, daemon=True).start()
    found = annotated(documents, 10**9 if way == UNDIVIDED else full, WAYS[way])
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    found["memory"] = max(resource.getrusage(kind).ru_maxrss for kind in kinds)
    print(json.dumps(found))


if __name__ == "__main__":
    sys.exit(main())
