"""Rollouts that a log holds twice are shown once, and only what is equal is a copy."""

from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from read_formats import DATA, info_at, reasons, run_at
from written_logs import write_lines

from board.analysis.findings import diagnose
from board.core.records import Record
from board.index import build, storage
from board.index.reading import batch
from board.index.reading.shard import Shard
from board.index.repeat_keys import NO_KEY, repeat_key
from board.query import duplicates
from board.query.open_run import Follower

# Buffers: TRL writes the newest rollouts each time, so that one begins with the end of the one before.


def buffer_line(step: int, rows: Sequence[int]) -> dict[str, Any]:
    """A buffer as one line of TRL's, of rollouts with these numbers."""
    return {
        "step": [str(step)] * len(rows),
        "prompt": [f"p{i}" for i in rows],
        "completion": [f"c{i}" for i in rows],
        "acc": [float(i) for i in rows],
        "advantages": [0.5] * len(rows),
    }


def buffer_table(folder: Path, step: int, rows: Sequence[int], **columns: list[str]) -> None:
    """A buffer as a table of TRL's."""
    content = {
        "step": [step] * len(rows),
        "prompt": [f"p{i}" for i in rows],
        "completion": [f"c{i}" for i in rows],
        "acc": [float(i) for i in rows],
        "advantage": [0.5] * len(rows),
    }
    (folder / "completions").mkdir(parents=True, exist_ok=True)
    path = folder / "completions" / f"completions_{step:05}.parquet"
    pq.write_table(pa.table(content | columns), path)


def visible(folder: Path) -> list[int]:
    """The numbers of the rollouts that are shown of buffers."""
    return run_at(folder).rollouts["response"].str[1:].astype(int).tolist()


@pytest.mark.parametrize(
    ("before", "after", "shared"),
    [
        ((1, 2, 3, 4), (3, 4, 5, 6), 2),
        ((1, 2, 3, 4), (1, 2, 3, 4), 4),
        ((1, 2), (1, 2, 3), 2),
        ((1, 2, 3, 4), (5, 6, 7, 8), 0),
        ((1, 2, 3, 4), (2, 3, 5, 6), 0),
        ((1, 2, 1, 2), (1, 2, 1, 2), 4),
        ((7, 7, 7, 7), (7, 7, 7, 7), 0),  # equal rows alone are no repeat
    ],
)
def test_a_repeat_is_the_end_of_one_buffer_at_the_beginning_of_the_next(
    tmp_path, before, after, shared
):
    write_lines(tmp_path / "completions.jsonl", [buffer_line(1, before), buffer_line(2, after)])
    assert visible(tmp_path) == [*before, *after[shared:]]


@settings(max_examples=12)
@given(st.lists(st.integers(0, 5), max_size=12), st.integers(5, 8))
def test_of_a_buffer_of_distinct_rollouts_each_is_shown_once(tmp_path_factory, news, size):
    buffer: deque[int] = deque(maxlen=size)
    lines: list[dict[str, Any]] = []
    written = 0
    for step, new in enumerate([size, *news]):
        # A stretch of one row can't be told from the same being said again: none is made here.
        new += new == size - 1
        buffer.extend(range(written, written + new))
        written += new
        lines.append(buffer_line(step, buffer))
    folder = tmp_path_factory.mktemp("buffers")
    write_lines(folder / "completions.jsonl", lines)
    assert visible(folder) == list(range(written))


def test_a_buffer_repeats_only_the_one_right_before_it(tmp_path):
    """The fifth begins as the second ends, which is no repeat: others stand between."""
    for step, first in enumerate((0, 3, 20, 30, 6, 9), start=1):
        buffer_table(tmp_path, step, range(first, first + 6))
    assert run_at(tmp_path).counts == {1: 6, 2: 3, 3: 6, 4: 6, 5: 6, 6: 3}


