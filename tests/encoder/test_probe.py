"""Tokenizers and configurations without bounds are found in a limited child process, once."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from sentemb_core.encoder import checkpoint, probe
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.encoder.probe import note_bounded, require_bounded
from sentemb_core.errors import BadDataError
from tests.encoder.published import edit_json
from tests.encoder.starting import start


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for the notes of folders that passed."""
    monkeypatch.setattr(probe, "_cache", lambda: tmp_path / "notes")
    return tmp_path / "notes"


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls of child processes."""
    calls: list[Any] = []
    run = probe.subprocess.run

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return run(*arguments, **options)

    monkeypatch.setattr(probe.subprocess, "run", counted)
    return calls


@pytest.fixture
def static(tmp_path: Path) -> Path:
    """A table of token vectors that another program wrote."""
    save_encoder(start("static"), tmp_path / "static", "card")
    shutil.rmtree(tmp_path / "notes")
    return tmp_path / "static"


@pytest.fixture
def transformer(tmp_path: Path) -> Path:
    save_encoder(start("transformer"), tmp_path / "transformer", "card")
    shutil.rmtree(tmp_path / "notes")
    return tmp_path / "transformer"


def doubled(tokenizer: Any) -> None:
    """A letter that no sample has."""
    steps = [normalizers.Replace(letter, letter * 2) for letter in "\u2c80" * 40]
    tokenizer.normalizer = normalizers.Sequence(steps)


def prepended(tokenizer: Any) -> None:
    tokenizer.normalizer = normalizers.Prepend("x " * 500_000)


def grown(tokenizer: Any) -> None:
    """More than twenty characters of each, in a form that is one unknown word."""
    tokenizer.normalizer = normalizers.Replace(Regex("."), "y" * 100)
    tokenizer.model = models.WordLevel({"[UNK]": 0}, "[UNK]")


def backtracking(tokenizer: Any) -> None:
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?:a+)+$|(a|aa)+\1b"), "isolated")


@pytest.mark.parametrize("edit", [doubled, prepended, grown, backtracking])
def test_a_tokenizer_without_bounds_is_refused(
    edit: Callable[[Any], None], static: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
):
    tokenizer = Tokenizer.from_file(str(static / "tokenizer.json"))
    edit(tokenizer)
    tokenizer.save(str(static / "tokenizer.json"))
    monkeypatch.setattr(checkpoint, "require_bounded", require_bounded)
    with pytest.raises(BadDataError) as refused:
        load_encoder(static)
    assert refused.value.code == "E100"
    assert not notes.exists()


@pytest.mark.parametrize(
    ("sizes", "values"),
    [
        ({"num_hidden_layers": 1_000_000}, "1,000,000"),
        ({"max_position_embeddings": 10**10}, r"\d{3},\d{3},\d{3},\d{3}"),
        ({"vocab_size": 10**10}, r"\d{3},\d{3},\d{3},\d{3}"),
        ({"intermediate_size": 10**9}, r"\d{2},\d{3},\d{3},\d{3}"),
        ({"layer_norm_eps": "small"}, "E100"),
    ],
)
def test_a_configuration_larger_than_its_weights_is_refused(
    sizes: dict[str, object], values: str, transformer: Path, monkeypatch: pytest.MonkeyPatch
):
    """In this process: the child only adds the limits."""
    edit_json(transformer / "config.json", **sizes)
    found = probe.found_in(transformer)
    monkeypatch.setattr(probe.subprocess, "run", lambda *_, **__: Answer(json.dumps(found)))
    with pytest.raises(BadDataError, match=values):
        require_bounded(transformer)


class Answer:
    """What a child process printed."""

    def __init__(self, stdout: str) -> None:
        self.stdout = stdout


def test_a_child_that_a_limit_ends_refuses_the_folder(
    static: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(probe.subprocess, "run", lambda *_, **__: Answer(""))
    with pytest.raises(BadDataError, match=rf"\b{probe.READING_SECONDS} s"):
        require_bounded(static)
    assert not notes.exists()


def test_a_folder_is_tried_once(static: Path, notes: Path, children: list[Any]):
    for _ in range(3):
        require_bounded(static)
    assert (len(children), len(list(notes.iterdir()))) == (1, 1)
    edit_json(static / "tokenizer.json", version="1.0", truncation=None)
    require_bounded(static)
    assert len(children) == 2


def test_what_this_program_saves_is_not_tried(tmp_path: Path, children: list[Any]):
    save_encoder(start("static", seed=3), tmp_path / "model", "card")
    require_bounded(tmp_path / "model")
    assert children == []


def test_without_a_place_for_notes_a_folder_is_tried_each_time(
    static: Path, notes: Path, children: list[Any]
):
    notes.touch()
    for _ in range(2):
        require_bounded(static)
    note_bounded(static)
    assert len(children) == 2


def test_a_library_that_gives_up_over_a_text_is_an_error(static: Path):
    """Not over the samples: a tokenizer may give up later."""

    class PanicException(BaseException):
        """As pyo3 names it."""

    def gives_up(*_: object, **__: object) -> None:
        raise PanicException("called `Result::unwrap()` on an `Err` value")

    encoder = load_encoder(static)
    encoder.tokenizer = type(
        "Tokenizer", (), {"encode_batch_fast": gives_up, "enable_truncation": lambda *_: None}
    )()
    with pytest.raises(BadDataError) as refused:
        embed_texts(encoder, ["a form"])
    assert refused.value.code == "E100"
