"""Lines that are taken together make the index that they make one by one, whatever is in them."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from board.core.records import ReadOptions
from board.formats import reader_named
from board.formats.recognition import recognise
from board.formats.sources import DamagedError
from board.index.reading import scan
from board.index.reading.row_batch import RowBatch
from board.index.reading.scan import index_shard
from board.index.reading.shard import Shard, ShardIndex

DATA = Path(__file__).parents[2] / "formats" / "data"
NAN = float("nan")
EXAMPLES = 40


@cache
def files(reader: str) -> list[Path]:
    """The files that its framework wrote."""
    return [
        path
        for path in sorted(DATA.rglob("*"))
        if path.is_file() and recognise(path)[0] is reader_named(reader)
    ]


def indexed(path: Path, reader: str, options: ReadOptions | None = None) -> list[Any]:
    """All that the parts of a file's index say; the order of the columns is no part of it."""
    return list(map(message, index_shard(Shard(path, path.name, reader), options)))


def message(part: ShardIndex) -> list[Any]:
    columns = zip(part.table.column_names, part.table.columns, strict=True)
    return [
        {name: (str(column.type), column.to_pylist()) for name, column in columns},
        [(event.kind, event.data.get("step")) for event in part.events],
        (part.problems, [problem.lines for problem in part.problems]),
        (part.consumed, part.lines, part.last_bytes),
        part.tail and message(part.tail),
    ]


@pytest.fixture
def one_by_one(monkeypatch) -> Callable[..., list[Any]]:
    """The same where every rollout is looked at for itself."""

    def read(path: Path, reader: str, options: ReadOptions | None = None) -> list[Any]:
        with monkeypatch.context() as patched:
            patched.setattr(RowBatch, "_add_together", lambda *_: ())
            return indexed(path, reader, options)

    return read


@pytest.fixture
def alone(monkeypatch) -> list[int]:
    """The lines of rollouts that are looked at for themselves."""
    lines: list[int] = []
    add = RowBatch._add_alone

    def noted(self: RowBatch, rollout: Any, at: Any) -> None:
        lines.append(at[0])
        add(self, rollout, at)

    monkeypatch.setattr(RowBatch, "_add_alone", noted)
    return lines


@pytest.mark.parametrize("name", ["verl", "verifiers", "trl", "areal", "skyrl", "xtuner"])
def test_files_make_the_index_of_their_lines(name, one_by_one, alone):
    rows = by_themselves = 0
    for path in files(name):
        alone.clear()
        parts = indexed(path, name)
        by_themselves += len(alone)
        assert parts == one_by_one(path, name)
        rows += sum(len(columns["step"][1]) for columns, *_ in parts)
    assert by_themselves < rows / 2, "most lines have nothing that must be looked at for itself"


ODD = (
    *(None, "", "True", "False", "0.5", "half", "7", "step_3", NAN, float("inf"), -0.0),
    *(True, False, 0, 3, -1, 2.5, 2**53 + 1, 2**63, 2**64 - 1, 10**400, 1e308),
    *([], {}, [1, 2], [None], [[1]], ["a"], [{"role": "user"}], {"a": 1.5}, {"a": None}),
    *([{"role": "user", "content": "hi"}], [{"role": None, "content": None}, {"role": "tool"}]),
    *([{"role": "assistant", "content": [{"type": "image"}]}], [{"role": "user"}, 3]),
    *("x" * 240, "x" * 241, "é" * 240, "é" * 300, "\U0001f600" * 241, "\u2028", "\0"),
)
KEYS = (
    *("input", "output", "gts", "score", "step", "uid", "reward", "request_id", "rollout_id"),
    *("acc", "group_id", "env", "data_source", "split", "finish_reason", "is_truncated"),
    *("rewards", "rank", "prompt", "completion", "metrics", "token_usage", "error", "task"),
    *("info", "answer", "id", "example_id", "env_name", "stop_condition", "timestamp"),
    *("micro_step", "advantage", "index", "response", "messages", "logprobs", "response_ids"),
    *("topk_ids", "type", "line", "k3_mean", "logged.reward", "rewards.a", "number:x", "x"),
    *("correct", "ref_reward", "policy_version"),
)
BROKEN = (
    *(b"", b"  ", b"null", b"3", b"[1]", b"{", b'{"input": "a"', b'{"input": "\xff"}', b"{}"),
    *(b'{"step": 1, "input": "\\ud800", "output": "b", "score": 1}', b'\xef\xbb\xbf{"step": 1}'),
    *(b'{"step": 1, "input": NaN}', b'{"step": 1} {"step": 2}', b'{"step": 1},{"step": 2}'),
    b"[" * 2000,
)


