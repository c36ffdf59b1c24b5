"""A run opened from files: its order, its numbers and its problems."""

import json
import math
import os
import threading
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from read_formats import info_at, run_at

from board.errors import NotFoundError
from board.index import build
from board.index.reading import record_row
from board.index.storage import FolderStorage
from board.query import open_run as open_run_module
from board.query.columns import records_of
from board.query.open_run import indexed_run, open_run

NAN = float("nan")
INF = math.inf


def rollout(step, reward=1.0, **more):
    return {"step": step, "prompt": "p", "response": "r", "reward": reward, **more}


def tokens(step, logprobs, ref_logprobs, **more):
    return rollout(step, logprobs=logprobs, ref_logprobs=ref_logprobs, **more)


def result(run, severity=None):
    return [
        (problem.path, problem.line, problem.field, problem.count)
        for problem in run.problems
        if severity in (None, problem.severity)
    ]


# Order


def test_files_of_ranks_are_merged_by_step(write_log, opened):
    for rank in (0, 1):
        lines = [rollout(step, reward=10 * step + rank) for step in (1, 2)]
        write_log(f"rank_{rank}.jsonl", *lines)
    rows = opened().rollouts[["step", "index", "reward"]]
    assert rows.values.tolist() == [[1, 0, 10], [1, 1, 11], [2, 0, 20], [2, 1, 21]]


def test_order_is_by_step_rank_file_and_line_whatever_the_files_are_called(write_log, opened):
    write_log("z.jsonl", rollout(2, 1, rank=0, group_id="g"), rollout(1, 2, rank=0, group_id="g"))
    write_log("a10.jsonl", rollout(1, 5, rank=1, group_id="g"))
    write_log("a2.jsonl", rollout(1, 3, rank=1, group_id="g"), rollout(1, 4, rank=1, group_id="g"))
    run = opened()
    assert run.rollouts["reward"].tolist() == [2, 3, 4, 5, 1]
    assert run.rollouts["index"].tolist() == [0, 1, 2, 3, 0]
    assert run.problems == ()


def test_lines_without_a_usable_step_are_lost_counted_and_placed(write_log, opened):
    bad = [0.9, True, None, "x", 10**30]
    write_log("x.jsonl", rollout(1), *(rollout(step) for step in bad), {"prompt": "p"}, rollout(2))
    run = opened()
    assert run.steps["step"].tolist() == [1, 2]
    lost = [problem for problem in run.problems if problem.severity == "lost"]
    assert sum(problem.count for problem in lost) == 6
    assert {problem.field for problem in lost} == {"step"}
    assert lost[0].where == "x.jsonl:2"


def test_a_row_is_found_by_its_step_and_index(write_log, opened):
    write_log("x.jsonl", rollout(1, 5), rollout(2, 6), rollout(2, 7))
    run = opened()
    assert run.row(2, 1)["reward"] == 7
    with pytest.raises(NotFoundError, match="2 steps from 1 to 2"):
        run.row(3, 0)
    for index in (2, -1):
        with pytest.raises(NotFoundError, match="rollouts 0 to 1"):
            run.row(2, index)


# Numbers


def law(name: str, *lines: dict[str, Any], problems: Any = None, **tables: dict[str, list[Any]]):
    """Lines of a log, and columns that the run's tables then have: steps=, rollouts=.

    problems: line, field and count of each, if that is a matter of the law.
    """
    return pytest.param(lines, tables, problems, id=name)


def bad_rewards(bad: Any):
    return law(
        f"one reward of {bad} does not blank its step",
        *(rollout(1, 2), rollout(1, bad), rollout(1, 4)),
        steps={"reward_mean": [3], "rollouts": [3]},
        problems=[(2, "reward", 1)],
    )


def bad_logprobs(bad: Any):
    return law(
        f"one log-probability of {bad} does not blank its step",
        *(tokens(1, [-1, bad], [-1.5, -1]), tokens(1, [-1, -1], [-2, -2])),
        steps={"k1_mean": [0.75]},
        rollouts={"missing_values": [1, 0]},
        problems=[(1, "logprobs", 1)],
    )


