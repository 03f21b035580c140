"""sentemb: use an encoder that lies in a folder, with the core alone."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Group, Parameter

from sentemb_core import console

app = App(
    name="sentemb",
    help="Use a sentence encoder that lies in a folder: encode, search, evaluate, look into it.",
    version_flags=["--version"],
    result_action="return_value",
)
CORPUS = Group("Your corpus")
Column = Annotated[str | None, Parameter(group=CORPUS)]
Json = Annotated[bool, Parameter(name="--json", negative="", help="The result as JSON on stdout.")]


def main() -> None:
    raise SystemExit(console.run(app))


@app.command
def encode(
    model: str,
    source: str,
    out: Path,
    *,
    text_column: Column = None,
    sentences_column: Column = None,
    id_column: Column = None,
    by: Literal["document", "sentence"] = "document",
    json: Json = False,
) -> int:
    """Vectors of a corpus into a Parquet file: doc_id, (position,) embedding.

    Parameters
    ----------
    model
        A folder with an encoder, or minilm.
    source
        JSONL, JSON, CSV, TSV, Parquet, a folder of .txt/.md files, a `datasets` folder or name.
    out
        The Parquet file to write.
    text_column
        Column of running text, to be split into sentences.
    sentences_column
        Column of ready sentence lists.
    id_column
        Column of document ids.
    by
        One vector a document (mean of its sentences) or one a sentence.
    """
    from sentemb_core.retrieval.index import write_vectors

    encoder = _encoder(model)
    with _documents(source, text_column, sentences_column, id_column) as documents:
        rows = write_vectors(encoder, documents, out, by)
    if json:
        console.emit({"out": str(out), "rows": rows, "dim": encoder.dim, "by": by})
    else:
        console.show(f"{rows:,} vectors of {encoder.dim} dimensions, one a {by}: {out}")
    return 0


@app.command
def search(
    model: str,
    query: str,
    source: str,
    *,
    top: int = 10,
    text_column: Column = None,
    sentences_column: Column = None,
    id_column: Column = None,
    json: Json = False,
) -> int:
    """The documents nearest to a query, by exact search.

    Parameters
    ----------
    model
        A folder with an encoder, or minilm.
    query
        What to look for.
    source
        The corpus to look in.
    top
        How many documents to show.
    text_column
        Column of running text, to be split into sentences.
    sentences_column
        Column of ready sentence lists.
    id_column
        Column of document ids.
    """
    from sentemb_core.retrieval.index import nearest_documents

    encoder = _encoder(model)
    with _documents(source, text_column, sentences_column, id_column) as documents:
        hits = nearest_documents(encoder, query, documents, top)
    if json:
        console.emit([hit.__dict__ for hit in hits])
    else:
        console.show(_hits_table(query, hits))
    return 0


@app.command
def evaluate(
    model: str,
    source: str,
    *,
    counterpart_column: Column = None,
    text_column: Column = None,
    sentences_column: Column = None,
    id_column: Column = None,
    candidates: int = 3000,
    json: Json = False,
) -> int:
    """Recall of an encoder on a corpus beside BM25: documents look for their counterparts.

    Parameters
    ----------
    model
        A folder with an encoder, or minilm.
    source
        The corpus.
    counterpart_column
        Title, headline or query of each document; none: halves of documents look for each other.
    text_column
        Column of running text, to be split into sentences.
    sentences_column
        Column of ready sentence lists.
    id_column
        Column of document ids.
    candidates
        Size of the fixed pool.
    """
    from sentemb_core.configs import ValidationConfig
    from sentemb_core.evaluation.folder import scores_of_folder

    encoder = _encoder(model)
    columns = (text_column, sentences_column, id_column, counterpart_column)
    with _documents(source, *columns) as documents:
        scores = scores_of_folder(encoder, documents, ValidationConfig(candidates=candidates))
    if json:
        console.emit({label: row.model_dump() for label, row in scores.items()})
    else:
        console.show(_scores_table(scores))
    return 0


@app.command
def annotate(
    model: str,
    source: str,
    *,
    document: str,
    top_k: int = 1,
    mutual: Annotated[bool, Parameter(negative="")] = False,
    picture: Path | None = None,
    text_column: Column = None,
    sentences_column: Column = None,
    id_column: Column = None,
    json: Json = False,
) -> int:
    """One document's graph and clusters, printed and drawn: what an encoder takes for the same.

    Parameters
    ----------
    model
        A folder with an encoder, or minilm.
    source
        The corpus that holds the document.
    document
        Its id.
    top_k
        Neighbours kept per sentence (Eq. 3 of seed 000).
    mutual
        Keep an edge only if both ends rank the other.
    picture
        A .png or .svg file for the drawing.
    text_column
        Column of running text, to be split into sentences.
    sentences_column
        Column of ready sentence lists.
    id_column
        Column of document ids.
    """
    from sentemb_core.encoder.batching import embed_texts
    from sentemb_core.idc.networks import document_graph, graph_clusters, pruned
    from sentemb_core.report.graph import cluster_table, draw_document
    from sentemb_core.retrieval.index import sentences_of

    encoder = _encoder(model)
    with _documents(source, text_column, sentences_column, id_column) as documents:
        sentences = sentences_of(documents, document)
    graph = pruned(document_graph(embed_texts(encoder, sentences)), top_k, mutual=mutual)
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
def export(model: str, folder: Path, *, json: Json = False) -> int:
    """A checked copy of an encoder, as plain SentenceTransformer(path) and AutoModel load it.

    Parameters
    ----------
    model
        A folder with an encoder, or minilm.
    folder
        The new folder.
    """
    from sentemb_core.encoder.card import CardFacts, model_card
    from sentemb_core.encoder.checkpoint import save_encoder
    from sentemb_core.errors import UsageError

    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty: name a new folder.")
    source = Path(model) / "README.md"
    card = (
        source.read_text("utf-8")
        if source.is_file()
        else model_card(CardFacts(name=model, base=model))
    )
    save_encoder(_encoder(model), folder, card)
    if json:
        console.emit({"folder": str(folder)})
    else:
        console.show(f"Exported: {folder}")
    return 0


@app.command
def methods(*, json: Json = False) -> int:
    """Every training method: what it is and what data it needs."""
    from sentemb_core.methods.catalogue import CATALOGUE

    if json:
        console.emit([{"name": m.name, "needs": m.needs, "what": m.what} for m in CATALOGUE])
        return 0
    from rich.table import Table

    table = Table("method", "needs", "what it takes for positives", box=None)
    for entry in CATALOGUE:
        table.add_row(entry.name, entry.needs, entry.what)
    console.show(table)
    return 0


def _encoder(model: str) -> Any:
    from sentemb_core.configs import EncoderConfig
    from sentemb_core.encoder.checkpoint import load_encoder
    from sentemb_core.encoder.start import start_encoder

    console.log_to_stderr()
    if (Path(model) / "modules.json").is_file():
        return load_encoder(Path(model))
    return start_encoder(EncoderConfig(name=model), None)


@contextmanager
def _documents(
    source: str,
    text_column: str | None,
    sentences_column: str | None,
    id_column: str | None,
    counterpart_column: str | None = None,
) -> Generator[Path, None, None]:
    """The corpus as a folder with documents.parquet, gone when the block ends."""
    from tempfile import TemporaryDirectory

    from sentemb_core.configs import CorpusConfig
    from sentemb_core.corpus.documents import write_documents

    config = CorpusConfig(
        source=source,
        text_column=text_column,
        sentences_column=sentences_column,
        id_column=id_column,
        counterpart_column=counterpart_column,
    )
    with TemporaryDirectory(prefix="sentemb-") as folder:
        write_documents(config, Path(folder))
        yield Path(folder)


def _hits_table(query: str, hits: Any) -> Any:
    from rich.table import Table

    table = Table(
        "rank", "score", "document", "begins", title=f"“{console.plain(query)}”", box=None
    )
    for rank, hit in enumerate(hits, 1):
        table.add_row(
            str(rank), f"{hit.score:.3f}", console.plain(hit.doc_id), console.plain(hit.text)
        )
    return table


def _scores_table(scores: Any) -> Any:
    from rich.table import Table

    table = Table("", "direction", "R@1", "R@5", "R@10", "R@20", "queries", "candidates", box=None)
    for label, row in scores.items():
        for name, way in row.model_dump(exclude={"split"}).items():
            figures = (f"{way[f'recall_at_{k}']:.3f}" for k in (1, 5, 10, 20))
            counts = (f"{way[count]:,}" for count in ("queries", "candidates"))
            table.add_row(label, name.replace("_", " "), *figures, *counts)
    return table


if __name__ == "__main__":
    main()