def changed(line: bytes, change: Mapping[str, Any]) -> bytes:
    """The line with other values; as it is where it holds no object."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return line
    return json.dumps(record | change).encode() if isinstance(record, dict) else line


def change(draw: Random) -> dict[str, Any]:
    """A few keys with values that they may not have."""
    return {draw.choice(KEYS): draw.choice(ODD) for _ in range(draw.randint(1, 3))}


def log(draw: Random, lines: Sequence[bytes]) -> bytes:
    """Lines of a log, most as they are, some with other values, keys or bytes."""
    result = draw.choices(lines, k=draw.randint(1, 50))
    for place in draw.sample(range(len(result)), min(draw.randint(0, 4), len(result))):
        is_broken = draw.random() < 0.3
        result[place] = draw.choice(BROKEN) if is_broken else changed(result[place], change(draw))
    if draw.random() < 0.6:  # what all lines have
        same = change(draw)
        result = [changed(line, same) for line in result]
    return b"\n".join(result) + draw.choice([b"\n", b""])


@pytest.fixture
def small_parts(monkeypatch) -> None:
    """Parts and tables of a few rows."""
    monkeypatch.setattr("board.index.reading.row_batch._CHUNK_ROWS", 12)
    monkeypatch.setattr(scan, "PART_ROWS", 25)


def lines_of(name: str) -> list[bytes]:
    return [line for file in files(name) for line in file.read_bytes().splitlines()]


@pytest.mark.parametrize("name", ["verl", "verifiers"])
def test_whatever_lines_hold_they_make_the_index_of_each(name, small_parts, one_by_one, tmp_path):
    path, draw = tmp_path / "3.jsonl", Random(6)
    for _ in range(EXAMPLES):
        path.write_bytes(log(draw, lines_of(name)))
        options = draw.choice([None, ReadOptions(system_prompt_end="e")])
        assert indexed(path, name, options) == one_by_one(path, name, options)


PAIRS = (
    {"logged.reward": 1, "reward": 2},
    {"metrics": {"a": None}, "token_usage": {"a": 5}},
    {"metrics": {"a": 4}, "a": None},
    {"acc": math.nan, "x": [10**400]},
    {"uid": "a_1_2", "group_id": "b", "rollout_id": 3},
    {"finish_reason": "length", "is_truncated": None},
)


@pytest.mark.parametrize("name", ["verl", "verifiers"])
def test_keys_that_mean_the_same_are_read_as_in_each_line(name, one_by_one, tmp_path):
    for number, same in enumerate(PAIRS):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(b"".join(changed(line, same) + b"\n" for line in lines_of(name)))
        assert indexed(path, name) == one_by_one(path, name), same


VALUES = (None, None, 1.5, 0.0, math.nan, math.inf, "a", "0.5", "x" * 300, 3, True, [1.5], {"a": 1})


def column(draw: Random, rows: int) -> pa.Array:
    """A column of a table: of one type, with or without nulls."""
    kind = type(draw.choice(VALUES[2:]))
    chosen = [value for value in VALUES if type(value) in (kind, type(None))]
    return pa.array([draw.choice(chosen if rows > 2 else chosen[-1:]) for _ in range(rows)])


def test_whatever_a_table_holds_it_makes_the_index_of_its_rows(small_parts, one_by_one, tmp_path):
    path, draw = tmp_path / "completions_00001.parquet", Random(6)
    tables = [pq.read_table(file) for file in files("trl")]
    for _ in range(EXAMPLES):
        table = draw.choice(tables)
        for name in draw.choices((*table.column_names, *KEYS), k=draw.randint(0, 3)):
            stored = {n: table.column(n) for n in table.column_names}
            table = pa.table(stored | {name: column(draw, table.num_rows)})
        pq.write_table(table, path)
        assert indexed(path, "trl") == one_by_one(path, "trl")


def test_a_table_whose_texts_are_no_utf_8_is_damaged(tmp_path):
    path = tmp_path / "completions_00001.parquet"
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"ab\xff" + b"c" * 300]).buffers())
    stored = {
        "step": [1],
        "prompt": broken,
        "completion": ["a"],
        "right": [0.5],
        "advantage": [0.1],
    }
    pq.write_table(pa.table(stored), path)
    with pytest.raises(DamagedError, match="damaged"):
        indexed(path, "trl")


LINES = 32
ARRAYS = (
    *("logprobs", "ref_logprobs", "entropy", "values", "sampling_logprobs", "old_logprobs"),
    "response_ids",
)


def numbers(draw: Random, count: int) -> list[float]:
    return [round(draw.gauss(-1, 1), 4) for _ in range(count)]


def rollout(draw: Random, kind: str, step: int) -> dict[str, Any]:
    """A usual line of a log."""
    count = draw.randint(3, 9)
    line: dict[str, Any] = {"step": step, "reward": draw.random(), "note": draw.choice("ab")}
    for name in ("logprobs", "ref_logprobs", "entropy", "values"):
        line[name] = numbers(draw, count)
    if kind == "rllb":
        pieces = [draw.choice((" so", "4", '"', "\\", "é")) for _ in range(count)]
        return line | {"prompt": "why?", "response": "".join(pieces), "response_tokens": pieces}
    line |= {"loss_mask": [draw.randint(0, 1) for _ in range(count)], "rank": 0, "type": "sample"}
    line |= {"sampling_logprobs": numbers(draw, count), "old_logprobs": numbers(draw, count)}
    return line | {
        "response_ids": [draw.randint(0, 900) for _ in range(count)],
        "prompt_ids": [draw.randint(0, 900) for _ in range(draw.randint(1, 4))],
        "rollout_id": f"r{draw.randint(0, 99)}",
    }


ODD_TOKENS: list[Callable[[Random, dict[str, Any]], dict[str, Any]]] = [
    lambda draw, line: {"logprobs": [None, *line["logprobs"][1:]]},
    lambda draw, line: {"entropy": [NAN, *line["entropy"][1:]]},
    lambda draw, line: {"entropy": [-float("inf"), *line["entropy"][1:]]},
    lambda draw, line: {"ref_logprobs": [None] * len(line["logprobs"])},
    lambda draw, line: {"logprobs": line["logprobs"][1:]},
    lambda draw, line: {"values": [*line["values"], 1.5]},
    lambda draw, line: {"values": []},
    lambda draw, line: {name: [] for name in ("logprobs", "ref_logprobs", "entropy", "values")},
    lambda draw, line: {"entropy": 0.5},
    lambda draw, line: {"entropy": "high"},
    lambda draw, line: {"entropy": None, "logprobs": None},
    lambda draw, line: {"logprobs": ["-1.5", *line["logprobs"][1:]]},
    lambda draw, line: {"logprobs": [True, *line["logprobs"][1:]]},
    lambda draw, line: {"logprobs": [{}, *line["logprobs"][1:]]},
    lambda draw, line: {"logprobs": [[1.0], *line["logprobs"][1:]]},
    lambda draw, line: {"logprobs": [1e400, *line["logprobs"][1:]]},
    lambda draw, line: {"ref_logprobs": [-3.4e38, *line["ref_logprobs"][1:]]},
    lambda draw, line: {"own_metric": numbers(draw, len(line["logprobs"]))},
    lambda draw, line: {"own_metric": numbers(draw, 2), "topk_ids": [[1, 2], [3]]},
    lambda draw, line: {"extras": {"logprobs": [1.0, 2.0]}},
    lambda draw, line: {"prompt": "a longer prompt " * 30},
    lambda draw, line: {"prompt": None, "response": None},
    lambda draw, line: {"response_tokens": ["<pad>", "a", "<pad>"]},
    lambda draw, line: {"response_tokens": ["a", 4]},
    lambda draw, line: {"response_tokens": []},
    lambda draw, line: {"response_tokens": ["<pad>", *"a" * (len(line["logprobs"]) - 1)]},
    lambda draw, line: {"response_tokens": [*"a" * (len(line["logprobs"]) - 1), "<pad>"]},
    lambda draw, line: {"response_tokens": "a" * len(line["logprobs"])},
    lambda draw, line: {"response_tokens": None},
    lambda draw, line: dict.fromkeys(ARRAYS),
    lambda draw, line: {**dict.fromkeys((*ARRAYS, "response"), None), "response_tokens": []},
    lambda draw, line: {"response_ids": [7] * (len(line["logprobs"]) + 1)},
    lambda draw, line: {**dict.fromkeys(ARRAYS), "response_ids": [7, 8], "loss_mask": None},
    lambda draw, line: {**{name: [] for name in ARRAYS}, "loss_mask": []},
    lambda draw, line: {"response_ids": [7], "response_tokens": ["a"] * len(line["logprobs"])},
    lambda draw, line: {"response": None, "response_tokens": ["long "] * len(line["logprobs"])},
    lambda draw, line: {"response_ids": [1.5] * len(line["logprobs"])},
    lambda draw, line: {"response_ids": ["x"]},
    lambda draw, line: {"messages": [{"role": "user", "content": "why?"}]},
    lambda draw, line: {"finish_reason": "length", "split": "eval", "validation": True},
    lambda draw, line: {"step": "step 3"},
    lambda draw, line: {"step": None},
    lambda draw, line: {"type": draw.choice(("sample", "step_end", "close", "other", None))},
    lambda draw, line: {"new_response_mask": [1] * len(line["logprobs"])},
    lambda draw, line: {"reward": "", "values": ""},
]


def written(draw: Random, line: dict[str, Any]) -> bytes:
    if draw.random() < 0.02:
        return draw.choice((b"", b"[1]", b'{"step": 1, "logprobs": [1, 2', b"\xff"))
    return json.dumps(line).encode()


@pytest.mark.parametrize("kind", ["native", "rllb"])
def test_whatever_arrays_lines_hold_they_make_the_index_of_each(kind, one_by_one, tmp_path):
    path = tmp_path / "log.jsonl"
    for seed in range(len(ODD_TOKENS)):
        draw = Random(seed)
        oddity = [ODD_TOKENS[seed], ODD_TOKENS[seed], draw.choice(ODD_TOKENS)]
        lines: list[bytes] = []
        for place in range(LINES):
            line = rollout(draw, kind, place // 8)
            if draw.random() < 0.2:
                line |= draw.choice(oddity)(draw, line)
            lines.append(written(draw, line))
        path.write_bytes(b"\n".join(lines) + b"\n")
        assert indexed(path, kind) == one_by_one(path, kind), seed


@pytest.mark.parametrize("kind", ["native", "rllb"])
def test_whatever_arrays_all_lines_hold_they_make_the_index_of_each(kind, one_by_one, tmp_path):
    path = tmp_path / "log.jsonl"
    for number, change in enumerate(ODD_TOKENS):
        draw = Random(number)
        lines = [rollout(draw, kind, 0) for _ in range(6)]
        path.write_text("".join(json.dumps(x | change(draw, x)) + "\n" for x in lines))
        assert indexed(path, kind) == one_by_one(path, kind), number


@pytest.mark.parametrize(
    ("kind", "change"), [("native", {}), ("rllb", {}), ("rllb", {"response_tokens": None})]
)
def test_usual_lines_are_not_looked_at_one_by_one(kind, change, alone, tmp_path):
    draw, path = Random(1), tmp_path / "log.jsonl"
    lines = [json.dumps(rollout(draw, kind, 0) | change) for _ in range(LINES)]
    path.write_text("\n".join(lines) + "\n")
    ((columns, *_),) = indexed(path, kind)
    assert len(columns["step"][1]) == LINES
    assert alone == []
