from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from written_logs import native_run

from board.errors import ChoiceError
from board.store.discovery import discover
from board.store.expressed import OWN, own_steps, rows_where
from board.store.run import open_run

ROWS = pd.DataFrame(
    {"reward": [1.0, None, 0.2], "env": pd.Categorical(["a", "b", None]), "odd name": [1, 2, 3]}
)


def test_what_is_not_known_of_a_row_does_not_hold() -> None:
    assert rows_where(ROWS, "reward < 0.5").tolist() == [False, False, True]
    assert rows_where(ROWS, "not reward < 0.5").tolist() == [True, False, False]
    assert rows_where(ROWS, "env == 'a' or missing(env)").tolist() == [True, False, True]
    assert rows_where(ROWS, "col('odd name') > 1").tolist() == [False, True, True]
    assert rows_where(ROWS, "1 == 1").tolist() == [True, True, True]


@pytest.mark.parametrize(
    ("text", "said"),
    [("rewrad > 1", "did you mean reward"), ("env", "texts"), ("().__class__", "is no column")],
)
def test_what_can_t_be_a_filter_is_said(text: str, said: str) -> None:
    with pytest.raises(ChoiceError, match=said):
        rows_where(ROWS, text)


def test_an_own_metric_has_the_mean_and_spread_of_its_rollouts(tmp_path: Path) -> None:
    (info,) = discover(native_run(tmp_path / "run")).runs
    run = open_run(info)
    found = own_steps(run, "reward * 2 - reward")
    assert found[f"{OWN}_mean"].tolist() == pytest.approx(run.steps["reward_mean"].tolist())
    assert found[f"{OWN}_std"].tolist() == pytest.approx(run.steps["reward_std"].tolist())
    share = own_steps(run, "env == 'math'")
    assert share[f"{OWN}_mean"].tolist() == [0.5] * 4
    with pytest.raises(ChoiceError, match="no column"):
        own_steps(run, "nothing")
