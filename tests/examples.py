"""The number of drawn examples of a property test."""

from hypothesis import settings


def at_least(examples: int) -> settings:
    """Draw this many examples, or those of the profile if they are more (`make soak`)."""
    return settings(max_examples=max(examples, settings.default.max_examples))