MORE = {"reward_mean": 100.0, "k3": 7.0, "k3_mean": 9.0, "entropy": 5.0}
LAWS = [
    law(
        "a reference reward missing in some rows is no zero",
        *(rollout(1, ref_reward=0.5), rollout(1), rollout(2), rollout(3)),
        steps={"ref_reward_mean": [0.5, NAN, NAN], "ref_reward_n": [1, 0, 0]},
        rollouts={"reward_gap": [0.5, NAN, NAN, NAN]},
    ),
    *map(bad_rewards, (NAN, INF, -INF, "x")),
    law(
        "a rollout whose mean log-ratio is zero keeps its step on the curve",
        *(tokens(1, [-1, -2], [-2, -1]), tokens(2, [-1], [-1])),
        steps={"k1_mean": [0, 0]},
    ),
    *map(bad_logprobs, (INF, -INF, NAN, None)),
    law(
        "length is counted in tokens where there are any",
        rollout(1, response="four words of text", response_tokens=["a", "b"]),
        steps={"response_tokens_mean": [2]},
        rollouts={"response_chars": []},
    ),
    law(
        "length in characters has a name of its own",
        rollout(1, response="four"),
        rollouts={"response_tokens": [], "response_chars": [4]},
    ),
    law(
        "an empty response is of length zero",
        rollout(1, response="", response_tokens=[], logprobs=[], ref_logprobs=[]),
        tokens(1, [-1], [-2], response_tokens=["a"]),
        steps={"k1_mean": [1]},
        rollouts={"response_tokens": [0, 1]},
        problems=[],
    ),
    law(
        "tokens outside the loss do not dilute",
        {"step": 1, "response_ids": [1, 2, 3], "loss_mask": [1, 0, 1], "entropy": [1, 99, 3]},
        rollouts={"entropy_mean": [2], "loss_tokens": [2], "response_tokens": [3]},
    ),
    law(
        "a mask of another length blanks the means it would have selected",
        {"step": 1, "response_ids": [1, 2], "loss_mask": [1], "entropy": [1, 3]},
        rollouts={"entropy_mean": []},
        problems=[(1, "loss_mask", 1)] * 2,
    ),
    law(
        "one short array costs only the metrics that need it",
        {"step": 1, "response_ids": [1, 2], "logprobs": [-1.0], "entropy": [1, 3]}
        | {"loss_mask": [1, 1], "sampling_logprobs": [0, 0]},
        rollouts={"entropy_mean": [2], "mismatch_kl_mean": []},
    ),
    law(
        "group ids of numbers are groups",
        *(rollout(4, r, group_id=g) for g, of in ((1, "11"), (2, "01"), (3.0, "5")) for r in of),
        steps={"groups": [3], "zero_std_group_fraction": [0.5]},
        rollouts={"group_id": ["1", "1", "2", "2", "3"]},
    ),
    law(
        "every unknown number is a curve",
        *(rollout(1, difficulty=2, solved=True), rollout(1, difficulty=4, solved=False)),
        steps={"difficulty_mean": [3], "solved_mean": [0.5]},
    ),
    law(
        "a logged mean does not take the place of the board's own",
        *[tokens(1, [-1], [-2], **MORE)] * 2,
        steps={"reward_mean": [1], "k3_mean": [math.exp(-1)], "logged.k3_mean": [7]}
        | {"logged.k3_mean_mean": [9], "reward_mean_mean": [100]},
    ),
    law(
        "a column of numbers and numbers in text is one of numbers",
        *(rollout(1, score=1), rollout(1, score="0.5"), rollout(1)),
        steps={"score_n": [2]},
        rollouts={"score": [1, 0.5, NAN]},
    ),
    law(
        "a column of numbers and words is one of words",
        *(rollout(1, score=1), rollout(1, score="high"), rollout(1)),
        steps={"score_n": []},
        rollouts={"score": ["1.0", "high", NAN]},
    ),
    *(
        law(f"{unusual!r:.9} makes no column", rollout(1, unusual=unusual), rollouts={"odd": []})
        for unusual in ([1, 2], {"a": 1}, NAN, INF, 10**400)
    ),
    law(
        "a preview's end is marked",
        rollout(1, response="x" * 1000),
        rollouts={"response": ["x" * (record_row.PREVIEW_CHARS - 1) + "…"]},
    ),
]


@pytest.mark.parametrize(("lines", "tables", "problems"), LAWS)
def test_what_lines_say_the_tables_say(write_log, opened, lines, tables, problems):
    write_log("x.jsonl", *(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines))
    run = opened()
    for table, columns in tables.items():
        frame = getattr(run, table)
        assert len({*frame}) == len([*frame])
        for name, values in columns.items():
            visible = frame[name].astype(object).tolist() if name in frame else []
            assert visible == pytest.approx(values, nan_ok=True), name
    if problems is not None:
        assert result(run) == [("x.jsonl", *problem) for problem in problems]


