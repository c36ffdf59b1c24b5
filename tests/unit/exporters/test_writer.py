import json
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opened_logs import lines

from exporters import SCHEMA_VERSION, RolloutExporter
from exporters.writing.files import RankFile, default_attempt


def rows(size: int = 2) -> dict[str, Any]:
    return {"prompt_ids": [[1, 2]] * size, "response_ids": [[3, 4, 5]] * size}


def before_each_line(patch: pytest.MonkeyPatch, do: Callable[[], Any]) -> None:
    """Has the disk do something first, or fail, when a line is written."""
    real = RankFile.append

    def append(self: RankFile, line: bytes) -> None:
        do()
        real(self, line)

    patch.setattr(RankFile, "append", append)


def full() -> None:
    raise OSError(28, "No space left on device")


@pytest.fixture(params=["thread", "sync"])
def exporter(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with RolloutExporter(tmp_path, mode=request.param, start_step=1) as opened:
        yield opened


def test_lines_come_as_header_samples_step_end_close(exporter):
    exporter.log(1, **rows(), rewards=[1.0, 0.0])
    exporter.end_step(1, loss=0.123456789)
    exporter.close()
    result = lines(exporter)
    assert [line["type"] for line in result] == ["header", "sample", "sample", "step_end", "close"]
    header, _, _, end, close = result
    assert header["schema"] == SCHEMA_VERSION
    assert header["start_step"] == 1
    assert header["part"] == 0
    assert (end["step"], end["rank"], end["records"], end["dropped"]) == (1, 0, 2, 0)
    assert end["metrics"] == {"loss": 0.12346}
    assert (close["records"], close["lost"]) == (2, 0)


def test_file_names_say_attempt_and_rank(tmp_path):
    with RolloutExporter(tmp_path, rank=3, world_size=4, attempt="job 7/a") as exporter:
        pass
    prefix, unique = exporter.path.stem.rsplit("-", 1)
    assert prefix == "job_7_a-rank00003"
    assert len(unique) == 8
    assert not list(tmp_path.glob("run-*.json")), "only rank 0 describes the run"


def test_rank_zero_describes_the_run_without_naming_the_machine(tmp_path):
    with RolloutExporter(tmp_path / "mine", attempt="a", start_step=5, run={"config": {"lr": 1}}):
        pass
    text = (tmp_path / "mine" / "run-a.json").read_text()
    run = json.loads(text)
    about = {"name": "mine", "attempt": "a", "start_step": 5, "config": {"lr": 1}}
    assert run.items() >= {**about, "schema": SCHEMA_VERSION}.items()
    assert "created" in run
    assert str(tmp_path) not in text


def test_bad_shapes_are_counted_and_never_raise(exporter):
    exporter.log(1, prompt_ids=[[1]], response_ids=[[1], [2]])
    exporter.log(1, prompt_ids=None, response_ids=None)
    exporter.log("no step", **rows())  # what a careless caller may do
    exporter.log(1, **rows(), logprobs=[[0.0]])
    exporter.end_step(1)
    exporter.close()
    counts = exporter.counts
    assert counts["errors:log"] == 3
    assert counts["refused:logprobs"] == 1
    assert counts["records"] == 2
    assert counts["lost"] == 4
    assert lines(exporter, "step_end")[0]["dropped"] == 2


def test_half_a_character_is_replaced_and_counted_and_an_integer_of_80_bits_becomes_text(exporter):
    meta = {"response": ["a\ud800", "\ud83d\ude00"], "seed": [1 << 80, [-(1 << 80)]]}
    exporter.log(1, **rows(), meta=meta)
    exporter.close()
    samples = lines(exporter, "sample")
    assert [s["response"] for s in samples] == ["a\ufffd", "\U0001f600"]
    assert [s["seed"] for s in samples] == [str(1 << 80), [str(-(1 << 80))]]
    assert exporter.counts["lost"] == 0
    assert exporter.counts["mended:response"] == exporter.counts["mended:seed"] == 2


def test_a_failing_disk_is_counted_warned_of_once_and_never_raises(exporter, monkeypatch, caplog):
    with caplog.at_level(logging.WARNING), monkeypatch.context() as patch:
        before_each_line(patch, full)
        for step in (1, 2, 3):
            exporter.log(step, **rows())
            exporter.end_step(step)
        assert exporter.flush()
    exporter.log(4, **rows())
    exporter.close()
    assert exporter.counts["lost"] == 6
    assert exporter.counts["records"] == 2
    assert [s["step"] for s in lines(exporter, "sample")] == [4, 4]
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text


def test_behind_a_torn_line_that_cannot_be_cut_the_next_line_is_readable(tmp_path, monkeypatch):
    file = RankFile(tmp_path / "a.jsonl")

    def failing(*_: Any) -> int:
        raise OSError(5, "I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", failing)
        patch.setattr(os, "ftruncate", failing)
        with pytest.raises(OSError, match="I/O"):
            file.append(b"lost\n")
    file.append(b"next\n")
    assert file.path.read_bytes().splitlines()[-1] == b"next"
    file.close()


def test_a_closed_or_disabled_exporter_ignores_calls(tmp_path):
    closed = RolloutExporter(tmp_path)
    closed.close()
    disabled = RolloutExporter(tmp_path / "none", enabled=False)
    for exporter in (closed, disabled):
        exporter.log(1, **rows())
        exporter.end_step(1)
        exporter.close()
        assert not exporter.wants(1)
        assert exporter.flush()
        assert exporter.counts["records"] == 0
    assert not (tmp_path / "none").exists()


def test_only_every_nth_step_is_written(tmp_path):
    with RolloutExporter(tmp_path, every_n_steps=3) as exporter:
        for step in range(1, 8):
            exporter.log(step, **rows(1))
            exporter.end_step(step)
    assert [s["step"] for s in lines(exporter, "sample")] == [3, 6]
    assert [s["step"] for s in lines(exporter, "step_end")] == [3, 6]


IMPOSSIBLE: dict[str, tuple[Any, ...]] = {
    "rank": (2, -1, "0"), "world_size": (0,), "start_step": ("1",), "every_n_steps": (0,),
    "digits": (0, 10, 5.0, True), "temperature": (0, float("nan"), "1"), "dialect": ("prime",),
    "mode": ("process",), "on_full": ("wait",), "compress": ("gzip",), "fsync": ("always",),
    "queue_bytes": (0,), "full_timeout": (-1,), "rotate_bytes": (1000,), "logprobs_mode": ("top",),
    "max_samples_per_step": (0,), "max_inflight_steps": (0,),
}  # fmt: skip


@pytest.mark.parametrize("argument", IMPOSSIBLE)
def test_an_argument_that_cannot_work_is_an_error_that_names_it(tmp_path, argument):
    for value in IMPOSSIBLE[argument]:
        with pytest.raises(ValueError, match=argument):
            RolloutExporter(tmp_path, **{argument: value})
    assert not list(tmp_path.iterdir())


def test_rank_and_world_size_come_from_the_launcher_and_must_be_numbers(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with RolloutExporter(tmp_path, attempt="a") as exporter:
        assert (exporter.rank, exporter.world_size) == (1, 2)
    for variable in ("WORLD_SIZE", "RANK"):
        monkeypatch.setenv(variable, "first")
        with pytest.raises(ValueError, match=variable):
            RolloutExporter(tmp_path, attempt="a")


def test_an_argument_whose_value_lacks_something_is_an_error_that_says_what(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"tokenizer: object has no __len__"):
        RolloutExporter(tmp_path, tokenizer=object())
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"rollout-board\[zstd\]"):
        RolloutExporter(tmp_path, compress="zstd")


WRONG_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "values of another length": ("log", {**rows(), "logprobs": [[0.0], [0.0]]}),
    "a mask of another shape": ("log", {**rows(), "response_mask": [[1, 1]]}),
    "prompts for other responses": ("log", {"prompt_ids": [[1]], "response_ids": [[1], [2]]}),
    "a column of another length": ("log", {**rows(), "meta": {"env": ["x"]}}),
    "lengths beyond the tokens": (
        "log_packed",
        {"input_ids": [1, 2], "seq_lens": [3], "loss_mask": [0, 1]},
    ),
    "a row of another length": (
        "log_ragged",
        {"token_ids": [[1, 2, 3]], "response_lengths": [2], "logprobs": [[-1.0]]},
    ),
    "a metric of many numbers": ("end_step", {"loss": np.zeros(3)}),
}


