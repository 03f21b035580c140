"""sentemb: use an encoder in a folder; needs only the core."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sentemb_core import console
from sentemb_core.cli_inputs import (
    checked_source,
    open_documents,
    open_encoder,
    open_retriever,
    require_arguments,
    require_free,
)
from sentemb_core.errors import UsageError
from sentemb_core.formats import counted, in_words
from sentemb_core.options import (
    DEFAULTS,
    Among,
    AtLeastOne,
    By,
    Candidates,
    CorpusOptions,
    Index,
    IndexFolder,
    Json,
    NewFolder,
    NoTexts,
    NotNegative,
    Out,
    Overwrite,
    Parts,
    Picture,
    Queries,
    Query,
    Searched,
    Source,
    Top,
    Update,
)
from sentemb_core.progress import progress
from sentemb_core.store.machine import keep_to_quota
from sentemb_core.types import Map

if TYPE_CHECKING:
    from sentemb_core.evaluation.canary import Match

app = console.command_line(
    "sentemb",
    "Use a sentence encoder in a folder: encode, search, evaluate, inspect.",
)


Model = Annotated[
    str,
    Parameter(
        help="A folder with an encoder, minilm, a Hugging Face name, or a file of word vectors."
    ),
]


Prompt = Annotated[
    str | None,
    Parameter(
        help="Text before each of them ('query: '), the name of a prompt of the encoder's folder, "
        "or none. Default: as the folder states."
    ),
]


MOST_SENTENCES = 200_000
"""Sentences on which a map is fitted: vectors of 768 dimensions take 600 MB."""


def main() -> None:
    keep_to_quota()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no network unless asked
    console.main(app)


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
    """Encode a corpus into a Parquet file, an index for `search`.

    Columns: doc_id, embedding; with a counterpart column also counterpart; by sentence also
    position and sentence.
    """
    require_arguments("MODEL SOURCE", model, source)
    require_free(source, out, overwrite=overwrite)
    checked = checked_source(source, corpus)
    from sentemb_core.document_vectors import write_vectors

    titled = corpus.counterpart_column is not None
    refused = out.with_name(f"{out.name}.quarantine.parquet")
    with open_encoder(model) as encoder, open_documents(checked, refused) as documents:
        rows = write_vectors(encoder, documents, out, by, counterparts=titled)
    value = {"out": str(out), "rows": rows, "dim": encoder.dim, "by": by}
    text = f"{counted(rows, 'vector')} of {counted(encoder.dim, 'dimension')}, one per {by}: {out}"
    return console.print_result(value, text, as_json=json)


@app.command
def index(
    model: Model,
    source: Source,
    folder: IndexFolder | None = None,
    *,
    update: Update = False,
    no_texts: NoTexts = False,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Write the index of a corpus: vectors, words and tokens of a retriever, for `search`.

    `sentemb index SOURCE FOLDER --update` takes the retriever that wrote the index.
    """
    from sentemb_core.cli_search import index_command, updating_model

    if folder is None:  # MODEL is left out
        source, folder = model, Path(source)
        model = updating_model(folder, update=update)
    require_arguments("MODEL SOURCE", model, source)
    return index_command(
        model,
        source,
        folder,
        update=update,
        texts=not no_texts,
        corpus=corpus,
        name=model,
        json=json,
    )


