"""The notebook of the documents runs from its first cell to its last, and is kept without outputs."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

PROJECT = Path(__file__).parents[2]
NOTEBOOK = PROJECT / "docs" / "notebook.ipynb"


def test_the_notebook_runs_and_each_of_its_cells_shows_something():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
    place = {"metadata": {"path": str(PROJECT)}}
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3", resources=place).execute()
    assert all(cell.outputs for cell in cells)
    texts = {output.data["text/plain"] for output in cells[-2].outputs}
    assert any("k3" in text and "ref_logprobs" in text for text in texts)
