"""What an encoder found in a corpus, read for some of its shards."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sentemb_core.annotation.clusters import Clusters
from sentemb_core.annotation.corpus import Corpus
from sentemb_core.annotation.pairs import Pairs
from sentemb_core.pairs.table import Annotation


@dataclass(frozen=True)
class StoredAnnotation:
    """Clusters and pairs on disk; memory holds those of the shards asked for."""

    corpus: Corpus
    clusters: Clusters
    pairs: Pairs

    def part(self, shards: Sequence[int]) -> Annotation:
        """Of these shards, whose sentences count from 0 as in `TokenCorpus.part`."""
        begin, i, j = 0, [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for k in shards:
            own, (first, second) = self.corpus.shards[k].sentences, self.pairs.shard(k)
            i.append(first - own.start + begin)
            j.append(second - own.start + begin)
            begin += own.stop - own.start
        labels = [self.clusters.shard(k) for k in shards]
        assert sum(map(len, labels)) == begin, "shards of a corpus are those of every tokenizer"
        return Annotation(np.concatenate(i), np.concatenate(j), np.concatenate(labels))
