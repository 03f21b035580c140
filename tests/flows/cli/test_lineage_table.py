"""What `lineage` shows a person: every artifact in one line, and what else it was made of.

Run: pytest tests/flows/test_lineage_table.py
"""

import io

from rich.console import Console

from flows.cli.lineage_table import lineage_table
from sentemb_core.store.records import Lineage, Origin
from sentemb_core.types import ArtifactRef, Json


def ref(kind: str, digit: str) -> ArtifactRef:
    return ArtifactRef(kind=kind, digest=digit * 64, size=1)


DOCUMENTS, ENCODER, SENTENCES = ref("documents", "d"), ref("model", "e"), ref("sentences", "c")
TRAINED = ref("model", "f")


def made(what: ArtifactRef, stage: str, *inputs: ArtifactRef, **parameters: Json) -> Origin:
    return Origin(
        ref=what, stage=stage, inputs=list(inputs), parameters=parameters, created=1_700_000_000.0
    )


def shown(*origins: Origin, width: int = 120) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(lineage_table(Lineage(origins=list(origins))))
    return [line.rstrip() for line in out.getvalue().splitlines()]


TRAINING = {
    "config.method.name": "conpono",
    "config.steps": 30,
    "config.seed": 7,
    "config.clip": 1.0,
}


def test_an_artifact_is_one_line_under_what_it_went_into_and_names_the_others():
    told = shown(
        made(TRAINED, "train_encoder", ENCODER, SENTENCES, **TRAINING),
        made(ENCODER, "start_encoder", DOCUMENTS, **{"config.name": "static", "config.seed": 7}),
        made(SENTENCES, "tokenise_sentences", DOCUMENTS, ENCODER),
        made(DOCUMENTS, "read_corpus", **{"config.source": "5" * 64}),
    )
    assert [line[4:31].rstrip() for line in told[1:]] == [
        "model ffffffffffff",
        "  model eeeeeeeeeeee",
        "    documents dddddddddddd",
        "  sentences cccccccccccc",
    ]
    assert "train_encoder" in told[1]
    assert told[1].endswith("conpono, 30 steps, seed 7")
    assert "clip" not in "".join(told)
    assert told[3].endswith("source 555555555555")
    assert told[4].endswith(" 3 2")
    assert all("2023-11-14" in line or "2023-11-15" in line for line in told[1:])


def test_what_no_record_made_is_shown_as_such():
    assert shown(Origin(ref=DOCUMENTS))[1].split() == ["1", "documents", "d" * 12, "(no", "record)"]


def test_names_of_rows_are_not_told_as_labels_and_brackets_are_no_markup():
    published = made(TRAINED, "publish_encoder", name="[bold]posts", labels=["start", "round 1"])
    assert shown(published)[1].endswith("named [bold]posts")


def test_an_older_record_without_a_parameter_is_shown_all_the_same():
    assert shown(made(TRAINED, "train_encoder", **{"config.steps": 3}))[1].endswith(
        "?, 3 steps, seed ?"
    )
