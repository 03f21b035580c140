"""Whether a measured number is what was promised: a benchmark that misses one exits with 1."""

import math


def kept(
    what: str, value: float, *, at_least: float = float("-inf"), at_most: float = float("inf")
) -> bool:
    """Print the number beside its promise, and tell whether it holds."""
    promise = f"at most {at_most:g}" if math.isinf(at_least) else f"at least {at_least:g}"
    holds = at_least <= value <= at_most
    print(f"{what}: {value:.2f} ({promise}: {'kept' if holds else 'MISSED'})", flush=True)
    return holds
