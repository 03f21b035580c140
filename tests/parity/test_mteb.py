"""A saved encoder in mteb, as it is: the number is ours to the last digits.

Only the order of the cosines counts. Ours have six decimals, and no two of the pairs here are
nearer than 2e-5; where two were as one to us, the numbers would differ by what their ranks do.
"""

from pathlib import Path

import numpy as np
import pytest

from sentemb_core.encoder.checkpoint import save_encoder
from sentemb_core.evaluation.sts import StsPairs, similarities, sts_result
from tests import tiny

mteb = pytest.importorskip("mteb", reason="mteb is not installed: pip install 'mteb>=2.26,<3'")
LAST_DIGITS = 1e-12
"""Of a double that is a sum over sixty pairs; 1e-16 is found."""

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def drawn(pairs: int) -> StsPairs:
    rng = np.random.default_rng(0)
    first, second = (
        [" ".join(f"w{k}" for k in rng.integers(4, 40, 5)) for _ in range(pairs)] for _ in range(2)
    )
    return StsPairs(first, second, rng.uniform(0, 5, pairs), ["a"] * pairs)


def local_task(pairs: StsPairs):
    """A task of mteb over these pairs: nothing is fetched."""
    from datasets import Dataset, DatasetDict
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    unknown = (
        *("reference", "date", "domains", "task_subtypes", "license", "annotations_creators"),
        *("dialect", "sample_creation", "bibtex_citation"),
    )

    class Local(AbsTaskSTS):
        metadata = TaskMetadata(
            name="LocalSTS",
            description="Pairs that were made up.",
            dataset={"path": "local", "revision": "1"},
            type="STS",
            category="t2t",
            modalities=["text"],
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="cosine_spearman",
            **dict.fromkeys(unknown),
        )
        min_score, max_score = 0, 5

        def load_data(self, **_: object) -> None:
            rows = {"sentence1": pairs.first, "sentence2": pairs.second, "score": pairs.gold}
            self.dataset = DatasetDict({"test": Dataset.from_dict(rows)})
            self.data_loaded = True

    return Local()


@pytest.mark.parametrize("make", [tiny.static, tiny.bert])
def test_a_saved_encoder_has_the_same_score_in_mteb(make, tmp_path: Path):
    from sentence_transformers import SentenceTransformer

    encoder, pairs = make(), drawn(60)
    save_encoder(encoder, tmp_path / "model", "# tiny\n")
    loaded = SentenceTransformer(str(tmp_path / "model"), device="cpu", local_files_only=True)
    found = mteb.evaluate(loaded, [local_task(pairs)], cache=None).task_results[0]
    ours = sts_result("LocalSTS", pairs, similarities(encoder, pairs))
    assert found.scores["test"][0]["cosine_spearman"] == pytest.approx(ours.value, abs=LAST_DIGITS)
