import json

import pytest
from written_logs import native_run

from board.analysis.findings import default_thresholds
from board.analysis.run_summary import RunSummary, settings_of, summarised


@pytest.fixture
def summary(opened):
    return lambda: summarised(opened(), default_thresholds())


def rows(steps, reward=lambda step: float(step), count=4, **more):
    return [
        {"type": "sample", "step": step, "group_id": "g", "response": "r", "reward": reward(step)}
        | {"timestamp": 100.0 * step, **more}
        for step in steps
        for _ in range(count)
    ]


def header(attempt="a", rank=0, started=1.0, world_size=1, start_step=0):
    about = {"attempt": attempt, "rank": rank, "started": started, "world_size": world_size}
    return {"type": "header", "schema": 1, "start_step": start_step, **about}


CLOSE = {"type": "close"}


def test_the_means_are_of_the_last_ten_steps_and_say_of_how_many_rollouts(write_log, summary):
    write_log("a.jsonl", *rows(range(1, 31)))
    own = summary()
    assert (own.steps, own.rollouts, own.window) == (30, 120, (21, 30))
    assert own.reward.mean == pytest.approx(25.5)
    assert own.reward.n == 40
    assert own.reward.change == pytest.approx(10.0)
    assert own.seconds_per_step == pytest.approx(100.0)
    assert own.timestamp == pytest.approx(3000.0)


def test_what_is_not_recorded_is_none_and_never_zero(write_log, summary):
    write_log("a.jsonl", {"type": "sample", "step": 1, "group_id": "g", "response": "r"})
    own = summary()
    assert (own.reward, own.kl, own.truncated) == (None, None, None)
    assert (own.reward_line, own.kl_line) == ((), ())
    assert own.has_ended is None
    assert own.seconds_per_step is None


def test_a_change_needs_as_many_steps_before(write_log, summary):
    write_log("a.jsonl", *rows(range(1, 16)))
    assert summary().reward.change is None


def test_a_line_is_thinned_to_extremes_and_keeps_its_ends(write_log, summary):
    write_log("a.jsonl", *rows(range(500), lambda step: 9.0 if step == 250 else 1.0, count=1))
    line = summary().reward_line
    assert len(line) <= 64
    assert (line[0][0], line[-1][0]) == (0, 499)
    assert (250.0, 9.0) in line


def test_a_run_has_ended_when_all_ranks_of_its_newest_launch_said_so(write_log, summary):
    write_log("a-0.jsonl", header(world_size=2), *rows([1]))
    write_log("a-1.jsonl", header(rank=1, world_size=2), *rows([1]), CLOSE)
    assert summary().has_ended is False
    write_log("a-0.jsonl", header(world_size=2), *rows([1]), CLOSE)
    assert summary().has_ended is True
    write_log("b-0.jsonl", header("b", started=2.0, start_step=2), *rows([2]))
    assert summary().has_ended is False


def test_a_rank_that_never_wrote_has_not_ended(write_log, summary):
    write_log("a-0.jsonl", header(world_size=2), *rows([1]), CLOSE)
    assert summary().has_ended is False


def test_lost_lines_and_left_out_values_are_counted(write_log, summary):
    write_log("a.jsonl", *rows([1, 2]), b"{broken\n", b"[1, 2]\n", *rows([3], reward=lambda _: "x"))
    own = summary()
    assert own.lost == 2
    assert own.partial == 4


def test_the_worst_finding_stands_for_all_of_them(tmp_path, write_log, summary):
    truncated = {"finish_reason": "length"}
    write_log("a.jsonl", *rows(range(1, 31), **truncated))
    own = summary()
    assert own.worst is not None
    order = ("severe", "warning", "lead")
    places = [order.index(one.severity) for one in own.findings]
    assert places == sorted(places)
    rest = own.without({own.worst.key})
    assert rest.findings == own.findings[1:]
    assert own.without({one.key for one in own.findings}).worst is None


def test_numbers_are_of_the_split_of_training(write_log, summary):
    train = rows(range(1, 12), lambda _: 1.0, split="train")
    write_log("a.jsonl", *train, *rows([11], lambda _: 0.0, split="eval"))
    own = summary()
    assert (own.split, own.reward.mean, own.reward.n) == ("train", 1.0, 40)
    assert own.rollouts == 48


def test_settings_are_those_of_the_newest_start_by_path(tmp_path, write_log, summary):
    write_log("a.jsonl", *rows([1]))
    for name, lr in (("run-1.json", 1e-5), ("run-2.json", 3e-6)):
        (tmp_path / name).write_text(json.dumps({"config": {"lr": lr, "layers": [1, 2]}}))
    assert summary().settings == {"config.lr": 3e-6, "config.layers": "[1, 2]"}


def test_settings_of_any_size_stay_small():
    settings, has_more = settings_of({"run-1.json": {f"k{n}": "x" * 10_000 for n in range(5000)}})
    assert len(json.dumps(settings)) < 100_000
    assert has_more
    assert settings_of({"run-1.json": {"n": 10**30}}) == ({"n": str(10**30)}, False)


def test_long_settings_that_differ_are_different_when_they_are_cut():
    (one, _), (other, _) = (settings_of({"a": {"k": "x" * 300 + end}}) for end in "ab")
    assert one != other
    assert len(one["k"]) <= 200


def test_a_summary_survives_the_disk(tmp_path, summary):
    native_run(tmp_path)
    own = summary()
    assert own.kl is not None
    assert RunSummary.from_bytes(own.to_bytes()) == own
    assert RunSummary.from_bytes(b'{"steps": "many"}') is None
    assert RunSummary.from_bytes(b"no json") is None


def test_settings_hold_text_that_every_disk_takes(tmp_path, write_log, summary):
    write_log("a.jsonl", *rows([1]))
    (tmp_path / "run-1.json").write_text('{"k\\ud800": "v\\udfff"}')
    own = summary()
    assert own.settings == {"k?": "v?"}
    assert RunSummary.from_bytes(own.to_bytes()) == own
