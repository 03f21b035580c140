"""The loss of every method as its card has it, one sentence and one pair at a time.

A card: what a method's paper states, or its code where they differ, as a value. Of the code under
test these loops use the encoder on single rows, the networks' own forwards (which have slow loops
of their own in tests/heads) and the columns of a batch.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.parts.method import Learner
from sentemb_core.methods.parts.views import IGNORED, Batch, View
from tests import tiny
from tests.methods import slow
from tests.methods.batches import may_be_wrong, similarity_of, slow_choice, slow_segments

Vectors = list[Tensor]
"""One a row."""

CHANCE = torch.rand(1_024, generator=torch.Generator().manual_seed(1))
"""What `torch.rand` draws along the axes of every row, where a test fixes it."""


@dataclass(frozen=True)
class Scene:
    """One step of a method.

    Attributes:
        settings: Of the method, or of the one it is built on.
        who: Learns.
        batch: What it sees.
        keys: What ESimCSE's queue holds.
        start: The encoder's parameters when the training began.
        masked: The view whose masks a language term fills.
        headed: Whether what is compared went through the head before it was added up.
    """

    settings: Any
    who: Learner
    batch: Batch
    keys: Tensor
    start: dict[str, Tensor]
    masked: str = "masked"
    headed: bool = False

    @property
    def how(self) -> tuple[float, str]:
        return self.settings.temperature, self.who.encoder.similarity

    def view(self, name: str) -> View:
        return self.batch.views[name]

    def read(self, name: str) -> Vectors:
        """Every row of a view by itself, before any head."""
        return [vector_of(self.who.encoder, row) for row in self.view(name).tokens]


def vector_of(encoder: Encoder, row: np.ndarray) -> Tensor:
    return encoder.read(torch.from_numpy(row)[None]).pooled[0]


def layers_of(encoder: Encoder, row: np.ndarray) -> list[Tensor]:
    """[time, dim] of the embedding layer and of every layer above it."""
    return [states[0] for states in encoder.read(torch.from_numpy(row)[None], layers=True).layers]


def table_of(encoder: Encoder) -> Tensor:
    return encoder.backbone.embeddings.word_embeddings.weight


# heads


def under_tanh(scene: Scene, *views: Vectors) -> list[Vectors]:
    if scene.headed:
        return [*views]
    weight, bias = scene.who.head.parameters()
    return [[(weight @ row + bias).tanh() for row in rows] for rows in views]


def under_batch_norm(scene: Scene, one: Vectors, other: Vectors) -> list[Vectors]:
    """Both views as one batch of 2N rows."""
    up, scale, shift, down = scene.who.head.parameters()
    wide = standardised([up @ row for row in one + other])
    done = standardised([down @ (scale * row + shift).relu() for row in wide])
    return [done[: len(one)], done[len(one) :]]


def standardised(rows: Vectors) -> Vectors:
    """Every column of mean 0 and variance 1."""
    mean = sum(rows) / len(rows)
    variance = sum((row - mean) ** 2 for row in rows) / len(rows)
    return [(row - mean) / (variance + 1e-5).sqrt() for row in rows]


def under_gelu(scene: Scene, row: Tensor) -> Tensor:
    weight, bias, second, shift = scene.who.head.parameters()
    return slow.gelu(second @ slow.gelu(weight @ row + bias) + shift)


def projected(scene: Scene, rows: Vectors) -> Vectors:
    dense, norm, _ = scene.who.head
    return [slow.norm(norm, slow.linear(dense, row)) for row in rows]


# losses between rows


def one_way(scene: Scene, one: Vectors, other: Vectors, names=("anchor", "positive"), extra=()):
    left, right = (scene.view(name) for name in names)
    return slow_choice(one, other, left, right, scene.how, extra=extra).mean()


def all_pairs(scene: Scene, one: Vectors, other: Vectors, *, within: bool = False) -> Tensor:
    """Of all 2N rows among each other, the mean."""
    left, right = scene.view("anchor"), scene.view("positive")
    both = View(
        tokens=[],
        document=np.concatenate([left.document, right.document]),
        group=np.concatenate([left.group, right.group]),
        text=np.concatenate([left.text, right.text]),
    )
    rows = one + other
    return slow_choice(rows, rows, both, both, scene.how, within=within).mean()


def simcse(scene: Scene, read: Callable[[str], Vectors] | None = None) -> Tensor:
    """`read` gives the rows of a view before the head: HiCL's are sums."""
    read = read or scene.read
    total = one_way(scene, *under_tanh(scene, read("anchor"), read("positive")))
    if scene.settings.mlm:
        total = total + scene.settings.mlm * filled_by_the_encoder(scene, scene.masked)
    return total