def test_long_ids_that_are_logged_as_text_keep_every_digit(write_log, opened):
    ids = ["1234567890123456789", "1234567890123456790", "17293847561029384756"]
    write_log("x.jsonl", *(rollout(1, ticket=one, whole="5.0") for one in ids))
    rows = opened().rollouts
    assert [str(one) for one in rows["ticket"]] == ids
    assert rows["whole"].tolist() == [5.0] * 3


def test_what_is_known_of_a_run_does_not_wait_for_a_question_of_others(write_log, opened):
    write_log("x.jsonl", rollout(1))
    run = opened()
    assert len(run.steps) == 1
    began, end, answered = threading.Event(), threading.Event(), threading.Event()

    def ask_slowly():
        began.set()
        return end.wait(60)

    slow = threading.Thread(target=run.remembered, args=("slow", ask_slowly))
    quick = threading.Thread(target=lambda: run.steps is not None and answered.set())
    slow.start()
    assert began.wait(60)
    quick.start()
    try:
        assert answered.wait(60)
    finally:
        end.set()
        slow.join()
        quick.join()


def test_a_rank_known_for_all_is_a_whole_number(write_log, opened):
    write_log("a.jsonl", {"type": "header", "schema": 1, "attempt": "a", "rank": 3}, rollout(1))
    write_log("b.jsonl", rollout(1, rank=0, group_id="g"))
    ranks = opened().rollouts["rank"]
    assert ranks.tolist() == [0, 3]
    assert ranks.dtype == np.int64


# Attempts


def native(attempt, rank, steps, started, start_step, world_size, end=True, n=2):
    yield {
        "type": "header",
        "schema": 1,
        "attempt": attempt,
        "rank": rank,
        "started": started,
        "start_step": start_step,
        "world_size": world_size,
    }
    for step in steps:
        for _ in range(n):
            yield {"type": "sample", "step": step, "reward": started, "response_ids": [1]}
        if end:
            yield {"type": "step_end", "step": step, "records": n, "dropped": 0}


def test_a_resume_whose_clock_is_late_supersedes_what_it_went_on_from(write_log, opened):
    for name, steps, started, start, written in (
        ("A", (1, 2, 3), 2, 1, 100),
        ("B", (3, 4), 1, 3, 200),
    ):
        path = write_log(f"{name}-0.jsonl", *native(name, 0, steps, started, start, 1))
        os.utime(path, (written, written))
    run = opened()
    assert run.steps["reward_mean"].tolist() == [2, 2, 1, 1]
    assert run.steps["complete"].tolist() == [True] * 4
    assert run.superseded == 2


def test_a_step_is_complete_when_every_rank_of_its_newest_attempt_ended_it(write_log, opened):
    for rank in range(4):
        write_log(f"A-{rank}.jsonl", *native("A", rank, range(1, 5), 1, 1, 4))
    write_log("B-0.jsonl", *native("B", 0, range(3, 6), 2, 3, 2))
    write_log("B-1.jsonl", *native("B", 1, (3, 4), 2, 3, 2, end=False))
    complete = opened().steps["complete"]
    assert complete.tolist() == [True, True, False, False, False]
    write_log("B-1.jsonl", *native("B", 1, (3, 4), 2, 3, 2))
    assert opened().steps["complete"].tolist() == [True, True, True, True, False]


def test_a_restart_in_an_append_only_file_replaces_what_it_wrote_again(write_log, opened):
    first = [rollout(step, 0.0) for step in (1, 2, 3, 4) for _ in range(4)]
    again = [rollout(step, 1.0) for step in (3, 4, 5) for _ in range(4)]
    write_log("x.jsonl", *first, *again)
    run = opened()
    assert run.steps["reward_mean"].tolist() == [0, 0, 1, 1, 1]
    assert run.steps["rollouts"].tolist() == [4] * 5
    assert run.superseded == 8
    assert result(run) == [("x.jsonl", None, "step", 8)]


def test_a_file_in_no_order_is_read_whole_and_sorted(write_log, opened):
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(12), 5)).tolist()
    write_log("x.jsonl", *(rollout(step) for step in order))
    run = opened()
    assert run.superseded == 0
    assert run.steps["rollouts"].tolist() == [5] * 12


def test_ranks_that_share_a_file_are_told_apart(write_log, opened):
    lagging = [rollout(step, rank=0, group_id="g") for step in (1, 2, 3) for _ in range(2)]
    lagging += [rollout(step, rank=1, group_id="g") for step in (1, 2, 3) for _ in range(2)]
    write_log("x.jsonl", *lagging)
    run = opened()
    assert run.superseded == 0
    assert run.steps["rollouts"].tolist() == [4, 4, 4]


