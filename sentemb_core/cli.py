"""sentemb: use an encoder that lies in a folder, with the core alone."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from sentemb_core import console
from sentemb_core.encoder.names import require_place
from sentemb_core.errors import UsageError
from sentemb_core.options import (
    DEFAULTS,
    By,
    CorpusOptions,
    Index,
    Json,
    Out,
    Picture,
    Source,
    Top,
    to_be_made,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sentemb_core.configs import CorpusConfig
    from sentemb_core.corpus.benchmark import Kind
    from sentemb_core.document_vectors import Hit
    from sentemb_core.evaluation.canary import Comparison
    from sentemb_core.evaluation.retrieval import RetrievalScores

app = console.door(
    "sentemb",
    "Use a sentence encoder that lies in a folder: encode, search, evaluate, look into it.",
)


def in_a_place(_: object, model: str) -> None:
    """Told before torch is loaded."""
    try:
        require_place(model)
    except UsageError as error:
        raise ValueError(error.args[0]) from error


Model = Annotated[
    str,
    Parameter(
        validator=in_a_place, help="A folder with an encoder, minilm, or a Hugging Face name."
    ),
]


def main() -> None:
    raise SystemExit(console.run(app))


@app.command
def encode(
    model: Model,
    source: Source,
    out: Out,
    *,
    by: By = "document",
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Vectors of a corpus into a Parquet file: doc_id, (position, sentence,) embedding."""
    checked = _checked(source, corpus)
    from sentemb_core.document_vectors import write_vectors

    with _encoder(model) as encoder, _documents(checked) as documents:
        rows = write_vectors(encoder, documents, out, by)
    if json:
        console.emit({"out": str(out), "rows": rows, "dim": encoder.dim, "by": by})
    else:
        console.show(f"{rows:,} vectors of {encoder.dim} dimensions, one a {by}: {out}")
    return 0


