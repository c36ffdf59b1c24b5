"""A process that begins again in its own file, without a launch of its own, supersedes what it wrote."""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from read_formats import info_at, reasons, run_at
from written_logs import write_lines

from board.index import build
from board.index.reading import scan
from board.query.open_run import Follower
from board.query.trainer.metrics import read_trainer_metrics

Line = dict[str, Any]


def header(world_size: int = 1, attempt: str = "a") -> Line:
    named = {"type": "header", "schema": 1, "attempt": attempt, "rank": 0, "started": 1.0}
    return {**named, "start_step": 1, "world_size": world_size}


def sample(step: int, launch: int) -> Line:
    """A rollout whose reward says which launch wrote it."""
    return {"type": "sample", "step": step, "rank": 0, "reward": float(launch), "response_ids": [1]}


def end(step: int, launch: int = 0) -> Line:
    metrics = {"loss": float(launch)}
    return {"type": "step_end", "step": step, "rank": 0, "records": 2, "metrics": metrics}


def launch(number: int, first: int, last: int, unended: int = 0) -> Iterator[Line]:
    """Steps of two rollouts each; unended: rollouts of the one after, which is not ended."""
    for step in range(first, last + 1):
        yield from (sample(step, number), sample(step, number), end(step, number))
    yield from (sample(last + 1, number) for _ in range(unended))


def rewards(run: Any) -> dict[int, list[float]]:
    """By step the rewards, which say the launches."""
    return {int(step): rows["reward"].tolist() for step, rows in run.rollouts.groupby("step")}


def test_steps_that_a_restart_ends_again_supersede_the_first_ones(write_log, opened):
    write_log("a.jsonl", header(), *launch(1, 1, 19, unended=1), *launch(2, 16, 30))
    run = opened()
    expected = {step: [1.0 if step < 16 else 2.0] * 2 for step in range(1, 31)}
    assert rewards(run) == expected
    assert (run.rollout_count, run.superseded) == (60, 9)
    assert ("steps 16 to 20 were written again by a restart", 9) in reasons(run)
    assert (run.rows.files.resumed_at, run.rows.files.restarted_at) == ([], [16])


def test_where_a_new_attempt_is_named_steps_are_said_to_be_of_a_resume(write_log, opened):
    write_log("a.jsonl", header(), *launch(1, 1, 3))
    write_log("b.jsonl", header(attempt="b") | {"start_step": 3, "started": 2.0}, *launch(2, 3, 4))
    assert ("steps 3 to 3 were written again by a resume", 2) in reasons(opened())


def test_several_restarts_in_one_file_leave_the_last_writing_of_each_step(write_log, opened):
    launches = (launch(1, 1, 8), launch(2, 5, 7, unended=1), launch(3, 7, 9), launch(4, 3, 4))
    write_log("a.jsonl", header(), *(line for lines in launches for line in lines))
    assert rewards(opened()) == {s: [1.0 if s < 3 else 4.0] * 2 for s in range(1, 5)}


def test_a_step_whose_last_rollouts_were_late_is_superseded_when_it_is_ended_again(
    write_log, opened
):
    # Rollouts of step 2 stand before and after its first end without another step between.
    write_log("a.jsonl", header(), *late(1, 1, 2), *launch(2, 2, 2))
    assert rewards(opened()) == {1: [1.0, 1.0], 2: [2.0, 2.0]}


def late(number: int, first: int, last: int) -> Iterator[Line]:
    """Steps of two rollouts, the second of which comes after the first one of the next step."""
    yield sample(first, number)
    for step in range(first, last + 1):
        yield from (sample(step + 1, number), sample(step, number), end(step, number))


def test_late_rollouts_before_the_end_of_their_step_are_not_superseded(write_log, opened):
    mixed = [sample(41 + place % 2, 1) for place in range(9)]
    write_log("a.jsonl", header(), *late(1, 1, 40), *mixed, end(41), sample(42, 1), end(42))
    run = opened()
    assert (run.superseded, run.rollout_count) == (0, 81 + 9 + 1)


def test_a_restart_is_seen_though_rollouts_are_late_at_every_step(write_log, opened):
    write_log("a.jsonl", header(), *late(1, 1, 40), *late(2, 21, 50))
    run = opened()
    expected = {s: [1.0 if s < 21 else 2.0] * 2 for s in range(1, 51)} | {51: [2.0]}
    assert rewards(run) == expected
    assert run.superseded == 2 * 20 + 1


def test_a_step_that_is_ended_twice_without_a_fall_is_whole(write_log, opened):
    parts = [
        x for step in range(1, 9) for x in (sample(step, 1), end(step), sample(step, 1), end(step))
    ]
    write_log("a.jsonl", header(), *parts)
    assert (opened().superseded, opened().rollout_count) == (0, 16)


