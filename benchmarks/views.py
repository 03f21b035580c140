"""Cost of the views of a batch as a share of the training step, in CPU-seconds.

Run with `python benchmarks/views.py`. Covers the methods whose views differ from the rows of the
corpus, each with a small transformer on one thread. The promise is at most a tenth of the step.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq

from benchmarks.promises import kept
from benchmarks.training import DATA, tokenised
from sentemb_core.config.run import EncoderConfig, TrainingConfig
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.start import start_encoder
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.parts.views import Batch
from sentemb_core.training.batches import Sampler, sampler_for
from sentemb_core.training.loop import learner_of, train

METHODS = {
    "esimcse": {},
    "mirror_bert": {},
    "sncse": {},
    "clm_autoencoder": {"noise": 0.6},
    "mlm_autoencoder": {},
    "hicl": {},
    "declutr": {"shortest": 16, "longest": 32},
}
STEPS = 12
SETTLED = 3
"""Warm-up steps, in which the heap grows."""


@dataclass
class Timed:
    """A sampler that measures the cost of its batches."""

    sampler: Sampler
    seconds: list[float] = field(default_factory=list)

    def batch(self, step: int) -> Batch:
        began = time.process_time()
        batch = self.sampler.batch(step)
        self.seconds.append(time.process_time() - began)
        return batch


def seconds_of(encoder: Encoder, corpus: TokenCorpus, name: str, work: Path) -> tuple[float, float]:
    """Return the median CPU-seconds of the views of a batch, and of a whole step."""
    config = TrainingConfig(
        method={"name": name, **METHODS[name]},
        batch_size=64 if name != "declutr" else 16,
        steps=STEPS,
        dtype="bfloat16",
        threads=1,
    )
    method = method_for(config.method, encoder)
    sampler = Timed(sampler_for(config, method, corpus))
    ends: list[float] = []
    train(
        learner_of(method, encoder, config.seed),
        method,
        sampler,
        config,
        work,
        on_step=lambda *_: ends.append(time.process_time()),
    )
    steps = [
        after - before for before, after in zip(ends[SETTLED:], ends[SETTLED + 1 :], strict=False)
    ]
    return median(sampler.seconds[SETTLED:]), median(steps)


def main() -> bool:
    argparse.ArgumentParser(description=__doc__).parse_args()
    sentences = chain.from_iterable(pq.read_table(DATA)["sentences"].to_pylist())
    encoder = start_encoder(EncoderConfig(name="transformer"), sentences)
    shares: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        corpus = tokenised(encoder, 300, Path(folder))
        for name in METHODS:
            views, step = seconds_of(encoder, corpus, name, Path(folder) / name)
            print(f"  {name:16s} views {1000 * views:5.1f} ms of a step of {1000 * step:6.1f} ms")
            shares.append(views / step)
    return kept("views / step, the largest", max(shares), at_most=0.1)


if __name__ == "__main__":
    sys.exit(not main())
