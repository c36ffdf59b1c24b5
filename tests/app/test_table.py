"""What sorting, filters and reading options do to the table and to the numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shown import OpenApp, assert_sound, choice, go_to, query, table, texts
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import NumberInput
from written_logs import write_lines

SAMPLES = Path(__file__).parents[2] / "rollout_samples"


def limit(app: AppTest, label: str) -> NumberInput:
    """The first field of that name among the range filters."""
    return next(field for field in app.number_input if field.label == label)


@pytest.mark.parametrize("descending", [False, True])
def test_sorting_orders_all_rows_in_scope(open_app: OpenApp, logs: Path, descending: bool) -> None:
    app = open_app(
        logs, "rollouts", run="native", scope="run", sort="reward", desc=f"{descending:d}"
    )
    rewards = table(app)["reward"].tolist()
    assert len(rewards) == 32
    assert rewards == sorted(rewards, reverse=descending)


def test_rows_without_a_value_sort_last_either_way(open_app: OpenApp, tmp_path: Path) -> None:
    rows = [{"step": 0, "prompt": "p", "reward": r} for r in (None, 2.0, 1.0)]
    write_lines(tmp_path / "run" / "x.jsonl", rows)
    for desc, order in (("0", [2, 1, 0]), ("1", [1, 2, 0])):
        app = open_app(tmp_path, "rollouts", sort="reward", desc=desc)
        assert table(app)["index"].tolist() == order


def test_where_groups_are_too_many_to_list_a_line_says_how_to_filter(
    open_app: OpenApp, tmp_path: Path
) -> None:
    rows = [{"step": n // 1024, "group_id": f"g{n // 2}", "reward": 1.0} for n in range(4100)]
    write_lines(tmp_path / "run" / "x.jsonl", rows)
    app = open_app(tmp_path, "rollouts", scope="run", where='group_id == "g7"')
    assert any('group_id == "NAME"' in caption.value for caption in app.caption)
    assert "Group" not in [field.label for field in app.multiselect]
    assert table(app)["index"].tolist() == [14, 15]


@pytest.mark.parametrize(
    ("filters", "indices"),
    [
        ({"env": "code"}, [1, 3, 5, 7]),
        ({"finish": "length"}, [3, 7]),
        ({"group": "group 1"}, [2, 3, 6, 7]),
        ({"group": "group 1", "env": "math"}, [2, 6]),
        ({"q": "x<y"}, [1, 3, 5, 7]),
        ({"q": "(10/1/"}, [4, 5, 6, 7]),
        ({"q": "WHAT IS 2+3"}, [3, 7]),
        ({"range": "reward:1.05..1.25"}, [4, 5]),
        ({"range": "reward:..0.15"}, [0]),
        ({"range": "reward:1.0..", "env": "code", "q": "__init__"}, []),
        ({"range": "reward:0.2..0.4"}, [1, 2, 3]),
    ],
)
def test_filters_keep_the_rows_that_meet_all_of_them(
    open_app: OpenApp, logs: Path, filters: dict[str, str], indices: list[int]
) -> None:
    app = open_app(logs, "rollouts", run="native", step="10", **filters)
    assert_sound(app)
    assert f"{len(indices)} of 8 rollouts at step 10" in texts(app)
    if indices:
        assert table(app)["index"].tolist() == indices
    else:
        assert "No rollout passes the search and the filters." in texts(app)
        next(b for b in app.button if b.label.startswith("Clear")).click().run()
        assert len(table(app)) == 8
        assert set(query(app)) == {"run", "step"}


def test_a_range_leaves_out_rollouts_without_a_value(open_app: OpenApp, tmp_path: Path) -> None:
    rows = [{"step": 0, "prompt": "p", "reward": r} for r in (None, -2.0, 1.0)]
    write_lines(tmp_path / "run" / "x.jsonl", rows)
    app = open_app(tmp_path, "rollouts", range="reward:-5..5")
    assert table(app)["index"].tolist() == [1, 2]


def test_a_range_is_set_and_taken_back_in_its_fields(open_app: OpenApp, logs: Path) -> None:
    app = open_app(logs, "rollouts", run="native", step="10")
    picker = next(m for m in app.multiselect if m.label == "Columns")
    picker.set_value(["reward"]).run()
    limit(app, "at least").set_value(1.0).run()
    assert_sound(app)
    assert query(app)["range"] == "reward:1.0.."
    assert table(app)["index"].tolist() == [4, 5, 6, 7]
    limit(app, "at most").set_value(1.25).run()
    assert table(app)["index"].tolist() == [4, 5]
    next(m for m in app.multiselect if m.label == "Columns").set_value([]).run()
    assert "range" not in query(app)
    assert len(table(app)) == 8


def test_the_search_reads_the_whole_text_not_the_preview(open_app: OpenApp, tmp_path: Path) -> None:
    rows = [{"step": 0, "prompt": "p", "response": "a" * 5000 + end} for end in ("left", "right")]
    write_lines(tmp_path / "run" / "x.jsonl", rows)
    app = open_app(tmp_path, "rollouts", q="RIGHT")
    assert table(app)["index"].tolist() == [1]


def test_the_column_picker_decides_what_is_shown(open_app: OpenApp, logs: Path) -> None:
    app = open_app(logs, "rollouts", run="native")
    assert "grad_norm" not in table(app)
    app.multiselect(key="cols").set_value(["grad_norm", "reward"]).run()
    assert list(table(app).columns) == ["grad_norm", "reward"]


@pytest.mark.parametrize("run", ["grpo_arithmetic", "ppo_critic"])
def test_the_usual_columns_fit_beside_each_other(open_app: OpenApp, run: str) -> None:
    app = open_app(SAMPLES, "rollouts", run=run)
    told = json.loads(app.dataframe[0].proto.columns)
    shown = list(table(app).columns)
    assert 1080 <= sum(told[name]["width"] for name in shown) <= 1090
    assert {"reward", "k3_mean", "response_tokens", "response"} <= set(shown)


def test_environments_that_differ_in_their_ends_are_told_apart(
    open_app: OpenApp, tmp_path: Path
) -> None:
    envs = [f"company/environments/arithmetic-{n}" for n in (1, 2)]
    write_lines(
        tmp_path / "run" / "x.jsonl", [{"step": 0, "response": "r", "env": e} for e in envs]
    )
    told = json.loads(open_app(tmp_path, "rollouts").dataframe[0].proto.columns)
    assert told["env"]["width"] >= 6 * len(envs[0])


def test_reward_parts_stand_beside_the_reward(open_app: OpenApp, logs: Path) -> None:
    columns = list(table(open_app(logs, "rollouts", run="native")).columns)
    place = columns.index("reward")
    assert columns[place + 1 : place + 3] == ["rewards.correct", "rewards.format"]


def test_the_cap_is_kept_in_table_and_curves_and_told(open_app: OpenApp, logs: Path) -> None:
    app = open_app(logs, run="native", step="10", cap="2")
    assert float(app.metric[0].value) == pytest.approx((0.1 + 0.2) / 2)
    assert "24 rollouts beyond the cap" in texts(app)
    go_to(app, "rollouts")
    assert table(app)["index"].tolist() == [0, 1]
    app.number_input(key="cap").set_value(0).run()
    assert len(table(app)) == 8


def test_padding_adds_neither_length_nor_kl_and_is_counted(open_app: OpenApp, logs: Path) -> None:
    app = open_app(logs, "rollouts", run="rllb", step="1")
    assert set(table(app)["response_tokens"]) == {3}
    assert "27 padding tokens left out" in texts(app)
    app.text_input(key="pads").set_value("").run()
    assert set(table(app)["response_tokens"]) == {6}
    assert "padding tokens" not in texts(app)


def test_the_system_prompt_ends_at_the_marker(open_app: OpenApp, logs: Path) -> None:
    app = open_app(logs, "rollout", run="native", step="10")
    assert app.code[0].value == "You are terse. END What is 2+0?"
    app.text_input(key="sysend").set_value("END ").run()
    assert app.code[0].value == "What is 2+0?"


def test_a_click_on_a_row_opens_that_rollout_also_when_sorted(
    open_app: OpenApp, logs: Path
) -> None:
    app = open_app(logs, "rollouts", run="native", step="10", sort="reward", desc="1")
    first = int(table(app)["index"].iloc[0])
    app.session_state[app.dataframe[0].key] = {
        "selection": {"rows": [], "columns": [], "cells": [(0, "reward")]}
    }
    app.run()
    assert_sound(app)
    assert choice(app, "index") == first == 7
    assert any("Rollout 7" in m.value for m in app.markdown)


def test_previous_and_next_stay_within_the_step(open_app: OpenApp, logs: Path) -> None:
    app = open_app(logs, "rollout", run="native", step="10", index="6", token="2")
    buttons = {b.label: b for b in app.button}
    buttons["Next"].click().run()
    assert (choice(app, "index"), choice(app, "token")) == (7, None)
    buttons = {b.label: b for b in app.button}
    assert buttons["Next"].disabled
    buttons["Previous"].click().run()
    assert choice(app, "index") == 6


def _name_of(label: str) -> str:
    """What a card is called, without the unit that it names beside."""
    return label.replace("\\", "").partition(" :gray[")[0]


def test_the_kl_estimator_chosen_is_the_one_on_the_card(open_app: OpenApp, logs: Path) -> None:
    app = open_app(logs, run="rllb")
    labels = [_name_of(m.label) for m in app.metric]
    assert "KL(policy‖ref), k3" in labels
    app = open_app(logs, run="rllb", kl="k1")
    values = {_name_of(m.label): m.value for m in app.metric}
    assert float(values["KL(policy‖ref), k1"]) == pytest.approx(0.1)
    assert "KL(policy‖ref), k3" not in values


def test_a_metric_is_never_called_kl_or_ratio_alone(open_app: OpenApp, logs: Path) -> None:
    app = open_app(logs, run="native")
    labels = [_name_of(m.label).lower() for m in app.metric] + [
        m.value.lower() for m in app.markdown
    ]
    assert not {"kl", "ratio", "**kl**", "**ratio**"} & set(labels)
