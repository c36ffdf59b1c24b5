"""Lines with values per token that are taken together make the index that they make one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from board.index.reading.row_batch import RowBatch
from board.index.reading.scan import index_shard
from board.index.reading.shard import Shard

LINES = 32
NAN = float("nan")
ARRAYS = (
    *("logprobs", "ref_logprobs", "entropy", "values", "sampling_logprobs", "old_logprobs"),
    "response_ids",
)


def indexed(path: Path, reader: str) -> list[Any]:
    """All that the parts of a file's index say; the order of the columns is no part of it."""
    parts = index_shard(Shard(path, path.name, reader))
    return [
        (
            {
                name: (str(column.type), column.to_pylist())
                for name, column in zip(p.table.column_names, p.table.columns, strict=True)
            },
            [(event.kind, event.data["step"]) for event in p.events],
            (p.problems, p.consumed, p.lines, p.last_bytes),
        )
        for p in parts
    ]


@pytest.fixture
def one_by_one(monkeypatch) -> Callable[[Path, str], list[Any]]:
    """The same where every line is read for itself."""

    def read(path: Path, reader: str) -> list[Any]:
        with monkeypatch.context() as patched:
            patched.setattr(RowBatch, "_add_together", lambda *_: ())
            return indexed(path, reader)

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


ODD: list[Callable[[Random, dict[str, Any]], dict[str, Any]]] = [
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
def test_whatever_lines_hold_they_make_the_index_of_each(kind, one_by_one, tmp_path):
    path = tmp_path / "log.jsonl"
    for seed in range(len(ODD)):
        draw = Random(seed)
        oddity = [ODD[seed], ODD[seed], draw.choice(ODD)]
        lines: list[bytes] = []
        for place in range(LINES):
            line = rollout(draw, kind, place // 8)
            if draw.random() < 0.2:
                line |= draw.choice(oddity)(draw, line)
            lines.append(written(draw, line))
        path.write_bytes(b"\n".join(lines) + b"\n")
        assert indexed(path, kind) == one_by_one(path, kind), seed


@pytest.mark.parametrize("kind", ["native", "rllb"])
def test_what_all_lines_hold_makes_the_index_of_each(kind, one_by_one, tmp_path):
    path = tmp_path / "log.jsonl"
    for number, change in enumerate(ODD):
        draw = Random(number)
        lines = [rollout(draw, kind, 0) for _ in range(6)]
        path.write_text("".join(json.dumps(x | change(draw, x)) + "\n" for x in lines))
        assert indexed(path, kind) == one_by_one(path, kind), number


@pytest.mark.parametrize("surplus", [-1, 1, 2])
def test_a_piece_more_or_less_is_said_of_every_line(surplus, one_by_one, tmp_path):
    draw, path = Random(surplus), tmp_path / "log.jsonl"
    lines = [rollout(draw, "rllb", 0) for _ in range(LINES)]
    for line in lines:
        pieces = line["response_tokens"]
        line["response_tokens"] = pieces[:-1] if surplus < 0 else pieces + ["."] * surplus
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert indexed(path, "rllb") == one_by_one(path, "rllb")


def no_pieces(line: dict[str, Any]) -> dict[str, Any]:
    return line | {"response_tokens": None}


@pytest.mark.parametrize(
    ("kind", "change"),
    [("native", dict), ("rllb", dict), ("rllb", no_pieces)],
)
def test_usual_lines_are_not_read_one_by_one(kind, change, alone, tmp_path):
    draw, path = Random(1), tmp_path / "log.jsonl"
    lines = [json.dumps(change(rollout(draw, kind, 0))) for _ in range(LINES)]
    path.write_text("\n".join(lines) + "\n")
    (part,) = index_shard(Shard(path, path.name, kind))
    assert part.table.num_rows == LINES
    assert alone == []