@app.command
def search(
    model: Model,
    query: Query,
    source: Searched = None,
    *,
    queries: Queries = None,
    by: Parts = "hybrid",
    among: Among = None,
    top: Top = 10,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Find the documents that fit a query best, in an index or in a corpus."""
    if source is not None:
        require_arguments("MODEL QUERY SOURCE", model, query, source)
    from sentemb_core.cli_search import search_command

    return search_command(
        model,
        query,
        source,
        queries=queries,
        by=by,
        among=among,
        top=top,
        corpus=corpus,
        json=json,
    )


@app.command
def evaluate(
    model: Model,
    source: Source,
    *,
    candidates: Candidates = 3000,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Recall and MRR of a retriever and of BM25: documents and counterparts look for each other.

    A folder with retriever.json is scored by all its parts, another encoder by the cosine of its
    vectors. Without a counterpart column, the halves of each document look for each other.
    """
    require_arguments("MODEL SOURCE", model, source)
    checked = checked_source(source, corpus)
    from sentemb_core.evaluation.report_card import evaluation_of_folder

    with open_documents(checked) as documents:
        scores = evaluation_of_folder(open_retriever(model), documents, candidates)
    return console.print_result(asdict(scores), str(scores), as_json=json)


@app.command
def annotate(
    model: Model,
    source: Source,
    *,
    document: Annotated[str, Parameter(help="Id of the document.")],
    top_k: Annotated[
        int,
        Parameter(
            validator=AtLeastOne,
            help="Neighbours per sentence (mutual, Eq. 3).",
        ),
    ] = 1,
    mutual: Annotated[
        bool,
        Parameter(help="Keep an edge only if each end is a nearest neighbour of the other."),
    ] = False,
    picture: Picture = None,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Print and draw the graph and the clusters that an encoder finds in one document."""
    require_arguments("MODEL SOURCE", model, source)
    from sentemb_core.corpus.documents import sentences_of

    sentences = sentences_of(checked_source(source, corpus), document)
    from sentemb_core.annotation.longest import require_comparable

    require_comparable(len(sentences))
    from sentemb_core.encoder.batching import embed_texts
    from sentemb_core.encoder.vocabulary import unknown_tokens
    from sentemb_core.report.drawing import lacks_letters
    from sentemb_core.report.graph import (
        MOST_DRAWN,
        MOST_LISTED,
        annotated_document,
        cluster_table,
        draw_document,
    )
    from sentemb_core.store.disk import replacing_in

    if picture and len(sentences) > MOST_DRAWN:
        raise UsageError(
            f"A picture shows at most {MOST_DRAWN:,} sentences, and the document has "
            f"{len(sentences):,}. Leave --picture out, or name a shorter document."
        )
    with open_encoder(model) as encoder, progress("encode sentences", len(sentences)) as update:
        vectors = embed_texts(encoder, sentences, role="sentence", progress=update)
        unknown, tokens = unknown_tokens(encoder.tokenizer, sentences)
    if 2 * unknown >= tokens:
        console.remark(
            f"warning {unknown} of {tokens} tokens of the document are unknown to the encoder: the "
            "clusters are unreliable."
        )
    graph, clusters = annotated_document(vectors, top_k, mutual=mutual)
    if picture:
        with replacing_in(picture.parent) as draft:
            draw_document(graph, clusters, sentences, draft / picture.name)
    value = {"document": document, "sentences": sentences, "clusters": clusters}
    missing = " (? replaces letters that the font lacks)" if lacks_letters(sentences) else ""
    drawn = [f"Drawn: {picture}{missing}"] if picture else []
    listed: list[Any] = [cluster_table(graph, clusters, sentences, MOST_LISTED)]
    if len(sentences) > MOST_LISTED:
        all_of_it = counted(len(set(clusters)), "cluster")
        listed.append(
            f"The first {MOST_LISTED} of {len(sentences):,} sentences, in {all_of_it}; --json has "
            "all."
        )
    return console.print_result(value, *listed, *drawn, as_json=json)


@app.command
def canary(model: Model, index: Index, *, json: Json = False) -> int:
    """Check that an index belongs to this encoder, by 64 of its sentences (else exit 3)."""
    require_arguments("MODEL INDEX", model, str(index))
    from sentemb_core.evaluation.canary import check_index

    check_index(index)
    from sentemb_core.evaluation.canary import match_encoder

    with open_encoder(model) as encoder:
        match = match_encoder(encoder, index)
    return show_match(match, index, model, json=json)


@app.command
def export(
    model: Model,
    folder: NewFolder,
    *,
    max_length: Annotated[
        int | None,
        Parameter(
            validator=AtLeastOne,
            help="Maximum tokens per sentence and per text. Default: as for the encoder here.",
        ),
    ] = None,
    query_prompt: Prompt = None,
    document_prompt: Prompt = None,
    json: Json = False,
) -> int:
    """Export an encoder to a folder that SentenceTransformer and AutoModel load.

    An encoder of another program reads 32 tokens of each sentence (mutual, appendix C) and its own
    maximum of a whole text. --max-length holds for both.
    """
    require_arguments("MODEL", model)
    from sentemb_core.encoder.card import CardFacts, base_of, model_card
    from sentemb_core.encoder.modules import written_by_us
    from sentemb_core.encoder.start import encoder_folder

    given_settings = {"max_length": max_length}
    given_settings |= {"query_prompt": query_prompt, "document_prompt": document_prompt}
    with open_encoder(model, **given_settings) as encoder:
        given, length, whole = encoder_folder(model), encoder.max_length, encoder.text_length
        source = given / "README.md" if given and written_by_us(given) else None
        card = (
            source.read_text("utf-8")
            if source and source.is_file() and max_length is None  # it states the length
            else model_card(
                CardFacts(
                    name=base_of(model),
                    base=base_of(model),
                    max_length=length,
                    text_length=whole,
                )
            )
        )
        _save(encoder, folder, card, given=given)
    text = f"Exported: {folder} (at most {length} tokens of a sentence, {whole} of a whole text)"
    value = {"folder": str(folder), "max_length": length, "text_length": whole}
    return console.print_result(value, text, as_json=json)


@app.command
def postprocess(
    model: Model,
    source: Source,
    folder: NewFolder,
    *,
    by: Annotated[Map, Parameter(help="BERT-whitening, partial whitening, or a small BERT-flow.")],
    keep: Annotated[
        int | None,
        Parameter(
            validator=AtLeastOne,
            help="Dimensions that a whitening keeps. Default: all with variance.",
        ),
    ] = None,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Add a map to an encoder, fitted without gradients on its vectors of a corpus.

    It uses the first 200,000 sentences. The result is an ordinary encoder.
    """
    require_arguments("MODEL SOURCE", model, source)
    if keep is not None and by == "flow":
        raise UsageError("A flow keeps all dimensions. Leave --keep out, or use a whitening.")
    checked, named = checked_source(source, corpus), in_words(by)
    from sentemb_core.corpus.table import first_sentences
    from sentemb_core.encoder.batching import pooled_vectors
    from sentemb_core.encoder.card import CardFacts, base_of, model_card
    from sentemb_core.postprocess.encoder_maps import with_map

    with open_encoder(model) as encoder, open_documents(checked) as documents:
        texts = first_sentences(documents / "documents.parquet", MOST_SENTENCES)
        with progress("encode sentences", len(texts)) as update:
            vectors = pooled_vectors(encoder, encoder.tokenise(texts, "sentence"), progress=update)
        with progress(f"fit the {named}", len(texts)) as update:
            mapped = with_map(encoder, vectors, by, keep=keep, progress=update)
        base = base_of(model)
        card = model_card(CardFacts(name=f"{Path(model).name} with {named}", base=base))
        _save(mapped, folder, card)
    value = {"folder": str(folder), "sentences": len(texts), "dim": mapped.dim}
    sentences = counted(len(texts), "sentence")
    text = f"{counted(mapped.dim, 'dimension')}, fitted on {sentences}: {folder}"
    return console.print_result(value, text, as_json=json)


@app.command
def words(
    source: Source,
    folder: NewFolder,
    *,
    dim: Annotated[int, Parameter(validator=AtLeastOne, help="Dimensions of the vectors.")] = 300,
    seed: Annotated[int, Parameter(validator=NotNegative, help="Seed of all random numbers.")] = 42,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Train word vectors on a corpus (word2vec skip-gram, gensim) and save them as an encoder.

    The vector of a text is the mean of the vectors of its words. All sentences are used, also those
    that a run holds out for validation.
    """
    from sentemb_core.encoder.word_vectors import EPOCHS, gensim_models, trained_word_vectors

    gensim_models()
    checked = checked_source(source, corpus)
    from sentemb_core.corpus.table import first_sentences
    from sentemb_core.encoder.card import CardFacts, model_card
    from sentemb_core.encoder.word_vectors import word_encoder

    with open_documents(checked) as documents:
        texts = first_sentences(documents / "documents.parquet", None)
    with progress("train word vectors", (EPOCHS + 1) * len(texts)) as update:
        vectors = trained_word_vectors(texts, seed, dim=dim, progress=update)
    encoder = word_encoder(vectors, max_length=512)  # whole sentences
    _save(encoder, folder, model_card(CardFacts(name=f"Word vectors of {Path(source).stem}")))
    count = len(vectors.words)
    text = f"Vectors of {counted(count, 'word')}, from {counted(len(texts), 'sentence')}: {folder}"
    value = {"folder": str(folder), "words": count, "dim": dim}
    return console.print_result(value, text, as_json=json)


@app.command
def methods(*, json: Json = False) -> int:
    """List the training methods: what each is, what data it needs, its presets (--preset)."""
    from sentemb_core.config.method_list import JUDGED, needs
    from sentemb_core.config.methods import METHODS
    from sentemb_core.config.presets import PRESETS, RUN_PRESETS
    from sentemb_core.report.terminal import methods_table, untrained_table

    presets = {name: [*PRESETS.get(name, ()), *RUN_PRESETS.get(name, ())] for name in METHODS}
    rows = [
        {
            "name": name,
            "data": method.data,
            "what": method.summary,
            "encoder": method.encoder,
            "pairs_sentences": method.pairs_sentences,
            "needs": needs(method),
            "presets": presets[name],
        }
        for name, method in METHODS.items()
    ]
    texts = methods_table(presets), untrained_table(), JUDGED
    return console.print_result(rows, *texts, as_json=json)


def show_match(match: "Match", index: Path, model: str, *, json: bool) -> int:
    """Print whether an index belongs to a model.

    Raises:
        OtherEncoderError: it belongs to another model.
    """
    from sentemb_core.errors import OtherEncoderError

    if json:
        console.emit({"index": str(index), "model": model} | match.model_dump())
    if not match.same:
        raise OtherEncoderError(
            f"{index} does not belong to {model}. {match.reason} Use the encoder that wrote it, or "
            "encode the documents again."
        )
    if not json:
        console.show(f"{index} belongs to {model}. {match.reason}")
    return 0


def _save(encoder: Any, folder: Path, card: str, given: Path | None = None) -> None:
    """Write an encoder's folder, with the Condenser head of the `given` folder, if it has one.

    Raises:
        StorageError: the disk is full, or the folder is not writable.
    """
    from sentemb_core.encoder.checkpoint import save_encoder
    from sentemb_core.errors import StorageError

    try:
        save_encoder(encoder, folder, card, head_from=given)
    except OSError as error:
        raise StorageError(
            f"Cannot write {folder}: {error.strerror or error}. Remove the incomplete folder, and "
            "free space or change permissions, or name another folder."
        ) from error


if __name__ == "__main__":
    main()
