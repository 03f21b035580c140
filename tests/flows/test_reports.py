"""The report of each kind of run, with and without stored parts."""

from pathlib import Path

import numpy as np
import pytest

from flows.infocse_idc import self_train
from flows.pipeline import add_mapped_encoders
from sentemb_core.annotation.clusters import Clusters
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import ValidationPool
from sentemb_core.evaluation.validation_scores import Scorers, read_ranks, write_scores
from sentemb_core.report.data import RunReport
from sentemb_core.report.run_page import chapters
from tasks import gate
from tasks.artifacts import EncoderResult, RunResult, artifact_path, new_artifact
from tasks.promotion import VERDICT
from tasks.publish import card_of
from tasks.report import Outcome, doubts_of, full_report, result_of
from tasks.run_table import outcome_table
from tasks.validate import recall_at_5
from tasks.verdict import answer_on
from tests.flows.corpora import in_process, outcome_of, tiny_run, write_corpus

pytestmark = pytest.mark.usefixtures("home")


def reported(config) -> tuple[Outcome, RunReport]:
    outcome = outcome_of(in_process(self_train, config))
    return outcome, full_report(outcome, config)


def test_the_document_shown_is_clustered_as_the_annotation_did_it(corpus_file: Path):
    outcome, report = reported(tiny_run(corpus_file))
    corpus = TokenCorpus.open(artifact_path(outcome.training.texts.sentences))
    document = corpus.doc_ids.index(report.document.name)
    rows = np.arange(*corpus.offsets[document : document + 2])
    seen = report.document.clusters
    assert list(seen) == [row.label for row in outcome.training.rows]
    for annotator, learner in (("after conpono", "round 1"), ("round 1", "round 2")):
        (row,) = [row for row in outcome.training.rows if row.label == learner]
        labels = Clusters(artifact_path(row.annotation.clusters)).of(rows)
        assert seen[annotator] == labels.tolist()


@pytest.mark.parametrize(
    ("annotation", "columns"),
    [
        ({"clustering": "kmeans", "n_clusters": 4}, ["annotation of round 1"]),
        ({"keep_embeddings": False}, ["annotation of round 1"]),
        ({"top_k": 2, "mutual": True}, ["start", "after conpono", "round 1"]),
    ],
)
def test_a_single_round_has_a_before_and_after_as_far_as_vectors_were_kept(
    corpus_file: Path, annotation: dict, columns: list[str]
):
    rounds = {"max_rounds": 1, "patience": 1}
    outcome, report = reported(tiny_run(corpus_file, annotation=annotation, rounds=rounds))
    assert list(report.document.clusters) == columns
    assert len(report.lost_queries) == lost_at_most_ten(outcome)
    assert "its control" in report.notes[1]


def test_pairs_that_no_kept_vector_ranks_are_not_shown_with_a_cosine(corpus_file: Path):
    rounds = {"max_rounds": 1, "patience": 1}
    annotation = {"keep_embeddings": False}
    _, report = reported(tiny_run(corpus_file, annotation=annotation, rounds=rounds))
    (found,) = [row.diagnostics for row in report.rounds if row.diagnostics]
    assert (found.best, found.worst) == ([], [])
    assert 'class="absent"' in chapters(report, {})["examples"]


def lost_at_most_ten(outcome: Outcome) -> int:
    best = outcome.training.rows[outcome.training.best]
    return min(10, int((read_ranks(artifact_path(best.scores), "validation") > 1).sum()))


OUTCOMES = {
    "start": ({"start": 0.9, "round 1": 0.3}, "round 1", "worse"),
    "round": ({"round 1": 0.9}, "round 1", "serve"),
    "control": ({"round 1": 0.7, "control 1: neighbours only": 0.9}, "round 1", "serve"),
    "map": ({"whitening of round 1": 0.9}, "whitening of round 1", "serve"),
    "nothing": ({}, "after conpono", "not better"),
}
"""What is best -> R@5 where it is not 0.1, what the run returns, and the answer."""


@pytest.fixture(scope="module")
def whitened(tmp_path_factory):
    """The home, the settings and the result of a run of one round, its control and two maps."""
    folder = tmp_path_factory.mktemp("outcomes")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SENTEMB_HOME", str(folder / "home"))
        source = write_corpus(folder / "documents.jsonl", documents=120)
        one = {"max_rounds": 1, "patience": 1}
        config = tiny_run(source, rounds=one, postprocess="whitening")
        training = in_process(self_train, config)
        mapped = in_process(
            lambda config, on_row: add_mapped_encoders(training, config, on_row), config
        )
    return folder / "home", config, mapped


