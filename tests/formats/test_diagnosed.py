"""The files that frameworks wrote can be looked over like the board's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from board.analysis.findings import diagnose
from board.analysis.step_tokens import read_step
from board.core.tokens.contributions import contributions
from board.index.discovery.discovered_runs import discover
from board.query.open_run import open_run

RUNS = discover(Path(__file__).parent / "data").runs


@pytest.mark.parametrize("info", RUNS, ids=lambda info: info.name)
def test_every_rollout_of_every_format_is_read_again(info) -> None:
    run = open_run(info)
    for row in run.steps.to_dict("records"):
        tokens = read_step(run, int(row["step"]))
        assert tokens.indices.tolist() == run.of_step(int(row["step"]))["index"].tolist()
        for metric in ("k3", "mismatch_kl"):
            if metric in tokens.metric_names and row.get(f"{metric}_n", 0):
                assert contributions(tokens, metric).mean == pytest.approx(row[f"{metric}_mean"])
    assert diagnose(run).rollouts_read == run.rollout_count
