"""Trainings that are broken off."""

from collections.abc import Mapping

from sentemb_core.methods.parts.method import Learner


class InterruptionError(Exception):
    """Stands for a kill, which leaves no time to write anything."""


class BreakingOff:
    """An `on_step` that keeps the losses, and interrupts the training after a given step."""

    def __init__(self, behind: int | None, error: type[BaseException] = InterruptionError) -> None:
        self.behind, self.error = behind, error
        self.losses: list[float] = []

    def __call__(self, step: int, metrics: Mapping[str, float]) -> None:
        self.losses.append(metrics["loss"])
        if step == self.behind:
            raise self.error


def assert_same_weights(one: Learner, other: Learner) -> None:
    """Of encoder, head and networks, bit for bit."""
    for ours, theirs in zip(one.modules, other.modules, strict=True):
        state = theirs.state_dict()
        for name, weight in ours.state_dict().items():
            assert weight.equal(state[name]), name
