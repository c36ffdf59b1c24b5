"""Whatever the bytes: no crash, no wrong row among the good lines, every bad line counted.

ROLLOUT_BOARD_FUZZ=10000000 pytest tests/unit/index/test_fuzz.py    mutates that many lines.
"""

import json
import math
import os
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from board.core.problems import count_of
from board.errors import RecordError
from board.formats import READERS, reader_named
from board.formats.base import Reader
from board.formats.field_values import CONTENT
from board.formats.metric_lines import METRICS, METRICS_WITH_TEXT
from board.formats.parse import parse_whole
from board.index import segments
from board.index.reading.scan import index_shard
from board.index.reading.shard import Shard

LINES = int(os.environ.get("ROLLOUT_BOARD_FUZZ", "15000"))
_EACH = 2500
SEEDS: list[dict] = [
    {
        "step": 3,
        "prompt": "2+2?",
        "response": "four é \u2028",
        "reward": 0.5,
        "rank": 1,
        "note": "n",
    },
    {"step": 12, "reward": 1, "logprobs": [-0.5, -1e-3, None], "ref_logprobs": [-1, -2, -3]},
    {"step": "4", "type": "sample", "response_ids": [1, 2, 3], "loss_mask": [1, 0, 1]},
    {"step": 7, "response_tokens": ["a", "<pad>"], "logprobs": [-1.5, -2], "rewards": {"x": 1}},
    {"step": 9, "token_ids": [5, 6], "trainer_logprobs": [0, -1], "loss_mask": [False, True]},
    {"step": 1, "messages": [{"role": "user", "content": "q"}], "reward": "0.25", "extra": [1, 2]},
]
PIECES = [
    *rb'NaN null 1e999 - ] [ { } " , : \ \ud800 Infinity "step": "step":5, [[1]] "logprobs":[1],'.split(),
    *(b"\xff", b"\x00", b"\r", b"1" * 30, b" "),
]


def mutated(randomly: random.Random, line: bytes) -> bytes:
    """The line with a few bytes changed, or as it was."""
    for _ in range(randomly.choice([0, 1, 1, 1, 2, 4])):
        place = randomly.randrange(len(line) + 1)
        match randomly.randrange(5):
            case 0:
                line = line[:place] + bytes([randomly.randrange(256)]) + line[place + 1 :]
            case 1:
                line = line[:place] + line[place + randomly.randrange(1, 9) :]
            case 2:
                line = line[:place] + randomly.choice(PIECES) + line[place:]
            case 3:
                other = randomly.randrange(len(line) + 1)
                line = line[:place] + line[min(place, other) : max(place, other)] + line[place:]
            case _:
                line = line[:place]
    return line.replace(b"\n", b"")


def read(path, reader: str):
    """Rows and lost lines as the board finds them."""
    parts = list(index_shard(Shard(path, path.name, reader)))
    rows = segments.joined(part.table for part in parts)
    rewards = (
        rows.column("reward").to_pylist() if "reward" in rows.column_names else [None] * len(rows)
    )
    events = sum(len(part.events) for part in parts)
    events += sum(
        problem.count
        for part in parts
        for problem in part.problems
        if problem.reason
        in (METRICS.reason, METRICS_WITH_TEXT.reason, "the line has texts and no rollout")
    )
    places = zip(
        rows.column("line").to_pylist(), rows.column("step").to_pylist(), rewards, strict=True
    )
    return list(places), sum(count_of(part.problems, "lost") for part in parts), events


def mutated_logs(path, count: int) -> Iterator[tuple[bytes, list[bytes]]]:
    """Logs of so many lines in all, written to `path` one after the other."""
    randomly = random.Random(5)
    for _ in range(math.ceil(count / _EACH)):
        lines = [
            mutated(randomly, json.dumps(row, ensure_ascii=randomly.random() < 0.5).encode())
            for row in randomly.choices(SEEDS, k=_EACH)
        ]
        content = b"".join(line + b"\n" for line in lines)
        path.write_bytes(content)
        yield content, lines


# A slow and plain reader of rollouts, which the board is held to. It shares no code with it.