@pytest.mark.parametrize("differs", ["a sign", "the question"])
def test_rows_of_a_buffer_that_differ_at_all_are_no_repeats(tmp_path, differs):
    for step, sign in ((1, "w"), (2, "W")):
        message = ["word " * 100 + f"{i}" + " word" * 100 for i in range(4)]
        message[1] = message[1][:499] + (sign if differs == "a sign" else "w") + message[1][500:]
        asked = f"You are careful. {'word ' * 50}{sign if differs == 'the question' else ''}"
        buffer_table(tmp_path, step, range(4), completion=message, prompt=[asked] * 4)
    run = run_at(tmp_path)
    assert (run.counts, run.repeated) == ({1: 4, 2: 4}, 0)


def test_a_run_that_grows_counts_repeats_as_if_it_were_read_at_once(tmp_path):
    buffers = (range(4), range(2, 6), range(2, 6), range(6, 9))
    lines = [buffer_line(step, rows) for step, rows in enumerate(buffers, start=1)]
    write_lines(tmp_path / "whole" / "completions.jsonl", lines)
    follower = Follower()
    for number in range(1, len(lines) + 1):
        write_lines(tmp_path / "grown" / "completions.jsonl", lines[:number])
        run = follower.run(info_at(tmp_path / "grown"))
    expected = run_at(tmp_path / "whole")
    assert expected.counts == run.counts == {1: 4, 2: 2, 4: 3}
    assert expected.repeated == run.repeated == 6
    assert run.steps["reward_mean"].tolist() == [1.5, 4.5, 7.0]
    assert run.steps.equals(expected.steps)
    assert ("rollouts already in the log were written again", 6) in reasons(run)


def test_a_resume_that_writes_steps_again_is_superseded_and_no_repeat(tmp_path):
    buffers = ((1, range(4)), (2, range(4, 8)), (1, range(10, 14)), (2, range(8)))
    write_lines(tmp_path / "completions.jsonl", [buffer_line(*buffer) for buffer in buffers])
    run = run_at(tmp_path)
    assert (run.superseded, run.repeated) == (8, 0)
    assert run.counts == {1: 4, 2: 8}


# Ids: of rollouts with one id the last is shown.


def test_an_id_is_one_within_its_step_and_split_only():
    keys = {
        repeat_key(Record(step, {"rollout_id": "a", "split": split}), "same_id")
        for step in (1, 2)
        for split in ("train", "eval")
    }
    assert len(keys) == 4
    assert repeat_key(Record(1), "same_id") == NO_KEY


def write_ids(folder: Path) -> list[tuple[int, int]]:
    """open-instruct's lines of few ids, most of which stand several times in several files; the step
    and the number of those that are the last of their id.
    """
    random = Random(3)
    ids: list[tuple[int, int]] = []
    for number in range(3):
        own = [(random.randrange(3), random.randrange(25)) for _ in range(30)]
        rows = (
            {"step": step, "sample_idx": sample, "prompt_idx": sample // 4, "reward": float(place)}
            | {"prompt_tokens": [1, 2], "response_tokens": [4, sample], "advantage": 0.5}
            | {"finish_reason": "stop", "dataset": "gsm8k", "ground_truth": "7"}
            for place, (step, sample) in enumerate(own, start=30 * number)
        )
        write_lines(folder / f"run_rollouts_{number:06}.jsonl", rows)
        ids += own
    last = {one: place for place, one in enumerate(ids)}
    return sorted((step, place) for (step, _), place in last.items())


def write_buffers(folder: Path) -> list[tuple[int, int]]:
    """TRL's tables of six rows, each of which begins with rows of the one before; one has no rows."""
    for step, first in enumerate((0, 4, None, 8, 8, 14, 17), start=1):
        buffer_table(folder, step, () if first is None else range(first, first + 6))
    steps = {1: range(6), 2: range(6, 10), 4: range(10, 14), 6: range(14, 20), 7: range(20, 23)}
    return [(step, number) for step, rows in steps.items() for number in rows]


@pytest.mark.parametrize("write", [write_ids, write_buffers])
@pytest.mark.parametrize("rows", [1, 7, 20, 1000])
def test_repeats_are_those_of_all_rows_however_few_are_looked_at_at_once(
    tmp_path, monkeypatch, write, rows
):
    monkeypatch.setattr(duplicates, "_BATCH_ROWS", rows)
    expected = write(tmp_path)
    run = run_at(tmp_path)
    assert run.rollouts[["step", "reward"]].values.tolist() == [list(one) for one in expected]
    assert run.repeated > 5


# Copies: a step of a file that another file holds too.


def verl_line(step: int, number: int, answer: str = "") -> dict[str, Any]:
    answer = answer or f"answer {number} of {step}"
    return {"input": f"ask {number // 2}", "output": answer, "score": 0.5, "step": step}


def rllb_line(step: int, number: int, answer: str = "") -> dict[str, Any]:
    line = verl_line(step, number, answer)
    return {"step": step, "prompt": line["input"], "response": line["output"], "reward": 1.0}


def dump(step: int, rollouts: int = 4) -> list[dict[str, Any]]:
    """Lines of verl of one step."""
    return [verl_line(step, number) for number in range(rollouts)]


Dumps = dict[tuple[int, int], list[int]]
"""By file and step the answers of its lines."""
DUMPS = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(1, 3)),
    st.lists(st.sampled_from([1, 1, 2, 3]), min_size=1, max_size=4),
    min_size=1,
    max_size=8,
)


