"""The one training loop of all methods."""

import json
import logging
import math
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import torch
from torch import nn

from sentemb_core.config.run import TrainingConfig
from sentemb_core.encoder.devices import any_shape, threads
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import DivergedError, OutOfMemoryError
from sentemb_core.heap import warm_heap
from sentemb_core.methods.parts.method import Learner, Method, require_chunks
from sentemb_core.methods.parts.views import Batch
from sentemb_core.training.batches import Sampler
from sentemb_core.training.checkpoint import (
    last_checkpoint,
    remove_checkpoints,
    require_room,
    save_checkpoint,
)
from sentemb_core.training.gradients import GradientJob, Step
from sentemb_core.training.optimiser import learning_rate, optimiser_for
from sentemb_core.training.state import StepLog, TrainingReport, TrainingState, recipe_digest
from sentemb_core.types import OnStep

log = logging.getLogger(__name__)

Validate = Callable[[Encoder], float]


def learner_of(method: Method, encoder: Encoder, seed: int) -> Learner:
    """The encoder with fresh heads and networks of a method, on the encoder's device."""
    device = encoder.device
    with _own_random_numbers(device):
        torch.manual_seed(seed)
        head = nn.Identity() if method.head is None else method.head(encoder.dim)
        networks = {} if method.networks is None else method.networks(encoder)
    return Learner(encoder, head.to(device), nn.ModuleDict(networks).to(device))


def train(
    learner: Learner,
    method: Method,
    sampler: Sampler,
    config: TrainingConfig,
    work: Path,
    *,
    validate: Validate | None = None,
    on_step: OnStep | None = None,
    on_checkpoint: Callable[[], None] | None = None,
    steps: StepLog | None = None,
) -> TrainingReport:
    """Train `learner` in place; called again after an interruption it goes on where it was.

    On a CPU with the same number of threads the resumed run ends in the same bits.

    Args:
        learner: Fresh from `learner_of`. Its encoder, and the networks that the method keeps, hold
            the best weights at the end if `validate` is given, else the last ones.
        method: The recipe, made for this encoder.
        sampler: Its batches.
        config: Steps, rates and the rest.
        work: Folder of the checkpoints, and of the batch if training diverges.
        validate: The higher the better; called every `evaluate_every` steps and at the end.
        on_step: Called after every step with loss, learning_rate, gradient_norm,
            pairs_per_second and the terms' metrics; `validation` where one took place. A step
            during whose call an interruption came is kept, and not told again.
        on_checkpoint: Called when one was written.
        steps: Takes in what every step told, those before an interruption, too.

    Raises:
        RecipeError: chunks are asked for, and the method has none.
        DivergedError: a loss or a gradient is not finite.
        StorageError: the checkpoints would not fit the disk, and nothing was trained yet; or one
            could not be written.
    """
    require_chunks(method, config.chunk)
    with ExitStack() as stack:
        if config.chunk is None:  # whoever asks for chunks is short of memory
            stack.enter_context(warm_heap())
        stack.enter_context(threads(config.threads))
        stack.enter_context(any_shape())
        stack.enter_context(_own_random_numbers(learner.encoder.device))
        stack.enter_context(_frozen(learner.encoder, method.frozen))
        state = _started(learner, method, config, work, steps or StepLog())
        job = GradientJob(learner, method, config.dtype == "bfloat16", config.seed)
        go_on = _unfinished(state, config)
        if go_on:
            size = state.checkpoint_size(validated=validate is not None)
            require_room(work, size, _checkpoints_due(state, config))
        _begin_training(learner, method)
        with _kept_if_interrupted(state, work, on_checkpoint):
            while go_on:
                metrics = _step(state, job, sampler, config, work)
                go_on = state.report.steps < config.steps
                if validate is not None and _is_due(state.report.steps, config):
                    metrics["validation"], patient = _validated(state, validate, config)
                    _begin_training(learner, method)
                    go_on = go_on and patient
                state.log.add(metrics)
                state.whole = True
                if on_step is not None:  # before the checkpoint: a step it holds is not told again
                    on_step(state.report.steps, metrics)
                if config.saves(state.report.steps):
                    _save(state, work, on_checkpoint)
        if state.best:
            state.lasting.load_state_dict(state.best)
        for module in learner.modules:
            module.eval()
    return state.report


def _started(
    learner: Learner, method: Method, config: TrainingConfig, work: Path, steps: StepLog
) -> TrainingState:
    """A fresh state, or that of the last whole checkpoint."""
    # who keeps other checkpoints from here on goes on from those that are there
    settings = config.model_dump_json(exclude={"checkpoint_every"})
    state = TrainingState(
        learner=learner,
        optimiser=optimiser_for(learner.modules, config),
        recipe=recipe_digest(method.name, settings),
        report=TrainingReport(chunk=config.chunk),
        log=steps,
        kept=method.kept,
    )
    work.mkdir(parents=True, exist_ok=True)
    found = last_checkpoint(work)
    if found is not None and state.restore(found):
        state.saved = state.report.steps
        log.info("training goes on after step %d of %d", state.report.steps, config.steps)
    elif found is not None:
        log.warning("%s has the checkpoints of another recipe, which are removed", work)
        remove_checkpoints(work)
    return state


