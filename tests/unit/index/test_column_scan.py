"""Lines that are taken together make the index that they make one by one, whatever is in them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from board.core.records import ReadOptions
from board.formats import reader_named
from board.formats.base import Reader
from board.formats.recognition import recognise
from board.formats.sources import DamagedError
from board.index import segments
from board.index.reading import scan
from board.index.reading.row_batch import RowBatch
from board.index.reading.scan import index_shard
from board.index.reading.shard import Shard, ShardIndex

DATA = Path(__file__).parents[2] / "formats" / "data"
BY_COLUMNS = [reader_named(name) for name in ("verl", "verifiers", "trl")]
FILES = {
    reader.name: [
        path for path in sorted(DATA.rglob("*")) if path.is_file() and recognise(path)[0] is reader
    ]
    for reader in BY_COLUMNS
}
OF_LINES = [name for name, files in FILES.items() if files[0].suffix == ".jsonl"]
EXAMPLES = 40
IDS = [reader.name for reader in BY_COLUMNS]


def indexed(path: Path, reader: Reader, options: ReadOptions | None = None) -> list[ShardIndex]:
    """The parts of the file's index."""
    return list(index_shard(Shard(path, path.name, reader.name), options))


def said(parts: list[ShardIndex]) -> list[Any]:
    """All that the parts say, in plain values; the order of the columns is no part of it."""
    return [
        (
            {name: part.table.column(name).to_pylist() for name in sorted(part.table.column_names)},
            {name: str(part.table.column(name).type) for name in sorted(part.table.column_names)},
            segments.columns_of(part.table)
            and {c.name: c for c in segments.columns_of(part.table)},
            (part.events, part.problems, part.consumed, part.lines, part.last_bytes),
            part.tail and said([part.tail]),
        )
        for part in parts
    ]


@pytest.fixture
def one_by_one(monkeypatch):
    """What the parts say when every line is read for itself."""

    def read(path: Path, reader: Reader, options: ReadOptions | None = None) -> list[Any]:
        with monkeypatch.context() as patched:
            patched.setattr(RowBatch, "_add_together", lambda *_: ())
            return said(indexed(path, reader, options))

    return read


@pytest.fixture
def alone(monkeypatch) -> list[int]:
    """The lines of rollouts that are looked at one by one."""
    lines: list[int] = []
    add = RowBatch._add_alone

    def noted(self: RowBatch, rollout: Any, at: Any) -> None:
        lines.append(at[0])
        add(self, rollout, at)

    monkeypatch.setattr(RowBatch, "_add_alone", noted)
    return lines


@pytest.mark.parametrize("reader", BY_COLUMNS, ids=IDS)
def test_files_make_the_index_of_their_lines(reader, one_by_one, alone):
    rows = by_themselves = 0
    for path in FILES[reader.name]:
        alone.clear()
        parts = indexed(path, reader)
        by_themselves += len(alone)
        assert said(parts) == one_by_one(path, reader)
        rows += sum(part.table.num_rows for part in parts)
    assert by_themselves < rows / 2, "most lines have nothing that must be looked at for itself"


