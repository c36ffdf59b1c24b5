"""Exported files hold the rollouts that were asked for, in their order, with whole texts."""

from __future__ import annotations

import io

import pandas as pd
import pytest
from written_logs import write_lines

from board.errors import ChoiceError
from board.index.discovery.discovered_runs import discover, location_of
from board.query import export
from board.query.open_run import Follower, Run
from board.query.rollouts import Sorting
from board.views.shared.text import harmless_cell


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """600 rollouts, more than a batch, with texts longer than the index keeps."""
    root = tmp_path_factory.mktemp("export")
    rows = [
        {
            "step": n // 100,
            "prompt": f"=1+{n}",
            "response": "x" * 500 + f" end {n}",
            "reward": None if n == 3 else n / 2,
            "env": "half \ud800" if n == 0 else "math",
        }
        for n in range(600)
    ]
    write_lines(root / "run" / "log.jsonl", rows)
    return Follower().run(discover(location_of(str(root))).runs[0])


def test_csv_has_the_order_and_the_whole_texts_and_no_formula(run: Run) -> None:
    out = io.BytesIO()
    selection = run.where("prompt in ('=1+0', '=1+3', '=1+300', '=1+599')")
    export.write_csv(selection, Sorting("reward", descending=True), out, harmless_cell)
    frame = pd.read_csv(io.BytesIO(out.getvalue()))
    assert frame["response"].str.split().str[-1].tolist() == ["599", "300", "0", "3"]
    assert frame["prompt"].tolist() == ["'=1+599", "'=1+300", "'=1+0", "'=1+3"]
    assert frame["step"].tolist() == [5, 3, 0, 0]
    assert frame["reward"].isna().tolist() == [False, False, False, True]


def test_parquet_has_every_batch_in_one_schema(run: Run) -> None:
    out = io.BytesIO()
    export.write_parquet(run, Sorting(descending=True), out)
    frame = pd.read_parquet(io.BytesIO(out.getvalue()))
    assert len(frame) == 600
    assert frame["response"].str.endswith(" end 599").tolist() == [True] + [False] * 599
    assert frame["prompt"].iloc[0] == "=1+599"
    assert frame["index"].tolist() == [*range(99, -1, -1)] * 6
    assert frame["reward"].isna().sum() == 1


def test_an_export_too_large_for_memory_says_what_to_do(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "LARGEST_BYTES", 10_000)
    with pytest.raises(ChoiceError, match="filter the list"):
        export.write_csv(run, Sorting(), io.BytesIO(), harmless_cell)
