"""The number of drawn examples of a property test."""

from hypothesis import HealthCheck, settings


def at_least(examples: int) -> settings:
    """Draw this many examples, or those of the profile if they are more (`make soak`)."""
    return settings(max_examples=max(examples, settings.default.max_examples))


def fixed(examples: int) -> settings:
    """Draw the same examples each time: this many, or those of `make soak`."""
    usual = settings.get_profile("default").max_examples
    drawn = settings.default.max_examples
    return settings(
        max_examples=examples if drawn <= usual else drawn,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
