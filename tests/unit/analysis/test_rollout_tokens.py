"""What is read of the tokens of many rollouts, and in what order."""

from pathlib import Path
from typing import Any

import pytest
from read_formats import ONE_OF_EACH, real_run, run_of

from board.analysis import step_records
from board.analysis.rollout import open_rollout
from board.analysis.step_records import StepRecords
from board.analysis.step_tokens import ReadTokens, StepReader, tokens_of
from board.core.records import Record
from board.formats import sources
from board.query.open_run import Run


def known(values: Any) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]


@pytest.fixture(scope="module", params=ONE_OF_EACH, ids=lambda info: info.name)
def real(request: pytest.FixtureRequest) -> Run:
    return real_run(request.param)


def test_every_record_is_the_one_of_the_rollout_when_it_is_opened(real):
    rows = real.rollouts.iloc[:: max(len(real.rollouts) // 8, 1)]
    keys = [*zip(rows["step"].tolist(), rows["index"].tolist(), strict=True)]
    result = {keys[place]: record for place, record in StepRecords(real).of(rows)}
    assert {*result} == {*keys}
    for (step, index), record in result.items():
        assert plain(record) == plain(open_rollout(real, step, index).record)


def plain(record: Record) -> Any:
    arrays = {name: known(array.values()) for name, array in record.tokens.items()}
    ids = None if record.response_ids is None else known(record.response_ids.values())
    return record.step, dict(record.ids), dict(record.texts), dict(record.scores), arrays, ids


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


USUAL = ("logprobs", "ref_logprobs", "values")
NO_TOKENS: dict[str, Any] = dict.fromkeys(("response_ids", *USUAL), ...)
TOP_K = {"topk_ids": [[1, 2]] * 3, "topk_logprobs": [[-1.0, -2.0]] * 3}
ODD: dict[str, tuple[dict[str, Any], tuple[str, ...], tuple[str, ...], str]] = {
    "short array": ({"logprobs": [-1.0]}, USUAL[1:], ("logprobs",), "ids"),
    "short values": ({"values": [1.0, 2.0]}, USUAL[:2], ("values",), "ids"),
    "all short": (
        {"logprobs": [-1.0], "ref_logprobs": [-2.0], "values": [0.0]},
        USUAL,
        ("response_ids",),
        "",
    ),
    "no ids": ({"response_ids": ...}, USUAL, (), ""),
    "ids of another length": ({"response_ids": [1, 2, 3, 4]}, USUAL, ("response_ids",), ""),
    "pieces": ({"response_ids": ..., "response_tokens": ["a", " b", " c"]}, USUAL, (), "pieces"),
    "nulls": ({"values": [None] * 3, "logprobs": [None, -1.0, -2.0]}, USUAL[:2], (), "ids"),
    "text in an array": ({"values": [1.0, "x", 2.0]}, USUAL[:2], (), "ids"),
    "text in ids": ({"response_ids": [1, "x", 3]}, USUAL, (), ""),
    "a constant": ({"entropy": 0.5}, (*USUAL, "entropy"), (), "ids"),
    "mask": ({"loss_mask": [1, 0, 1]}, (*USUAL, "loss_mask"), (), "ids"),
    "a mask of another length": ({"loss_mask": [1, 0]}, (), ("loss_mask",), "ids"),
    "an array of the user's": ({"own": [1.0, 2.0, 3.0]}, (*USUAL, "own"), (), "ids"),
    "one that is too long": ({"own": [1.0, 2.0, 3.0, 4.0]}, USUAL, (), "ids"),
    "a list of texts": ({"own": ["x", "y", "z"]}, USUAL, (), "ids"),
    "lists of lists": (TOP_K, USUAL, (), "ids"),
    "nothing of tokens": (NO_TOKENS, (), (), "pieces"),
    "empty": ({name: [] for name in NO_TOKENS}, USUAL, (), "ids"),
}
"""What is changed; then the arrays, the faults and the tokens that are read."""


@pytest.mark.parametrize("name", ODD)
def test_what_does_not_fit_the_other_arrays_is_left_out_and_named(tmp_path, name):
    changed, arrays, faults, tokens = ODD[name]
    run = run_of(tmp_path, [line(n, **changed) if n % 3 == 0 else line(n) for n in range(60)])
    records = StepRecords(run).of(run.rollouts)
    reads = [tokens_of(*one, ReadTokens(texts=True)) for one in records]
    assert len(reads) == 60
    for read in reads[::3]:
        assert (tuple(read.arrays), tuple(read.faults)) == (arrays, faults)
        assert ("ids" if read.ids is not None else "pieces" if read.pieces else "") == tokens
    assert all(tuple(read.arrays) == USUAL and not read.faults for read in reads[1::3])


def test_lines_that_are_gone_are_left_out_and_the_others_read(tmp_path):
    run = run_of(tmp_path, [line(n) for n in range(60)])
    path = tmp_path / "run" / "log.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[7] = b"x" * (len(lines[7]) - 1) + b"\n"
    path.write_bytes(b"".join(lines[:50]) + lines[50][:20])
    places = [place for place, _ in StepRecords(run).of(run.rollouts)]
    assert places == [n for n in range(50) if n != 7]
    steps = [StepReader(run).read(step, run.of_step(step)) for step in run.counts]
    assert [(tokens.step, len(tokens.indices), tokens.left_out) for tokens in steps] == [
        (0, 39, 1),
        (1, 10, 10),
    ]


def test_lines_are_read_in_the_order_of_the_file_and_few_at_a_time(tmp_path, monkeypatch):
    run = run_of(tmp_path, [line(n) for n in range(200)])
    monkeypatch.setattr(step_records, "_BATCH_BYTES", 2_000)
    asked: list[tuple[int, int]] = []
    read_bytes = sources.read_bytes

    def noted(path: Path, offset: int, size: int) -> bytes:
        asked.append((offset, size))
        return read_bytes(path, offset, size)

    monkeypatch.setattr(sources, "read_bytes", noted)
    done: list[int] = []
    records = StepRecords(run).of(run.rollouts.iloc[::-1], lambda read, _: done.append(read))
    assert [place for place, _ in records] == [*range(200)][::-1]
    assert asked == sorted(asked)
    assert all(size <= 2_000 for _, size in asked)
    assert len(asked) > 10
    assert done == sorted(done)
    assert len(done) > 10
    assert done[-1] == 200
