"""Settings that are refused, in words: the path, the rule, what was found, the way out."""

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from flows.cli.setting_paths import (
    OF_ROUNDS,
    ROUNDS,
    path_of,
    paths_to,
    shallowest,
    table_of,
    with_option,
)
from sentemb_core.config.run import FineTuneRun, MethodRun, RunConfig
from sentemb_core.formats import did_you_mean, nearest

NO_METHODS: Mapping[str, str] = {
    **dict.fromkeys(
        ("infocse_plus", "infocse-plus", "infocse++"),
        "InfoCSE++ is a run with --cycles N --labels FILE",
    ),
    "tsdae": "take --method clm_autoencoder --preset tsdae",
    "infocse": "two papers have this name: take infocse_idc or infocse_aux",
    **dict.fromkeys(
        ("whitening", "soft_whitening", "flow"),
        "it is fitted without a gradient: --postprocess whitening (soft_whitening, flow) tries it "
        "on the start and on what a method made",
    ),
    **dict.fromkeys(
        ("bm25", "random"),
        "it is a row of every run; `python -m flows benchmark MODEL --fusion` and `compare BM25 "
        "MODEL` say more",
    ),
    **dict.fromkeys(
        ("glove", "word2vec", "fasttext", "word_vectors"),
        "a file of word vectors is an encoder: --encoder FILE",
    ),
}
"""Names that a paper or our own flows have, and what to ask for in their place."""

OF_A_RUN = ("preset", "seed", "cycles", "fine_tuning")
"""What a person may set of any run, beside the fields of its kind."""


def of_one_document(fault: ErrorDetails) -> bool:
    """Whether it is a batch without negatives."""
    return fault["loc"][-1:] == ("batch_size",) and fault["type"] == "greater_than_equal"


def innermost(faults: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without a list that is too short because its elements are refused."""
    places = [fault["loc"] for fault in faults]
    return [
        fault
        for fault in faults
        if not any(place != fault["loc"] == place[: len(fault["loc"])] for place in places)
    ]


def complaint(fault: ErrorDetails, model: type[BaseModel]) -> str:
    """One line: the setting's path, the rule, what was found, the closest name."""
    path = path_of(fault["loc"])
    told = with_option(path) or "config"
    found = f"found {fault['input']!r:.80}"
    sentence = fault["msg"].removeprefix("Value error, ")
    if of_one_document(fault):
        return f"{told}: a batch must span at least 2 documents, else nothing contrasts; {found}"
    match fault["type"]:
        case "missing" if path in ("corpus", "corpus.source"):
            return "no corpus: name a source, as in `python -m flows run documents.jsonl`"
        case "too_short" if path == "models":
            return (
                "a benchmark compares models, and none is named: name one or more, before --tasks "
                "and --beir, as in `python -m flows benchmark minilm models:/NAME@champion`"
            )
        case "extra_forbidden" if model in (MethodRun, FineTuneRun) and path in OF_ROUNDS:
            return (
                f"{told}: every method but {ROUNDS} trains once, and has no such setting; leave "
                "out either this or the method"
            )
        case "extra_forbidden":
            near = known_near(fault["loc"], model)
            return f"{told}: there is no such setting{near}{listed(fault['loc'], model)}"
        case "union_tag_invalid":
            tag, tags = (str(fault.get("ctx", {})[name]) for name in ("tag", "expected_tags"))
            if way := NO_METHODS.get(tag.lower()):
                return f"{told}: {tag!r} is no method; {way}"
            return f"{told}: there is no {tag!r}{nearest(tag, re.findall(r'[a-z0-9_]+', tags))}"
        case "model_type":
            return f"{told} is a table of settings, as in --set {path}.KEY=VALUE; {found}"
        case "string_pattern_mismatch" if path == "name":
            letters = "1-64 letters, digits, '_' or '-', a letter or a digit first"
            return f"{told} has {letters}; {found}"
        case "union_tag_not_found":
            return f"{told}: name it, as in --set {path}.name=conpono; {found}"
        case "model_attributes_type":
            return f"{told}: name it, as in --set {path}.name=simcse; {found}"
        case "tuple_type":
            typed = json.dumps(str(fault["input"]).split(","))
            return f"{told} is a list, even of one: --set '{path}={typed}'; {found}"
        case "value_error":  # a validator's own sentence, which says what it found
            return f"{told}: {sentence}" if path else sentence
        case _:
            return f"{told}: {fault['msg']}, {found}"


def known_near(location: tuple[int | str, ...], whole: type[BaseModel]) -> str:
    """`; did you mean 'steps'?` when a field of that table is close, or one of a table below."""
    model: Any = whole
    for part in location[:-1]:
        model = table_of(model, str(part))
    name = str(location[-1])
    if location[:-1]:
        return nearest(name, model.model_fields)
    if below := shallowest(paths_to(name, model)):
        return f"; {did_you_mean(*below)}"
    of_a_run = OF_A_RUN if issubclass(model, RunConfig) else ()
    return nearest(name, dict.fromkeys((*model.model_fields, *of_a_run)))


def listed(location: tuple[int | str, ...], model: type[BaseModel]) -> str:
    """Where the settings of that table are told, if it is a run's."""
    if not issubclass(model, RunConfig):
        return ""
    *tables, last = location[:-1] or ("",)
    method = f" --method {last}" if tables[-1:] == ["method"] else ""
    table = "training.method" if method else path_of(location[:-1])
    return f" (`{' '.join(filter(None, ('python -m flows settings', table)))}{method}` tells all)"
