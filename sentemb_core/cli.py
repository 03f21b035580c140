"""sentemb: use an encoder that lies in a folder, with the core alone."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from sentemb_core import console
from sentemb_core.cli_arguments import require_free, require_places
from sentemb_core.cli_inputs import checked_source, documents_of, opened_encoder
from sentemb_core.errors import UsageError
from sentemb_core.formats import counted, in_words
from sentemb_core.options import (
    DEFAULTS,
    By,
    CorpusOptions,
    Index,
    Json,
    NewFolder,
    Out,
    Overwrite,
    Picture,
    Searched,
    Source,
    Top,
)
from sentemb_core.store.machine import keep_to_quota
from sentemb_core.types import Map

if TYPE_CHECKING:
    from sentemb_core.document_vectors import Hit
    from sentemb_core.evaluation.canary import Match

app = console.command_line(
    "sentemb",
    "Use a sentence encoder that lies in a folder: encode, search, evaluate, look into it.",
)


Model = Annotated[
    str,
    Parameter(
        help="A folder with an encoder, minilm, a Hugging Face name, or a file of word vectors."
    ),
]


MOST_SENTENCES = 200_000
"""That a map is fitted on: their vectors of 768 dimensions take 600 MB."""


def main() -> None:
    keep_to_quota()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no network unless asked, as `flows`
    raise SystemExit(console.run(app))


@app.command
def encode(
    model: Model,
    source: Source,
    out: Out,
    *,
    by: By = "document",
    overwrite: Overwrite = False,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Vectors of a corpus into a Parquet file, an index that `search` reads.

    Its columns: doc_id, (the counterpart,) (position, sentence,) embedding.
    """
    require_places("MODEL SOURCE", model, source)
    require_free(source, out, overwrite=overwrite)
    checked = checked_source(source, corpus)
    from sentemb_core.document_vectors import write_vectors

    titled = corpus.counterpart_column is not None
    refused = out.with_name(f"{out.name}.quarantine.parquet")
    with opened_encoder(model) as encoder, documents_of(checked, refused) as documents:
        rows = write_vectors(encoder, documents, out, by, counterparts=titled)
    if json:
        console.emit({"out": str(out), "rows": rows, "dim": encoder.dim, "by": by})
    else:
        vectors, width = counted(rows, "vector"), counted(encoder.dim, "dimension")
        console.show(f"{vectors} of {width}, one a {by}: {out}")
    return 0


