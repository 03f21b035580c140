"""The parts of a method, and its value: `Method`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.errors import RecipeError
from sentemb_core.methods.parts.pairs import PairSource
from sentemb_core.methods.parts.views import Batch, ViewMaker


@dataclass(frozen=True)
class Learner:
    """The encoder that is trained, with its training-only parts.

    Attributes:
        encoder: The only part that remains after training.
        head: Applied to the vectors of every view before the loss terms.
        networks: Further modules by name: copies, queues, decoders.
    """

    encoder: Encoder
    head: nn.Module = field(default_factory=nn.Identity)
    networks: nn.ModuleDict = field(default_factory=nn.ModuleDict)

    @property
    def modules(self) -> tuple[nn.Module, nn.Module, nn.ModuleDict]:
        return self.encoder, self.head, self.networks


Networks = Callable[[Encoder], Mapping[str, nn.Module]]
"""encoder -> new training-only modules by name"""

Vectors = Mapping[str, Tensor]
"""The vectors of every view after the head, by its name."""

AfterStep = Callable[[Learner, Vectors], None]
"""(learner, detached vectors of the step)"""

HeadState = Mapping[str, Tensor]
"""Weights of the head that a Condenser stage trained, by name."""

ForwardPass = Callable[
    [Learner, Int[Tensor, "rows time"], Int[Tensor, "rows time"] | None, bool], Reading
]
"""(learner, ids, mask, whether layers are needed) -> output of the forward pass"""

LossOfRows = Callable[[Float[Tensor, "rows dim"]], Float[Tensor, ""]]
"""vectors -> the step's loss if the rows of this pass had these vectors

