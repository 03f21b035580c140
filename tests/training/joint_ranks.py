"""Steps and trainings of one process and of two ranks. One process forks both, to import once.

    python -m tests.training.joint_ranks FOLDER

Writes FOLDER/CASE-RANK.safetensors, where the rank of one process is `alone`: loss, gradients and
vectors of a step, or losses and weights of a training.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from sentemb_core.methods.parts.views import Batch
from sentemb_core.training.batches import sampler_for
from sentemb_core.training.distributed import ALONE, Ranks, connected
from sentemb_core.training.loop import load_trained, train
from sentemb_core.training.state import StepLog
from tests import tiny
from tests.interrupted import BreakingOff, InterruptionError
from tests.methods.recipes import RECIPES, Recipe, annotation, config_of, corpus, made
from tests.methods.steps import named_parameters, second_step, step_of, without_dropout

Tensors = dict[str, Tensor]

AT_ONCE = "consert-first=('adversarial',)-second=()"
PLAN = {"steps": 4, "checkpoint_every": 2, "evaluate_every": 4, "batch_size": 14, "chunk": 4}
STOP = 3


def step(
    recipe: Recipe,
    ranks: Ranks,
    *,
    chunk: int | None = None,
    changed: Callable[[Batch], Batch] = lambda batch: batch,
    dtype: torch.dtype = torch.float64,
) -> Tensors:
    """The second step of a recipe."""
    method, learner, batch = second_step(recipe)
    without_dropout(learner)
    with pytest.MonkeyPatch.context() as patched:
        if dtype == torch.float64:
            patched.setattr(Tensor, "float", Tensor.double)
        for module in learner.modules:
            module.to(dtype)
        return tensors_of(step_of(method, learner, changed(batch), chunk=chunk, ranks=ranks))


def tensors_of(taken: tuple[float, Tensors, Tensors]) -> Tensors:
    loss, gradients, vectors = taken
    found = {"loss": torch.tensor(loss, dtype=torch.float64)}
    found |= {f"gradient of {name}": gradient for name, gradient in gradients.items()}
    return found | {f"vectors of {name}": rows.clone() for name, rows in vectors.items()}


def with_duplicates(batch: Batch) -> Batch:
    """Three rows of each view. Two have one text, two one document: on both ranks, row by row."""
    views = {}
    for name, view in batch.views.items():
        text, document = view.text[:3].copy(), view.document[:3].copy()
        text[1], document[2] = text[0], document[1]
        rows = {"tokens": view.tokens[:3], "group": view.group[:3]}
        views[name] = replace(view, **rows, text=text, document=document)
    return Batch(views, 3)


def zero_rows(ranks: Ranks) -> Tensors:
    """A step of a static table that knows few words, so texts on both ranks are zero."""
    encoder = tiny.static()
    with torch.no_grad():
        encoder.backbone.embedding.weight[:65] = 0
    method, learner = made("conpono", encoder)
    texts = tiny.corpus([4] * 16, special=False)
    batch = sampler_for(config_of("conpono", {}), method, texts).batch(0)
    return tensors_of(step_of(method, learner, batch, ranks=ranks))


def training(ranks: Ranks, folder: Path, *, interrupted: bool = False, dropout: float) -> Tensors:
    """Losses of all steps, and the weights at the end, of cluster batches in chunks."""
    settings = {"batches": "cluster"}
    config = config_of("infocse_idc", settings, devices=ranks.count, **PLAN)
    log = StepLog()

    def fresh():
        return made("infocse_idc", tiny.bert(dropout=dropout), **settings)

    def validate(encoder: object) -> float:
        assert ranks.rank == 0, "rank 0 alone validates"
        return float(config.seed)

    for stop in (STOP, None) if interrupted else (None,):
        (method, learner), log = fresh(), StepLog()
        sampler = sampler_for(config, method, corpus(), annotation())
        how = {"validate": validate, "on_step": BreakingOff(stop), "steps": log, "ranks": ranks}
        with suppress(InterruptionError):
            train(learner, method, sampler, config, folder, **how)
    if ranks.count > 1 and ranks.rank == 0:  # as the parent does
        (method, learner), log = fresh(), StepLog()
        load_trained(learner, method, config, folder, log)
    weights = {f"weights of {name}": weight.detach() for name, weight in named_parameters(learner)}
    return weights | {"losses": torch.tensor(log.columns["loss"], dtype=torch.float64)}


def cases(folder: Path) -> dict[str, Callable[[Ranks], Tensors]]:
    """What is computed, by name."""
    pairs, clusters = RECIPES[:2]
    steady = [recipe for recipe in RECIPES if not recipe.perturbed and str(recipe) != AT_ONCE]
    return {
        **{str(recipe): partial(step, recipe) for recipe in steady},
        "float32": partial(step, pairs, dtype=torch.float32),
        "float32-clusters": partial(step, clusters, dtype=torch.float32),
        "chunks": partial(step, pairs, chunk=5),
        "duplicates": partial(step, pairs, changed=with_duplicates),
        "zero-rows": zero_rows,
        "training": lambda ranks: training(ranks, folder / f"plain-{ranks.count}", dropout=0.0),
        "dropout": lambda ranks: training(ranks, folder / f"dropout-{ranks.count}", dropout=0.1),
        "resumed": lambda ranks: training(
            ranks, folder / f"resumed-{ranks.count}", dropout=0.1, interrupted=True
        ),
    }


def save_all(folder: Path, ranks: Ranks, name: str) -> None:
    for case, compute in cases(folder).items():
        save_file(compute(ranks), folder / f"{case}-{name}.safetensors")


def main() -> None:
    """Compute all cases in both ranks, then in this process."""
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    os.environ |= {"WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
    children: list[int] = []
    for rank in range(2):
        if (child := os.fork()) == 0:
            os.environ["RANK"] = str(rank)
            with connected(folder / "meeting") as ranks:
                save_all(folder, ranks, str(rank))
            os._exit(0)
        children.append(child)
    failed = [child for child in children if os.waitpid(child, 0)[1]]
    if not failed:
        save_all(folder, ALONE, "alone")
    sys.exit(len(failed))


if __name__ == "__main__":
    main()