# Cap


def test_the_cap_on_rollouts_per_step_is_enforced_and_counted(write_log, opened):
    write_log("x.jsonl", *(rollout(s, i) for s, n in ((1, 5), (2, 2)) for i in range(n)))
    run = opened(max_per_step=3)
    assert run.steps["rollouts"].tolist() == [3, 2]
    assert run.rollouts["reward"].tolist() == [0, 1, 2, 0, 1]
    assert run.over_cap == 2
    assert opened().over_cap == 0


# Files that are torn, growing, broken or gone


def append(path, content: bytes):
    with path.open("ab") as file:
        file.write(content)


@pytest.mark.parametrize("fresh", [True, False])
def test_a_whole_last_line_counts_without_its_newline(write_log, opened, fresh):
    write_log("x.jsonl", rollout(1), json.dumps(rollout(2)).encode(), fresh=fresh)
    run = opened()
    assert run.steps["step"].tolist() == [1, 2]
    assert run.problems == ()


def test_a_file_that_grew_since_it_was_found_is_read_to_the_end_of_its_line(tmp_path, write_log):
    path = write_log("x.jsonl", rollout(1), b'{"step": 2, "resp')
    info = info_at(tmp_path)
    append(path, b'onse": "r"}\n' + json.dumps(rollout(3)).encode() + b"\n")
    assert open_run(info).steps["step"].tolist() == [1, 2]
    assert run_at(tmp_path).steps["step"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("size", [1, 200, 450, 1500])
def test_chunks_and_shards_put_together_are_the_file(write_log, opened, monkeypatch, size):
    lines = [tokens(1, [-1.0 * i], [-2.0], **({"late": i} if i > 7 else {})) for i in range(10)]
    write_log("x.jsonl", *lines)
    whole = opened().rollouts
    monkeypatch.setattr("board.index.reading.row_batch._CHUNK_ROWS", 3)
    monkeypatch.setattr(build, "SHARD_BYTES", size)
    pd.testing.assert_frame_equal(opened().rollouts, whole)


def test_bad_lines_are_counted_and_the_good_ones_show(write_log, opened):
    write_log(
        "x.jsonl", rollout(1), b"ruff check .\n", b"[1]\n", b"\n", b"more shell\n", rollout(2)
    )
    run = opened()
    assert run.steps["step"].tolist() == [1, 2]
    assert run.rollouts["line"].tolist() == [1, 6]
    assert result(run, "lost") == [("x.jsonl", 2, None, 2), ("x.jsonl", 3, None, 1)]


def test_a_million_bad_lines_would_be_a_handful_of_problems(write_log, opened):
    bad = [b"x" * n + b"\n" for n in range(1, 30)]
    bad += [json.dumps(rollout(f"odd {n} {n}")).encode() + b"\n" for n in range(30)]
    bad += [json.dumps(rollout(f"step_{n}", reward=f"r{n}")).encode() + b"\n" for n in range(30)]
    write_log("x.jsonl", rollout(1), *bad)
    assert len(opened().problems) <= 5


def test_rollouts_that_the_exporter_dropped_are_counted_as_lost(write_log, opened):
    ends = [{"type": "step_end", "step": s, "dropped": n} for s, n in ((1, 3), (2, 0), (3, 4))]
    write_log("x.jsonl", {"type": "sample", "step": 1, "reward": 1}, *ends)
    assert result(opened(), "lost") == [("x.jsonl", 2, "dropped", 7)]


def test_invalid_utf8_is_shown_and_told(write_log, opened):
    write_log("x.jsonl", rollout(1), b'{"step": 1, "response": "a\xffb"}\n')
    run = opened()
    assert run.rollouts["response"].tolist() == ["r", "a\ufffdb"]
    assert result(run, "partial") == [("x.jsonl", 2, None, 1)]


def test_windows_line_ends_and_a_byte_order_mark_are_read(write_log, opened):
    line = json.dumps(rollout(1)).encode() + b"\r\n"
    write_log("x.jsonl", b"\xef\xbb\xbf" + line, line, b"\r\n")
    run = opened()
    assert len(run.rollouts) == 2
    assert run.problems == ()


def test_a_file_that_went_away_is_a_problem_and_the_others_show(tmp_path, write_log):
    write_log("a.jsonl", rollout(1))
    gone = write_log("b.jsonl", rollout(2))
    info = info_at(tmp_path)
    gone.unlink()
    run = open_run(info)
    assert run.steps["step"].tolist() == [1]
    assert result(run, "lost") == [("b.jsonl", None, None, 1)]


def test_a_run_of_which_nothing_can_be_read_is_empty_and_says_why(tmp_path, write_log):
    path = write_log("a.jsonl", rollout(1))
    info = info_at(tmp_path)
    path.unlink()
    run = open_run(info)
    assert len(run.rollouts) == 0
    assert len(run.steps) == 0
    assert {"step", "index", "file", "line"} <= set(run.rollouts)
    assert len(run.problems) == 1
    with pytest.raises(NotFoundError, match="no steps"):
        run.row(1, 0)


def test_a_run_of_headers_only_is_empty(write_log, opened):
    write_log("a.jsonl", {"type": "header", "schema": 1, "attempt": "a", "world_size": 1})
    run = opened()
    assert len(run.steps) == 0
    assert run.problems == ()


def test_files_that_were_left_out_are_among_the_runs_problems(write_log, opened):
    write_log("a.jsonl", rollout(1))
    write_log("checkpoints.jsonl", {"state_path": "tinker://1", "name": "last"})
    assert [problem.path for problem in opened().problems] == ["checkpoints.jsonl"]


def test_settings_and_vocabulary_are_read_from_beside_the_log(write_log, opened):
    write_log("a.jsonl", {"step": 1, "prompt_ids": [0], "response_ids": [1, 0]})
    write_log("run-A.json", {"name": "first"})
    write_log("vocab.json", {"pieces": ["Ġa", "b"], "coding": "byte_level", "special_ids": []})
    run = opened()
    assert run.settings == {"run-A.json": {"name": "first"}}
    assert run.rollouts[["prompt", "response"]].values.tolist() == [[" a", "b a"]]


@pytest.mark.parametrize("name", ["run-A.json", "vocab.json"])
@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff", b'{"pieces": 1, "special_ids": [[1]]}'])
def test_broken_companions_are_problems_and_the_run_shows(write_log, opened, name, content):
    write_log("a.jsonl", rollout(1))
    write_log(name, content)
    run = opened()
    assert len(run.rollouts) == 1
    expected = 0 if name == "run-A.json" and content.startswith(b'{"') else 1
    assert len(run.problems) == expected


def test_progress_ends_at_all_bytes(tmp_path, write_log):
    for name in ("a", "b"):
        write_log(f"{name}.jsonl", *(rollout(i) for i in range(100)))
    info = info_at(tmp_path)
    seen: list[tuple[int, int]] = []
    open_run(info, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (info.bytes, info.bytes)
    assert seen == sorted(seen)


def test_a_file_is_at_rest_after_a_minute(write_log, opened):
    path = write_log("x.jsonl", rollout(1), b'{"step"')
    for age, severity in ((30, "note"), (90, "lost")):
        os.utime(path, (time.time() - age,) * 2)
        assert [problem.severity for problem in opened().problems] == [severity]


def test_a_lone_row_is_that_of_its_step(write_log, opened):
    unusual = [{"tag": "word"}, {"tag": 2}, {"level": "7"}, {"level": 3}, {}, {"ref_reward": 0.5}]
    for rank in (0, 1):
        rows = [
            {"step": step, "reward": step, "group_id": "g", "response": f"{rank}.{step}", **extra}
            for step in range(3)
            for extra in unusual
        ]
        write_log(f"data_rank{rank}.jsonl", *rows)
    run, other = opened(), opened()
    for step in range(3):
        for index in range(12):
            (row,) = records_of(other.of_step(step).iloc[[index]])
            assert run.row(step, index) == row


def test_an_index_is_opened_without_its_log(write_log, tmp_path):
    path = write_log("x.jsonl", *map(rollout, range(3)))
    whole = run_at(tmp_path, persist=True)
    path.unlink()
    again = indexed_run(FolderStorage(whole.index_folder), whole.info)
    pd.testing.assert_frame_equal(again.rollouts, whole.rollouts)
    with pytest.raises(NotFoundError, match="no index"):
        indexed_run(FolderStorage(tmp_path / "nowhere"), whole.info)


def test_an_index_without_one_of_the_aggregates_is_made_again(write_log, tmp_path, monkeypatch):
    write_log("x.jsonl", rollout(1))
    keys = []
    for aggregates in ((), (("entropy_max", "entropy", "max"),)):
        monkeypatch.setattr(open_run_module, "REDUCTIONS", aggregates)
        keys.append(run_at(tmp_path, persist=True).rows.manifest.key)
    assert keys[0] != keys[1]
