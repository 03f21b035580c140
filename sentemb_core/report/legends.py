"""What the columns of a report's tables mean, in a line each, in the order of the columns.

A table is made of its legend (`chapters`), so no column can stand there unexplained.
"""

from sentemb_core.annotation.statistics import KEPT_SHARE_WARNING
from sentemb_core.formats import percent

Legend = dict[str, str]
"""Title of a column -> what stands in it."""

RECALL: Legend = {
    "R@k": "of the split's queries, the share that find their own answer among the first k of all "
    "candidates; an arrow leads from what is asked with to what is sought.",
    "Time": "what the stages behind the row took when they were computed, both splits together.",
}

ANNOTATION: Legend = {
    "Encoder": "the one that learnt from this annotation; the one before it made it.",
    "Pairs kept": "of all pairs of sentences inside documents, the share that lie in one cluster "
    f"(above {percent(KEPT_SHARE_WARNING)} clusters have grown into whole documents), or that are "
    "positives by themselves.",
    "Clusters a document": "the mean over documents of at least two sentences.",
    "Pairs": "how many were exported to train on.",
    "Neighbours among them": "the share of these that stand side by side in their document.",
    "Related in a document": "of a sentence's pairs in its document, neighbours aside, the share "
    "whose meanings are related, estimated without labels.",
    "ARI to last": "adjusted Rand index to the clusters of the annotation before: 1 is unchanged, "
    "0 is chance.",
    "New, gone": "the share of the pairs that the annotation before had not, and of its pairs the "
    "share that are none any more.",
    "Word overlap": "of all words of a pair, the share that both sentences have (Jaccard index).",
}

GEOMETRY: Legend = {
    "Encoder": "as its training left it.",
    "Alignment": "mean squared distance of the two vectors of a positive, 0 to 4; lower is closer.",
    "Uniformity": "how evenly the sentences fill the sphere, 0 or below; lower is more even.",
    "Effective rank": "how many directions the vectors really use; a handful is a collapse.",
}

TRAINING: Legend = {
    "Encoder": "the one that this training made.",
    "Steps": "of the optimiser.",
    "Pairs": "all that these steps were shown, one that came again included.",
    "Time": "what the training took when it was computed, its validations included.",
    "Pairs a second": "the one by the other; other work on the machine slows it.",
}

LOST: Legend = {
    "Rank": "of the answer among all candidates, counted from 1.",
    "Query": "how it begins.",
    "Wanted": "its answer.",
    "Found first": "what the encoder took for it.",
}

SUITE: Legend = {
    "Task": "of the evaluation suite.",
    "Measure": "the main one of its group; the benchmark's own page and tables have the others.",
}

OWN = "the best of this run."
OTHER = "a model that the benchmark has as well."
FIXED = "a row that no training moves."

REFUSED: Legend = {
    "Reason": "its code in the table of all refused rows.",
    "What is refused": "in words.",
    "How many": "rows refused for it, each for one reason.",
    "Share": "of all rows that were read.",
}

FIRST_REFUSED: Legend = {
    "Row": "of the source, counted from 0.",
    "Excerpt": "how it begins.",
    "Reason": "as above.",
    "Place": "the file, and where in it.",
}

BY_STAGE: Legend = {
    "Stage": "a kind of step, all rounds together.",
    "Ran": "how often this run computed it.",
    "Hits": "how often the store had its result already.",
    "Time": "what it took when it was computed; a hit costs no more than a check of its bytes.",
}

EVERY_STAGE: Legend = {
    "Stage": "one step.",
    "Round": "the encoder it belongs to; a dash: it serves all.",
    "Store": "hit: the result was there; ran: this run computed it.",
    "Time": "what it took when it was computed.",
}

COUNTS: Legend = {
    "rows read": "of the source; what became of them follows.",
    "documents": "the run works on.",
    "sentences": "of these documents.",
    "documents with pairs": "of at least two sentences; the others give no pair.",
    "documents with counterpart": "that bring a title, headline or query of their own.",
    "left out": "documents below the least number of sentences.",
    "not drawn": "documents outside the sample that was asked for.",
    "duplicate sentences": "dropped, for their document has them already.",
    "counterpart sentences": "dropped, for they give their document's counterpart away.",
    "rows with tags": "of HTML, which are read as words: better stripped before.",
    "duplicate documents": "kept, with the same sentences as an earlier one.",
    "read by the encoder": "what lies behind its last token is not seen, and all that its "
    "vocabulary lacks is one and the same to it.",
}
"""What the reader counted -> what that is."""

READ_SCORES = (
    "A mark is a system's score times 100, its bar the 95 % interval; grey is what no training "
    "moves."
)

DIAGNOSES: Legend = {
    "alignment": GEOMETRY["Alignment"],
    "uniformity": GEOMETRY["Uniformity"],
    "effective rank": GEOMETRY["Effective rank"],
    "mean cosine": "of random pairs; 0 if no direction is preferred.",
    "hubness": "how unevenly texts are others' neighbours (skewness); 0 is even.",
    "duplicate rate": "the share of texts that are one with another to the encoder.",
    "positives at 5": "the share of positives that find each other among five.",
}
"""Row of a benchmark's table of diagnostics -> what it is."""