@app.command
def search(
    model: Model,
    query: Annotated[str, Parameter(help="What to look for.")],
    source: Searched,
    *,
    top: Top = 10,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """The documents nearest to a query, by exact search of a corpus or of its index."""
    require_places("MODEL QUERY SOURCE", model, query, source)
    from sentemb_core.vector_index import is_index

    find = _found_in_index if is_index(source) else _found_in_corpus
    hits = find(model, query, source, top, corpus)
    if json:
        console.emit([hit.__dict__ for hit in hits])
    else:
        from sentemb_core.report.terminal import hits_table

        console.show(hits_table(query, hits, corpus.counterpart_column or "counterpart"))
    return 0


@app.command
def evaluate(
    model: Model,
    source: Source,
    *,
    candidates: Annotated[
        int, Parameter(validator=validators.Number(gte=2), help="Size of the fixed pool.")
    ] = 3000,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Recall of an encoder on a corpus beside BM25: documents look for their counterparts.

    Without a column of counterparts, halves of documents look for each other.
    """
    require_places("MODEL SOURCE", model, source)
    checked = checked_source(source, corpus)
    from sentemb_core.config.run import ValidationConfig
    from sentemb_core.evaluation.folder_scores import scores_of_folder

    with opened_encoder(model) as encoder, documents_of(checked) as documents:
        found = scores_of_folder(encoder, documents, ValidationConfig(candidates=candidates))
    if json:
        told = {label: row.model_dump() for label, row in found.systems.items()}
        console.emit({**told, "recall_at_5_less_bm25": asdict(found.lead)})
    else:
        from sentemb_core.report.terminal import less_bm25_told, scores_table

        table = scores_table(found.kind, found.systems)
        console.show(table, less_bm25_told(found.kind, found.lead))
    return 0


@app.command
def annotate(
    model: Model,
    source: Source,
    *,
    document: Annotated[str, Parameter(help="Id of the document.")],
    top_k: Annotated[
        int,
        Parameter(
            validator=validators.Number(gte=1),
            help="Neighbours kept per sentence (Eq. 3 of mutual).",
        ),
    ] = 1,
    mutual: Annotated[
        bool, Parameter(negative="", help="Keep an edge only if both ends rank the other.")
    ] = False,
    picture: Picture = None,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """One document's graph and clusters, printed and drawn: what an encoder takes for the same."""
    require_places("MODEL SOURCE", model, source)
    from sentemb_core.corpus.documents import sentences_of

    sentences = sentences_of(checked_source(source, corpus), document)
    from sentemb_core.encoder.batching import embed_texts
    from sentemb_core.encoder.vocabulary import unknown_tokens
    from sentemb_core.report.drawing import lacks_letters
    from sentemb_core.report.graph import annotated_document, cluster_table, draw_document
    from sentemb_core.store.disk import replacing_in

    with opened_encoder(model) as encoder:
        vectors = embed_texts(encoder, sentences)
        unknown, tokens = unknown_tokens(encoder.tokenizer, sentences)
    if 2 * unknown >= tokens:
        console.remark(
            f"warning {unknown} of {tokens} tokens of the document are unknown to the encoder: its "
            "clusters say little."
        )
    graph, clusters = annotated_document(vectors, top_k, mutual=mutual)
    if picture:
        with replacing_in(picture.parent) as draft:
            draw_document(graph, clusters, sentences, draft / picture.name)
    if json:
        console.emit({"document": document, "sentences": sentences, "clusters": clusters})
    else:
        console.show(cluster_table(graph, clusters, sentences))
        if picture:
            missing = "? stands for letters that its font lacks"
            console.show(f"Drawn: {picture}{f' ({missing})' if lacks_letters(sentences) else ''}")
    return 0


@app.command
def canary(model: Model, index: Index, *, json: Json = False) -> int:
    """Whether an index is this encoder's: 64 of its sentences, encoded again (else exit 3)."""
    require_places("MODEL INDEX", model, str(index))
    from sentemb_core.evaluation.canary import check_index

    check_index(index)
    from sentemb_core.evaluation.canary import match_encoder

    with opened_encoder(model) as encoder:
        found = match_encoder(encoder, index)
    return show_match(found, index, model, json=json)


@app.command
def export(
    model: Model,
    folder: NewFolder,
    *,
    max_length: Annotated[
        int | None,
        Parameter(
            validator=validators.Number(gte=1),
            help="Tokens that it reads of a text. Default: as many as the encoder does here.",
        ),
    ] = None,
    json: Json = False,
) -> int:
    """A checked copy of an encoder, as plain SentenceTransformer(path) and AutoModel load it.

    One that sentemb did not make reads 32 tokens in every verb here, unless it is exported with
    more (`--max-length`).
    """
    require_places("MODEL", model)
    from sentemb_core.encoder.card import CardFacts, base_of, model_card
    from sentemb_core.encoder.modules import written_by_us
    from sentemb_core.encoder.start import encoder_folder

    with opened_encoder(model, max_length) as encoder:
        given, length = encoder_folder(model), encoder.max_length
        source = given / "README.md" if given and written_by_us(given) else None
        card = (
            source.read_text("utf-8")
            if source and source.is_file() and max_length is None  # it tells the length
            else model_card(CardFacts(name=base_of(model), base=base_of(model), max_length=length))
        )
        _save(encoder, folder, card, given=given)
    if json:
        console.emit({"folder": str(folder), "max_length": length})
    else:
        console.show(f"Exported: {folder} (reads {length} tokens of a text)")
    return 0


@app.command
def postprocess(
    model: Model,
    source: Source,
    folder: NewFolder,
    *,
    by: Annotated[
        Map, Parameter(help="BERT-whitening, one that stops half way, or a small BERT-flow.")
    ],
    keep: Annotated[
        int | None,
        Parameter(
            validator=validators.Number(gte=1),
            help="Dimensions that a whitening keeps. Default: all in which the vectors vary.",
        ),
    ] = None,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """An encoder behind a map that is fitted on its own vectors of a corpus, without a gradient.

    The first 200,000 sentences are read. What comes out is an encoder like any other.
    """
    require_places("MODEL SOURCE", model, source)
    if keep is not None and by == "flow":
        raise UsageError("A flow keeps every dimension: leave --keep out, or take a whitening.")
    checked, named = checked_source(source, corpus), in_words(by)
    from sentemb_core.corpus.table import first_sentences
    from sentemb_core.encoder.batching import pooled_vectors
    from sentemb_core.encoder.card import CardFacts, base_of, model_card
    from sentemb_core.postprocess.finished import behind_map
    from sentemb_core.progress import progress

    with opened_encoder(model) as encoder, documents_of(checked) as documents:
        read = first_sentences(documents / "documents.parquet", MOST_SENTENCES)
        with progress("encode sentences", len(read)) as update:
            vectors = pooled_vectors(encoder, encoder.tokenise(read), progress=update)
        with progress(f"fit the {named}", len(read)) as update:
            made = behind_map(encoder, vectors, by, keep=keep, progress=update)
        base = base_of(model)
        card = model_card(CardFacts(name=f"{Path(model).name} behind a {named}", base=base))
        _save(made, folder, card)
    if json:
        console.emit({"folder": str(folder), "sentences": len(read), "dim": made.dim})
    else:
        width, sentences = counted(made.dim, "dimension"), counted(len(read), "sentence")
        console.show(f"{width}, fitted on {sentences}: {folder}")
    return 0


@app.command
def words(
    source: Source,
    folder: NewFolder,
    *,
    dim: Annotated[
        int, Parameter(validator=validators.Number(gte=1), help="Dimensions of a vector.")
    ] = 300,
    seed: Annotated[
        int, Parameter(validator=validators.Number(gte=0), help="Of all that is drawn.")
    ] = 42,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """An encoder of word vectors that are learnt from a corpus: word2vec's skip-gram, by gensim.

    A text is the mean of the vectors of its words. All sentences are read, those too that a run
    would hold out to judge. What comes out is an encoder like any other.
    """
    from sentemb_core.encoder.word_training import EPOCHS, gensim_models, trained_word_vectors

    gensim_models()
    checked = checked_source(source, corpus)
    from sentemb_core.corpus.table import first_sentences
    from sentemb_core.encoder.card import CardFacts, model_card
    from sentemb_core.encoder.word_vectors import word_encoder
    from sentemb_core.progress import progress

    with documents_of(checked) as documents:
        texts = first_sentences(documents / "documents.parquet", None)
    with progress("learn word vectors", (EPOCHS + 1) * len(texts)) as update:
        vectors = trained_word_vectors(texts, seed, dim=dim, progress=update)
    encoder = word_encoder(vectors, max_length=512)  # whole sentences
    _save(encoder, folder, model_card(CardFacts(name=f"Word vectors of {Path(source).stem}")))
    if json:
        console.emit({"folder": str(folder), "words": len(vectors.words), "dim": dim})
    else:
        found, of = counted(len(vectors.words), "word"), counted(len(texts), "sentence")
        console.show(f"Vectors of {found}, learnt from {of}: {folder}")
    return 0


@app.command
def methods(*, json: Json = False) -> int:
    """Every training method: what it is, what data it needs, its presets (`--preset`)."""
    from sentemb_core.config.presets import PRESETS, RUN_PRESETS
    from sentemb_core.methods.listing import JUDGED, LISTING

    presets = {
        entry.name: [*PRESETS.get(entry.name, ()), *RUN_PRESETS.get(entry.name, ())]
        for entry in LISTING
    }
    if json:
        console.emit(
            [vars(one) | {"needs": one.needs, "presets": presets[one.name]} for one in LISTING]
        )
        return 0
    from sentemb_core.report.terminal import methods_table, untrained_table

    console.show(methods_table(presets), untrained_table(), JUDGED)
    return 0


def show_match(found: "Match", index: Path, model: str, *, json: bool) -> int:
    """Print whether an index is a model's.

    Raises:
        OtherEncoderError: it is another one's.
    """
    from sentemb_core.errors import OtherEncoderError

    if json:
        console.emit({"index": str(index), "model": model} | found.model_dump())
    if not found.same:
        raise OtherEncoderError(
            f"{index} is not of {model}. {found.reason} Search it with the encoder that wrote it, "
            "or encode it anew."
        )
    if not json:
        console.show(f"{index} is of {model}. {found.reason}")
    return 0


def _save(encoder: Any, folder: Path, card: str, given: Path | None = None) -> None:
    """Write an encoder's folder, with the Condenser's head that lies in the `given` one, if any.

    Raises:
        StorageError: E601, the disk refuses.
    """
    from sentemb_core.encoder.checkpoint import save_encoder
    from sentemb_core.errors import StorageError

    try:
        save_encoder(encoder, folder, card, head_from=given)
    except OSError as error:
        raise StorageError(
            f"{folder} could not be written: {error.strerror or error}. What is there is not "
            "whole: remove it, and free space or permissions, or name another folder."
        ) from error


def _found_in_corpus(
    model: str, query: str, source: str, top: int, corpus: CorpusOptions
) -> "list[Hit]":
    """Everything is encoded for one query."""
    checked = checked_source(source, corpus)
    from sentemb_core.document_vectors import encoded, nearest_documents, query_vector

    with opened_encoder(model) as encoder, documents_of(checked) as documents:
        asked = query_vector(encoder, query)
        return nearest_documents(asked, encoded(encoder, documents), top)


def _found_in_index(
    model: str, query: str, source: str, top: int, corpus: CorpusOptions
) -> "list[Hit]":
    """The query alone is encoded.

    Raises:
        UsageError: columns are named, as of a corpus.
        OtherEncoderError: another encoder wrote the index.
    """
    if options := [f"--{name.replace('_', '-')}" for name in corpus.given()]:
        raise UsageError(
            f"{source} is an index, which takes no {', '.join(options)}: `encode` read its corpus "
            "(with --counterpart-column it keeps these, and they are shown). Leave out what says "
            "how a corpus is read."
        )
    from sentemb_core.document_vectors import indexed, nearest_documents, query_vector
    from sentemb_core.encoder.checkpoint import encoder_digest
    from sentemb_core.vector_index import require_writer

    with opened_encoder(model) as encoder:
        require_writer(Path(source), encoder_digest(encoder))
        asked = query_vector(encoder, query)
        return nearest_documents(asked, indexed(encoder, Path(source)), top)


if __name__ == "__main__":
    main()
