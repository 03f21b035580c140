"""The one training loop of all methods."""

import json
import logging
import math
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from sentemb_core.configs import TrainingConfig
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import DivergedError
from sentemb_core.methods.method import Method
from sentemb_core.training.batches import Sampler
from sentemb_core.training.checkpoint import last_checkpoint, save_checkpoint
from sentemb_core.training.gradients import GradientJob
from sentemb_core.training.optimiser import learning_rate, optimiser_for
from sentemb_core.training.state import TrainingReport, TrainingState, recipe_digest
from sentemb_core.types import OnStep
from sentemb_core.views.batch import Batch

log = logging.getLogger(__name__)

Validate = Callable[[Encoder], float]


def train(
    encoder: Encoder,
    method: Method,
    sampler: Sampler,
    config: TrainingConfig,
    work: Path,
    *,
    validate: Validate | None = None,
    on_step: OnStep | None = None,
) -> TrainingReport:
    """Train `encoder` in place; called again after an interruption it goes on where it was.

    On a CPU with the same number of threads the resumed run ends in the same bits.

    Args:
        encoder: Holds the best weights at the end if `validate` is given, else the last ones.
            Heads are dropped.
        method: The recipe, made for this encoder.
        sampler: Its batches.
        config: Steps, rates and the rest.
        work: Folder of the checkpoints, and of the batch if training diverges.
        validate: The higher the better; called every `evaluate_every` steps and at the end.
        on_step: Called after every step with loss, learning_rate, gradient_norm,
            pairs_per_second and the terms' metrics; `validation` where one took place.

    Raises:
        DivergedError: a loss or a gradient is not finite.
        StorageError: a checkpoint could not be written.
    """
    with _threads(config.threads), torch.random.fork_rng():
        torch.manual_seed(config.seed)
        state = _started(encoder, method, config, work)
        go_on = _unfinished(state, config)
        encoder.train()
        while go_on:
            metrics = _step(state, method, sampler, config, work)
            go_on = state.report.steps < config.steps
            if validate is not None and _is_due(state.report.steps, config):
                metrics["validation"], patient = _validated(state, validate, config)
                go_on = go_on and patient
            if state.report.steps % config.checkpoint_every == 0:
                save_checkpoint(work, state.report.steps, state.checkpoint())
            if on_step is not None:
                on_step(state.report.steps, metrics)
        if state.best:
            encoder.load_state_dict(state.best)
        encoder.eval()
    return state.report


def _started(encoder: Encoder, method: Method, config: TrainingConfig, work: Path) -> TrainingState:
    """A fresh state, or that of the last whole checkpoint."""
    head = nn.Identity() if method.head is None else method.head(encoder.dim)
    head.to(next(encoder.parameters()).device)
    state = TrainingState(
        encoder=encoder,
        head=head,
        optimiser=optimiser_for([encoder, head], config),
        recipe=recipe_digest(method.name, config.model_dump_json()),
        report=TrainingReport(chunk=config.chunk),
    )
    work.mkdir(parents=True, exist_ok=True)
    found = last_checkpoint(work)
    if found is not None and state.restore(found):
        log.info("training goes on after step %d of %d", state.report.steps, config.steps)
    return state


def _unfinished(state: TrainingState, config: TrainingConfig) -> bool:
    """Whether a restored run has steps left, and patience."""
    return state.report.steps < config.steps and state.patient(config.patience)


def _is_due(step: int, config: TrainingConfig) -> bool:
    every = config.evaluate_every
    return step == config.steps or (every is not None and step % every == 0)


def _validated(
    state: TrainingState, validate: Validate, config: TrainingConfig
) -> tuple[float, bool]:
    state.encoder.eval()
    score = validate(state.encoder)
    state.encoder.train()
    state.score(score)
    return score, state.patient(config.patience)


def _step(
    state: TrainingState, method: Method, sampler: Sampler, config: TrainingConfig, work: Path
) -> dict[str, float]:
    """One optimiser step: its metrics; the counters move on."""
    began, step = time.perf_counter(), state.report.steps
    batch = sampler.batch(step)
    rate = learning_rate(step, config)
    for group in state.optimiser.param_groups:
        group["lr"] = rate
    loss, metrics = _gradients_within_memory(state, method, batch, config)
    norm = _clipped_norm(state, config.clip)
    if not (math.isfinite(loss) and math.isfinite(norm)):
        raise _diverged(step, loss, norm, batch, config, work)
    state.optimiser.step()
    seconds = time.perf_counter() - began
    state.count(
        steps=step + 1,
        pairs=state.report.pairs + batch.pairs,
        sentences=state.report.sentences + sum(map(len, batch.views.values())),
        unopposed_anchors=state.report.unopposed_anchors + int(metrics["unopposed_anchors"]),
        loss=loss,
    )
    return {
        "loss": loss,
        "learning_rate": rate,
        "gradient_norm": norm,
        "pairs_per_second": batch.pairs / seconds,
        **metrics,
    }


def _gradients_within_memory(
    state: TrainingState, method: Method, batch: Batch, config: TrainingConfig
) -> tuple[float, dict[str, float]]:
    """The step's loss; where memory runs out, chunks are halved for the rest of the run.

    The effective batch stays the same.
    """
    job = GradientJob(state.encoder, state.head, method, config.dtype == "bfloat16", config.seed)
    while True:
        state.optimiser.zero_grad(set_to_none=True)
        try:
            return job.run(batch, state.report.steps, state.report.chunk)
        except (RuntimeError, MemoryError) as error:
            rows = state.report.chunk or sum(map(len, batch.views.values()))
            if not _is_out_of_memory(error) or rows == 1:
                raise
            state.count(chunk=rows // 2)
        log.warning("out of memory: from here on %d sentences are encoded at once", rows // 2)


def _clipped_norm(state: TrainingState, clip: float | None) -> float:
    """Norm of all gradients together, before they were clipped to `clip`."""
    weights = [weight for group in state.optimiser.param_groups for weight in group["params"]]
    norm = nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None])
    if clip is not None:
        nn.utils.clip_grads_with_norm_(weights, clip, norm)
    return norm.item()


def _is_out_of_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return (
        isinstance(error, torch.OutOfMemoryError | MemoryError)
        or "out of memory" in text
        or "can't allocate memory" in text
    )


def _diverged(
    step: int, loss: float, norm: float, batch: Batch, config: TrainingConfig, work: Path
) -> DivergedError:
    """Saves the batch, so that it can be looked at."""
    path = work / f"diverged-{step:08d}.json"
    views = {
        name: {
            "document": view.document.tolist(),
            "group": view.group.tolist(),
            "tokens": [tokens.tolist() for tokens in view.tokens],
        }
        for name, view in batch.views.items()
    }
    path.write_text(json.dumps({"step": step, "loss": str(loss), "views": views}))
    return DivergedError(
        f"Loss and gradient must be finite; step {step} has loss {loss} and gradient norm {norm}. "
        f"Its batch is in {path}. Lower learning_rate (now {config.learning_rate}), raise "
        f"temperature (now {config.temperature}), or take dtype float32"
    )


@contextmanager
def _threads(wanted: int | None) -> Generator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(wanted or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
