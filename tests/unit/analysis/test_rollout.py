"""One rollout opened whole is what the file says, token by token."""

import gc
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from read_formats import run_of

from board.analysis.rollout import in_loss, open_rollout, read_spans
from board.core.tokens.scales import Span
from board.errors import UnreadableError
from board.query.open_run import Run

LINE = {
    "step": 3,
    "prompt": "2+2?",
    "response": " the cat",
    "ref_response": "dog",
    "ground_truth": "4",
    "reward": 0.5,
    "group_id": "g",
    "prompt_ids": [3, 1],
    "response_ids": [0, 1, 2],
    "loss_mask": [1, 1, 0],
    "logprobs": [-1.5, -0.25, -3.0],
    "ref_logprobs": [-1.0, -0.5, -2.0],
    "old_logprobs": [-1.25, -0.25, -3.0],
    "sampling_logprobs": [-1.5, -0.5, None],
    "entropy": 0.75,
    "mine": [7, 8, 9],
    "note": "kept",
}
VOCABULARY = {"pieces": ["Ġthe", "Ġcat", "<|end|>"], "coding": "byte_level", "special_ids": [2]}


def test_arrays_are_the_files(write_log, opened):
    write_log("x.jsonl", LINE)
    rollout = open_rollout(opened(), 3, 0)
    for name in ("loss_mask", "logprobs", "ref_logprobs", "old_logprobs", "mine"):
        assert rollout.metrics[name].tolist() == LINE[name]
    np.testing.assert_array_equal(rollout.metrics["sampling_logprobs"], [-1.5, -0.5, np.nan])
    assert rollout.metrics["entropy"].tolist() == [0.75] * 3
    assert rollout.line == LINE
    assert rollout.record.extras["note"] == "kept"


def test_an_open_rollout_keeps_no_parsed_line(write_log, opened):
    count = 1237
    write_log("x.jsonl", {**LINE, "response_ids": [1] * count, "logprobs": [-0.5] * count})
    rollout = open_rollout(opened(), 3, 0)
    lists = [v for v in gc.get_objects() if type(v) is list and len(v) == count]
    assert not any(type(values[0]) is float for values in lists)
    assert rollout.line["logprobs"] == [-0.5] * count


def test_what_can_be_derived_is_derived(write_log, opened):
    write_log("x.jsonl", LINE)
    metrics = open_rollout(opened(), 3, 0).metrics
    d = [-0.5, 0.25, -1.0]
    assert metrics["k1"].tolist() == d
    assert metrics["k2"] == pytest.approx([x * x / 2 for x in d])
    assert metrics["k3"] == pytest.approx([math.exp(-x) - 1 + x for x in d])
    assert metrics["prob"] == pytest.approx(np.exp(LINE["logprobs"]))
    assert metrics["importance_ratio"] == pytest.approx([math.exp(-0.25), 1, 1])
    assert metrics["mismatch_ratio"][:2] == pytest.approx([1, math.exp(0.25)])
    assert metrics["mismatch_kl"][:2] == pytest.approx([0, math.exp(0.25) - 1.25])
    assert math.isnan(metrics["mismatch_kl"][2])


def test_tokens_are_text_where_there_is_a_vocabulary_and_else_ids(write_log, opened):
    write_log("x.jsonl", LINE)
    rollout = open_rollout(opened(), 3, 0)
    assert rollout.tokens == ("⟨0⟩", "⟨1⟩", "⟨2⟩")
    assert rollout.tokens_are_ids
    write_log("vocab.json", VOCABULARY)
    rollout = open_rollout(opened(), 3, 0)
    assert rollout.tokens == (" the", " cat", "<|end|>")
    assert rollout.prompt_tokens == ("⟨3⟩", " cat")
    assert not rollout.tokens_are_ids


def test_raw_pieces_are_shown_as_text(write_log, opened):
    pieces = {"step": 1, "response": "the cat", "response_tokens": ["the", "Ġcat"]}
    write_log("x.jsonl", pieces)
    assert open_rollout(opened(), 1, 0).tokens == ("the", " cat")


def test_texts_alone_open_without_tokens_and_say_so(write_log, opened):
    write_log("x.jsonl", {"step": 1, "prompt": "p", "response": "r"})
    rollout = open_rollout(opened(), 1, 0)
    assert rollout.tokens == ()
    assert rollout.prompt_tokens is None
    assert rollout.metrics == {}
    assert [remark.severity for remark in rollout.remarks] == ["note"]


def test_a_last_line_without_its_newline_opens(write_log, opened):
    write_log("x.jsonl", json.dumps(LINE).encode())
    assert open_rollout(opened(), 3, 0).line == LINE


def test_broken_text_is_told_where_it_is_shown(write_log, opened):
    write_log("x.jsonl", b'{"step": 1, "prompt": "p", "response": "a\xff"}\n')
    rollout = open_rollout(opened(), 1, 0)
    assert rollout.record.texts["response"] == "a\ufffd"
    assert any("UTF-8" in remark.reason for remark in rollout.remarks)


def test_a_python_nan_in_the_line_opens(write_log, opened):
    write_log(
        "x.jsonl", {"step": 1, "response": "r", "reward": math.nan, "logprobs": [math.nan, -1]}
    )
    rollout = open_rollout(opened(), 1, 0)
    assert math.isnan(rollout.metrics["logprobs"][0])
    assert {remark.field for remark in rollout.remarks} == {"reward"}


