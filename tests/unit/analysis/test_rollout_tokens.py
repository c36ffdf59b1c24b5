"""Lines that are read together give what each of them gives as a Record."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from read_formats import REAL_RUNS, real_run

from board.analysis import step_records
from board.analysis.rollout import open_rollout
from board.analysis.rollout_tokens import ReadTokens, RolloutTokens, read_tokens
from board.analysis.step_records import Batch, StepRecords
from board.analysis.step_tokens import StepReader
from board.core.records import Record
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Follower, Run

MOST_ROLLOUTS = 400
WANTED = (ReadTokens(), ReadTokens(texts=True), ReadTokens.of_metric("k3"))


class OneByOne(StepRecords):
    """The same, a Record for each."""

    def batches(self, rows: Any, progress: Any = None) -> Any:
        """As StepRecords."""
        for place, record in self.of(rows, progress):
            yield Batch(None, (), ((place, record),), 0)


def told(read: RolloutTokens) -> dict[str, Any]:
    """Everything of a rollout as plain values; a token without a value is None."""
    plain = {name: getattr(read, name) for name in RolloutTokens.__slots__}
    plain["arrays"] = {name: known(values) for name, values in read.arrays.items()}
    plain["ids"] = None if read.ids is None else known(read.ids)
    plain["pieces"] = None if read.pieces is None else [*read.pieces]
    plain["segments"], plain["messages"] = [*read.segments], [*read.messages]
    plain["broken"] = None if np.isnan(read.broken) else read.broken
    plain["faults"] = sorted(read.faults)
    return plain


def known(values: Any) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]


def both(run: Run, what: ReadTokens) -> tuple[list[Any], list[Any]]:
    """Read together and one by one, by place."""
    rows = run.rollouts.head(MOST_ROLLOUTS)
    kinds = (StepRecords(run), OneByOne(run))
    found = ([*map(told, read_tokens(kind, rows, what))] for kind in kinds)
    together, alone = (sorted(reads, key=lambda read: read["place"]) for reads in found)
    return together, alone


@pytest.fixture(scope="module", params=REAL_RUNS, ids=lambda info: info.name)
def real(request: pytest.FixtureRequest) -> Run:
    return real_run(request.param)


@pytest.mark.parametrize("what", WANTED, ids=["all", "texts", "k3"])
def test_real_logs_are_read_together_as_they_are_read_one_by_one(
    real: Run, what: ReadTokens
) -> None:
    together, alone = both(real, what)
    assert together == alone
    assert together


def test_every_record_is_the_one_of_the_rollout_when_it_is_opened(real: Run) -> None:
    rows = real.rollouts.iloc[:: max(len(real.rollouts) // 8, 1)]
    keys = [*zip(rows["step"].tolist(), rows["index"].tolist(), strict=True)]
    found = {keys[place]: record for place, record in StepRecords(real).of(rows)}
    assert {*found} == {*keys}
    for (step, index), record in found.items():
        assert plain(record) == plain(open_rollout(real, step, index).record)


def plain(record: Record) -> Any:
    arrays = {name: known(array.values()) for name, array in record.tokens.items()}
    ids = None if record.response_ids is None else known(record.response_ids.values())
    return record.step, dict(record.ids), dict(record.texts), dict(record.scores), arrays, ids


def log(folder: Path, lines: Iterable[str | dict[str, Any]]) -> Run:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    folder.mkdir(exist_ok=True)
    (folder / "a.jsonl").write_text("".join(text + "\n" for text in texts))
    (info,) = discover(folder).runs
    return Follower().run(info)


def line(number: int, **changed: Any) -> dict[str, Any]:
    """A line of a rollout of three tokens; other values and further keys replace its own."""
    usual: dict[str, Any] = {
        "step": number // 40,
        "group_id": f"g{number // 4}",
        "response": "a b c",
        "response_ids": [number, 2, 3],
        "logprobs": [-0.1 * number, -1.5, -2.0],
        "ref_logprobs": [-0.2, -1.25, -2.5],
        "values": [0.5, 0.25, number],
    }
    return {key: value for key, value in (usual | changed).items() if value is not Ellipsis}


ODD: dict[str, dict[str, Any]] = {
    "short array": {"logprobs": [-1.0]},
    "short values": {"values": [1.0, 2.0]},
    "all arrays short": {"logprobs": [-1.0], "ref_logprobs": [-2.0], "values": [0.0]},
    "no ids": {"response_ids": ...},
    "ids of another length": {"response_ids": [1, 2, 3, 4]},
    "pieces": {"response_ids": ..., "response_tokens": ["a", " b", " c"]},
    "nulls": {"values": [None, None, None], "logprobs": [None, -1.0, -2.0]},
    "text in an array": {"values": [1.0, "x", 2.0]},
    "text in ids": {"response_ids": [1, "x", 3]},
    "a constant": {"entropy": 0.5},
    "mask": {"loss_mask": [1, 0, 1]},
    "a mask of another length": {"loss_mask": [1, 0]},
    "an array of the user's": {"own_scores": [1.0, 2.0, 3.0]},
    "an array of the user's, too long": {"own_scores": [1.0, 2.0, 3.0, 4.0]},
    "a list of texts": {"own_words": ["x", "y", "z"]},
    "lists of lists": {"topk_ids": [[1, 2]] * 3, "topk_logprobs": [[-1.0, -2.0]] * 3},
    "nothing of tokens": dict.fromkeys(("response_ids", "logprobs", "ref_logprobs", "values"), ...),
    "broken text": {"response": "a\ufffd\ufffd\ufffd b"},
    "messages": {"messages": [{"role": "assistant", "content": "x"}], "sft_mask": [1, 1, 0]},
    "segments": {"segments": [{"start": 0, "end": 2, "role": "tool"}]},
    "empty": {"logprobs": [], "ref_logprobs": [], "values": [], "response_ids": []},
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("every", [1, 3])
def test_unusual_lines_are_read_as_if_each_stood_alone(tmp_path, name: str, every: int) -> None:
    lines = [line(n, **ODD[name]) if n % every == 0 else line(n) for n in range(60)]
    run = log(tmp_path / "run", lines)
    for what in (*WANTED, ReadTokens.of_metric("own_scores")):
        together, alone = both(run, what)
        assert together == alone
        assert len(together) == 60


def test_lines_that_are_gone_are_left_out_and_the_others_read(tmp_path: Path) -> None:
    run = log(tmp_path / "run", [line(n) for n in range(60)])
    path = tmp_path / "run" / "a.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[7] = b"x" * (len(lines[7]) - 1) + b"\n"
    path.write_bytes(b"".join(lines[:50]) + lines[50][:20])
    places = [read.place for read in read_tokens(StepRecords(run), run.rollouts, ReadTokens())]
    assert places == [n for n in range(50) if n != 7]
    steps = [*StepReader(run).steps(run.rollouts)]
    assert [(tokens.step, len(tokens.indices), tokens.left_out) for tokens in steps] == [
        (0, 39, 1),
        (1, 10, 10),
    ]


def test_steps_read_together_are_those_read_alone(tmp_path: Path, monkeypatch) -> None:
    run = log(tmp_path / "run", [line((n * 7) % 200) for n in range(200)])
    monkeypatch.setattr("board.analysis.step_tokens._TOGETHER_BYTES", 20_000)
    found = [*StepReader(run).steps(run.rollouts)]
    assert [tokens.step for tokens in found] == [0, 1, 2, 3, 4]
    for tokens in found:
        alone = StepReader(run).read(tokens.step, run.of_step(tokens.step))
        assert tokens.indices.tolist() == alone.indices.tolist()
        assert {n: known(a) for n, a in tokens.arrays.items()} == {
            n: known(a) for n, a in alone.arrays.items()
        }
        pieces = [tokens.piece(t) for t in range(tokens.count)]
        assert pieces == [alone.piece(t) for t in range(alone.count)]


def test_lines_are_read_in_the_order_of_the_file_and_few_at_a_time(tmp_path, monkeypatch) -> None:
    run = log(tmp_path / "run", [line(n) for n in range(200)])
    monkeypatch.setattr(step_records, "_BATCH_BYTES", 2_000)
    asked: list[tuple[int, int]] = []
    read_bytes = step_records.read_bytes

    def noted(path: Path, offset: int, size: int) -> bytes:
        asked.append((offset, size))
        return read_bytes(path, offset, size)

    monkeypatch.setattr(step_records, "read_bytes", noted)
    reversed_rows = run.rollouts.iloc[::-1]
    batches = [*StepRecords(run).batches(reversed_rows)]
    places = [place for batch in batches for place in batch.places]
    assert places == [*range(200)][::-1]
    assert asked == sorted(asked)
    assert all(size <= 2_000 for _, size in asked)
    assert len(asked) == len(batches) > 10
    assert [batch.done for batch in batches][-1] == 200
