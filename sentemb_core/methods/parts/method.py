"""What a method is made of."""

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
    """An encoder that learns, and what helps it to.

    Attributes:
        encoder: All that is left when the training is over.
        head: On every view's vectors, before the terms see them.
        networks: Whatever else a method needs, by name: copies, queues, decoders.
    """

    encoder: Encoder
    head: nn.Module = field(default_factory=nn.Identity)
    networks: nn.ModuleDict = field(default_factory=nn.ModuleDict)

    @property
    def modules(self) -> tuple[nn.Module, nn.Module, nn.ModuleDict]:
        return self.encoder, self.head, self.networks


Networks = Callable[[Encoder], Mapping[str, nn.Module]]
"""From the encoder that will learn to fresh modules that help it."""

AfterStep = Callable[[Learner, Mapping[str, Tensor]], None]
"""(learner, detached vectors of the step's views after the head)."""

EMPTY: Mapping[str, Any] = {}

HeadState = Mapping[str, Tensor]
"""Weights of the head that a Condenser stage trained, by name."""

Reader = Callable[
    [Learner, Int[Tensor, "rows time"], Int[Tensor, "rows time"] | None, bool], Reading
]
"""(learner, ids, mask, whether layers are wanted) -> what reading these rows gave."""


LossOfRows = Callable[[Float[Tensor, "rows dim"]], Float[Tensor, ""]]
"""(vectors) -> the loss that the step would have if the rows being read had these vectors.

All other rows are read as the step reads them; those of views that ask for this loss, too, are read
plainly."""


@dataclass(frozen=True)
class FullBatchForward:
    """A reader that asks for the loss of the step: it reads all its rows in one pass.

    Attributes:
        reader: As a `Reader`, and the loss.
    """

    reader: Callable[
        [Learner, Int[Tensor, "rows time"], Int[Tensor, "rows time"] | None, bool, LossOfRows],
        Reading,
    ]


CrossSampleTerm = Callable[
    [Mapping[str, Tensor], Batch, Learner], tuple[Tensor, Mapping[str, float]]
]
"""(vectors of every view, batch, learner) -> (loss, metrics). It sees the whole batch at once, so
under a gradient cache it runs on the loss side of the boundary."""


@dataclass(frozen=True)
class Rows:
    """Some rows of a view as a per-sample loss sees them, padded at the right.

    Attributes:
        ids: What the encoder read.
        mask: 1 on real tokens.
        inputs: What an auxiliary network reads instead (as long as `ids`).
        targets: What it must predict, `IGNORED` elsewhere; of a length of its own.
        reading: What reading `ids` gave, with all layers.
    """

    ids: Int[Tensor, "rows time"]
    mask: Int[Tensor, "rows time"]
    inputs: Int[Tensor, "rows time"]
    targets: Int[Tensor, "rows _"]
    reading: Reading


SampleLoss = Callable[[Learner, Rows], Tensor]
"""The sum over targets or rows: a scalar."""


@dataclass(frozen=True)
class SampleTerm:
    """A loss of single rows: it runs inside the chunks of a gradient cache.

    Attributes:
        view: Whose rows it judges.
        loss: Its sum.
        per: What the batch's sum is divided by: all its targets, or all its rows.
    """

    view: str
    loss: SampleLoss
    per: Literal["target", "row"] = "target"