def with_recalls(training: RunResult, recalls: dict[str, float]) -> RunResult:
    """The run, had its encoders found these shares of the answers; others find a tenth."""
    pool = ValidationPool.open(artifact_path(training.texts.validation_pool))
    count = len(pool.query_document)
    order = np.random.default_rng(0).permutation(count)

    def scored(row: EncoderResult) -> EncoderResult:
        found = order < recalls.get(row.label, 0.1) * count
        right = np.zeros((count, pool.n_candidates))
        right[np.arange(count), pool.query_candidate] = np.where(found, 1.0, -1.0)
        scorers = Scorers(lambda rows: right[rows], lambda rows: right.T[rows])
        with new_artifact("scores") as draft:
            write_scores(pool, scorers, draft.path)
        return row.model_copy(update={"scores": draft.ref})

    rows = [scored(row) for row in training.rows]
    _, *choice = rows
    value = {row.label: recall_at_5(row.scores) for row in choice}
    first = max(choice[:2], key=lambda row: value[row.label])
    maps = [row for row in choice if row.kind == "mapped"]
    best = max([first, *maps], key=lambda row: value[row.label])
    controls = [scored(row) for row in training.controls]
    return training.model_copy(
        update={"rows": rows, "controls": controls, "best": rows.index(best)}
    )


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_page_card_console_and_registry_say_the_same(whitened, outcome: str, monkeypatch):
    home, config, training = whitened
    monkeypatch.setenv("SENTEMB_HOME", str(home))
    recalls, returned, answer = OUTCOMES[outcome]
    training = with_recalls(training, recalls)
    tags: dict[str, object] = {}
    monkeypatch.setattr(gate, "register", lambda *_, **given: tags.update(given["tags"]))
    finished = outcome_of(training).model_copy(
        update={"encoder": training.rows[training.best].encoder}
    )
    report = full_report(finished, config)
    gate.registered_version(config, finished)

    names = {
        "registry": tags["returned"],
        "page": [row.label for row in report.rounds if row.returned],
        "card": [name for name in card_of(training, config).rows if "(this model)" in name],
        "console": [line[0] for line in outcome_table(finished).lines() if line[0].endswith(" *")],
    }
    assert names == {
        "registry": returned,
        "page": [returned],
        "card": [f"{returned} (this model)"],
        "console": [f"{returned} *"],
    }
    assert answer_on(training) == (answer, report.answer)
    assert tags[VERDICT] == report.answer
    assert result_of(finished) == f"{report.answer} {report.verdict}"
    assert report.serve == (answer == "serve")

    (row,) = [row for row in report.rounds if row.returned]
    shown = f"{row.recall('test', 'forward'):.3f}"
    tiles = chapters(report, {})["verdict"].split('class="tiles"')[1].split("</dl>")[0]
    assert f"R@5 is {shown}" in report.verdict
    assert tiles.split("returned</span>")[1].split("<dd>")[1].startswith(shown)
    better = [name for name in recalls if recalls[name] > recalls.get(returned, 0.1)]
    assert [name for name in recalls if f"{name!r} (" in report.verdict and name != returned] == (
        better
    )


def test_lost_halves_show_their_first_sentences(tmp_path: Path):
    source = write_corpus(tmp_path / "plain.jsonl", documents=80)
    columns = {"source": str(source), "id_column": "id", "sentences_column": "sentences"}
    outcome, report = reported(tiny_run(source, corpus=columns, control=False))
    assert (report.query, report.candidate) == ("first half", "second half")
    assert len(report.lost_queries) == lost_at_most_ten(outcome) > 0
    corpus = TokenCorpus.open(artifact_path(outcome.training.texts.sentences))
    texts = corpus.texts(range(len(corpus)))
    for query in report.lost_queries:
        assert texts.index(query.query.split(".")[0] + ".") < texts.index(
            query.wanted.split(".")[0] + "."
        ), "the first half before the second"
    assert report.notes == doubts_of(outcome.training)
    assert report.document.counterpart is None
