"""What sets several experiments apart from their papers alike: told by their arms and columns.

These sentences stand behind an experiment's own. They are read by tables alone, so that another
word in them trains nothing anew.
"""

from collections.abc import Iterator

from sentemb_core.config.experiments import Experiment, Train
from sentemb_core.config.methods import ISBERT, SNCSE, HiCL, MethodSettings
from sentemb_core.config.suite import SUITE

PROBE = (
    "Probes are near SentEval's, not the same, and so are averages of them: scikit-learn's "
    "logistic regression on the grid of C of SentEval's branch for it, by Newton's method in place "
    "of liblinear, run to its end without an early stop, the intercept unpenalised, vectors "
    "divided by one number to unit spread."
)

REGRESSION = "Scores are probed by cross-entropy, not by squared errors."

PAIRS = "SNLI's probe sees |u - v| and u * v; SentEval's u and v, too."

OF_JUDGES = {
    PROBE: {task.name for task in SUITE if task.group in ("transfer", "probing")},
    REGRESSION: {"SICK-R-regression", "STS-B-regression"},
    PAIRS: {"SNLI"},
}
"""Sentence -> the judges that it is about."""

AT_MASK = (
    "SNCSE trains the state at [MASK] of a prompt; its rows are judged without the prompt by the "
    "pooling that all rows have, a vector which it did not train."
)

CONVOLUTIONS = (
    "IS-BERT trains the mean of features that convolutions make of the tokens, and its paper "
    "judges that; its row is judged by the mean of the tokens, a vector which it did not train."
)


CUT = "Encoders read 32 tokens of a text, of one that judges, too; the papers judge whole texts."

WORDS_CUT = "Word vectors read 512."


def with_shared(what: Experiment) -> Experiment:
    """The experiment, what it shares with others told behind its own differences."""
    differs = " ".join(filter(None, (what.differs, *shared(what))))
    return what.model_copy(update={"differs": differs})


def shared(what: Experiment) -> Iterator[str]:
    """Sentences that its arms and columns ask for."""
    asked = {column.judge for column in what.columns}
    if what.small.base.encoder.max_length is None and asked & {task.name for task in SUITE}:
        yield CUT
        if any(arm.system == "word vectors" for arm in what.arms):
            yield WORDS_CUT
    yield from (told for told, judges in OF_JUDGES.items() if asked & judges)
    methods = [step.method for arm in what.arms for step in arm.steps if isinstance(step, Train)]
    kinds = {type(comparing(method)) for method in methods}
    if SNCSE in kinds:
        yield AT_MASK
    if ISBERT in kinds:
        yield CONVOLUTIONS


def comparing(method: MethodSettings) -> MethodSettings:
    """The method that compares whole texts: HiCL's base, else itself."""
    return method.base if isinstance(method, HiCL) else method
