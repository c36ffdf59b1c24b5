"""Lines that are taken together make the index that they make one by one, whatever is in them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from board.core.options import ReadOptions
from board.core.records import Record
from board.readers import READERS, recognise
from board.readers.base import Reader
from board.store import scan, segments
from board.store.scan import Shard, ShardIndex, index_shard

DATA = Path(__file__).parents[2] / "formats" / "data"
BY_COLUMNS = [reader for reader in READERS if type(reader).columns is not Reader.columns]
FILES = {
    reader.name: [path for path in sorted(DATA.rglob("*")) if path.is_file() and recognise(path)[0] is reader]
    for reader in BY_COLUMNS
}
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
            segments.columns_of(part.table) and {c.name: c for c in segments.columns_of(part.table)},
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
            patched.setattr(type(reader), "columns", Reader.columns)
            return said(indexed(path, reader, options))

    return read


@pytest.fixture
def reads(monkeypatch) -> Callable[[Reader], list[int]]:
    """Counts the lines that a reader is given one by one."""

    def watch(reader: Reader) -> list[int]:
        found: list[int] = []
        read = type(reader).read

        def counted(self: Reader, line: Any, at: Any) -> Record:
            found.append(at.line)
            return read(self, line, at)

        monkeypatch.setattr(type(reader), "read", counted)
        return found

    return watch


@pytest.mark.parametrize("reader", BY_COLUMNS, ids=IDS)
def test_files_make_the_index_of_their_lines(reader, one_by_one, reads):
    assert FILES[reader.name]
    for path in FILES[reader.name]:
        expected = one_by_one(path, reader)
        alone = reads(reader)
        assert said(indexed(path, reader)) == expected
        assert not alone, "no line of these files has to be read for itself"


ODD = (
    *(None, "", "True", "False", "0.5", "half", "7", "step_3", float("nan"), float("inf"), -0.0),
    *(True, False, 0, 3, -1, 2.5, 2**53 + 1, 2**63, 2**64 - 1, 10**400, 1e308),
    *([], {}, [1, 2], [None], [[1]], ["a"], [{"role": "user"}], {"a": 1.5}, {"a": None}),
    *([{"role": "user", "content": "hi"}], [{"role": None, "content": None}, {"role": "tool"}]),
    *([{"role": "assistant", "content": [{"type": "image"}]}], [{"role": "user"}, 3]),
    *("x" * 240, "x" * 241, "é" * 240, "é" * 300, "\U0001f600" * 241, "\u2028", "\0"),
)
KEYS = (
    *("input", "output", "gts", "score", "step", "uid", "reward", "request_id", "rollout_id", "acc"),
    *("group_id", "env", "data_source", "split", "finish_reason", "is_truncated", "rewards", "rank"),
    *("prompt", "completion", "metrics", "token_usage", "error", "task", "info", "answer", "id"),
    *("example_id", "env_name", "stop_condition", "timestamp", "micro_step", "advantage", "index"),
    *("response", "messages", "logprobs", "response_ids", "topk_ids", "type", "line", "k3_mean"),
    *("logged.reward", "rewards.a", "number:x", "x", "correct", "ref_reward", "policy_version"),
)
BROKEN = (
    *(b"", b"  ", b"null", b"3", b"[1]", b"{", b'{"input": "a"', b'{"input": "\xff"}', b"{}"),
    *(b'{"step": 1, "input": "\\ud800", "output": "b", "score": 1}', b'\xef\xbb\xbf{"step": 1}'),
    *(b'{"step": 1, "input": NaN}', b'{"step": 1} {"step": 2}', b'{"step": 1},{"step": 2}', b"[" * 2000),
)


@st.composite
def logs(draw: st.DrawFn, lines: list[bytes]) -> bytes:
    """Lines of a log, many as they are, some with other values, keys or bytes."""
    chosen = draw(st.lists(st.sampled_from(lines), min_size=1, max_size=12))
    found = [line for line in chosen for _ in range(draw(st.sampled_from([1, 1, 9])))]
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(found) - 1))
        found[place] = draw(st.sampled_from(BROKEN) | st.builds(changed, st.just(found[place]), CHANGES))
    if draw(st.booleans()):  # a key that all lines have
        change = draw(CHANGES)
        found = [changed(line, change) for line in found]
    return b"\n".join(found) + draw(st.sampled_from([b"\n", b""]))


CHANGES = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(ODD), min_size=1, max_size=4)


def changed(line: bytes, change: dict[str, Any]) -> bytes:
    """The line with other values; as it is where it holds no object."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return line
    return json.dumps(record | change).encode() if isinstance(record, dict) else line


@pytest.mark.parametrize("reader", [r for r in BY_COLUMNS if FILES[r.name][0].suffix == ".jsonl"], ids=lambda r: r.name)
def test_whatever_lines_hold_they_make_the_index_of_each(reader, one_by_one, tmp_path, monkeypatch):
    monkeypatch.setattr(scan, "_CHUNK_ROWS", 7)
    monkeypatch.setattr(scan, "PART_ROWS", 20)
    monkeypatch.setattr(scan, "_MOST_ODD", 1)  # together, however few are plain
    lines = [line for path in FILES[reader.name] for line in path.read_bytes().splitlines()]
    path = tmp_path / "3.jsonl"

    @settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True)
    @given(logs(lines))
    def check(log: bytes) -> None:
        path.write_bytes(log)
        assert said(indexed(path, reader)) == one_by_one(path, reader)

    check()


EXAMPLES = 150
