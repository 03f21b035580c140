"""The report of each kind of run, with and without stored parts."""

from pathlib import Path

import numpy as np
import pytest

from flows.infocse_idc import self_train
from sentemb_core.annotation.clusters import Clusters
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.evaluation.validation_scores import read_ranks
from sentemb_core.report.data import RunReport
from sentemb_core.report.run_page import chapters
from tasks.artifacts import artifact_path
from tasks.report import Outcome, doubts_of, full_report
from tests.flows.corpora import in_process, tiny_run, write_corpus

pytestmark = pytest.mark.usefixtures("home")


def reported(config) -> tuple[Outcome, RunReport]:
    training = in_process(self_train, config)
    best = training.rows[training.best].encoder
    outcome = Outcome(run="x", training=training, encoder=best, report="r", gate=None, timings=[])
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