def esimcse(scene: Scene, read: Callable[[str], Vectors] | None = None) -> Tensor:
    read = read or scene.read
    extra = scene.keys if scene.settings.queue else ()
    return one_way(scene, *under_tanh(scene, read("anchor"), read("positive")), extra=extra)


def sncse(scene: Scene, read: Callable[[str], Vectors] | None = None) -> Tensor:
    read = read or (lambda name: at_mask(scene, name))
    settings, names = scene.settings, ("anchor", "positive", "negation")
    anchors, positives, negations = under_tanh(scene, *map(read, names))
    margins = []
    for z1, z2, z3 in zip(anchors, positives, negations, strict=True):
        gap = similarity_of(z1, z3, "cosine") - similarity_of(z1, z2, "cosine")
        margins.append((gap + settings.alpha).relu() + (-gap - settings.beta).relu())
    margin = sum(margins) / len(margins)
    return one_way(scene, anchors, positives) + settings.weight * margin


def at_mask(scene: Scene, name: str) -> Vectors:
    """The last layer's state at the one [MASK] of each row."""
    rows = scene.view(name).tokens
    return [layers_of(scene.who.encoder, row)[-1][row.tolist().index(tiny.MASK)] for row in rows]


def consert(scene: Scene) -> Tensor:
    settings = scene.settings
    sides = {"anchor": settings.first, "positive": settings.second}
    views = {
        view: [perturbed(scene, row, names) for row in scene.view(view).tokens]
        for view, names in sides.items()
    }
    moved = {
        view: uphill(scene, views, view) for view, names in sides.items() if "adversarial" in names
    }
    return two_means(scene, views | moved)


def two_means(scene: Scene, views: dict[str, Vectors]) -> Tensor:
    return scene.settings.weight * 2 * all_pairs(scene, views["anchor"], views["positive"])


def uphill(scene: Scene, views: dict[str, Vectors], view: str) -> Vectors:
    """Every token epsilon away, where the loss of the rows as they are grows fastest."""
    encoder, epsilon = scene.who.encoder, scene.settings.epsilon
    rows = [torch.from_numpy(row)[None] for row in scene.view(view).tokens]

    def read(ids: Tensor, step: Tensor) -> Tensor:
        return encoder.read(ids, edit=lambda states: states + step).pooled[0]

    leaf = {"dtype": torch.float64, "requires_grad": True}
    leaves = [torch.zeros(*ids.shape, encoder.hidden_dim, **leaf) for ids in rows]
    plain = [read(*pair) for pair in zip(rows, leaves, strict=True)]
    slopes = torch.autograd.grad(two_means(scene, views | {view: plain}), leaves)
    steps = [epsilon * slope / (slope.norm(dim=-1, keepdim=True) + 1e-10) for slope in slopes]
    return [read(*pair) for pair in zip(rows, steps, strict=True)]


def perturbed(scene: Scene, row: np.ndarray, names: tuple[str, ...]) -> Tensor:
    """A row whose embeddings lose what chance finds least, at places in the order of chance."""
    encoder, rate = scene.who.encoder, scene.settings.rate

    def edit(states: Tensor) -> Tensor:
        seen, (_, time, dim) = states.clone(), states.shape
        for name in names:
            if name == "token_cutoff":
                seen[0, least(time, rate)] = 0
            elif name == "feature_cutoff":
                seen[0, :, least(dim, rate)] = 0
            elif name == "dropout":
                seen.flatten()[least(time * dim, rate)] = 0
        return seen

    order = [least(len(row), 1.0)] if "shuffle" in names else [list(range(len(row)))]
    ids = torch.from_numpy(row)[None]
    return encoder.read(ids, edit=edit, positions=torch.tensor(order)).pooled[0]