All other rows keep their vectors of the step. Other views that also ask for this loss are encoded
plainly.
"""


@dataclass(frozen=True)
class FullBatchForward:
    """A forward pass that needs the loss of the step: all its rows go through in one pass.

    Attributes:
        run: A `ForwardPass` with the loss as its last argument.
    """

    run: Callable[
        [Learner, Int[Tensor, "rows time"], Int[Tensor, "rows time"] | None, bool, LossOfRows],
        Reading,
    ]


AnyForwardPass = ForwardPass | FullBatchForward

LossAndMetrics = tuple[Tensor, Mapping[str, float]]

CrossSampleTerm = Callable[[Vectors, Batch, Learner], LossAndMetrics]
"""A loss between rows. It needs the whole batch, so a gradient cache runs it on the loss side."""


@dataclass(frozen=True)
class Rows:
    """Rows of a view as input of a per-sample loss, padded at the right.

    Attributes:
        ids: Token ids that the encoder read.
        mask: 1 on real tokens.
        inputs: Token ids for an auxiliary network (as long as `ids`).
        targets: Token ids to predict, `IGNORED` elsewhere; may have another length.
        reading: Output of the forward pass over `ids`, with all layers.
    """

    ids: Int[Tensor, "rows time"]
    mask: Int[Tensor, "rows time"]
    inputs: Int[Tensor, "rows time"]
    targets: Int[Tensor, "rows _"]
    reading: Reading


SampleLoss = Callable[[Learner, Rows], Tensor]
"""(learner, rows) -> sum over targets or rows: a scalar"""


@dataclass(frozen=True)
class SampleTerm:
    """A loss of single rows: it runs inside the chunks of a gradient cache.

    Attributes:
        view: Name of the view.
        loss: Sum over its rows.
        per: Divisor of the batch's sum: all targets, or all rows.
    """

    view: str
    loss: SampleLoss
    per: Literal["target", "row"] = "target"


Terms = Mapping[str, tuple[float, CrossSampleTerm]]
SampleTerms = Mapping[str, tuple[float, SampleTerm]]
EMPTY: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Method:
    """A training method: pairs, their views, and the terms of the loss.

    Attributes:
        name: As in the settings and the methods index.
        pairs: From documents to positive pairs.
        views: Name -> how drawn sentences become token sequences.
        terms: Name -> (weight, loss between rows).
        sample_terms: Name -> (weight, loss of single rows).
        forward_passes: View -> its forward pass; default: the plain encoder.
        aggregate: New view -> the view whose rows are summed by owner and weight.
        head: From the encoder's dimension to a training-only module on all views' vectors.
        head_first: Whether the head precedes the sum of `aggregate`.
        networks: Further modules by name; checkpointed, and dropped at the end unless `kept`.
        kept: Names of networks that are saved beside the encoder.
        frozen: Name prefixes of encoder parameters that do not learn.
        dropout: Whether the encoder trains with its dropout.
        after_step: Called after every step with the vectors of its loss: averages, queues.
    """

    name: str
    pairs: PairSource
    views: Mapping[str, ViewMaker]
    terms: Terms = field(default_factory=dict[str, Any])
    sample_terms: SampleTerms = field(default_factory=dict[str, Any])
    forward_passes: Mapping[str, AnyForwardPass] = field(default_factory=dict[str, Any])
    aggregate: Mapping[str, str] = field(default_factory=dict[str, str])
    head: Callable[[int], nn.Module] | None = None
    head_first: bool = False
    networks: Networks | None = None
    kept: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    dropout: bool = True
    after_step: AfterStep | None = None

    @property
    def reads_at_once(self) -> bool:
        """Whether a forward pass needs all its rows at once, so that chunks are impossible."""
        return any(isinstance(way, FullBatchForward) for way in self.forward_passes.values())

    def joined(
        self,
        *,
        name: str | None = None,
        views: Mapping[str, ViewMaker] = EMPTY,
        terms: Terms = EMPTY,
        sample_terms: SampleTerms = EMPTY,
        forward_passes: Mapping[str, AnyForwardPass] = EMPTY,
        head: Callable[[int], nn.Module] | None = None,
        networks: Networks | None = None,
        after_step: AfterStep | None = None,
    ) -> "Method":
        """Return this method with merged mappings and networks, and other fields replaced."""
        return replace(
            self,
            name=name or self.name,
            views={**self.views, **views},
            terms={**self.terms, **terms},
            sample_terms={**self.sample_terms, **sample_terms},
            forward_passes={**self.forward_passes, **forward_passes},
            head=head or self.head,
            networks=together(self.networks, networks),
            after_step=after_step or self.after_step,
        )


def together(one: Networks | None, other: Networks | None) -> Networks | None:
    """Return the networks of both."""
    if one is None or other is None:
        return one or other
    return lambda encoder: {**one(encoder), **other(encoder)}


def require_loss(method: Method) -> None:
    """Check that at least one term has a weight.

    Raises:
        RecipeError: all weights are 0.
    """
    terms = {**method.terms, **method.sample_terms}
    if not any(weight for weight, _ in terms.values()):
        raise RecipeError(
            f"A method needs a loss with a weight above 0; {method.name} has weight 0 for "
            f"{' and '.join(terms)}. Raise one of them"
        )


def require_divisible(method: Method, chunk: int | None, devices: int) -> None:
    """Check that no view needs a full-batch forward pass if chunks or devices divide the batch.

    Raises:
        RecipeError: a view needs one.
    """
    if method.reads_at_once and (chunk is not None or devices > 1):
        raise RecipeError(
            f"An adversarial view of {method.name} needs all rows at once on one device; found "
            f"chunk {chunk} and devices {devices}. Leave chunk and devices out, or that view"
        )


def require_rows(rows: int, ranks: int) -> None:
    """Check that each rank has a row of a view.

    Raises:
        RecipeError: the batch has fewer rows.
    """
    if rows < ranks:
        raise RecipeError(
            f"A batch needs a text for each device; found {rows} texts and {ranks} devices. Raise "
            "training.batch_size, or lower training.devices"
        )


def plainly(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
    """The default forward pass of a view."""
    return read_by(learner.encoder, ids, mask, layers)


def read_by(
    encoder: Encoder,
    ids: Int[Tensor, "rows time"],
    mask: Int[Tensor, "rows time"] | None,
    layers: bool,
) -> Reading:
    """Return an encoder's output for these rows, without perturbation.

    Padding is not computed (`Encoder.forward`), unless the states of all layers are needed.
    """
    return encoder.read(ids, mask, layers=True) if layers else Reading(encoder(ids, mask))


def loss_of(
    method: Method, vectors: Vectors, batch: Batch, learner: Learner
) -> tuple[Tensor, dict[str, float]]:
    """Return the weighted sum of the terms between rows, and their metrics."""
    metrics: dict[str, float] = {}
    losses: list[Tensor] = []
    for name, (weight, term) in method.terms.items():
        value, own_metrics = term(vectors, batch, learner)
        losses.append(weight * value)
        metrics[name] = value.item()
        for own_name, amount in own_metrics.items():
            metrics[own_name] = metrics.get(own_name, 0.0) + amount
    if not losses:  # every loss of such a method is one of single rows
        return sum(vector.sum() * 0.0 for vector in vectors.values()), metrics  # pyright: ignore[reportReturnType]
    return sum(losses[1:], start=losses[0]), metrics
