"""The files that frameworks wrote can be looked over like the board's own."""

import pytest
from read_formats import ONE_OF_EACH, REAL_RUNS, real_run

from board.analysis.findings import diagnose
from board.analysis.step_tokens import read_step
from board.core.tokens.contributions import contributions
from board.formats import READERS


def test_every_reader_has_files_that_its_framework_wrote():
    read = {file.reader for info in REAL_RUNS for file in info.files}
    # Tables and transitions of nobody's framework are read by the names of their keys.
    assert {name for name in read if not name.startswith("mapping:")} == {r.name for r in READERS}


@pytest.mark.parametrize("info", ONE_OF_EACH, ids=lambda info: info.name)
def test_every_rollout_of_every_format_is_read_again(info):
    run = real_run(info)
    for row in run.steps.to_dict("records"):
        tokens = read_step(run, int(row["step"]))
        assert tokens.indices.tolist() == run.of_step(int(row["step"]))["index"].tolist()
        for metric in ("k1", "k3", "mismatch_kl", "entropy"):
            if metric in tokens.metric_names and row.get(f"{metric}_n", 0):
                result = contributions(tokens, metric)
                assert result.mean == pytest.approx(row[f"{metric}_mean"], rel=1e-9)
                assert result.rollouts == row[f"{metric}_n"]
    assert diagnose(run).rollouts_read == run.rollout_count
