"""Compare a measured number with its promise."""

import math


def kept(
    name: str, value: float, *, at_least: float = float("-inf"), at_most: float = float("inf")
) -> bool:
    """Print the number beside its promise; return whether the promise is kept."""
    promise = f"at most {at_most:g}" if math.isinf(at_least) else f"at least {at_least:g}"
    is_kept = at_least <= value <= at_most
    print(f"{name}: {value:.2f} ({promise}: {'kept' if is_kept else 'MISSED'})", flush=True)
    return is_kept
