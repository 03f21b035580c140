"""What tables read of the data folder: corpora by name, and what of it is not there."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field

from sentemb_core.config.experiments import Corpus
from sentemb_core.config.run import CorpusConfig
from sentemb_core.types import Config, Json

T = TypeVar("T")
Seed = Annotated[int, Field(ge=0)]


def each_once(named: tuple[T, ...]) -> tuple[T, ...]:
    """In their order. A training that counts twice in a mean makes its deviation too small."""
    return tuple(dict.fromkeys(named))


Seeds = Annotated[tuple[Seed, ...], AfterValidator(each_once)]

TITLED: Json = {"id_column": "doc_id", "counterpart_column": "title", "max_sentences": 12}
CORPORA: Mapping[Corpus, Json] = {
    "blog_usgov": TITLED | {"sentences_column": "sentences"},
    "news_reuters21578": TITLED | {"sentences_column": "sentences"},
    "sci_arxiv_cs": TITLED | {"sentences_column": "sentences"},
    "session_mixed_titles": {
        "id_column": "session_id",
        "sentences_column": "titles",
        "counterpart_column": "ad_title",
    },
    "long_elife": TITLED | {"text_column": "text", "max_sentences": 120},
    "plain_sentences": {"text_column": "text", "splitter": "none"},
    "product_wdc_clusters": {"text_column": "title", "splitter": "none"},
    "product_amazon_google": {"text_column": "title1", "splitter": "none"},
    "product_abt_buy": {"text_column": "title1", "splitter": "none"},
    "wikitext_103": {"text_column": "text", "max_sentences": 12},
}
"""Files of the data folder. Twelve sentences of a document are what the encoders' time allows;
eLife's articles stay long enough for spans. Of pairs of products the left titles, which recur.
WikiText-103 is not among the open files: a row is a paragraph, or one of the million sentences."""


def looked_for(corpus: Corpus) -> bool:
    """Whether its documents have a title or the like, which looks for them."""
    return "counterpart_column" in CORPORA[corpus]


class DataTable(Config):
    """A table of corpora that lie in one folder."""

    data: str = Field(description="Folder of the corpora and of the suite's files.")
    max_documents: int | None = Field(default=None, ge=2, description="A sample of each corpus.")

    def file(self, name: Corpus) -> Path:
        return Path(self.data) / f"{name}.parquet"

    def corpus(self, name: Corpus, sample: int | None = None) -> CorpusConfig:
        """The whole of it, or a sample: the table's, or a smaller one."""
        sizes = [size for size in (sample, self.max_documents) if size]
        settings = {"source": str(self.file(name)), "max_documents": min(sizes, default=None)}
        return CorpusConfig.model_validate(CORPORA[name] | settings)

    def absent(self, files: Iterable[str]) -> list[str]:
        """Those that the data folder does not have."""
        return [file for file in dict.fromkeys(files) if not (Path(self.data) / file).is_file()]