def is_copied(dumps: Dumps, file: int, step: int) -> bool:
    """Whether an earlier file holds the dump too, as it does all before, from the first both hold on."""

    def same(other: int, at: int) -> bool:
        return dumps[file, at] == dumps[other, at] and len(set(dumps[file, at])) > 1

    others = [other for other in range(file) if (other, step) in dumps]
    both = {o: [s for s in (1, 2, 3) if {(file, s), (o, s)} <= {*dumps}] for o in others}
    return any(all(same(o, at) for at in both[o] if at <= step) for o in others)


@settings(max_examples=16)
@given(DUMPS)
@example({(0, 1): [1, 2], (1, 1): [1, 2], (0, 2): [3, 1], (1, 2): [3, 1], (1, 3): [2]})
@example({(0, 1): [1, 2], (1, 1): [1, 2], (0, 2): [3, 1], (1, 2): [2, 3]})
def test_copies_are_dumps_of_an_earlier_file_from_the_first_step_that_both_hold(
    tmp_path_factory, dumps
):
    folder = tmp_path_factory.mktemp("copies")
    for file in {file for file, _ in dumps}:
        own = sorted((step, keys) for (of, step), keys in dumps.items() if of == file)
        lines = (rllb_line(step, 0, f"{key}") for step, keys in own for key in keys)
        write_lines(folder / f"rollout_data_rank{file}.jsonl", lines)
    expected = {at: keys for at, keys in dumps.items() if not is_copied(dumps, *at)}
    counts = Counter[int]()
    for (_, step), keys in expected.items():
        counts[step] += len(keys)
    run = run_at(folder)
    assert run.counts == counts
    assert run.repeated == sum(map(len, dumps.values())) - counts.total()


NEMO_GYM = (DATA / "nemo_gym/adder_rollouts.jsonl").read_text("utf-8").split("\n")
SHARDS = st.lists(
    st.lists(st.sampled_from([1, 1, 2, 3]), min_size=1, max_size=5), min_size=1, max_size=4
)


def is_merged(files: list[list[int]], file: int) -> bool:
    """Whether it holds all lines of several others and none else."""
    whole = Counter(files[file])
    parts = [Counter(other) for other in files if Counter(other) < whole]
    return len(parts) > 1 and sum(parts, Counter[int]()) == whole and len(whole) > 1


@settings(max_examples=10)
@given(SHARDS)
@example([[1, 2], [3, 1], [1, 1, 2, 3]])
@example([[1, 2], [3], [1, 1, 2, 3]])
def test_files_that_were_merged_of_several_others_are_not_shown(tmp_path_factory, files):
    # NeMo-Gym's aggregate sorts the lines of all shards and writes them again.
    folder = tmp_path_factory.mktemp("merged")
    for number, keys in enumerate(files):
        write_lines(folder / f"rollouts-rs{number}.jsonl", (NEMO_GYM[key] for key in keys))
    names = {f"rollouts-rs{n}.jsonl" for n in range(len(files)) if not is_merged(files, n)}
    assert set(run_at(folder).rows.file_counts()) == names


