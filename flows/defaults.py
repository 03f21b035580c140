"""The defaults of a run: from a configuration that leaves settings out to one that states all.

The command line and every flow use them, so a deployment and a call from Python train as the same
command does.
"""

import hashlib
import re
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from flows.presets import as_table, default_pairs, labelled_preset, merged, method_preset, preset
from sentemb_core.config.methods import MethodConfig
from sentemb_core.config.run import (
    BUILT_IN_ENCODERS,
    CorpusConfig,
    FineTuneRun,
    InfoCSEIDC,
    InfoCSEPlus,
    MethodRun,
    RunConfig,
)
from sentemb_core.types import Json
from tasks.checks import default_encoder, first_sizes, lack_sentences
from tasks.registered_encoders import local_name, pinned_name

Run = TypeVar("Run", bound=RunConfig)

MAYBE_PATHS = (
    ("corpus", "source"),
    ("labels", "source"),
    ("encoder", "name"),
    ("annotator", "name"),
)
"""Settings that may be a path, by table and name."""


def completed(run: Run) -> Run:
    """Return the run with every setting: those that were given, and defaults for the others.

    The defaults are those of the command line. A run that states every setting stays as it is,
    except that paths become absolute and aliases of registered models become versions.
    """
    given = given_settings(run)
    tree = merged(default_settings(type(run), given), given)
    return stated(type(run).model_validate(with_name(with_full_paths(tree))))


def stated(run: Run) -> Run:
    """Return the same run with every setting given, so that `completed` adds no default."""
    return type(run).model_validate(run.model_dump())


def given_settings(table: BaseModel) -> Json:
    """The settings that were given for a table and the tables in it; a method has its name."""
    names = table.model_fields_set | ({"name"} if isinstance(table, MethodConfig) else set())
    values = {name: getattr(table, name) for name in names}
    return {
        name: given_settings(value) if isinstance(value, BaseModel) else value
        for name, value in values.items()
    }


def default_settings(kind: type[RunConfig], asked: Json) -> Json:
    """Defaults for the kind of run and its start encoder."""
    named = table_at(asked, "encoder").get("name")
    encoder = local_name(str(named or start_for(table_at(asked, "corpus"))))
    tree = method_preset(encoder) if kind is MethodRun else preset(encoder)
    if named is None:
        tree = merged(tree, {"encoder": {"name": encoder}})
    if issubclass(kind, InfoCSEIDC) and asked.get("preset") is None:
        tree = merged(tree, default_pairs(encoder, asked))
    if issubclass(kind, InfoCSEIDC):
        tree = merged(tree, short_document_settings(asked, tree))
    if kind in (FineTuneRun, InfoCSEPlus):
        part = "training" if kind is FineTuneRun else "fine_tuning"
        tree = merged(tree, labelled_preset(encoder, part))
    if kind in (MethodRun, FineTuneRun) and not asked.get("initialiser"):
        tree.pop("initialiser", None)
    return tree


def start_for(corpus: Json) -> str:
    """The start encoder of a run that names none: MiniLM if it knows the corpus's words."""
    with suppress(ValidationError, OSError):  # the run's own check explains it
        return default_encoder(CorpusConfig.model_validate(corpus))
    return "static"


def short_document_settings(asked: Json, defaults: Json) -> Json:
    """Settings with which documents of one or two sentences give pairs to the rounds.

    A text of one sentence is cut into parts of words. Documents of two have neighbours alone.
    """
    corpus = table_at(asked, "corpus")
    found: Json = {}
    sizes = sizes_in(corpus)
    if "splitter" not in corpus and lack_sentences(sizes, 2):
        found["corpus"] = {"splitter": "words"}
        sizes = sizes_in(corpus | found["corpus"])
    if table_at(defaults, "annotation").get("min_distance") == 2 and lack_sentences(sizes, 3):
        found["annotation"] = {"min_distance": 1}
    return found


def sizes_in(corpus: Json) -> list[int]:
    """Numbers of sentences of the first documents; empty for a corpus that cannot be read."""
    with suppress(ValidationError, OSError):  # the run's own check explains it
        return first_sizes(CorpusConfig.model_validate(corpus))
    return []


def with_name(tree: Json) -> Json:
    """Name a run after its corpus: the gate must not compare models of two corpora."""
    source = table_at(tree, "corpus").get("source")
    if not isinstance(source, str) or not (name := name_after(source)):
        return tree
    return {"name": name} | tree


def name_after(source: str) -> str:
    """Name of a file, a folder or a data set, in the letters that a model's name allows.

    A name without any of these letters becomes a digest: two such corpora are two models.
    """
    path = Path(source).absolute()
    stem = Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem
    plain = "".join(c for c in unicodedata.normalize("NFKD", stem) if not unicodedata.combining(c))
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", plain).strip("-_")[:64]
    return name or (f"corpus-{hashlib.sha256(stem.encode()).hexdigest()[:8]}" if stem else "")


def with_full_paths(tree: Json) -> Json:
    """Replace paths by absolute paths, and aliases of registered models by versions.

    So a run can be repeated from any folder, with the encoder that it started from.
    """
    known = {
        table: {name: pinned_name(full_path(values[name]))}
        for table, name in MAYBE_PATHS
        if isinstance(values := tree.get(table), dict) and isinstance(values.get(name), str)
    }
    return merged(tree, known)


def full_path(name: str) -> str:
    """Absolute path of an existing file or folder; any other name unchanged."""
    with suppress(OSError):  # a name longer than any path
        if name and name not in BUILT_IN_ENCODERS and Path(name).exists():
            return str(Path(name).absolute())
    return name


def table_at(tree: Json, path: str) -> Json:
    """Table at a dotted path; empty if there is none."""
    for name in path.split("."):
        tree = as_table(tree.get(name))
    return tree
