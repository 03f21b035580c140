"""A difference with its interval, as the tables of RESULTS.md have it."""

from sentemb_core.evaluation.bootstrap import Difference


def told_difference(found: Difference) -> str:
    """`+0.021 (+0.005 to +0.040)`, bold where the interval does not hold zero."""
    told = f"{found.mean:+.3f} ({found.low:+.3f} to {found.high:+.3f})"
    return f"**{told}**" if found.low > 0 or found.high < 0 else told
