"""The code of docs/python.md and of the notebook runs, and its vectors are those of a retriever."""

import json
import re

import numpy as np
import pytest

from tests.repository import ROOT
from tests.retriever import made

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_code_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    retriever = made.retriever()
    retriever.save("news-retriever")
    rows = [
        {"id": f"a{k}", "text": " ".join(each.sentences), "title": each.counterpart}
        for k, each in enumerate(made.documents(20))
    ]
    (tmp_path / "documents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    names: dict = {}
    for block in BLOCK.findall((ROOT / "docs/python.md").read_text("utf-8")):
        exec(block, names)
    assert (names["changes"].encoded, len(names["index"])) == (0, 20)
    assert len(names["hits"]) == 10
    assert {hit.doc_id for hits in names["many"] for hit in hits} == {"a1", "a2"}
    sentences = ["w5 w6 w7", "w20", "w21 w22 w23"]
    (expected,) = retriever.encode_documents([sentences])
    assert names["document_vector"]("news-retriever", sentences) == pytest.approx(
        expected, abs=1e-5
    )
    assert np.linalg.norm(expected) == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
@pytest.mark.weights
def test_the_notebook_runs(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(ROOT / "docs")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = json.loads((ROOT / "docs/retriever.ipynb").read_text("utf-8"))
    names: dict = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
            shown = "".join(text for output in cell["outputs"] for text in output["text"])
            assert bool(capsys.readouterr().out) == bool(shown)
    gain = names["scores"].gains["counterpart to document"]["MRR@10"]
    assert gain.mean > 0