@pytest.mark.parametrize("wrong", WRONG_CALLS)
def test_in_strict_mode_a_call_that_does_not_fit_raises_and_else_it_is_counted(
    tmp_path, wrong, monkeypatch
):
    call, fields = WRONG_CALLS[wrong]
    with (
        RolloutExporter(tmp_path, strict=True) as strict,
        pytest.raises(ValueError, match=r"expected|does not match|but|add up"),
    ):
        getattr(strict, call)(1, **fields)
    with RolloutExporter(tmp_path) as lenient:
        getattr(lenient, call)(1, **fields)
    assert any(name.startswith(("errors:", "refused:")) for name in lenient.counts)
    monkeypatch.setenv("ROLLOUT_EXPORT_STRICT", "1")
    with RolloutExporter(tmp_path) as from_environment, pytest.raises(ValueError, match=r".+"):
        getattr(from_environment, call)(1, **fields)


def test_index_counts_on_over_the_calls_of_a_step_whatever_their_layout(exporter):
    exporter.log(1, micro_step=0, **rows(1))
    exporter.log_packed(1, micro_step=1, input_ids=[1, 2, 3], seq_lens=[3], loss_mask=[0, 0, 1])
    exporter.log_ragged(1, micro_step=2, token_ids=[[1, 2], [3]], response_lengths=[1, 1])
    exporter.log(2, **rows(1))
    exporter.close()
    samples = lines(exporter, "sample")
    assert [(s["step"], s["index"]) for s in samples] == [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0)]
    assert [s["response_ids"] for s in samples[:4]] == [[3, 4, 5], [3], [2], [3]]


