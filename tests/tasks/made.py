"""Runs that never were: rows whose artifacts are names alone."""

from sentemb_core.types import ArtifactRef
from tasks.artifacts import EncoderResult, RowKind, RunResult, Texts


def ref(kind: str) -> ArtifactRef:
    return ArtifactRef(kind=kind, digest="1" * 64, size=1)


def row(kind: RowKind, label: str, encoder: str = "model", parent: str = "") -> EncoderResult:
    return EncoderResult(
        kind=kind,
        label=label,
        parent=parent,
        encoder=ref(encoder),
        sentences=ref("sentences"),
        scores=ref(label.replace(" ", "_")),
    )


def training(
    rows: list[EncoderResult], best: int, *, controls: tuple[EncoderResult, ...] = ()
) -> RunResult:
    texts = Texts(documents=ref("d"), validation_pool=ref("b"), sentences=ref("s"))
    return RunResult(
        texts=texts,
        rows=rows,
        controls=list(controls),
        bm25=ref("bm25"),
        random=ref("random"),
        best=best,
    )


ROWS = [
    row("start", "start"),
    row("trained", "after conpono", parent="start"),
    row("round", "round 1", parent="after conpono"),
]
