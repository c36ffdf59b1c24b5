"""One rule of what is right for all runs of a comparison, with how many rollouts it does not judge."""

import pytest
from read_formats import run_of

from board.query.compare.paired import SOLVE_RATE, paired_runs
from board.query.groups import judged_rollouts as judged
from board.query.groups import rule_of, run_groups
from board.query.open_run import OpenOptions, open_run


def rollouts(rewards, name="reward"):
    """Prompts of 8 rollouts, one reward after the other."""
    return [
        {
            "step": 1,
            "prompt": f"p{place // 8}",
            "group_id": str(place // 8),
            "response": "r",
            "reward": float(reward),
            **({"rewards": {name: float(reward)}} if name != "reward" else {}),
        }
        for place, reward in enumerate(rewards)
    ]


def test_one_odd_reward_does_not_change_the_difference_of_solve_rates(tmp_path):
    rewards = [float(i % 5 < 2) for i in range(640)]
    odd = [1.5, *rewards[1:]]
    runs = [run_of(tmp_path / n, rollouts(r)) for n, r in (("a", rewards), ("b", odd))]
    pair = paired_runs(*runs)
    assert pair.differences[SOLVE_RATE].difference == 0
    assert pair.right_note == "right means reward ≥ 1, wrong means reward ≤ 0"


def test_runs_that_are_compared_have_one_rule_and_say_what_it_does_not_judge(tmp_path):
    low = run_of(tmp_path / "a", rollouts([0, 0, 0, 0.5, 0.5, 0.5, 0, 0] * 6))
    high = run_of(tmp_path / "b", rollouts([0, 1, 1, 0.5, 1, 1, 0, 0] * 6))
    assert rule_of(low).right_from == 0.5
    assert rule_of(low, [high]) == rule_of(high, [low])
    pair = paired_runs(low, high)
    assert pair.differences[SOLVE_RATE].difference == pytest.approx(4 / 7)
    assert pair.right_note.endswith("not judged: 18 of 48 (38 %) of A, 6 of 48 (13 %) of B")
    part = run_of(tmp_path / "c", rollouts([0, 1] * 24, "correct"))
    assert rule_of(part).column == "rewards.correct"
    assert rule_of(part, [high]).column == "reward"


def test_a_threshold_that_is_set_holds_for_all_rollouts_of_the_run(tmp_path):
    run = run_of(tmp_path, rollouts([0, 0.5, 1, 0] * 8))
    assert judged(run).judged == 24
    assert "8 of 32 (25 %) rollouts are not judged" not in judged(run.where("reward > 0.5")).text
    set_run = open_run(run.info, OpenOptions(right_from=0.5))
    assert (judged(set_run).judged, judged(set_run).rule.is_set) == (32, True)
    groups = run_groups(set_run)
    assert groups is not None
    assert groups.by_step.solve_rate[0] == 0.5
