"""The work of reading a log grows with what it holds, and not with its square, in each format."""

import json
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from read_formats import REAL_RUNS

from board.core.records import ReadOptions
from board.core.texts.conversation import conversation_of
from board.formats import READERS, mapping_text
from board.index.discovery.run_info import LogFile
from board.index.reading.scan import index_shard
from board.index.reading.shard import Shard

FEW, MANY = 12, 48
MOST = 1.15 * MANY / FEW
"""How many times as much work the larger log may take."""
MOST_BYTES = 100_000
ROLLOUTS_OF_ONE_TREE = {"nodes"}
"""Of a trace with branches each is a rollout, which is made of the whole trace."""
ALONE = {"slime", "slime_train", "areal_texts"}
"""Formats whose file is one object of PyTorch, or one text: of these there are more, not larger ones."""
TEXTS = (".jsonl", ".json", ".traj", ".ndjson")
FILES = {
    file.reader: file
    for info in REAL_RUNS
    for file in sorted(info.files, key=lambda file: -file.size)
    if file.path.name.endswith((*TEXTS, ".parquet", ".db"))
}
"""A small file of each format."""
PATHS = {name: Path(str(file.path)) for name, file in FILES.items()}


def calls(read: Callable[[], object]) -> int:
    """How many calls of functions, and steps of generators, something takes."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        read()
    finally:
        sys.setprofile(None)
    return count


def operations(run: Callable[[], object]) -> int:
    """How many operations of the interpreter something takes: slower to count, and exact in loops."""
    count = 0

    def counted(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return counted

    before = sys.gettrace()
    sys.settrace(counted)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def work(path: Path, text: str, file: LogFile) -> int:
    """The work of reading a file of this text."""
    path.write_text(text)
    return work_of_file(path, file)


def work_of_file(path: Path, file: LogFile) -> int:
    """The work of reading a file as another one of the same kind is read."""
    shard = Shard(
        path, path.name, file.reader, 0, path.stat().st_size, mapping=mapping_text(file.reader)
    )
    return calls(lambda: [*index_shard(shard, ReadOptions(), None)])


def lists_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all lists of objects, of those within a list in its first entry."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from lists_in(inner, (*path, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield path
        yield from lists_in(value[0], (*path, 0))


def longer(value: Any, path: tuple[Any, ...], times: int) -> Any:
    """The value with the list at a place so many times as long."""
    if not path:
        return value * times
    key, *rest = path
    copy = [*value] if isinstance(value, list) else {**value}
    copy[key] = longer(value[key], tuple(rest), times)
    return copy


def documents(text: str) -> Iterator[Any]:
    """The JSON documents that follow each other in a text, each on one line or over several."""
    end = 0
    while text[end:].strip():
        start = end + len(text[end:]) - len(text[end:].lstrip())
        record, end = json.JSONDecoder().raw_decode(text, start)
        yield record


def beginning_of(path: Path) -> str:
    """A text, of a long one of lines the first lines."""
    text = path.read_text()
    lines = text[:MOST_BYTES].splitlines(keepends=True)
    is_document = path.suffix in (".json", ".traj")
    return text if is_document or len(text) < MOST_BYTES else lines[0]


def test_the_work_of_every_format_is_counted():
    assert {reader.name for reader in READERS} <= FILES.keys() | ALONE


@pytest.mark.parametrize("name", sorted(n for n, path in PATHS.items() if path.suffix in TEXTS))
def test_work_grows_with_the_lines_of_a_log_and_with_each_list_in_them(name, tmp_path):
    file = FILES[name]
    path, text = tmp_path / PATHS[name].name, beginning_of(PATHS[name])
    is_lines = path.suffix in (".jsonl", ".ndjson")
    records = [*documents(text)]
    work(path, text, file)  # what is imported and learned once
    texts: dict[object, list[str]] = {}
    if is_lines:
        texts["lines"] = [text.rstrip("\n").join(("", "\n")) * times for times in (FEW, MANY)]
    for at, record in enumerate(records[:3]):
        for place in (p for p in lists_in(record) if ROLLOUTS_OF_ONE_TREE.isdisjoint(p)):
            texts[at, *place] = [
                json.dumps(longer(record, place, times)) + "\n" for times in (FEW, MANY)
            ]
    for place, (few, many) in texts.items():
        less, more = work(path, few, file), work(path, many, file)
        assert more <= MOST * less, (place, less, more)


def write_table(path: Path, like: Path, times: int) -> None:
    """A Parquet file with all rows of another so many times."""
    table = pq.read_table(like)
    pq.write_table(pa.concat_tables([table] * times), path)


def write_project(path: Path, like: Path, times: int) -> None:
    """A project of Trackio with what another has so many times, each call and trace under its own id."""
    shutil.copy(like, path)
    with closing(sqlite3.connect(path)) as database:
        for table, key in (("metrics", "log_id"), ("traces", "log_id, id")):
            names: list[str] = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            names = [name for name in names if (table, name) != ("metrics", "id")]
            unique = {name: f"{name} || '-' || ?1" for name in key.split(", ")}
            values = ", ".join(unique.get(name, name) for name in names)
            rows = f"SELECT {values} FROM {table} WHERE coalesce(log_id, '') NOT LIKE '%-%copy'"
            for number in range(1, times):
                statement = f"INSERT INTO {table} ({', '.join(names)}) {rows}"
                database.execute(statement, (f"{number}copy",))
        database.commit()


WRITERS = {".parquet": write_table, ".db": write_project}


@pytest.mark.parametrize("name", sorted(n for n, path in PATHS.items() if path.suffix in WRITERS))
def test_work_grows_with_the_rows_of_a_table(name, tmp_path):
    file = FILES[name]
    like, write = PATHS[name], WRITERS[PATHS[name].suffix]
    paths = [tmp_path / f"{times}{like.suffix}" for times in (FEW, MANY)]
    for path, times in zip(paths, (FEW, MANY), strict=True):
        write(path, like, times)
    work_of_file(paths[0], file)  # what is imported and learned once
    less, more = (work_of_file(path, file) for path in paths)
    assert less * 2 < more <= MOST * less, (less, more)


CALL = {"type": "tool_use", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "content": "1"}
CONVERSATIONS = {
    "calls, then their results": lambda n: [
        {"role": "assistant", "content": [{**CALL, "id": f"{i}"} for i in range(n)]},
        {"role": "user", "content": [{**RESULT, "tool_use_id": f"{i}"} for i in range(n)]},
    ],
    "the last calls are answered first": lambda n: [
        {"role": "assistant", "content": [{**CALL, "id": f"{i}"} for i in range(n)]},
        {"role": "user", "content": [{**RESULT, "tool_use_id": f"{-i}"} for i in range(1 - n, 1)]},
    ],
    "calls without results": lambda n: [
        {"role": "assistant", "content": [{**CALL, "id": f"{i}"}]} for i in range(n)
    ],
    "results that nobody asked for": lambda n: [
        {"role": "user", "content": [{**RESULT, "tool_use_id": f"{i}"}]} for i in range(n)
    ],
    "calls within reasoning": lambda n: [
        {"role": "assistant", "content": f"<think>{'<tool_call>{}</tool_call>' * n}</think>"}
    ],
}


@pytest.mark.parametrize("kind", CONVERSATIONS)
def test_work_grows_with_the_calls_of_a_conversation(kind):
    few, many = map(CONVERSATIONS[kind], (FEW * 4, MANY * 4))
    conversation_of(few, {})
    less, more = (
        operations(lambda turns=turns: conversation_of(turns, {})) for turns in (few, many)
    )
    assert more <= MOST * less, (less, more)