ODD = (
    *(None, "", "True", "False", "0.5", "half", "7", "step_3", float("nan"), float("inf"), -0.0),
    *(True, False, 0, 3, -1, 2.5, 2**53 + 1, 2**63, 2**64 - 1, 10**400, 1e308),
    *([], {}, [1, 2], [None], [[1]], ["a"], [{"role": "user"}], {"a": 1.5}, {"a": None}),
    *([{"role": "user", "content": "hi"}], [{"role": None, "content": None}, {"role": "tool"}]),
    *([{"role": "assistant", "content": [{"type": "image"}]}], [{"role": "user"}, 3]),
    *("x" * 240, "x" * 241, "é" * 240, "é" * 300, "\U0001f600" * 241, "\u2028", "\0"),
)
KEYS = (
    *(
        "input",
        "output",
        "gts",
        "score",
        "step",
        "uid",
        "reward",
        "request_id",
        "rollout_id",
        "acc",
    ),
    *(
        "group_id",
        "env",
        "data_source",
        "split",
        "finish_reason",
        "is_truncated",
        "rewards",
        "rank",
    ),
    *("prompt", "completion", "metrics", "token_usage", "error", "task", "info", "answer", "id"),
    *("example_id", "env_name", "stop_condition", "timestamp", "micro_step", "advantage", "index"),
    *("response", "messages", "logprobs", "response_ids", "topk_ids", "type", "line", "k3_mean"),
    *("logged.reward", "rewards.a", "number:x", "x", "correct", "ref_reward", "policy_version"),
)
BROKEN = (
    *(b"", b"  ", b"null", b"3", b"[1]", b"{", b'{"input": "a"', b'{"input": "\xff"}', b"{}"),
    *(b'{"step": 1, "input": "\\ud800", "output": "b", "score": 1}', b'\xef\xbb\xbf{"step": 1}'),
    *(
        b'{"step": 1, "input": NaN}',
        b'{"step": 1} {"step": 2}',
        b'{"step": 1},{"step": 2}',
        b"[" * 2000,
    ),
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
    found = draw.choices(lines, k=draw.randint(1, 50))
    for place in draw.sample(range(len(found)), min(draw.randint(0, 4), len(found))):
        is_broken = draw.random() < 0.3
        found[place] = draw.choice(BROKEN) if is_broken else changed(found[place], change(draw))
    if draw.random() < 0.6:  # what all lines have
        same = change(draw)
        found = [changed(line, same) for line in found]
    return b"\n".join(found) + draw.choice([b"\n", b""])


@pytest.fixture
def small_parts(monkeypatch) -> None:
    """Parts and tables of a few rows; lines are taken together however few of them are plain."""
    monkeypatch.setattr("board.index.reading.row_batch._CHUNK_ROWS", 12)
    monkeypatch.setattr(scan, "PART_ROWS", 25)


@pytest.mark.parametrize("name", OF_LINES)
def test_whatever_lines_hold_they_make_the_index_of_each(name, small_parts, one_by_one, tmp_path):
    reader, path, draw = reader_named(name), tmp_path / "3.jsonl", Random(6)
    lines = [line for file in FILES[name] for line in file.read_bytes().splitlines()]
    for _ in range(EXAMPLES):
        path.write_bytes(log(draw, lines))
        options = draw.choice([None, ReadOptions(system_prompt_end="e")])
        assert said(indexed(path, reader, options)) == one_by_one(path, reader, options)


PAIRS = (
    {"logged.reward": 1, "reward": 2},
    {"metrics": {"a": None}, "token_usage": {"a": 5}},
    {"metrics": {"a": 4}, "a": None},
    {"acc": math.nan, "x": [10**400]},
    {"uid": "a_1_2", "group_id": "b", "rollout_id": 3},
    {"finish_reason": "length", "is_truncated": None},
)


@pytest.mark.parametrize("name", OF_LINES)
@pytest.mark.parametrize("same", PAIRS, ids=str)
def test_keys_that_mean_the_same_are_read_as_in_each_line(name, same, one_by_one, tmp_path):
    reader, path = reader_named(name), tmp_path / "3.jsonl"
    lines = [line for file in FILES[name] for line in file.read_bytes().splitlines()]
    path.write_bytes(b"".join(changed(line, same) + b"\n" for line in lines))
    assert said(indexed(path, reader)) == one_by_one(path, reader)


VALUES = (None, None, 1.5, 0.0, math.nan, math.inf, "a", "0.5", "x" * 300, 3, True, [1.5], {"a": 1})


def column(draw: Random, rows: int) -> pa.Array:
    """A column of a table: of one type, with or without nulls."""
    kind = type(draw.choice(VALUES[2:]))
    chosen = [value for value in VALUES if type(value) in (kind, type(None))]
    return pa.array([draw.choice(chosen if rows > 2 else chosen[-1:]) for _ in range(rows)])


def test_whatever_a_table_holds_it_makes_the_index_of_its_rows(small_parts, one_by_one, tmp_path):
    reader, path, draw = reader_named("trl"), tmp_path / "completions_00001.parquet", Random(6)
    tables = [pq.read_table(file) for file in FILES["trl"]]
    for _ in range(EXAMPLES):
        table = draw.choice(tables)
        for name in draw.choices((*table.column_names, *KEYS), k=draw.randint(0, 3)):
            held = {n: table.column(n) for n in table.column_names}
            table = pa.table(held | {name: column(draw, table.num_rows)})
        pq.write_table(table, path)
        assert said(indexed(path, reader)) == one_by_one(path, reader)


def test_a_table_whose_texts_are_no_utf_8_is_damaged(tmp_path):
    reader, path = reader_named("trl"), tmp_path / "completions_00001.parquet"
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"ab\xff" + b"c" * 300]).buffers())
    held = {"step": [1], "prompt": broken, "completion": ["a"], "right": [0.5], "advantage": [0.1]}
    pq.write_table(pa.table(held), path)
    with pytest.raises(DamagedError, match="damaged"):
        indexed(path, reader)