def test_a_step_that_was_copied_to_another_file_is_shown_once_and_counted(write_log, opened):
    # Answers of a group may be equal, within a dump and so in its copy.
    answers = [verl_line(1, i, "4" if i < 3 else "5") for i in range(6)]
    path = write_log("1.jsonl", *answers)
    write_log("resumed_1.jsonl", path.read_bytes().rstrip(b"\n"))  # without its last newline
    write_log("2.jsonl", *dump(2, 6))
    run = opened()
    assert (run.counts, run.repeated) == ({1: 6, 2: 6}, 6)
    assert run.of_step(1)["response"].tolist() == [line["output"] for line in answers]
    assert ("the file is a copy: 1.jsonl holds all its rollouts too", 6) in reasons(run)
    (found,) = [one for one in diagnose(run).findings if one.rule == "duplicated_rollouts"]
    assert (found.severity, found.value, found.step) == ("severe", 6, 1)
    assert (
        "resumed_1.jsonl holds the rollouts of 1.jsonl and no others: 6 of steps 1 to 1"
        in found.text
    )


OTHERS = {
    "another answer": lambda dump: [*dump[:5], verl_line(1, 5, "answer 6 of 1")],
    "a line less": lambda dump: dump[:5],
    "another order": lambda dump: dump[::-1],
    "another sign": lambda dump: [dump[0] | {"output": "word " * 280 + "W"}, *dump[1:]],
}


@pytest.mark.parametrize("change", OTHERS)
def test_a_step_that_merely_looks_alike_is_shown_whole(write_log, opened, change):
    own = [verl_line(1, 0, "word " * 280 + "w"), *dump(1, 6)[1:]]
    other = OTHERS[change](own)
    write_log("1.jsonl", *own)
    write_log("resumed_1.jsonl", *other)
    run = opened()
    assert (run.rollout_count, run.repeated) == (6 + len(other), 0)


@pytest.mark.parametrize("change", ["", "a number", "a sign", "a line less"])
@pytest.mark.parametrize(("long", "short"), [(8, 0), (7, 8), (0, 16)])
def test_a_file_in_another_order_is_a_copy_where_its_rollouts_are_alike_by_no_chance(
    write_log, opened, long, short, change
):
    own = [
        verl_line(1, n, f"{n} ".ljust(100 if n < long else 99, "a")) for n in range(long + short)
    ]
    other = Random(long + short).sample(own, len(own))
    if change:
        other[0] = other[0] | ({"score": 0.25} if change == "a number" else {"output": "another"})
        other = other[change == "a line less" :]
    write_log("1.jsonl", *own)
    write_log("resumed_1.jsonl", *other)
    run = opened()
    copies = len(own) if (long >= 8 or len(own) >= 16) and not change else 0
    assert (run.rollout_count, run.repeated) == (len(own) + len(other) - copies, copies)


def test_a_line_that_a_restart_wrote_again_hides_no_copy_of_a_later_step(write_log, opened):
    early = rllb_line(0, 0)
    message = [rllb_line(1, 0), rllb_line(2, 0), rllb_line(2, 1)]
    write_log("rollout_data_rank0.jsonl", early, *message, early, *message[1:])
    write_log("rollout_data_rank1.jsonl", *message)
    run = opened()
    assert (run.counts, run.repeated) == ({0: 1, 1: 1, 2: 2}, 2)


def test_copies_that_come_while_a_run_is_followed_are_found(tmp_path, write_log):
    follower = Follower()
    write_log("1.jsonl", *dump(1))
    for lines, counts, repeated in ((0, {1: 4}, 0), (2, {1: 6}, 0), (4, {1: 4}, 4)):
        if lines:
            write_log("resumed_1.jsonl", *dump(1)[:lines])
        run = follower.run(info_at(tmp_path))
        assert (run.counts, run.repeated) == (counts, repeated)
    assert run.steps["rollouts"].tolist() == [4]


def test_copies_of_several_steps_are_found_where_rows_are_read_thousands_at_a_time(
    tmp_path, write_log
):
    """Of what is read for one step the rows of others are left out, however many come with it."""
    first, second = dump(1, 5000), dump(2, 5000)
    for prefix, last in (("", second), ("resumed_", second[:2000])):
        write_log(f"{prefix}1.jsonl", *first)
        write_log(f"{prefix}2.jsonl", *last)
    run = run_at(tmp_path, persist=True)
    assert (run.counts, run.repeated) == ({1: 5000, 2: 7000}, 5000)


