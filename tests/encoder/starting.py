"""Encoders small enough to start in a blink."""

import random

from sentemb_core.config.run import EncoderConfig
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.start import start_encoder

WORDS = ["agency", "pays", "a", "benefit", "claim", "by", "mail", "each", "month", "your", "form"]


def invented(count: int, longest: int, seed: int) -> list[str]:
    """Sentences of 1 to `longest` words."""
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, longest))) + "." for _ in range(count)]


def start(name: str, **settings: object) -> Encoder:
    config = EncoderConfig(name=name, **{"dim": 16, "vocabulary": 200, **settings})
    return start_encoder(config, iter(invented(100, 12, seed=1)))
