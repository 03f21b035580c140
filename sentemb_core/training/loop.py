"""The training loop of all methods."""

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path

import torch
from torch import nn

from sentemb_core.config.run import TrainingConfig
from sentemb_core.encoder.backbones import StaticTable
from sentemb_core.encoder.devices import any_shape, threads
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import DivergedError, OutOfMemoryError, StorageError, UsageError
from sentemb_core.formats import counted
from sentemb_core.heap import warm_heap
from sentemb_core.methods.parts.method import Learner, Method, require_divisible
from sentemb_core.methods.parts.views import Batch
from sentemb_core.termination import check, cleaning_up
from sentemb_core.training.batches import Sampler
from sentemb_core.training.checkpoint import (
    last_checkpoint,
    remove_checkpoints,
    require_room,
    save_checkpoint,
)
from sentemb_core.training.distributed import ALONE, Ranks
from sentemb_core.training.gradients import GradientJob, StepResult
from sentemb_core.training.optimiser import learning_rate, optimiser_for
from sentemb_core.training.state import StepLog, TrainingReport, TrainingState
from sentemb_core.types import OnStep

log = logging.getLogger(__name__)

Validate = Callable[[Encoder], float]


def learner_of(method: Method, encoder: Encoder, seed: int) -> Learner:
    """Return the encoder with a method's fresh head and networks, on the encoder's device."""
    device = encoder.device
    with _saved_random_state(device):
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
    ranks: Ranks = ALONE,
) -> TrainingReport:
    """Train `learner` in place. After an interruption, the same call continues the training.

    On a CPU with the same number of threads, the resumed run ends in the same bits. With
    `config.devices` above 1, as many ranks call it. Rank 0 validates and writes checkpoints, also
    at the end, where `load_trained` reads the result.

    Args:
        learner: Fresh from `learner_of`. At the end its encoder, and the networks that the method
            keeps, hold the best weights if `validate` is given, else the last ones.
        method: Made for this encoder.
        sampler: Its batches.
        config: The settings.
        work: Folder for checkpoints, and for the batch at which training diverged.
        validate: Returns a score, higher is better. Called every `evaluate_every` steps and at the
            end.
        on_step: Called after every step with loss, learning_rate, gradient_norm, pairs_per_second,
            the terms' metrics and, after a validation, its score. If an interruption comes during
            this call, the step is kept and is not reported again.
        on_checkpoint: Called after every written checkpoint.
        steps: Receives the metrics of all steps, also of steps before an interruption.
        ranks: This process among those of the training.

    Raises:
        RecipeError: chunks or devices are set, but the method needs a batch in one pass.
        UsageError: `config.devices` is not the number of ranks.
        DivergedError: a loss or a gradient is not finite.
        StorageError: a checkpoint could not be written, or the checkpoints would not fit the disk
            (raised before the first step).
    """
    _require_trainable(method, config, ranks)
    with _conditions(learner, method, config, ranks):
        state = _initial_state(learner, method, config, work, steps or StepLog())
        if state.saved:
            log.info("training resumed after step %d of %d", state.saved, config.steps)
        save = partial(_save, state, work, on_checkpoint) if ranks.rank == 0 else _nothing
        job = GradientJob(learner, method, config.dtype == "bfloat16", config.seed, ranks)
        done, every = state.report.steps, config.checkpoint_every
        go_on = done < config.steps and state.patient(config.patience)
        if go_on:
            size = state.checkpoint_size(validated=validate is not None)
            require_room(work, size, config.steps // every - done // every)
        _begin_training(learner, method)
        with _checkpoint_on_interruption(state, save):
            while go_on:
                check()
                metrics = _step(state, job, sampler, config, work)
                go_on = state.report.steps < config.steps
                interval = config.evaluate_every or config.steps
                if validate is not None and (not go_on or state.report.steps % interval == 0):
                    learner.encoder.eval()
                    metrics["validation"] = ranks.from_first(partial(validate, learner.encoder))
                    state.score(metrics["validation"])
                    _begin_training(learner, method)
                    go_on = go_on and state.patient(config.patience)
                state.log.add(metrics)
                state.whole = True
                if on_step is not None:  # before the checkpoint, whose steps are not reported again
                    on_step(state.report.steps, metrics)
                if config.saves(state.report.steps) or (not go_on and ranks.count > 1):
                    save()
        _end_training(state)
    _warn_of_zero_rows(state.report)
    return state.report


def _require_trainable(method: Method, config: TrainingConfig, ranks: Ranks) -> None:
    """Check that the method trains in these chunks and on these ranks (errors of `train`)."""
    require_divisible(method, config.chunk, config.devices)
    if ranks.count != config.devices:
        raise UsageError(
            f"training.devices is the number of processes that train; found {config.devices} and "
            f"{counted(ranks.count, 'rank')}. Start them by `train_on_devices`."
        )


@contextmanager
def _conditions(
    learner: Learner, method: Method, config: TrainingConfig, ranks: Ranks
) -> Generator[None]:
    """Set heap, threads, random state and the weights that do not learn, for one training."""
    with ExitStack() as stack:
        if config.chunk is None:  # chunks mean that memory is short
            stack.enter_context(warm_heap())
        stack.enter_context(threads(config.threads and max(1, config.threads // ranks.count)))
        stack.enter_context(any_shape())
        stack.enter_context(_saved_random_state(learner.encoder.device))
        stack.enter_context(_frozen(learner.encoder, method.frozen))
        stack.enter_context(_zero_rows_kept(learner.encoder.backbone))
        yield


def load_trained(
    learner: Learner, method: Method, config: TrainingConfig, work: Path, steps: StepLog
) -> TrainingReport:
    """Load into a fresh learner what ranks have trained (see `train`), and return their report.

    Raises:
        StorageError: the last checkpoint is absent or broken.
    """
    state = _initial_state(learner, method, config, work, steps)
    if state.report.steps < config.steps and state.patient(config.patience):
        raise StorageError(
            f"Ranks leave their result in a checkpoint. Found in {work} the checkpoint of step "
            f"{state.report.steps} of {config.steps}. `resume` continues from it."
        )
    _end_training(state)
    return state.report


def _end_training(state: TrainingState) -> None:
    """Take the best weights, if validations chose them, and set eval mode."""
    if state.best:
        state.lasting.load_state_dict(state.best)
    for module in state.learner.modules:
        module.eval()


def _nothing() -> None:
    """Save nothing: rank 0 writes the checkpoints."""


def _warn_of_zero_rows(report: TrainingReport) -> None:
    if report.zero_rows:
        log.warning(
            "rows without a known word: %d in batches of %d sentences; no loss counts them",
            *(report.zero_rows, report.sentences),
        )


def _initial_state(
    learner: Learner, method: Method, config: TrainingConfig, work: Path, steps: StepLog
) -> TrainingState:
    """Return the state of the last whole checkpoint, else a fresh state."""
    # a changed checkpoint_every continues from the existing checkpoints
    settings = config.model_dump_json(exclude={"checkpoint_every"})
    state = TrainingState(
        learner=learner,
        optimiser=optimiser_for(learner.modules, config),
        recipe=hashlib.sha256(f"{method.name}\0{settings}".encode()).hexdigest(),
        report=TrainingReport(chunk=config.chunk),
        log=steps,
        kept=method.kept,
    )
    work.mkdir(parents=True, exist_ok=True)
    checkpoint = last_checkpoint(work)
    if checkpoint is not None and state.restore(checkpoint):
        state.saved = state.report.steps
    elif checkpoint is not None:
        log.warning("checkpoints of another recipe removed from %s", work)
        remove_checkpoints(work)
    return state


def _step(
    state: TrainingState, job: GradientJob, sampler: Sampler, config: TrainingConfig, work: Path
) -> dict[str, float]:
    """Take one optimiser step, update the counters and return the step's metrics."""
    began, step = time.perf_counter(), state.report.steps
    batch = sampler.batch(step)
    rate = learning_rate(step, config)
    for group in state.optimiser.param_groups:
        group["lr"] = rate
    result = _gradients_within_memory(state, job, batch)
    norm = _clipped_norm(state, config.clip)
    if not (math.isfinite(result.loss) and math.isfinite(norm)):
        raise _diverged(step, result.loss, norm, batch, config, work)
    state.whole = False
    state.optimiser.step()
    if job.method.after_step is not None:
        job.method.after_step(state.learner, result.vectors)
    unopposed, zero_rows = (
        int(result.metrics.get(name, 0)) for name in ("unopposed_anchors", "zero_rows")
    )
    seconds = time.perf_counter() - began
    state.count(
        steps=step + 1,
        pairs=state.report.pairs + batch.pairs,
        sentences=state.report.sentences + batch.texts,
        unopposed_anchors=state.report.unopposed_anchors + unopposed,
        zero_rows=state.report.zero_rows + zero_rows,
        loss=result.loss,
    )
    return {
        "loss": result.loss,
        "learning_rate": rate,
        "gradient_norm": norm,
        "pairs_per_second": batch.pairs / seconds,
        **result.metrics,
    }


def _gradients_within_memory(state: TrainingState, job: GradientJob, batch: Batch) -> StepResult:
    """Compute the step's gradients; if memory runs out, halve the chunks for the rest of the run.

    Raises:
        OutOfMemoryError: a single sentence, or a view that cannot be cut, is too large.
    """
    while True:
        state.optimiser.zero_grad(set_to_none=True)
        try:
            return job.run(batch, state.report.steps, state.report.chunk)
        except (RuntimeError, MemoryError) as error:
            rows = min(state.report.chunk or batch.texts, batch.texts)
            if not _is_out_of_memory(error):
                raise
            if job.ranks.count > 1:  # the others wait for this rank, and cannot halve theirs
                raise OutOfMemoryError(
                    f"Each of {job.ranks.count} devices must hold its texts of a batch; a batch of "
                    f"{batch.texts} needs too much memory on device {job.ranks.rank}. Set "
                    "training.chunk (texts that a device encodes at once), or lower it."
                ) from error
            if job.method.reads_at_once:
                raise OutOfMemoryError(
                    f"{job.method.name} encodes a view in one pass; a batch of {batch.texts} "
                    "sentences needs too much memory. Lower training.batch_size."
                ) from error
            if rows == 1:
                raise OutOfMemoryError(
                    "A single text, or a term of the loss, needs too much memory. Lower "
                    "training.batch_size or encoder.max_length, or use a smaller encoder or a "
                    "machine with more memory."
                ) from error
            state.count(chunk=rows // 2)
        log.warning("out of memory: the rest of the run encodes %d sentences at once", rows // 2)


def _saved_random_state(device: torch.device) -> AbstractContextManager[None]:
    """Restore the random generators of the CPU and of `device` after the block."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def _clipped_norm(state: TrainingState, clip: float | None) -> float:
    """Clip the gradients to `clip` and return their norm before."""
    weights = [weight for group in state.optimiser.param_groups for weight in group["params"]]
    norm = nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None])
    if clip is not None:
        nn.utils.clip_grads_with_norm_(weights, clip, norm)
    return norm.item()


def _is_out_of_memory(error: BaseException) -> bool:
    known = isinstance(error, torch.OutOfMemoryError | MemoryError)
    texts = ("out of memory", "can't allocate memory")
    return known or any(text in str(error).lower() for text in texts)


def _diverged(
    step: int, loss: float, norm: float, batch: Batch, config: TrainingConfig, work: Path
) -> DivergedError:
    """Save the batch for inspection and return the error that names its file."""
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
        f"Loss and gradient must be finite. Step {step} has loss {loss} and gradient norm {norm}; "
        f"its batch is in {path}. Lower learning_rate (now {config.learning_rate}), raise the "
        "temperature, or use dtype float32."
    )


def _begin_training(learner: Learner, method: Method) -> None:
    """Set train mode, without dropout if the method uses none."""
    learner.head.train()
    for network in (learner.encoder, learner.networks):
        network.train(method.dropout)


def _save(state: TrainingState, work: Path, on_checkpoint: Callable[[], None] | None) -> None:
    save_checkpoint(work, state.report.steps, state.checkpoint())
    state.saved = state.report.steps
    if on_checkpoint is not None:
        on_checkpoint()


@contextmanager
def _checkpoint_on_interruption(state: TrainingState, save: Callable[[], None]) -> Generator[None]:
    """Write a checkpoint if Ctrl-C or SIGTERM ends the block: only the current step is lost.

    While the step changes weights, or during a validation, the last checkpoint stays the newest: no
    checkpoint holds half a step. A second Ctrl-C also ends the writing.
    """
    try:
        yield
    except Exception:
        raise
    except BaseException:
        cleaning_up()
        if state.whole and state.report.steps > state.saved:
            try:
                save()
            except Exception as error:
                log.warning("no checkpoint of step %d: %s", state.report.steps, error)
        raise


@contextmanager
def _frozen(encoder: Encoder, prefixes: tuple[str, ...]) -> Generator[None]:
    """Freeze the parameters whose names begin with one of `prefixes` during the block."""
    named = encoder.named_parameters()
    frozen = [weight for name, weight in named if prefixes and name.startswith(prefixes)]
    for weight in frozen:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in frozen:
            weight.requires_grad_(True)


@contextmanager
def _zero_rows_kept(backbone: nn.Module) -> Generator[None]:
    """Keep the rows of zeros of a static table: those of padding, and of texts without words."""
    if not isinstance(backbone, StaticTable):
        yield
        return
    table = backbone.embedding.weight
    rows = (~table.detach().any(dim=1)).nonzero().flatten()

    def clear(weights: torch.Tensor) -> None:
        if weights.grad is not None:
            weights.grad.index_fill_(0, rows, 0)

    hook = table.register_post_accumulate_grad_hook(clear)
    try:
        yield
    finally:
        hook.remove()