class StoppedError(Exception):
    """Somebody ended the build."""


@pytest.mark.parametrize("batches", range(4))
def test_copies_are_found_whenever_an_earlier_build_was_ended(
    write_log, tmp_path, monkeypatch, batches
):
    for name in ("1", "resumed_1", "2", "resumed_2"):
        write_log(f"{name}.jsonl", *dump(int(name[-1])))

    def stopping(*_: Any) -> bool:
        nonlocal batches
        batches -= 1
        if batches < 0:
            raise StoppedError
        return True

    with monkeypatch.context() as patched:
        patched.setattr(build, "_MAX_BATCH_FILES", 1)
        patched.setattr(build._Build, "_are_steps_due", stopping)
        with pytest.raises(StoppedError):
            run_at(tmp_path, persist=True)
    for _ in range(2):
        run = run_at(tmp_path, persist=True)
        assert (run.counts, run.repeated) == ({1: 4, 2: 4}, 8)


def test_what_is_kept_in_memory_are_tables_that_something_names(write_log, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "KEEP_SECONDS", -1.0)
    follower = Follower()
    for name in (*"123456", *(f"resumed_{step}" for step in "123456")):
        write_log(f"{name}.jsonl", *dump(int(name[-1])))
        run = follower.run(info_at(tmp_path))
    assert follower._memory._tables.keys() <= run.rows.manifest.names


def test_copies_are_told_in_what_can_be_read_of_a_file(write_log, opened, monkeypatch):
    real = batch.index_shard

    def index_shard(shard: Shard, *others: Any) -> Any:
        if shard.start and shard.path.stem == "resumed_1":
            raise OSError(5, "Input/output error")
        return real(shard, *others)

    monkeypatch.setattr(batch, "index_shard", index_shard)
    size = write_log("1.jsonl", *dump(1)).stat().st_size
    monkeypatch.setattr(build, "SHARD_BYTES", size)
    for name in ("1", "resumed_1"):
        write_log(f"{name}.jsonl", *dump(1), *dump(2))
    run = opened()
    assert (run.counts, run.repeated) == ({1: 4, 2: 4}, 4)


ROLLOUTS = st.lists(
    st.fixed_dictionaries(
        {
            "step": st.integers(0, 3),
            "prompt": st.sampled_from(["a", "b"]),
            "response": st.text("xyz", min_size=1, max_size=4),
            "reward": st.sampled_from([0.0, 1.0]),
        }
    ),
    min_size=2,
    max_size=8,
    unique_by=lambda row: row["response"],
)


@settings(max_examples=15, deadline=None)
@given(ROLLOUTS, st.sampled_from(["native", "generic", "rllb"]), st.booleans())
def test_a_copied_file_counts_once_and_is_named_whoever_reads_it(rows, kind, is_rewritten):
    named = {
        "native": lambda n, row: {**row, "group_id": row["prompt"]},
        "generic": lambda n, row: {
            "question": row["prompt"],
            "completion": row["response"],
            "score": row["reward"],
            "step": row["step"],
        },
        "rllb": lambda n, row: row,
    }
    lines = [named[kind](n, row) for n, row in enumerate(sorted(rows, key=lambda r: r["step"]))]
    with TemporaryDirectory() as folder:
        run = Path(folder, "run")
        write_lines(run / "part-0.jsonl", lines)
        copies = [dict(reversed(line.items())) for line in lines] if is_rewritten else lines
        write_lines(run / "part-1.jsonl", copies)
        write_lines(run / "part-2.jsonl", [{**line, "step": 9} for line in lines])
        opened_run = run_at(run)
        assert opened_run.rollout_count == 2 * len(lines)
        (problem,) = [p for p in opened_run.problems if p.reason.startswith("the file is a copy")]
        assert (problem.path, problem.severity, problem.count) == (
            "part-1.jsonl",
            "partial",
            len(lines),
        )