def least(count: int, share: float) -> list[int]:
    """The places of this share of the first `count` numbers of chance, from the smallest on."""
    return sorted(range(count), key=CHANCE.tolist().__getitem__)[: int(share * count)]


def mirror_bert(scene: Scene) -> Tensor:
    views = (scene.view(name).tokens for name in ("anchor", "positive"))
    return all_pairs(scene, *([silenced(scene, row) for row in rows] for rows in views))


def silenced(scene: Scene, row: np.ndarray) -> Tensor:
    """Without the heads below `drophead`, whose share the others take over; none at 0."""
    backbone = scene.who.encoder.backbone
    heads = backbone.config.num_attention_heads
    kept = [key >= scene.settings.drophead for key in CHANCE[:heads].tolist()]

    def hook(_: Any, inputs: tuple[Tensor, ...]) -> Tensor:
        pairs = zip(inputs[0].chunk(heads, dim=-1), kept, strict=True)
        return torch.cat([part * stays * heads / sum(kept) for part, stays in pairs], dim=-1)

    mixed = [layer.attention.output.dense for layer in backbone.encoder.layer]
    hooks = [dense.register_forward_pre_hook(hook) for dense in mixed]
    read = over_all_places if scene.settings.pooling == "mean_with_pads" else vector_of
    vector = read(scene.who.encoder, row)
    for registered in hooks:
        registered.remove()
    return vector


def over_all_places(encoder: Encoder, row: np.ndarray) -> Tensor:
    behind = encoder.max_length - len(row)
    mask = torch.tensor([[1] * len(row) + [0] * behind])
    ids = torch.from_numpy(np.append(row, [encoder.pad_id] * behind))[None]
    return encoder.read(ids, mask, layers=True).layers[-1][0].mean(0)


def mapped_one_way(scene: Scene) -> Tensor:
    """CPC and CONPONO: W, where there is one, acts on the anchor."""
    anchors = scene.read("anchor")
    if scene.settings.bilinear:
        (matrix,) = scene.who.networks["bilinear"].parameters()
        anchors = [matrix @ anchor for anchor in anchors]
    return one_way(scene, anchors, scene.read("positive"))


def ict(scene: Scene) -> Tensor:
    mean = scene.settings.context_as == "mean_of_sentences"
    views = [scene.read("anchor"), means_of_sentences(scene) if mean else scene.read("positive")]
    if scene.settings.projection:
        views = [projected(scene, rows) for rows in views]
    return one_way(scene, *views)


def infocse_idc(scene: Scene) -> Tensor:
    if scene.settings.batches == "pair":
        return one_way(scene, scene.read("anchor"), scene.read("positive"))
    rows = scene.read("sentence")
    return one_way(scene, rows, rows, ("sentence", "sentence"))


def fine_tune(scene: Scene) -> Tensor:
    documents = means_of_sentences(scene, "sentence")
    return one_way(scene, documents, scene.read("counterpart"), ("document", "counterpart"))


def means_of_sentences(scene: Scene, name: str = "sentences") -> Vectors:
    """Of length 1 each where cosines compare, as in validation."""
    rows = scene.read(name)
    if scene.who.encoder.similarity == "cosine":
        rows = [row / row.norm() for row in rows]
    return means_of(rows, scene.view(name))


def declutr(scene: Scene) -> Tensor:
    """Rows of the own document are negatives too; the anchors that are filled are the same rows."""
    positives = means_of(scene.read("positives"), scene.view("positives"))
    total = all_pairs(scene, scene.read("anchor"), positives, within=True)
    if scene.settings.mlm:
        total = total + scene.settings.mlm * filled_by_the_encoder(scene, "anchor")
    return total


def means_of(rows: Vectors, view: View) -> Vectors:
    return [sum(own) / len(own) for own in parts(rows, view)]


def parts(rows: list, view: View) -> list[list]:
    """The rows of each owner."""
    owners = view.owner.tolist()
    return [
        [row for row, owner in zip(rows, owners, strict=True) if owner == wanted]
        for wanted in range(max(owners) + 1)
    ]