def _unfinished(state: TrainingState, config: TrainingConfig) -> bool:
    """Whether a restored run has steps left, and patience."""
    return state.report.steps < config.steps and state.patient(config.patience)


def _checkpoints_due(state: TrainingState, config: TrainingConfig) -> int:
    """How many will be written from here to the last step."""
    every = config.checkpoint_every
    return config.steps // every - state.report.steps // every


def _is_due(step: int, config: TrainingConfig) -> bool:
    every = config.evaluate_every
    return step == config.steps or (every is not None and step % every == 0)


def _validated(
    state: TrainingState, validate: Validate, config: TrainingConfig
) -> tuple[float, bool]:
    state.learner.encoder.eval()
    score = validate(state.learner.encoder)
    state.score(score)
    return score, state.patient(config.patience)


def _step(
    state: TrainingState, job: GradientJob, sampler: Sampler, config: TrainingConfig, work: Path
) -> dict[str, float]:
    """One optimiser step: its metrics; the counters move on."""
    began, step = time.perf_counter(), state.report.steps
    batch = sampler.batch(step)
    rate = learning_rate(step, config)
    for group in state.optimiser.param_groups:
        group["lr"] = rate
    done = _gradients_within_memory(state, job, batch)
    norm = _clipped_norm(state, config.clip)
    if not (math.isfinite(done.loss) and math.isfinite(norm)):
        raise _diverged(step, done.loss, norm, batch, config, work)
    state.whole = False
    state.optimiser.step()
    if job.method.after_step is not None:
        job.method.after_step(state.learner, done.vectors)
    unopposed = int(done.metrics.get("unopposed_anchors", 0))
    seconds = time.perf_counter() - began
    state.count(
        steps=step + 1,
        pairs=state.report.pairs + batch.pairs,
        sentences=state.report.sentences + batch.texts,
        unopposed_anchors=state.report.unopposed_anchors + unopposed,
        loss=done.loss,
    )
    return {
        "loss": done.loss,
        "learning_rate": rate,
        "gradient_norm": norm,
        "pairs_per_second": batch.pairs / seconds,
        **done.metrics,
    }


def _gradients_within_memory(state: TrainingState, job: GradientJob, batch: Batch) -> Step:
    """The step's gradients; where memory runs out, chunks are halved for the rest of the run.

    The effective batch stays the same.

    Raises:
        OutOfMemoryError: a single sentence, or a view that is read at once, is too large.
    """
    while True:
        state.optimiser.zero_grad(set_to_none=True)
        try:
            return job.run(batch, state.report.steps, state.report.chunk)
        except (RuntimeError, MemoryError) as error:
            rows = min(state.report.chunk or batch.texts, batch.texts)
            if not _is_out_of_memory(error):
                raise
            if job.method.reads_at_once:
                raise OutOfMemoryError(
                    f"{job.method.name} reads a view at once, and memory ran out over a batch of "
                    f"{batch.texts} sentences: lower training.batch_size"
                ) from error
            if rows == 1:
                raise OutOfMemoryError(
                    "Memory ran out over a single text, or what a term of the loss reads at once: "
                    "lower training.batch_size, take a smaller encoder, shorter texts "
                    "(encoder.max_length), or a machine with more memory"
                ) from error
            state.count(chunk=rows // 2)
        log.warning("out of memory: from here on %d sentences are encoded at once", rows // 2)


def _own_random_numbers(device: torch.device) -> AbstractContextManager[None]:
    """What is drawn meanwhile leaves the generators as they were, of the CPU and of `device`."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


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
        "the temperature, or take dtype float32"
    )


def _begin_training(learner: Learner, method: Method) -> None:
    """Train mode, but without dropout where a method wants none."""
    learner.head.train()
    for network in (learner.encoder, learner.networks):
        network.train(method.dropout)


def _save(state: TrainingState, work: Path, on_checkpoint: Callable[[], None] | None) -> None:
    save_checkpoint(work, state.report.steps, state.checkpoint())
    state.saved = state.report.steps
    if on_checkpoint is not None:
        on_checkpoint()


@contextmanager
def _kept_if_interrupted(
    state: TrainingState, work: Path, on_checkpoint: Callable[[], None] | None
) -> Generator[None]:
    """Write a checkpoint where Ctrl-C or SIGTERM ends the block: the step under way alone is lost.

    Where the weights had begun to move, or were being validated, the one before stands: nobody
    goes on from half a step. A second Ctrl-C ends the writing, too.
    """
    try:
        yield
    except Exception:
        raise
    except BaseException:
        if state.whole and state.report.steps > state.saved:
            try:
                _save(state, work, on_checkpoint)
            except Exception as error:
                log.warning("step %d is not kept: %s", state.report.steps, error)
        raise


@contextmanager
def _frozen(encoder: Encoder, prefixes: tuple[str, ...]) -> Generator[None]:
    """Parameters whose names begin with one of `prefixes` do not learn."""
    named = encoder.named_parameters()
    held = [weight for name, weight in named if prefixes and name.startswith(prefixes)]
    for weight in held:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in held:
            weight.requires_grad_(True)
