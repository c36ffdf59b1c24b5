"""A file is known by what is in it, never by its name or its folder."""

import json

import pytest

from board.formats import READERS, reader_named
from board.formats.io import lines
from board.formats.recognition import recognise

SAMPLES = {
    "rllb": {"step": 1, "prompt": "p", "response": "r", "reward": 1.0},
    "native": {"type": "sample", "step": 1, "reward": 1.0},
    "prime_rl_tokens": {"step": 1, "token_ids": [1], "trainer_logprobs": [-0.5]},
}


@pytest.fixture
def result(tmp_path):
    def write_and_recognise(content, name="log.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, bytes):
            content = b"".join(json.dumps(line).encode() + b"\n" for line in content)
        path.write_bytes(content)
        reader, reason = recognise(path)
        return (reader.name if reader else None), reason

    return write_and_recognise


@pytest.mark.parametrize("reader", SAMPLES)
@pytest.mark.parametrize("name", ["x.jsonl", "step_3/rank_0.jsonl", "rollout_data_rank0.jsonl"])
def test_files_are_known_by_content_whatever_they_are_called(result, reader, name):
    assert result([SAMPLES[reader]], name)[0] == reader


@pytest.mark.parametrize(
    "line",
    [
        {"type": "header", "schema": 1, "attempt": "a"},
        {"step": 1, "response_ids": [1], "logprobs": [-1]},
        {"step": 1, "rewards": {"right": 1}},
        {"step": 1, "messages": [{"role": "user", "content": "x"}]},
        {"step": 1, "group_id": "g", "prompt": "p", "response": "r"},
        {"step": 1, "rollout_id": "x", "reward": 0.5},
    ],
)
def test_native_files_are_known_with_and_without_types(result, line):
    assert result([line])[0] == "native"


@pytest.mark.parametrize(
    "line",
    [
        {"step": 1, "loss": 0.5, "grad_norm": 1.0},
        {"step": 1, "reward": 0.5, "rewards": 0.4, "kl": 0.1},
        {"step": 1, "response_tokens": 123.4, "entropy": 2.0},
        {"step": 1, "prompt": 12.0, "response": 90.5},
        {"rollout_id": 3, "step": 3, "loss": 0.1},
        {"step": 3, "time": 1.5, "reward/mean": 0.1, "producer": "trainer"},
        {"step": 3, "data": {"actor/loss": 0.1, "critic/kl": None}},
        {"loss": 0.1, "global_step/max_steps": "3/400", "elapsed_time": "1h 2m 3s"},
    ],
)
def test_metrics_are_no_logs_and_are_called_so(result, line):
    reader, reason = result([line, line])
    assert reader is None
    assert "only numbers" in reason
    assert "metrics" in reason


@pytest.mark.parametrize(
    "line",
    [
        {"model": "x", "lr": 1e-6, "messages": []},
        {"prompt": "p", "response": "r"},
        {"input": "p", "output": "r"},
        {"step": 1, "text": "epoch done", "loss": 0.1},
        {"messages": [{"role": "user", "content": "of a dataset"}]},
        {"token_ids": [1], "trainer_logprobs": [1]},
        {},
    ],
)
def test_configs_and_foreign_records_are_no_logs(result, line):
    reader, reason = result([line, line])
    assert reader is None
    assert "of no format read here" in reason


@pytest.mark.parametrize(
    "before", [b"shell text\n", b"shell text\n" * 500, b"\n" * 200, b"\xef\xbb\xbf"]
)
def test_what_stands_before_its_first_line_does_not_hide_a_log(result, before):
    assert result(before + json.dumps(SAMPLES["rllb"]).encode())[0] == "rllb"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe" * 50, "line 1: the line is not JSON"),
        (b"[1, 2]\n", "line 1: the line is a list"),
        (b'{"step": 1, "response": "tor', "line 1: the line is not JSON"),
    ],
)
def test_what_is_no_log_is_left_out_with_the_reason(result, content, reason):
    reader, why = result(content)
    assert reader is None
    assert reason in why


def test_a_file_of_one_endless_line_is_left_out_with_the_reason(result, monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    reader, why = result(b"x" * 500)
    assert reader is None
    assert "too long" in why


def test_only_the_head_of_a_file_is_read(result):
    other = {"step": 1, "loss": 0.5}
    assert result([*[other] * 30, SAMPLES["rllb"]])[0] is None


def test_every_reader_can_be_asked_for_by_its_name():
    assert [reader_named(reader.name) for reader in READERS] == list(READERS)