def hicl(scene: Scene) -> Tensor:
    """Alpha local + beta entailment + the rest global, under one head."""
    settings = scene.settings
    first = settings.head == "before"
    based = replace(scene, settings=settings.base, masked="masked segments", headed=first)
    base = {"simcse": simcse, "esimcse": esimcse, "sncse": sncse}[settings.base.name]
    read = at_mask if settings.base.name == "sncse" else Scene.read
    one, other = "anchor segments", "positive segments"

    def share(size: int, sizes: list[int]) -> float:
        return 1 / len(sizes) if settings.pooling == "plain" else size / sum(sizes)

    def summed(name: str) -> Vectors:
        """A repeated word gives its segment no more weight: the anchors' lengths count."""
        rows = scene.view(f"{name} segments")
        sliced = rows if name == "negation" else scene.view(one)
        frame = 0 if settings.pooling == "weighted_with_frame" else sum(sliced.frame)
        lengths = [len(row) - frame for row in sliced.tokens]
        found = read(scene, f"{name} segments")
        vectors = parts(under_tanh(scene, found)[0] if first else found, rows)
        return [
            sum(share(size, sizes) * row for row, size in zip(own, sizes, strict=True))
            for own, sizes in zip(vectors, parts(lengths, sliced), strict=True)
        ]

    anchors, positives = under_tanh(scene, read(scene, one), read(scene, other))
    (texts,) = under_tanh(based, summed("anchor"))
    views = scene.view(one), scene.view(other)
    averaged = settings.denominator == "average"
    local = slow_segments(
        *(anchors, positives, *views, based.how, settings.siblings, averaged),
        negatives=settings.negatives,
    )
    entailment = one_way(based, anchors, texts, (one, "anchor"))
    rest = 1 - settings.alpha - settings.beta
    return settings.alpha * local + settings.beta * entailment + rest * base(based, summed)


# losses that judge every pair by itself


def yes(score: Tensor) -> Tensor:
    """-log sigma."""
    return (1 + (-score).exp()).log()


def bce(scene: Scene) -> Tensor:
    left, right = scene.view("anchor"), scene.view("positive")
    anchors, candidates = scene.read("anchor"), scene.read("positive")
    temperature, similarity = scene.how
    total = 0
    for i, anchor in enumerate(anchors):
        for j, candidate in enumerate(candidates):
            score = similarity_of(anchor, candidate, similarity) / temperature
            if i == j:
                total = total + yes(score)
            elif may_be_wrong(left, right, i, j, [i]):
                total = total + yes(-score)
    return total / len(anchors)


def ct(scene: Scene) -> Tensor:
    view, n = scene.view("anchor"), len(scene.view("anchor"))
    anchors = scene.read("anchor")
    others = [vector_of(scene.who.networks["twin"], row) for row in scene.view("other").tokens]
    losses = []
    for i in range(n):
        losses.append(yes(anchors[i] @ others[i]))
        for j in {(i + step) % n for step in range(1, 1 + scene.settings.negatives)} - {i}:
            if may_be_wrong(view, view, i, j, [i]):
                losses.append(yes(-(anchors[i] @ others[j])))
    return sum(losses) / len(losses)


def is_bert(scene: Scene) -> Tensor:
    view, convolutions = scene.view("tokens"), scene.who.networks["cnn"]
    features = []
    for row in view.tokens:
        states = layers_of(scene.who.encoder, row)[-1]
        features.append(convolutions(states[None], torch.ones(1, len(row), dtype=torch.long))[0])
    means = [tokens.mean(0) for tokens in features]
    joint, marginal = [], []
    for i, tokens in enumerate(features):
        for token in tokens:
            for j, sentence in enumerate(means):
                score = token @ sentence
                if i == j:
                    joint.append(math.log(2) - yes(score))
                elif may_be_wrong(view, view, i, j, [i]):
                    marginal.append(yes(score) + score - math.log(2))
    return sum(marginal) / len(marginal) - sum(joint) / len(joint)


