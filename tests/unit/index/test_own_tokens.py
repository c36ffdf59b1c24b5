"""An array over the tokens under any name is a metric: mean, maximum, column, filter."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opened_logs import lines
from read_formats import run_at

from exporters import RolloutExporter

NAME = "grad_norm_of_token"


def values_of(run: Any, column: str) -> np.ndarray:
    sql = (
        f"SELECT {run.column(column)} AS v FROM {run.view} WHERE {run.condition} ORDER BY position"
    )
    return run.table(sql)["v"].to_numpy()


numbers = st.lists(
    st.none() | st.floats(-1e3, 1e3, width=32).map(lambda x: round(x, 3)), min_size=3, max_size=3
)


@given(rows=st.lists(numbers, min_size=1, max_size=4), masks=st.booleans())
def test_mean_and_maximum_are_over_the_tokens_in_the_loss_that_have_a_number(
    tmp_path_factory, rows, masks
):
    folder = tmp_path_factory.mktemp("run") / "run"
    loss = np.tile([1, 1, 0] if masks else [1, 1, 1], (len(rows), 1))
    array = np.array([[np.nan if v is None else v for v in row] for row in rows])
    with RolloutExporter(folder, digits=9, mode="sync") as exporter:
        ids = np.arange(3 * len(rows)).reshape(-1, 3)
        fields = {NAME: array, "logprobs": -0.5 * np.ones_like(array) - array.shape[0]}
        exporter.log(1, response_ids=ids, loss_mask=loss, rewards=np.ones(len(rows)), **fields)
    written = [line.get(NAME) for line in lines(exporter, "sample")]
    run = run_at(folder)
    for column, reduce in ((f"{NAME}_mean", np.mean), (f"{NAME}_max", np.max)):
        expected = []
        for row, mask in zip(written, loss, strict=True):
            row = row if isinstance(row, list) else [row] * 3
            known = [v for v, m in zip(row, mask, strict=True) if m and v is not None]
            expected.append(float(reduce(known)) if known else np.nan)
        if np.isfinite(expected).any():
            assert values_of(run, column) == pytest.approx(expected, rel=1e-6, nan_ok=True)
        else:
            assert column not in run.columns


def test_it_is_a_curve_and_a_filter_like_any_other_number(tmp_path):
    folder = tmp_path / "run"
    with RolloutExporter(folder) as exporter:
        for step in range(1, 4):
            array = np.arange(8.0).reshape(2, 4) * step
            exporter.log(step, response_ids=np.ones((2, 4), int), rewards=[0, 1], **{NAME: array})
    run = run_at(folder)
    assert f"{NAME}_mean" in run.metrics
    assert sum(run.where(f"{NAME}_max > 20").counts.values()) == 1