def changed(line: dict, **fields) -> bytes:
    return json.dumps(line | fields).encode() + b"\n"


@pytest.mark.parametrize(
    "now",
    [
        b"",
        b"{}\n",
        b"x" * 2000,
        changed(LINE, step=4),
        changed(LINE, reward=0.7),
        changed(LINE, response=" the dog"),
        changed(LINE, type="step_end"),
        changed({"other": "log"}) + changed(LINE),
    ],
)
def test_a_file_that_changed_underneath_is_an_error_and_never_another_rollout(
    write_log, opened, now
):
    path = write_log("x.jsonl", LINE)
    run = opened()
    path.write_bytes(now)
    with pytest.raises(UnreadableError, match=r"x\.jsonl:1 no longer holds.*reload the run"):
        open_rollout(run, 3, 0)


def test_a_file_that_went_away_is_an_error_that_says_so(write_log, opened):
    path = write_log("x.jsonl", LINE)
    run = opened()
    path.unlink()
    with pytest.raises(UnreadableError, match=r"x\.jsonl:1 can't be read.*was the log moved"):
        open_rollout(run, 3, 0)


def test_a_file_that_only_grew_still_opens(write_log, opened):
    path = write_log("x.jsonl", LINE)
    run = opened()
    with path.open("ab") as file:
        file.write(changed(LINE, step=4))
    assert open_rollout(run, 3, 0).line == LINE


def hits(run, text) -> list[int]:
    return run.where(f'any_text contains "{text}"').rollouts["line"].tolist()


TEXTS = [
    {"prompt": "Alpha", "response": f"{'x' * 5000} Needle (a+b)"},
    {"prompt": f"{'x' * 5000} BETA", "response": "nothing"},
    {"prompt": "p", "response": "r", "ground_truth": "Gold", "ref_response": "Refer"},
    {"prompt": "p", "response": "stop words", "finish_reason": "length"},
    {"response_ids": [0, 1]},
    {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "Spoken"}]},
]
IN_LINE = {
    1: ("needle", "NEEDLE", "(a+b)"),
    2: ("beta",),
    3: ("gold", "refer"),
    4: ("stop",),
    5: ("the cat",),
    6: ("spoken",),
}


def test_search_reads_whole_texts_literally_and_in_any_case(write_log, opened):
    write_log("x.jsonl", *({"step": 1, "reward": 1, **row} for row in TEXTS))
    write_log("vocab.json", VOCABULARY)
    run = opened()
    for line, texts in IN_LINE.items():
        assert [hits(run, text) for text in texts] == [[line]] * len(texts)
    assert [hits(run, text) for text in ("a.b", "nowhere", "length")] == [[], [], []]


def test_search_does_not_read_the_log(write_log, opened):
    path = write_log("x.jsonl", LINE)
    run = opened()
    path.write_bytes(b"")
    assert hits(run, "cat") == [1]


def row(step: int, value: float, **more: object) -> dict[str, object]:
    ids, entropy = [1, 2], [value, value + 1]
    return {"type": "sample", "step": step, "response_ids": ids, "entropy": entropy, **more}


def test_a_step_s_span_covers_its_rollouts_and_no_other_step(tmp_path):
    run = run_of(tmp_path, [row(1, 0.0), row(1, 10.0), row(2, 1000.0)])
    result = read_spans(run, 1, lambda done, total: None)
    assert result.spans["entropy"] == Span(0.0, 11.0, 0.0, 11.0)
    assert (result.read, result.total) == (2, 2)


def test_tokens_outside_the_loss_do_not_widen_the_span(tmp_path):
    run = run_of(tmp_path, [row(1, 5.0, loss_mask=[1, 0])])
    assert in_loss(open_rollout(run, 1, 0).metrics)["entropy"].tolist() == [5.0]


def test_a_rollout_that_can_t_be_read_is_passed_over_and_counted(tmp_path):
    run = run_of(tmp_path, [row(1, 0.0), row(1, 9.0)])
    file = tmp_path / "run" / "log.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"#" * (len(lines[0]) - 1) + b"\n" + lines[1])
    result = read_spans(run, 1, lambda done, total: None)
    assert (result.read, result.total) == (1, 2)
    assert result.spans["entropy"] == Span(9.0, 10.0, 9.0, 10.0)


@pytest.fixture
def settings_run(tmp_path: Path) -> Callable[..., Run]:
    """Makes a run of one row, with a configuration."""

    def make(config: dict[str, float], **columns: object) -> Run:
        (tmp_path / "run").mkdir()
        settings = tmp_path / "run" / "run-20260101T000000Z.json"
        settings.write_text(json.dumps({"config": config}), encoding="utf-8")
        return run_of(tmp_path, [row(1, 0.0, **columns)])

    return make


def test_the_clip_range_of_the_settings_marks_clipped_tokens(settings_run):
    logged = {"logprobs": [-1, -1], "old_logprobs": [-2, -1], "advantage": 1.0}
    opened = open_rollout(settings_run({"epsilon": 0.2}, **logged), 1, 0)
    assert opened.metrics["clipped"].tolist() == [1.0, 0.0]
    assert opened.clip == {"ε low": 0.2, "ε high": 0.2}


def test_the_discount_of_the_settings_enters_the_td_error(settings_run):
    run = settings_run({"gamma": 0.5}, token_rewards=[0, 1], values=[2, 4])
    assert open_rollout(run, 1, 0).metrics["td_error"].tolist() == [0.0, -3.0]
