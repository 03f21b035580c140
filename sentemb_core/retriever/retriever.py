"""A retriever in memory: its spec, its encoders, and what they make of texts and documents."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from jaxtyping import Float32

from sentemb_core.corpus.given import Given, require_several, sentences_of
from sentemb_core.document_vectors import Hit
from sentemb_core.encoder.batching import embed_texts, encode
from sentemb_core.encoder.card import CardFacts, model_card
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.truncation import Cut
from sentemb_core.errors import UsageError
from sentemb_core.evaluation.diagnostics import directions
from sentemb_core.retriever.folder import ROOT, TABLE, save_retriever
from sentemb_core.retriever.scores import Readings, WholeTexts
from sentemb_core.retriever.spec import RetrieverSpec
from sentemb_core.retriever.tokens import TokenMap, TokenVectors, read_tokens
from sentemb_core.retriever.vectors import Sides, joined_vectors, side_of
from sentemb_core.retriever.words import Texts
from sentemb_core.types import Precision, Role

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Retriever:
    """Parts and weights, with the encoders by their folder.

    Attributes:
        spec: Parts and weights.
        encoders: By the folder of `spec.vectors`; all have cosine similarity.
        token_map: From token states of the first encoder to token vectors; unused without
            `spec.tokens`.
        dtype: Precision of reading (`encoder.batching.encode`).
    """

    spec: RetrieverSpec
    encoders: Mapping[str, Encoder] = field(repr=False)
    token_map: TokenMap | None = field(default=None, repr=False)
    dtype: Precision = "float32"

    @property
    def used_token_map(self) -> TokenMap | None:
        """The map of the token vectors; None without that part.

        Raises:
            UsageError: the spec has tokens, and the retriever has no map.
        """
        if not self.spec.tokens:
            return None
        if self.token_map is None:
            raise UsageError(
                "A retriever with tokens has a token map; found none. Load a retriever that has "
                "tokens, or set `tokens` of its spec to False."
            )
        return self.token_map

    @property
    def dim(self) -> int:
        """Width of a document's vector; 0 for words alone."""
        return sum(encoder.dim for encoder in self.encoders.values())

    def encode(self, texts: Sequence[str]) -> Float32[np.ndarray, "texts dim"]:
        """Return one vector per text, of length 1, without the prompt of a query or a document.

        Raises:
            UsageError: the retriever has no encoder, or `texts` is one text.
        """
        self._require_encoder()
        require_several(texts)
        vectors = [embed_texts(self.encoders[each.folder], texts) for each in self.spec.vectors]
        weights = [each.weight for each in self.spec.vectors]
        return joined_vectors(list(zip(weights, map(directions, vectors), strict=True)))

    def encode_queries(self, texts: Sequence[str]) -> Float32[np.ndarray, "texts dim"]:
        """Return one vector per text; their inner products with documents are cosines.

        Raises:
            UsageError: the retriever has no encoder, or `texts` is one text.
        """
        self._require_encoder()
        require_several(texts)
        return self.read_texts(texts).side(self.spec).vectors

    def encode_documents(
        self, documents: Sequence[str | Sequence[str]]
    ) -> Float32[np.ndarray, "documents dim"]:
        """Return one vector per document: a text, which syntok splits, or a list of sentences.

        Raises:
            UsageError: the retriever has no encoder, or `documents` is one text.
        """
        self._require_encoder()
        require_several(documents)
        sentences = [sentences_of(document) for document in documents]
        return self.read_documents(sentences).side(self.spec).vectors

    def search(self, query: str, documents: Iterable[Given], top: int = 10) -> list[Hit]:
        """Return the first of these documents for a query, best first.

        An index (`retriever.index`) encodes documents once for many searches.

        Raises:
            UsageError: the query is empty, or an item is no document.
            EmptyCorpusError: there is no document.
        """
        from sentemb_core.retriever.index import Index

        with TemporaryDirectory(prefix="sentemb-") as name:
            return Index.build(self, documents, Path(name) / "index").search(query, top)

    def save(self, folder: str | Path) -> None:
        """Write the retriever into a new folder, whose root `SentenceTransformer` loads.

        Raises:
            UsageError: the folder is not empty.
        """
        folder = Path(folder)
        if folder.exists() and (folder.is_file() or any(folder.iterdir())):
            raise UsageError(f"{folder} exists. Name a new folder.")
        save_retriever(self, folder, model_card(CardFacts(name=folder.name)))

    def _require_encoder(self) -> None:
        if not self.encoders:
            raise UsageError(
                "This retriever has words alone, and no encoder: it has no vectors. Search with "
                "it, or load another."
            )

    def read_texts(self, texts: Sequence[str]) -> Readings:
        """Return queries, titles or other texts, each read as one."""
        return self.read_sentences([[text] for text in texts], documents=False)

    def read_documents(
        self,
        documents: Sequence[Sequence[str]],
        progress: Progress | None = None,
        cut: Cut | None = None,
    ) -> Readings:
        """Return documents, given as lists of sentences; token vectors are in int8.

        `progress` is called with the number of sentences that the first encoder has read; if it
        also reads whole texts, each reading counts half. `cut` counts the sentences, or whole
        texts, that it cuts.
        """
        return self.read_sentences(documents, documents=True, progress=progress, cut=cut)

    def read_sentences(
        self,
        items: Sequence[Sequence[str]],
        *,
        documents: bool,
        progress: Progress | None = None,
        cut: Cut | None = None,
    ) -> Readings:
        """Return either side of a search, given as lists of sentences.

        The encoders read them with their prompt of a document or of a query.
        """
        texts = [" ".join(sentences) for sentences in items]
        units = [[text] for text in texts] if self.spec.unit == "text" else items
        starts = np.concatenate([[0], np.cumsum([len(unit) for unit in units])]).astype(np.int64)
        flat = [sentence for unit in units for sentence in unit]
        of_documents: Role = "document" if self.spec.unit == "text" else "sentence"
        role: Role = of_documents if documents else "query"
        sides: dict[str, Sides] = {}
        tokens: dict[str, TokenVectors] = {}
        whole: dict[str, WholeTexts] = {}
        token_map = self.used_token_map
        both = self.spec.unit == "both"
        several = sum(len(unit) > 1 for unit in units)
        by_sentences = _part(progress, 0.0, 0.5 if both else 1.0)
        by_texts = _part(progress, len(flat) / 2, len(flat) / 2 / max(several, 1))
        for name, encoder in self.encoders.items():
            first = not sides
            sequences = encoder.tokenise(flat, role, cut if first else None)
            if first and token_map:
                read = read_tokens(
                    encoder,
                    sequences,
                    token_map,
                    dtype=self.dtype,
                    prompt=encoder.prompt_tokens(role),
                    merged=documents,
                    progress=by_sentences,
                )
                vectors = read.vectors
                tokens[name] = TokenVectors(read.tokens.rows, read.tokens.starts[starts])
            else:
                update = by_sentences if first else None
                vectors = encode(encoder, sequences, dtype=self.dtype, progress=update)
            sides[name] = side_of(vectors, starts)
            if both:
                update = by_texts if first else None
                whole[name] = whole_texts(
                    encoder, items, documents=documents, dtype=self.dtype, progress=update
                )
        return Readings(Texts(texts), sides, tokens, whole)