@dataclass(frozen=True)
class Method:
    """A way to train: which texts are positives, how they become views, what the loss adds up.

    Attributes:
        name: As in the settings and the paper index.
        pairs: Documents to positive pairs.
        views: Under each name, how drawn sentences become token sequences.
        terms: Under each name, (weight, term) of losses between rows.
        sample_terms: Under each name, (weight, term) of losses of single rows.
        readers: View -> who reads it, and how; absent, the encoder reads it plainly.
        aggregate: New view -> the view whose rows are added up by owner and weight.
        head: From the encoder's dimension to a train-only module on all views' vectors.
        head_first: Whether rows go through the head before they are added up, and not the sums.
        networks: Other modules by name; checkpointed, and dropped at the end unless `kept`.
        kept: Names of the networks that outlive the training beside the encoder.
        frozen: Beginnings of the names of encoder parameters that do not learn.
        dropout: Whether the encoder trains with its dropout.
        after_step: Called after every step with the vectors its loss saw: averages, queues.
    """

    name: str
    pairs: PairSource
    views: Mapping[str, ViewMaker]
    terms: Mapping[str, tuple[float, CrossSampleTerm]] = field(
        default_factory=dict[str, tuple[float, CrossSampleTerm]]
    )
    sample_terms: Mapping[str, tuple[float, SampleTerm]] = field(
        default_factory=dict[str, tuple[float, SampleTerm]]
    )
    readers: Mapping[str, Reader | FullBatchForward] = field(
        default_factory=dict[str, Reader | FullBatchForward]
    )
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
        """Whether some reader needs all its rows in one pass, so that chunks are impossible."""
        return any(isinstance(reader, FullBatchForward) for reader in self.readers.values())

    def joined(
        self,
        *,
        name: str | None = None,
        views: Mapping[str, ViewMaker] = EMPTY,
        terms: Mapping[str, tuple[float, CrossSampleTerm]] = EMPTY,
        sample_terms: Mapping[str, tuple[float, SampleTerm]] = EMPTY,
        readers: Mapping[str, Reader | FullBatchForward] = EMPTY,
        head: Callable[[int], nn.Module] | None = None,
        networks: Networks | None = None,
        after_step: AfterStep | None = None,
    ) -> "Method":
        """This method with more: mappings and networks are added to its own, the rest replaced."""
        return replace(
            self,
            name=name or self.name,
            views={**self.views, **views},
            terms={**self.terms, **terms},
            sample_terms={**self.sample_terms, **sample_terms},
            readers={**self.readers, **readers},
            head=head or self.head,
            networks=together(self.networks, networks),
            after_step=after_step or self.after_step,
        )


def require_loss(method: Method) -> None:
    """That some term counts.

    Raises:
        RecipeError: all of them weigh nothing.
    """
    terms = {**method.terms, **method.sample_terms}
    if not any(weight for weight, _ in terms.values()):
        raise RecipeError(
            f"{method.name} would learn nothing: found weight 0 for {' and '.join(terms)}, all "
            "that its loss is made of: raise it"
        )


def require_chunks(method: Method, chunk: int | None) -> None:
    """That no view has to be read at once where chunks are asked for.

    Raises:
        RecipeError: one has to.
    """
    if method.reads_at_once and chunk is not None:
        raise RecipeError(
            f"{method.name} has a view here that follows the loss of the step (an adversarial one) "
            f"and is read at once; found chunk {chunk}: leave chunk out, or that view"
        )


def together(one: Networks | None, other: Networks | None) -> Networks | None:
    """The networks of both."""
    if one is None or other is None:
        return one or other
    return lambda encoder: {**one(encoder), **other(encoder)}


def plainly(
    learner: Learner,
    ids: Int[Tensor, "rows time"],
    mask: Int[Tensor, "rows time"] | None,
    layers: bool,
) -> Reading:
    """The reader of views that name none."""
    return read_by(learner.encoder, ids, mask, layers)


def read_by(
    encoder: Encoder,
    ids: Int[Tensor, "rows time"],
    mask: Int[Tensor, "rows time"] | None,
    layers: bool,
) -> Reading:
    """What an encoder makes of some rows, unperturbed.

    Padding is not computed (`Encoder.forward`), unless the states of all layers are wanted.
    """
    return encoder.read(ids, mask, layers=True) if layers else Reading(encoder(ids, mask))


def loss_of(
    method: Method, vectors: Mapping[str, Tensor], batch: Batch, learner: Learner
) -> tuple[Tensor, dict[str, float]]:
    """The weighted sum of the terms between rows, and their metrics."""
    metrics: dict[str, float] = {}
    losses: list[Tensor] = []
    for name, (weight, term) in method.terms.items():
        value, found = term(vectors, batch, learner)
        losses.append(weight * value)
        metrics[name] = value.item()
        for told, amount in found.items():
            metrics[told] = metrics.get(told, 0.0) + amount
    if not losses:  # every loss of such a method is one of single rows
        return sum(vector.sum() * 0.0 for vector in vectors.values()), metrics  # pyright: ignore[reportReturnType]
    return sum(losses[1:], start=losses[0]), metrics