def loads(line: bytes) -> Any:
    """The value of one line. Raises ValueError or RecursionError when it is none.

    Control characters in texts are taken, but for NUL: those are blocks that were never written.
    """
    if b"\0" in line:
        raise ValueError("NUL")
    return json.loads(line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"), strict=False)


def step_of(value: Any) -> int | None:
    """The step as a whole number; None when it is none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        text = value.strip()
        number, _, remainder = text.partition(".")
        digits = number.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and set(remainder) <= {"0"}):
            digits = text.lstrip("".join(c for c in set(text) if c not in "0123456789"))
            if not (digits.isascii() and digits.isdigit()) or not text[: -len(digits)]:
                return None
            number = digits
        return int(number) if len(number.removeprefix("-")) <= 19 else None
    if isinstance(value, list):
        steps = {step_of(entry) for entry in value}
        return steps.pop() if len(steps) == 1 else None
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value == int(value) else None
    return value if isinstance(value, int) else None


def expected(content: bytes) -> tuple[list[tuple[int, int, float | None]], int]:
    """(line, step, reward) of every rollout, and how many lines are none; of lines of samples only."""
    rows: list[tuple[int, int, float | None]] = []
    bad = 0
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        if not line.strip(b" \t\r\x0b\x0c"):
            continue
        try:
            value = loads(line)
        except (ValueError, RecursionError):
            bad += 1
            continue
        step = step_of(value.get("step")) if isinstance(value, dict) else None
        if step is None or abs(step) > 2**63 - 1:
            bad += 1
            continue
        if is_metrics(value):
            continue
        rows.append((number, step, reward_of(value.get("reward"))))
    return rows, bad


def is_metrics(line: dict[str, Any]) -> bool:
    """Whether a line with a step has nothing of a rollout, and a number beside the step."""
    if not CONTENT.isdisjoint(line):
        return False

    def is_numeric(value: Any) -> bool:
        if isinstance(value, dict):
            return all(is_numeric(inner) for inner in value.values())
        return value is None or isinstance(value, int | float)

    others = [value for key, value in line.items() if key != "step"]
    has_number = any(not isinstance(value, bool) and value is not None for value in others)
    return all(map(is_numeric, others)) and is_numeric(line["step"]) and has_number


def reward_of(value: Any) -> float | None:
    """The reward as a finite number; None where there is none.

    Of an object it is its total, else the one part it has.
    """
    if isinstance(value, dict):
        return _reward_of_parts(value)
    if isinstance(value, str):
        words = {"true": 1.0, "false": 0.0}
        try:
            value = words.get(value.strip().lower()) or float(value)
        except ValueError:
            value = words.get(value.strip().lower())
    if not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _reward_of_parts(reward: dict[str, Any]) -> float | None:
    totals = [reward[key] for key in ("score", "reward") if _is_part(reward.get(key))]
    if totals and totals[0] == totals[0]:
        return reward_of(totals[0])
    parts = [
        value
        for key, value in reward.items()
        if key not in ("score", "reward") and (value is None or _is_part(value))
    ]
    return reward_of(parts[0]) if len(parts) == 1 else None


def _is_part(value: Any) -> bool:
    if not isinstance(value, str):
        return isinstance(value, int | float)
    try:
        float(value)
    except ValueError:
        return False
    return True


@pytest.mark.timeout(120 + LINES // 500)
def test_the_good_lines_of_mutated_logs_are_read_as_a_plain_reader_reads_them(tmp_path):
    path = tmp_path / "x.jsonl"
    for content, lines in mutated_logs(path, LINES):
        rows, lost, _ = read(path, "rllb")
        wanted, bad = expected(content)
        good = {line for line, _, _ in wanted}
        assert [row for row in rows if row[0] in good] == wanted, first_difference(
            rows, wanted, lines
        )
        # A fault inside an array that no column needs is found when the rollout is opened.
        unread = [row for row in rows if row[0] not in good]
        assert lost + len(unread) == bad
        for number, step, _ in unread:
            assert re.search(rb'"step":\s*"?[^0-9"]*0*' + str(step).encode(), lines[number - 1])
            with pytest.raises(RecordError):
                parse_whole(lines[number - 1])


def first_difference(rows, wanted, lines) -> str:
    for row, other in zip(rows, wanted, strict=False):
        if row != other:
            return f"{row} for {other}: {lines[min(row[0], other[0]) - 1]!r}"
    return f"{len(rows)} rows for {len(wanted)}"


@pytest.mark.parametrize("reader", [reader.name for reader in READERS])
def test_no_reader_loses_a_line_without_saying_so(tmp_path, reader):
    randomly = random.Random(reader)
    path = tmp_path / "x.jsonl"
    lines = [mutated(randomly, json.dumps(row).encode()) for row in randomly.choices(SEEDS, k=1000)]
    lines += [b'{"type": "header", "attempt": "a"}', b'{"type": "step_end", "step": 1}']
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    rows, lost, events = read(path, reader)
    blank = sum(not line or line.isspace() for line in lines)
    accounted = len(rows) + lost + events + blank
    if type(reader_named(reader)).rows is Reader.rows:
        assert accounted == len(lines)
    else:  # a line may hold several rollouts, and so several that are lost
        assert accounted >= len(lines)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = ["step", "reward", "logprobs", "rank", "group_id", "rewards", "response", "messages"]
keys = st.sampled_from(KEYS) | st.text(max_size=5)


@settings(max_examples=80)
@given(st.lists(st.dictionaries(keys, values, max_size=6) | values, max_size=6))
@example([{"step": 0, "reward": {"": False}}, {"step": 0, "reward": {"score": 1, "a": 2}}])
@example([{"step": 0, "reward": {"a": 1, "b": None}}, {"step": 0, "reward": {"a": "0.5"}}])
def test_any_json_is_read_as_a_plain_reader_reads_it(tmp_path_factory, documents):
    path = tmp_path_factory.mktemp("fuzz") / "x.jsonl"
    content = b"".join(json.dumps(document).encode() + b"\n" for document in documents)
    path.write_bytes(content)
    rows, lost, _ = read(path, "rllb")
    wanted, bad = expected(content)
    assert (rows, lost) == (wanted, bad)