def whole_texts(
    encoder: Encoder,
    items: Sequence[Sequence[str]],
    *,
    documents: bool,
    dtype: Precision = "float32",
    progress: Progress | None = None,
) -> WholeTexts:
    """Return the vectors of items, given as lists of sentences, read as whole texts.

    An item of one sentence, which is its text, has a zero vector: `with_whole_texts` leaves it as
    it is.
    """
    several = [place for place, sentences in enumerate(items) if len(sentences) > 1]
    texts = [" ".join(items[place]) for place in several]
    sequences = encoder.tokenise(texts, "document" if documents else "query")
    vectors = np.zeros((len(items), encoder.dim), np.float32)
    vectors[several] = directions(encode(encoder, sequences, dtype=dtype, progress=progress))
    return vectors


def _part(progress: Progress | None, before: float, weight: float) -> Progress | None:
    """Return the progress of a part, which begins at `before` and whose items have this weight."""
    return progress and (lambda done: progress(round(before + weight * done)))


def assembled(
    spec: RetrieverSpec, encoders: Mapping[str, Encoder], token_map: TokenMap | None
) -> Retriever:
    """Return the retriever of a chosen spec, whose folders are the names of these encoders.

    Its first encoder becomes the root, a second one the table.
    """
    folders = dict(zip((each.folder for each in spec.vectors), (ROOT, TABLE), strict=False))
    vectors = tuple(
        each.model_copy(update={"folder": folders[each.folder]}) for each in spec.vectors
    )
    return Retriever(
        spec.model_copy(update={"vectors": vectors}),
        {folders[each.folder]: encoders[each.folder] for each in spec.vectors},
        token_map if spec.tokens else None,
    )