def test_a_metric_that_cannot_be_written_does_not_cost_the_end_of_the_step(exporter):
    exporter.end_step(1, loss=np.float32(0.5), note="\ud800", many=np.zeros(3))
    exporter.end_step(2, loss=float("nan"))
    exporter.close()
    first, second = lines(exporter, "step_end")
    assert (first["step"], first["metrics"]) == (1, {"loss": 0.5})
    assert second["metrics"] == {"loss": None}
    assert exporter.counts["refused:many"] == exporter.counts["refused:note"] == 1


def test_no_call_with_a_strange_step_raises(exporter):
    for step in (None, "one", object(), float("inf")):
        assert not exporter.wants(step)  # what a careless caller may do
        exporter.log(step, **rows())
        exporter.end_step(step)
    assert exporter.counts["lost"] == 8
    assert exporter.counts["errors:end_step"] == 4


def test_calls_of_several_threads_give_each_rollout_a_number_of_its_own(exporter):
    threads = [
        threading.Thread(target=lambda: [exporter.log(1, **rows(1)) for _ in range(50)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    exporter.close()
    assert sorted(s["index"] for s in lines(exporter, "sample")) == list(range(200))


def test_memory_that_is_used_again_does_not_mix_steps(exporter):
    for step in range(30):
        values = np.full((4, 5000), step, np.float32)
        values[:, 0] = -1  # a constant array would be one number
        exporter.log(step, prompt_ids=[[1]] * 4, response_ids=values.astype(int), logprobs=values)
        exporter.end_step(step)
    exporter.close()
    samples = lines(exporter, "sample")
    assert len(samples) == 120
    assert all(set(s["logprobs"][1:]) == set(s["response_ids"][1:]) == {s["step"]} for s in samples)


def test_a_close_that_finds_the_disk_hanging_gives_up_and_counts_what_was_queued(
    tmp_path, monkeypatch
):
    gate = threading.Event()
    exporter = RolloutExporter(tmp_path)
    before_each_line(monkeypatch, lambda: gate.wait(20))
    exporter.log(1, **rows(1))
    exporter.log(1, **rows(3))
    exporter.close(timeout=0.2)
    gate.set()
    assert exporter.counts["errors:close"] == 1
    assert exporter.counts["lost"] >= 3


def test_with_fsync_the_disk_has_a_step_when_its_end_is_written(tmp_path, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with RolloutExporter(tmp_path, fsync="step", mode="sync") as exporter:
        exporter.log(1, **rows())
        assert not synced
        exporter.end_step(1)
        assert len(synced) == 1


def test_ranks_that_cannot_agree_on_an_attempt_are_told_so(monkeypatch):
    for name in ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    assert default_attempt(1, "now") == "now"
    with pytest.raises(ValueError, match="attempt"):
        default_attempt(2, "now")
    # torchrun without --rdzv-id calls every launch the same.
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    with pytest.raises(ValueError, match="attempt"):
        default_attempt(2, "now")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    assert default_attempt(2, "now") == "job.2"


def test_a_full_queue_drops_and_counts_when_told_not_to_wait(tmp_path, monkeypatch):
    exporter = RolloutExporter(tmp_path, queue_bytes=1, on_full="drop")
    before_each_line(monkeypatch, lambda: time.sleep(0.02))
    for _ in range(20):
        exporter.log(1, **rows(2))
    exporter.end_step(1)
    exporter.close()
    end = lines(exporter, "step_end")[0]
    assert end["dropped"] > 0
    assert end["records"] + end["dropped"] == 40
    assert exporter.counts["lost"] == end["dropped"]
