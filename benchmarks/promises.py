"""Whether a measured number is what was promised: a benchmark that misses one exits with 1."""


def kept(what: str, value: float, *, at_least: float = 0.0, at_most: float = float("inf")) -> bool:
    """Print the number beside its promise, and tell whether it holds."""
    promise = f"at least {at_least:g}" if at_least else f"at most {at_most:g}"
    holds = at_least <= value <= at_most
    print(f"{what}: {value:.2f} ({promise}: {'kept' if holds else 'MISSED'})", flush=True)
    return holds