def test_an_evaluation_that_ends_an_earlier_step_once_more_is_no_restart(write_log, opened):
    lines = [*launch(1, 1, 12), sample(10, 1), sample(10, 1), end(10), *launch(1, 13, 15)]
    write_log("a.jsonl", header(), *lines)
    assert (opened().superseded, opened().rollout_count) == (0, 32)


def test_steps_that_a_restart_has_not_ended_again_yet_are_not_complete(write_log, opened):
    lines = [header(), *launch(1, 1, 9), *launch(2, 6, 7, unended=1)]
    write_log("a.jsonl", *lines)
    run = opened()
    assert rewards(run)[8] == [2.0]
    assert dict(zip(run.steps["step"], run.steps["complete"], strict=True))[8] is False
    assert run.missing_ranks == {8: (0,)}


def test_a_file_that_a_restart_goes_on_with_after_its_end_has_not_ended(write_log, opened):
    close = {"type": "close", "rank": 0}
    write_log("a.jsonl", header(), *launch(1, 1, 3), close)
    assert opened().rows.files.has_ended
    again = [header(), *launch(1, 1, 3), close, *launch(2, 2, 3)]
    write_log("a.jsonl", *again)
    assert not opened().rows.files.has_ended
    write_log("a.jsonl", *again, close)
    assert opened().rows.files.has_ended


def test_metrics_of_steps_that_a_restart_writes_again_are_the_last_ones(write_log, opened):
    write_log("a.jsonl", header(), *launch(1, 1, 9), *launch(2, 6, 7))
    trainer = read_trainer_metrics(opened())
    assert trainer.written.keys() == {*range(1, 8)}
    table = trainer.table(["trainer/loss"])
    losses = dict(table.itertuples(index=False, name=None))
    assert losses == {step: 1.0 if step < 6 else 2.0 for step in range(1, 8)}


LAUNCHES = st.lists(
    st.tuples(st.integers(1, 8), st.integers(0, 6), st.integers(0, 3), st.booleans()),
    min_size=1,
    max_size=4,
)


def written(launches: Sequence[tuple[int, int, int, bool]]) -> list[Line]:
    """Launches that each go on from a step that was ended, late or not, some with a step begun."""
    lines: list[Line] = [header()]
    newest = 0
    for number, (first, more, unended, is_late) in enumerate(launches):
        begin = min(first, newest) if newest else 1
        last = begin + more
        lines += late(number, begin, last) if is_late else launch(number, begin, last, unended)
        newest = last
    return lines


@settings(max_examples=20)
@given(LAUNCHES, st.integers(60, 900), st.integers(1, 9), st.sets(st.integers(1, 99), max_size=4))
@example([(1, 6, 2, False), (4, 4, 0, True)], 300, 3, {*range(7, 43, 7)})
@example([(1, 1, 0, True), (2, 0, 0, False)], 60, 1, {*range(1, 13)})
def test_however_a_file_is_cut_and_followed_the_same_is_superseded(
    tmp_path_factory, launches, size, rows, stops
):
    lines = written(launches)
    ends = [*sorted(stop for stop in stops if stop < len(lines)), len(lines)]
    folder = tmp_path_factory.mktemp("launches")
    write_lines(folder / "whole" / "a.jsonl", lines)
    expected = run_at(folder / "whole")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(build, "SHARD_BYTES", size)
        patched.setattr(scan, "PART_ROWS", rows)
        cut = run_at(folder / "whole")
        follower = Follower()
        path = folder / "grown" / "a.jsonl"
        path.parent.mkdir()
        for begin, end in pairwise((0, *ends)):
            with path.open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines[begin:end])
            grown = follower.run(info_at(path.parent))
    for run in (cut, grown):
        assert rewards(run) == rewards(expected)
        assert run.superseded == expected.superseded
        assert run.counts == {step: len(own) for step, own in rewards(run).items()}


def test_a_log_whose_steps_may_come_in_any_order_says_that_steps_come_again(tmp_path):
    def line(step: int, n: int) -> Line:
        return {"iteration": step, "question": f"q{n}", "completion": f"{step} {n}", "score": n}

    once = [line(step, n) for step in range(1, 6) for n in range(3)]
    again = [line(step, n + 9) for step in range(4, 8) for n in range(3)]
    run = run_at(write_lines(tmp_path / "run" / "log.jsonl", [*once, *again]).parent)
    assert run.rollout_count == len(once) + len(again)
    assert any("steps come again from step 4 on" in one.reason for one in run.problems)
    run = run_at(write_lines(tmp_path / "calm" / "log.jsonl", once).parent)
    assert not any("come again" in one.reason for one in run.problems)
