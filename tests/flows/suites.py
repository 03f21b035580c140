"""A tiny data folder for whole benchmarks, and tiny encoders."""

import json
from pathlib import Path

import numpy as np

from sentemb_core.encoder.checkpoint import save_encoder
from tests import tiny
from tests.parquet import write


def text(rng: np.random.Generator, words: int = 6) -> str:
    return " ".join(f"w{k}" for k in rng.integers(4, 40, words))


def write_data(folder: Path) -> Path:
    """Write stsb_dev, sts_sts12, ir_cranfield and a probing file of invented words."""
    rng = np.random.default_rng(0)
    for name in ("stsb_dev", "sts_sts12"):
        first = [text(rng) for _ in range(24)]
        second = [" ".join(one.split()[: rng.integers(1, 7)]) + " w50" for one in first]
        score = [len(other.split()) - 1.0 for other in second]
        pairs = {"sentence1": first, "sentence2": second, "score": [min(s, 5.0) for s in score]}
        write(folder / f"{name}.parquet", **pairs)
    texts = [text(rng, 9) for _ in range(30)]
    ids = [str(k) for k in range(30)]
    asking = [" ".join(one.split()[2:6]) for one in texts[:12]]
    write(folder / "ir_cranfield_docs.parquet", doc_id=ids, title=[""] * 30, text=texts)
    write(folder / "ir_cranfield_queries.parquet", query_id=ids[:12], text=asking)
    write(folder / "ir_cranfield_qrels.parquet", query_id=ids[:12], doc_id=ids[:12], rel=[1] * 12)
    (folder / "probing").mkdir()
    parts = ["tr"] * 40 + ["va"] * 10 + ["te"] * 30
    lines = [f"{part}\t{k % 2}\t{text(rng, 3)} w{60 + k % 2}" for k, part in enumerate(parts)]
    (folder / "probing" / "tree_depth.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


def write_beir(folder: Path) -> Path:
    """Write four documents in BEIR format; each query has one of them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = {"corpus": "w4 w5 w6", "queries": "w4 w5"}
    for name, start in rows.items():
        lines = [{"_id": f"{k}", "title": "", "text": f"{start} w{20 + k}"} for k in range(4)]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "qrels").mkdir()
    judged = [f"{k}\t{(k + 1) % 4}\t1" for k in range(4)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    return folder


def write_encoder(folder: Path, seed: int) -> str:
    save_encoder(tiny.static(seed=seed), folder, f"# {folder.name}\n")
    return str(folder)