def sg_opt(scene: Scene) -> Tensor:
    """Cosine, whatever the encoder compares by; the distance is that of what learns."""
    view, temperature = scene.view("anchor"), scene.settings.temperature
    anchors = [under_gelu(scene, row) for row in scene.read("anchor")]
    frozen = scene.who.networks["start"]
    layers = [
        [under_gelu(scene, states.mean(0)) for states in layers_of(frozen, row)]
        for row in scene.view("layers").tokens
    ]

    def share(i: int, layer: Tensor) -> Tensor:
        return (similarity_of(anchors[i], layer, "cosine") / temperature).exp()

    losses = []
    for i in range(len(anchors)):
        rivals = [
            share(i, layer)
            for j, theirs in enumerate(layers)
            if may_be_wrong(view, view, i, j, [i])
            for layer in theirs
        ]
        losses += [(1 + sum(rivals) / share(i, own)).log() for own in layers[i]]
    moved = sum(
        ((weight - scene.start[name]) ** 2).sum()
        for name, weight in scene.who.encoder.named_parameters()
        if not name.startswith("backbone.embeddings.")
    )
    return sum(losses) / len(losses) + scene.settings.l2 * moved


# losses of single rows


def surprise(head: Any, state: Tensor, table: Tensor, target: int) -> Tensor:
    """-log p(target) under a language head."""
    known = slow.norm(head.norm, slow.gelu(slow.linear(head.dense, state)))
    logits = table @ known + head.bias
    return logits.exp().sum().log() - logits[target]


def losses_of_targets(head: Any, states: Tensor, table: Tensor, targets: np.ndarray) -> Vectors:
    """The surprise at every target of a row."""
    pairs = zip(states, targets.tolist(), strict=True)
    return [surprise(head, state, table, target) for state, target in pairs if target != IGNORED]


def mean_over_targets(rows: list[Vectors]) -> Tensor:
    every = [loss for row in rows for loss in row]
    return sum(every) / len(every)


def mean_of_sums(rows: list[Vectors]) -> Tensor:
    """Over sentences."""
    return sum(loss for row in rows for loss in row) / len(rows)


def filled_by_the_encoder(scene: Scene, name: str, head: str = "language") -> Tensor:
    """BERT's masked language modelling on the rows of a view."""
    encoder, view = scene.who.encoder, scene.view(name)
    language = scene.who.networks.get_submodule(head)
    return mean_over_targets(
        [
            losses_of_targets(language, layers_of(encoder, row)[-1], table_of(encoder), targets)
            for row, targets in zip(view.tokens, view.targets, strict=True)
        ]
    )


def filled(filler: Any, vector: Tensor, early: Tensor, table: Tensor, targets: np.ndarray):
    """The surprises of a `MaskFiller` at one row."""
    states = filler(vector[None], early[None], torch.ones(1, len(early), dtype=torch.long))[0]
    return losses_of_targets(filler.language, states, table, targets)


def condenser(scene: Scene) -> Tensor:
    encoder, view = scene.who.encoder, scene.view("masked")
    depth = below(scene)
    head = [
        filled(
            scene.who.networks["condenser"],
            vector_of(encoder, row),
            layers_of(encoder, row)[depth],
            table_of(encoder),
            targets,
        )
        for row, targets in zip(view.tokens, view.targets, strict=True)
    ]
    late = filled_by_the_encoder(scene, "masked", "condenser.language")
    return late + mean_over_targets(head)


def below(scene: Scene) -> int:
    """Layers under a Condenser's head: half of all unless asked otherwise."""
    return scene.settings.skip_from or len(scene.who.encoder.backbone.encoder.layer) // 2


def aggregated(scene: Scene) -> Tensor:
    """InfoCSE-aux's: the mean of both views' means."""
    encoder, network = scene.who.encoder, scene.who.networks["auxiliary"]
    means = []
    for name in ("anchor", "positive"):
        view = scene.view(name)
        rows = []
        for row, inputs, targets in zip(view.tokens, view.inputs, view.targets, strict=True):
            early = layers_of(network.lower, inputs)[below(scene)]
            vector = vector_of(encoder, row)
            rows.append(filled(network.filler, vector, early, table_of(network.lower), targets))
        means.append(mean_over_targets(rows))
    return sum(means) / 2


