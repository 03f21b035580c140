"""MiniLM at exact lengths in sentemb, OpenVINO and ONNX Runtime: CPU-seconds of one thread.

    pip install onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1
    python benchmarks/runtimes.py [SENTENCES]    # a minute for 1024

All three read the same batches, each of one length, in float32. Without these packages nothing is
measured: no other part of sentemb uses them.
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch

from benchmarks.encode import real_sentences
from benchmarks.promises import fastest, measured
from sentemb_core.config.run import EncoderConfig
from sentemb_core.encoder.batching import TOKEN_BUDGET, encode, length_buckets
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.start import start_encoder

Way = Callable[[np.ndarray], np.ndarray]
"""From token ids of one length to vectors."""

ROUNDS = 5

PEERS = ("onnx", "onnxruntime", "openvino")
"""Not in the lock, which everyone installs: 95 MB for this comparison."""


def exported(encoder: Encoder, folder: Path) -> Path:
    """Return the path of the encoder as an ONNX graph, from ids without padding to vectors."""

    class Vectors(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.encoder.vectors(self.encoder(ids))

    path = folder / "minilm.onnx"
    torch.onnx.export(
        Vectors().eval(),
        (torch.full((2, 9), encoder.unknown_id),),
        str(path),
        input_names=["ids"],
        dynamic_axes={"ids": {0: "batch", 1: "time"}},
        dynamo=False,
    )
    return path


def onnx_way(path: Path) -> Way:
    """Return ONNX Runtime on one thread."""
    onnxruntime = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda ids: session.run(None, {"ids": ids})[0]


def openvino_way(path: Path) -> Way:
    """Return OpenVINO on one thread, in float32 also where it would choose bfloat16."""
    openvino = import_module("openvino")
    settings: dict[str, Any] = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    model = openvino.Core().compile_model(str(path), "CPU", settings)
    return lambda ids: model([ids])[0]


def vectors_of(way: Way, sequences: Sequence[np.ndarray]) -> np.ndarray:
    """Return the vectors of token ids, read in batches of one length."""
    vectors = np.empty((len(sequences), 384), np.float32)
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    for rows in length_buckets(lengths, TOKEN_BUDGET):
        vectors[rows] = way(np.stack([sequences[row] for row in rows]))
    return vectors


def main(count: int = 1024) -> bool:
    """Print sentences per CPU-second; return whether all vectors are equal."""
    absent = [name for name in PEERS if not find_spec(name)]
    if absent:
        print(f"not measured: {', '.join(absent)} not installed")
        return True
    torch.set_num_threads(1)
    encoder = start_encoder(EncoderConfig(name="minilm", max_length=32), None)
    sequences = encoder.tokenise(real_sentences(count))
    ways = {"sentemb": partial(encode, encoder, sequences)}
    with TemporaryDirectory() as folder:
        path = exported(encoder, Path(folder))
        for name, way in {"onnx": onnx_way, "openvino": openvino_way}.items():
            ways[name] = partial(vectors_of, way(path), sequences)
        seconds, vectors = fastest(ways, ROUNDS)
    print(f"{count} sentences, one thread, float32, best of {ROUNDS}")
    print(f"{'':12}{'sentences/CPU-s':>16}{'min cosine':>12}")
    cosines = {name: (own * vectors["sentemb"]).sum(1).min() for name, own in vectors.items()}
    for name, spent in seconds.items():
        print(f"{name:12}{count / spent:16.0f}{cosines[name]:12.6f}")
        if name != "sentemb":
            measured(name, spent / seconds["sentemb"])
    return min(cosines.values()) > 0.9999


if __name__ == "__main__":
    sys.exit(not main(*map(int, sys.argv[1:])))
