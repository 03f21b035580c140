"""What a preset and a data folder make of an experiment: its arms, its columns, its names."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import row_steps
from flows.experiments import index, learning
from flows.experiments.index import Reproduction, file_name
from flows.experiments.judging import overlaps_with
from sentemb_core.config.experiments import (
    SMALL,
    TITLE,
    Arm,
    Base,
    Column,
    Experiment,
    SelfTrain,
    Train,
)
from sentemb_core.config.methods import CONPONO, SimCSE
from sentemb_core.config.run import EncoderConfig
from sentemb_core.store.objects import Store
from tasks.benchmark import largest_overlaps
from tasks.corpus import document_count
from tasks.execution import without_prefect
from tasks.run_result import Trained
from tests.flows.corpora import write_data_folder

pytestmark = pytest.mark.usefixtures("home")

TINY = SMALL.model_copy(
    update={
        "steps": 2,
        "base": Base(encoder=EncoderConfig(name="static", dim=16, vocabulary=300), times=0),
    }
)
WHOLE = Experiment(
    id="s999.t3",
    title="Arms and columns that may be there",
    arms=(Arm(label="start encoder"), Arm(label="simcse", steps=(Train(method=SimCSE()),))),
    paper_arms=(Arm(label="larger", steps=(Train(method=SimCSE(), times=2),)),),
    columns=(
        Column(label="Web", judge=TITLE, corpus="blog_usgov"),
        Column(label="dev", judge="STS-B-dev"),
        Column(label="STS13", judge="STS13", optional=True),
    ),
    small=TINY,
    paper=TINY,
)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(index, "EXPERIMENTS", {WHOLE.id: WHOLE})
    folder = tmp_path / "data"
    folder.mkdir()
    write_data_folder(folder)
    return folder


def test_a_column_is_there_where_its_file_is(data: Path):
    without = Reproduction(experiment=WHOLE.id, data=str(data))
    assert [one.label for one in without.what.columns] == ["Web", "dev"]
    assert without.left_out == {"STS13": ["sts_sts13.parquet"]}
    assert without.absent_files() == [], "nothing that it must have"
    pairs = {"sentence1": ["a b"], "sentence2": ["b c"], "score": [1.0]}
    pq.write_table(pa.table(pairs), data / "sts_sts13.parquet")
    beside = Reproduction(experiment=WHOLE.id, data=str(data))
    assert [one.label for one in beside.what.columns] == ["Web", "dev", "STS13"]
    assert beside.left_out == {}


def test_the_papers_own_arms_are_under_its_preset_alone(data: Path):
    labels = {
        preset: [arm.label for arm in Reproduction(**asked, preset=preset).what.arms]
        for preset in ("small", "paper")
        for asked in [{"experiment": WHOLE.id, "data": str(data)}]
    }
    assert labels["paper"] == [*labels["small"], "larger"]


def test_files_of_another_budget_lie_elsewhere(data: Path):
    asked = Reproduction(experiment=WHOLE.id, data=str(data))
    assert asked.name == WHOLE.id
    others = [
        {"preset": "paper"},
        {"seeds": (1, 7)},
        {"steps": 5},
        {"max_documents": 9},
        {"encoder": "/models/roberta"},
    ]
    assert [asked.model_copy(update=other).name for other in others] == [
        f"{WHOLE.id}-paper",
        f"{WHOLE.id}-seeds-1-7",
        f"{WHOLE.id}-steps-5",
        f"{WHOLE.id}-max_documents-9",
        f"{WHOLE.id}-encoder-models_roberta-1df68655",
    ]
    assert [asked.model_copy(update=other).marks for other in others] == [
        *[WHOLE.id] * 4,
        f"{WHOLE.id} models_roberta-1df68655",
    ]


def test_encoders_of_other_names_have_other_files():
    """Also where a file's name cannot have their letters, or not all of them."""
    far = "/long" * 40
    names = ["minilm", "mini x", "mini_x", "mini(x", "org/mini", "org_mini", f"/a{far}", f"/b{far}"]
    found = [file_name(name) for name in names]
    assert len(set(found)) == len(names)
    assert (found[0], found[2], found[5]) == ("minilm", "mini_x", "org_mini")
    assert all(re.fullmatch(r"[\w.-]{1,89}", one, re.ASCII) for one in found)


def test_what_training_read_of_the_judges_is_of_every_corpus_it_read(data: Path):
    asked = Reproduction(experiment=WHOLE.id, data=str(data))
    assert asked.corpora_read == ["blog_usgov", "plain_sentences"]
    with without_prefect(Store.default()):
        read = overlaps_with(asked)
    (dev,) = largest_overlaps([one.overlap for one in read if one.overlap]).items()
    assert dev[0] == "STS-B-dev"
    assert dev[1].exact == 1.0, "the pairs are sentences of the corpus"


def test_a_share_is_of_the_corpus_that_is_there(data: Path):
    asked = Reproduction(experiment=WHOLE.id, data=str(data))
    with without_prefect(Store.default()):
        base = learning.base_of(asked)
        counts = [
            document_count(
                learning.texts_of(asked, base, "blog_usgov", Arm(label="a", share=share)).documents
            )
            for share in (None, 0.4, 0.1)
        ]
    assert counts == [40, 16, 4]


@pytest.mark.parametrize("anew", [False, True])
def test_a_round_goes_on_or_starts_anew_from_what_the_first_began_with(
    data: Path, monkeypatch: pytest.MonkeyPatch, anew: bool
):
    asked = Reproduction(experiment=WHOLE.id, data=str(data))
    students, made = [], []

    def watched(encoder, *rest, **named):
        trained = train(encoder, *rest, **named)
        students.append(encoder)
        made.append(trained.model)
        return Trained(model=trained.model, log=trained.log)

    train = row_steps.train_encoder
    monkeypatch.setattr(row_steps, "train_encoder", watched)
    steps = (Train(method=CONPONO()), SelfTrain(), SelfTrain(anew=anew))
    with without_prefect(Store.default()):
        learning.arm_encoder(
            asked, learning.base_of(asked), Arm(label="a", steps=steps), "blog_usgov", 1
        )
    initialiser, first, _ = made
    assert students[1:] == [initialiser, initialiser if anew else first]