def judged(scene: Scene, vectors: list[Vectors]) -> Tensor:
    """DiffCSE's: the mean over all tokens of both views, from vectors behind the head."""
    judge, losses = scene.who.networks["discriminator"], []
    for name, rows in zip(("anchor", "positive"), vectors, strict=True):
        view = scene.view(name)
        for vector, row, inputs in zip(rows, view.tokens, view.inputs, strict=True):
            ids, seen = torch.from_numpy(row)[None], torch.from_numpy(inputs)[None]
            edited = judge.edit(ids, torch.ones_like(ids), seen)
            logits = judge(vector[None], edited, torch.ones_like(ids))[0]
            for token, new, old in zip(logits, edited[0].tolist(), row.tolist(), strict=True):
                losses.append(token.exp().sum().log() - token[int(new != old)])
    return sum(losses) / len(losses)


def infocse_aux(scene: Scene) -> Tensor:
    views = scene.read("anchor"), scene.read("positive")
    head = under_batch_norm if scene.settings.head == "batch_norm" else under_tanh
    return one_way(scene, *head(scene, *views)) + scene.settings.weight * aggregated(scene)


def diffcse(scene: Scene) -> Tensor:
    views = under_batch_norm(scene, scene.read("anchor"), scene.read("positive"))
    return one_way(scene, *views) + scene.settings.weight * judged(scene, views)


def rtd_mlm(scene: Scene) -> Tensor:
    views = under_batch_norm(scene, scene.read("anchor"), scene.read("positive"))
    edits, masks = judged(scene, views), aggregated(scene)
    return one_way(scene, *views) + scene.settings.rtd * edits + scene.settings.mlm * masks


def clm_autoencoder(scene: Scene) -> Tensor:
    """Of every token but the first, which begins the sentence."""
    encoder, view = scene.who.encoder, scene.view("anchor")
    decoder, rows = scene.who.networks["decoder"], []
    for row, targets in zip(view.tokens, view.targets, strict=True):
        text = np.append(row[:1], targets[1:])
        states = decoder(encoder, vector_of(encoder, row)[None], torch.from_numpy(text)[None])[0]
        rows.append(losses_of_targets(decoder.language, states[:-1], table_of(encoder), text[1:]))
    mean = {"row": mean_of_sums, "target": mean_over_targets}[scene.settings.per]
    return beside_simcse(scene, mean(rows))


def mlm_autoencoder(scene: Scene) -> Tensor:
    encoder, view = scene.who.encoder, scene.view("anchor")
    rows = [
        filled(
            scene.who.networks["decoder"],
            vector_of(encoder, row),
            layers_of(encoder, inputs)[0],
            table_of(encoder),
            targets,
        )
        for row, inputs, targets in zip(view.tokens, view.inputs, view.targets, strict=True)
    ]
    return beside_simcse(scene, mean_of_sums(rows))


def beside_simcse(scene: Scene, decoded: Tensor) -> Tensor:
    """Multi-task: SimCSE on the bare vectors."""
    total = scene.settings.weight * decoded
    if scene.settings.simcse:
        choice = one_way(scene, scene.read("anchor"), scene.read("positive"))
        total = total + scene.settings.simcse * choice
    return total


CARDS: dict[str, Callable[[Scene], Tensor]] = {
    "simcse": simcse,
    "consert": consert,
    "mirror_bert": mirror_bert,
    "ict": ict,
    "cpc": mapped_one_way,
    "conpono": mapped_one_way,
    "declutr": declutr,
    "infocse_idc": infocse_idc,
    "fine_tune": fine_tune,
    "condenser": condenser,
    "infocse_aux": infocse_aux,
    "diffcse": diffcse,
    "rtd_mlm": rtd_mlm,
    "esimcse": esimcse,
    "sncse": sncse,
    "hicl": hicl,
    "clm_autoencoder": clm_autoencoder,
    "mlm_autoencoder": mlm_autoencoder,
    "bce": bce,
    "ct": ct,
    "is_bert": is_bert,
    "sg_opt": sg_opt,
}
