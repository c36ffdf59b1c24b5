import numpy as np
import pandas as pd
import pytest

from board.charts.curve_data import MAX_POINTS
from board.charts.layout import notes_of
from board.charts.step_charts import (
    gap_to_reference,
    reward_by_rollout,
    reward_distribution,
)

NAN = float("nan")


def frame(reward: list[float], reference: list[float] | None = None) -> pd.DataFrame:
    rollouts = pd.DataFrame({"index": range(len(reward)), "reward": np.array(reward, float)})
    if reference is not None:
        rollouts["ref_reward"] = np.array(reference, float)
        rollouts["reward_gap"] = rollouts["reward"] - rollouts["ref_reward"]
    return rollouts


@pytest.mark.parametrize("chart", [reward_by_rollout, gap_to_reference, reward_distribution])
@pytest.mark.parametrize("rollouts", [frame([]), frame([NAN, NAN]), pd.DataFrame({"index": [0]})])
def test_a_step_without_what_a_chart_needs_has_no_chart(chart, rollouts):
    assert chart(rollouts, dark=False) is None


def test_gap_needs_a_reference():
    assert gap_to_reference(frame([1.0]), dark=True) is None


def test_few_rollouts_are_numbered_once_each():
    assert reward_by_rollout(frame([1.0, 0.0, 1.0]), dark=False).layout.xaxis.dtick == 1
    assert reward_by_rollout(frame([1.0] * 40), dark=False).layout.xaxis.dtick is None


def test_reward_by_rollout_has_a_point_at_each_index_zero_included():
    figure = reward_by_rollout(frame([1.0, 0.0, NAN]), dark=False)
    (points,) = figure.data
    assert list(points.x) == [0, 1, 2]
    np.testing.assert_array_equal(points.y, [1.0, 0.0, NAN])
    assert list(points.customdata) == [0, 1, 2]
    assert points.name == "Reward, mean 0.5"


def test_rewards_are_joined_to_references_only_where_both_are_recorded():
    figure = reward_by_rollout(frame([1.0, 2.0, NAN], [0.5, NAN, 0.5]), dark=False)
    links, reference, reward = figure.data
    np.testing.assert_array_equal(links.y, [0.5, 1.0, NAN])
    np.testing.assert_array_equal(reference.y[::3], [0.5, NAN, 0.5])
    np.testing.assert_array_equal(reward.y, [1.0, 2.0, NAN])


def test_many_rollouts_keep_extremes_and_say_so():
    rewards = np.zeros(8000)
    rewards[4567], rewards[123] = 9, -9
    figure = reward_by_rollout(frame(rewards.tolist()), dark=False, selected_index=777)
    assert {123, 777, 4567} <= set(figure.data[0].x)
    assert len(figure.data[0].x) <= MAX_POINTS + 3
    assert "8,000 rollouts" in notes_of(figure)[0]


def test_gaps_are_sorted_and_missing_ones_left_out():
    figure = gap_to_reference(frame([1.0, 0.0, 5.0, 2.0], [0.0, 3.0, NAN, 2.0]), dark=False)
    below, above, rollouts = figure.data
    assert (min(below.y), max(above.y)) == (-3.0, 1.0)
    assert list(rollouts.y) == [-3.0, 0.0, 1.0]
    assert list(rollouts.customdata) == [1, 3, 0]
    assert figure.layout.xaxis.title.text == "1 above the reference, 1 below, 1 equal"


def test_many_gaps_keep_the_largest_and_the_smallest():
    rewards = np.arange(8000.0)
    figure = gap_to_reference(frame(rewards.tolist(), [0.0] * 8000), dark=False)
    assert (figure.data[2].y[0], figure.data[2].y[-1]) == (0, 7999)
    assert len(figure.data[2].y) == MAX_POINTS
    assert notes_of(figure)


def test_distribution_counts_every_recorded_reward_once_in_shared_bins():
    values = np.random.default_rng(0).normal(size=300)
    reference = np.where(np.arange(300) % 3, values - 1, NAN)
    figure = reward_distribution(frame(values.tolist(), reference.tolist()), dark=False)
    reward, ref = figure.data
    assert (sum(reward.y), sum(ref.y)) == (300, 200)
    assert len(set(np.round([*reward.width, *ref.width], 9))) == 1


def test_a_few_distinct_rewards_have_a_bar_each_at_the_value():
    (bars,) = reward_distribution(frame([0.0, 1.0, 1.0, 0.5]), dark=False).data
    np.testing.assert_allclose(bars.x, [0.0, 0.5, 1.0], atol=1e-12)
    assert list(bars.y) == [1, 1, 2]


@pytest.mark.parametrize("value", [0.0, 1e5, -3.0, 1e-9])
def test_equal_rewards_are_one_bar_at_the_value(value):
    (bars,) = reward_distribution(frame([value] * 7), dark=False).data
    assert list(bars.y) == [7]
    assert bars.x[0] == pytest.approx(value)
    assert bars.width[0] > 0


@pytest.mark.parametrize("distribution", [1e-9, 0.5, 1e4])
def test_large_rewards_are_all_counted(distribution):
    rewards = 1e5 + distribution * np.random.default_rng(0).normal(size=64)
    (bars,) = reward_distribution(frame(rewards.tolist()), dark=False).data
    assert sum(bars.y) == 64
    assert all(1e5 - 6e4 < x < 1e5 + 6e4 for x in bars.x)


def test_an_infinite_reward_is_in_no_bar():
    (bars,) = reward_distribution(frame([1.0, float("inf"), 2.0]), dark=False).data
    assert sum(bars.y) == 2


def test_group_and_env_names_are_text():
    rollouts = frame([1.0, 2.0], [0.0, 0.0]).assign(env="<img src=x>", group_id=[None, "<b>"])
    rollouts["env"] = rollouts["env"].astype("category")
    for chart in (reward_by_rollout, gap_to_reference):
        texts = [text for trace in chart(rollouts, dark=False).data for text in trace.text or ()]
        assert texts
        assert not any("<img" in text or "<b>&" in text for text in texts)
        assert any("group &lt;b&gt;" in text for text in texts)
        assert not any("None" in text for text in texts)
