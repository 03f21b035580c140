"""Legends: column of a report's table -> its meaning, in the order of the columns.

The head of a table is made from its legend (`templates/run.html`), so every column is explained.
"""

from sentemb_core.annotation.statistics import KEPT_SHARE_WARNING
from sentemb_core.formats import percent

Legend = dict[str, str]
"""Title of a column -> its meaning."""

RETURNED_MINUS = "Returned minus this"


def served(forward: str, backward: str) -> Legend:
    """Return the legend of the first table of a retriever's page; the directions are columns."""
    return {
        "System": "word search (BM25), the encoder that the run began with, and what it returned.",
        RETURNED_MINUS: "what the returned retriever has more than this row, over the directions "
        "that count, with the 95 % interval. If all of it is above 0, the gain is more than "
        "chance.",
        forward: "MRR@10: 1 where the right answer comes first, 1/2 where it comes second, 1/10 "
        "where tenth, 0 below; the mean over the queries.",
        backward: "the same for the other direction.",
    }


CANDIDATES: Legend = {
    "Retriever": "a combination of parts; start is the start encoder as it is.",
    "Parts": "what it scores by. More parts cost more to store and to search.",
    "Dimensions": "of the vector of a document; 0: words alone.",
    "MRR@10": "on the validation split, over the directions that count.",
    "Minus the best": "difference from the best one that may be chosen, with its 95 % interval.",
    "Why not": "the reason against it.",
}

RECALL: Legend = {
    "R@k": "share of the split's queries that find their own answer among the first k candidates. "
    "The arrow points from the query to the candidate.",
    "Time": "of the computation of the row's stages, for both splits together.",
}

ANNOTATION: Legend = {
    "Encoder": "trained on this annotation, which the encoder before it made.",
    "Pairs kept": "share of all pairs of sentences inside documents that share a cluster, or that "
    f"are edges. Above {percent(KEPT_SHARE_WARNING)}, clusters have grown into whole documents.",
    "Clusters a document": "mean over documents of at least two sentences.",
    "Pairs": "number of exported training pairs.",
    "Neighbours among them": "share of these pairs that are adjacent in their document.",
    "Related in a document": "share of the pairs inside documents, without adjacent ones, whose "
    "meanings are related; estimated without labels.",
    "ARI to last": "adjusted Rand index to the clusters of the annotation before: 1 is unchanged, "
    "0 is chance.",
    "New, gone": "share of the pairs that are new since the annotation before, and share of its "
    "pairs that are gone.",
    "Word overlap": "share of the words of a pair that both sentences have (Jaccard index).",
}

GEOMETRY: Legend = {
    "Encoder": "after its training.",
    "Alignment": "mean squared distance of the two vectors of a positive, 0 to 4; lower is closer.",
    "Uniformity": "how evenly the sentences cover the sphere, 0 or below; lower is more even.",
    "Effective rank": "number of directions that the vectors use; a small number is a collapse.",
}

TRAINING: Legend = {
    "Encoder": "the result of this training.",
    "Steps": "of the optimiser.",
    "Pairs": "all pairs of these steps; repeated pairs count again.",
    "Time": "of the training when it was computed, with its validations.",
    "Pairs a second": "pairs divided by time; other work on the machine lowers it.",
}

LOST: Legend = {
    "Rank": "of the answer among all candidates, counted from 1.",
    "Query": "its beginning.",
    "Wanted": "its answer.",
    "Found first": "the candidate that the encoder ranks first.",
}

SUITE: Legend = {
    "Task": "of the evaluation suite.",
    "Measure": "the main metric of the task; the benchmark's page has the others.",
}

OWN = "the best encoder of this run."
OTHER = "another model of the benchmark."
FIXED = "a fixed row, without training."

REFUSED: Legend = {
    "Reason": "code in the table of all refused rows.",
    "What is refused": "meaning of the code.",
    "How many": "refused rows; each has one reason.",
    "Share": "of all rows that were read.",
}

FIRST_REFUSED: Legend = {
    "Row": "of the source, counted from 0.",
    "Excerpt": "its beginning.",
    "Reason": "as above.",
    "Place": "file, and position in it.",
}

BY_STAGE: Legend = {
    "Stage": "a kind of stage, all rounds together.",
    "Ran": "number of computations in this run.",
    "Hits": "number of results that the store already had.",
    "Time": "of the computation; a hit costs only a check of its bytes.",
}

EVERY_STAGE: Legend = {
    "Stage": "one stage.",
    "Round": "the encoder that it belongs to; a dash: all.",
    "Store": "hit: the store had the result; ran: this run computed it.",
    "Time": "of the computation.",
}

COUNTS: Legend = {
    "rows read": "of the source.",
    "documents": "of the run.",
    "sentences": "of these documents.",
    "documents with pairs": "documents of at least two sentences; other documents give no pair.",
    "documents with counterpart": "documents with a title, headline or query.",
    "left out": "documents with too few sentences.",
    "not drawn": "documents outside the requested sample.",
    "duplicate sentences": "dropped: their document has them already.",
    "counterpart sentences": "dropped: they repeat the counterpart of their document.",
    "rows with tags": "rows with HTML tags, which are read as words; --strip-html removes them.",
    "rows with title": "documents that hold their own title within a sentence.",
    "duplicate documents": "kept, with the sentences of an earlier document.",
    "read by the encoder": "tokens beyond its maximum length are cut, and all pieces outside its "
    "vocabulary are one token.",
}
"""Count of the reader -> its meaning."""

READ_SCORES = (
    "A mark is a system's score times 100, its bar the 95 % interval. Grey systems are fixed rows, "
    "without training."
)

DIAGNOSES: Legend = {
    "alignment": GEOMETRY["Alignment"],
    "uniformity": GEOMETRY["Uniformity"],
    "effective rank": GEOMETRY["Effective rank"],
    "mean cosine": "of random pairs; 0 if no direction is preferred.",
    "hubness": "skewness of how often a text is a neighbour of others; 0 is even.",
    "duplicate rate": "share of texts with the vector of another text.",
    "positives at 5": "share of positives that find each other among five candidates.",
}
"""Row of a benchmark's table of diagnostics -> its meaning."""
