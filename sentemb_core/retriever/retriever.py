"""A retriever in memory: its spec, its encoders, and what they make of texts and documents."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from sentemb_core.encoder.batching import encode
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.retriever.folder import ROOT, TABLE
from sentemb_core.retriever.scores import Readings
from sentemb_core.retriever.spec import RetrieverSpec
from sentemb_core.retriever.tokens import TokenMap, TokenVectors, read_tokens
from sentemb_core.retriever.vectors import Sides, side_of

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Retriever:
    """Parts and weights, with the encoders by their folder.

    Attributes:
        spec: Parts and weights.
        encoders: By the folder of `spec.vectors`; all have cosine similarity.
        token_map: From token states of the first encoder to token vectors; None without that part.
    """

    spec: RetrieverSpec
    encoders: Mapping[str, Encoder]
    token_map: TokenMap | None = None

    @property
    def dim(self) -> int:
        """Width of a document's vector; 0 for words alone."""
        return sum(encoder.dim for encoder in self.encoders.values())

    def encode_queries(self, texts: Sequence[str]) -> Float32[np.ndarray, "texts dim"]:
        """Return one vector per text; their inner products with documents are cosines."""
        return self.read_texts(texts).side(self.spec).vectors

    def encode_documents(
        self, documents: Sequence[Sequence[str]]
    ) -> Float32[np.ndarray, "documents dim"]:
        """Return one vector per document, given as lists of sentences."""
        return self.read_documents(documents).side(self.spec).vectors

    def read_texts(self, texts: Sequence[str]) -> Readings:
        """Return queries, titles or other texts, each read as one."""
        return self.read_sentences([[text] for text in texts], documents=False)

    def read_documents(
        self, documents: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> Readings:
        """Return documents, given as lists of sentences; token vectors are in int8.

        `progress` is called with the number of sentences that the first encoder has read.
        """
        return self.read_sentences(documents, documents=True, progress=progress)

    def read_sentences(
        self,
        items: Sequence[Sequence[str]],
        *,
        documents: bool,
        progress: Progress | None = None,
    ) -> Readings:
        """Return either side of a search, given as lists of sentences.

        The encoders read them with their prompt of a document or of a query.
        """
        texts = [" ".join(sentences) for sentences in items]
        units = [[text] for text in texts] if self.spec.unit == "text" else items
        starts = np.concatenate([[0], np.cumsum([len(unit) for unit in units])]).astype(np.int64)
        flat = [sentence for unit in units for sentence in unit]
        sides: dict[str, Sides] = {}
        tokens: dict[str, TokenVectors] = {}
        for name, encoder in self.encoders.items():
            sequences = encoder.tokenise(flat, "document" if documents else "query")
            first = not sides
            if first and self.token_map:
                read = read_tokens(
                    encoder, sequences, self.token_map, merged=documents, progress=progress
                )
                vectors = read.vectors
                tokens[name] = TokenVectors(read.tokens.rows, read.tokens.starts[starts])
            else:
                vectors = encode(encoder, sequences, progress=progress if first else None)
            sides[name] = side_of(vectors, starts)
        return Readings(texts, sides, tokens)


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