@app.command
def search(
    model: Model,
    query: Annotated[str, Parameter(help="What to look for.")],
    source: Source,
    *,
    top: Top = 10,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """The documents nearest to a query, by exact search."""
    require_order(query, source)
    checked = _checked(source, corpus)
    from sentemb_core.document_vectors import nearest_documents

    with _encoder(model) as encoder, _documents(checked) as documents:
        hits = nearest_documents(encoder, query, documents, top)
    if json:
        console.emit([hit.__dict__ for hit in hits])
    else:
        console.show(_hits_table(query, hits, corpus.counterpart_column))
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
    checked = _checked(source, corpus)
    from sentemb_core.configs import ValidationConfig
    from sentemb_core.evaluation.folder import scores_of_folder

    with _encoder(model) as encoder, _documents(checked) as documents:
        kind, scores = scores_of_folder(encoder, documents, ValidationConfig(candidates=candidates))
    if json:
        console.emit({label: row.model_dump() for label, row in scores.items()})
    else:
        console.show(_scores_table(kind, scores))
    return 0


@app.command
def annotate(
    model: Model,
    source: Source,
    *,
    document: Annotated[str, Parameter(help="Its id.")],
    top_k: Annotated[
        int,
        Parameter(
            validator=validators.Number(gte=1),
            help="Neighbours kept per sentence (Eq. 3 of seed 000).",
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
    from sentemb_core.corpus.one_document import sentences_of

    sentences = sentences_of(_checked(source, corpus), document)
    from sentemb_core.encoder.batching import embed_texts
    from sentemb_core.idc.networks import document_graph, graph_clusters, pruned
    from sentemb_core.report.graph import cluster_table, draw_document

    with _encoder(model) as encoder:
        vectors = embed_texts(encoder, sentences)
    graph = pruned(document_graph(vectors), top_k, mutual=mutual)
    clusters = graph_clusters(graph)
    if picture:
        draw_document(graph, clusters, sentences, picture)
    if json:
        console.emit({"document": document, "sentences": sentences, "clusters": clusters})
    else:
        console.show(cluster_table(graph, clusters, sentences))
        if picture:
            console.show(f"Drawn: {picture}")
    return 0


@app.command
def canary(model: Model, index: Index, *, json: Json = False) -> int:
    """Whether an index is this encoder's: 64 of its sentences, encoded again (else exit 3)."""
    from sentemb_core.evaluation.sentence_index import check_index

    check_index(index)
    from sentemb_core.evaluation.canary import compare_encoder

    with _encoder(model) as encoder:
        found = compare_encoder(encoder, index)
    return tell_match(found, index, model, json=json)


@app.command
def export(
    model: Model,
    folder: Annotated[Path, Parameter(validator=to_be_made, help="The new folder.")],
    *,
    json: Json = False,
) -> int:
    """A checked copy of an encoder, as plain SentenceTransformer(path) and AutoModel load it."""
    from sentemb_core.encoder.card import CardFacts, model_card
    from sentemb_core.encoder.checkpoint import save_encoder
    from sentemb_core.errors import StorageError

    source = Path(model) / "README.md"
    card = (
        source.read_text("utf-8")
        if source.is_file()
        else model_card(CardFacts(name=model, base=model))
    )
    with _encoder(model) as encoder:
        try:
            save_encoder(encoder, folder, card)
        except OSError as error:
            raise StorageError(
                f"{folder} could not be written: {error.strerror or error}. What is there is not "
                "whole: remove it, and free space or permissions, or name another folder."
            ) from error
    if json:
        console.emit({"folder": str(folder)})
    else:
        console.show(f"Exported: {folder}")
    return 0


@app.command
def methods(*, json: Json = False) -> int:
    """Every training method: what it is, what data it needs, its presets (`--preset`)."""
    from sentemb_core.method_presets import PRESETS, RUN_PRESETS
    from sentemb_core.methods.listing import LISTING

    presets = {
        entry.name: [*PRESETS.get(entry.name, ()), *RUN_PRESETS.get(entry.name, ())]
        for entry in LISTING
    }
    if json:
        console.emit([vars(entry) | {"presets": presets[entry.name]} for entry in LISTING])
        return 0
    from rich.table import Table

    table = Table("method", "needs", "what it takes for positives", "presets", box=None)
    for entry in LISTING:
        table.add_row(entry.name, entry.needs, entry.what, ", ".join(presets[entry.name]))
    console.show(table)
    return 0


def require_order(query: str, source: str) -> None:
    """Before anything is loaded.

    Raises:
        UsageError: query and source stand in each other's place.
    """
    if _is_there(query) and not Path(source).exists():
        raise UsageError(
            f"`search` takes the QUERY and then the SOURCE; found {query!r}, which is a file or a "
            f"folder, as the query, and {source!r}, which is none, as the source: swap them."
        )


def _is_there(text: str) -> bool:
    try:
        return Path(text).exists()
    except OSError:  # longer than a path can be
        return False


def tell_match(found: "Comparison", index: Path, model: str, *, json: bool) -> int:
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


def _checked(source: str, corpus: CorpusOptions) -> "CorpusConfig":
    """How to read the source, whose columns are looked for first: an encoder takes seconds."""
    from sentemb_core.configs import CorpusConfig
    from sentemb_core.corpus.readers import check_source

    config = CorpusConfig.model_validate({"source": source} | corpus.given())
    check_source(config)
    return config


@contextmanager
def _encoder(model: str) -> Generator[Any, None, None]:
    """The encoder; a bad vector in this block is told with its name and its revision."""
    from sentemb_core.encoder.revision import weights_digest
    from sentemb_core.errors import BadEmbeddingError

    encoder = _opened(model)
    try:
        yield encoder
    except BadEmbeddingError as error:
        error.encoder = f"{model} (its weights have SHA-256 {weights_digest(encoder)})"
        raise


def _opened(model: str) -> Any:
    from sentemb_core.configs import EncoderConfig
    from sentemb_core.encoder.checkpoint import load_encoder
    from sentemb_core.encoder.start import start_encoder

    console.log_to_stderr()
    if (Path(model) / "modules.json").is_file():
        return load_encoder(Path(model))
    return start_encoder(EncoderConfig(name=model), None)


@contextmanager
def _documents(source: "CorpusConfig") -> Generator[Path, None, None]:
    """The corpus as a folder with documents.parquet, gone when the block ends.

    What an empty corpus leaves stays: its error names the quarantine.
    """
    from shutil import rmtree
    from tempfile import mkdtemp

    from sentemb_core.corpus.documents import write_documents
    from sentemb_core.errors import EmptyCorpusError

    folder = Path(mkdtemp(prefix="sentemb-"))
    with ExitStack() as at_the_end:
        at_the_end.callback(rmtree, folder)
        try:
            write_documents(source, folder)
        except EmptyCorpusError:
            at_the_end.pop_all()
            raise
        yield folder


def _hits_table(query: str, hits: "Sequence[Hit]", counterpart: str | None) -> Any:
    from rich.table import Column, Table

    whole = Column("document", overflow="fold")  # an id is there to be copied
    named = [counterpart] if counterpart else []
    columns = "rank", "score", whole, *map(console.plain, named), "nearest sentence"
    table = Table(*columns, title=f"“{console.plain(query)}”", box=None)
    for rank, hit in enumerate(hits, 1):
        told = [hit.doc_id, *(hit.counterpart or "" for _ in named), hit.sentence]
        table.add_row(str(rank), f"{hit.score:.3f}", *map(console.plain, told))
    return table


def _scores_table(kind: "Kind", scores: "Mapping[str, RetrievalScores]") -> Any:
    from rich.table import Table

    from sentemb_core.corpus.benchmark import SIDES

    table = Table("", "direction", "R@1", "R@5", "R@10", "R@20", "queries", "candidates", box=None)
    for label, row in scores.items():
        both = row.document_to_counterpart, row.counterpart_to_document
        for sides, scores_of_way in zip((SIDES[kind], SIDES[kind][::-1]), both, strict=True):
            way = scores_of_way.model_dump()
            figures = (f"{way[f'recall_at_{k}']:.3f}" for k in (1, 5, 10, 20))
            counts = (f"{way[count]:,}" for count in ("queries", "candidates"))
            table.add_row(label, " to ".join(sides), *figures, *counts)
    return table


if __name__ == "__main__":
    main()
