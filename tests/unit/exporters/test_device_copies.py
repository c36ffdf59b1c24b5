"""What happens to tensors on a device, with the device played by deferred copies.

The tests in `tests/gpu` do the same on a real one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from opened_logs import lines

from exporters import RolloutExporter
from exporters.arrays import snapshot


class Device:
    """A stream of copies that are carried out when the device gets to them."""

    def __init__(self) -> None:
        self.pending: list[Callable[[], None]] = []
        self.reached = threading.Event()
        self.waited_in: list[str] = []

    def copy(self, tensor: torch.Tensor) -> np.ndarray:
        host = np.full(tensor.shape, -99, tensor.numpy().dtype)
        values = tensor.clone()  # in order: what comes later does not change this copy
        self.pending.append(lambda: np.copyto(host, values.numpy()))
        return host

    def record_event(self, device: Any) -> Device:
        return self

    def synchronize(self) -> None:
        self.waited_in.append(threading.current_thread().name)
        assert self.reached.wait(20)

    def catch_up(self) -> None:
        for copy in self.pending:
            copy()
        self.reached.set()


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    played = Device()
    monkeypatch.setattr(snapshot, "is_on_cuda", lambda tensor: True)
    monkeypatch.setattr(snapshot, "copy_to_pinned", played.copy)
    monkeypatch.setattr(snapshot, "record_event", played.record_event)
    return played


def test_log_returns_before_the_device_did_the_copies_and_the_file_holds_the_old_values(
    tmp_path, device
):
    ids, logprobs = torch.tensor([[1, 2]]), torch.tensor([[-1.0, -2.0]])
    with RolloutExporter(tmp_path) as exporter:
        exporter.log(1, prompt_ids=ids, response_ids=ids, logprobs=logprobs)
        exporter.end_step(1, loss=torch.tensor(0.5))
        assert not device.reached.is_set()
        logprobs.zero_()
        device.catch_up()
    _, sample, end, _ = lines(exporter)
    assert sample["logprobs"] == [-1, -2]
    assert end["metrics"] == {"loss": 0.5}
    assert set(device.waited_in) == {"rollout-exporter"}, "only the writing thread may wait"


def test_lengths_on_a_device_are_checked_where_they_are_read_and_lost_rollouts_counted(
    tmp_path, device
):
    device.reached.set()
    ids, mask = torch.tensor([1, 2, 3]), torch.tensor([1, 1, 1])
    with RolloutExporter(tmp_path) as exporter:
        exporter.log_packed(1, input_ids=ids, seq_lens=torch.tensor([9, 9]), loss_mask=mask)
        device.catch_up()
    assert exporter.counts["records"] == 0
    assert exporter.counts["lost"] == 2


def test_a_column_on_a_device_is_refused_because_reading_it_would_wait(tmp_path, monkeypatch):
    class OnDevice:
        is_cuda = True

        def tolist(self) -> list[int]:
            raise AssertionError("this waits for the device")

    with RolloutExporter(tmp_path) as exporter:
        exporter.log(1, prompt_ids=[[1]], response_ids=[[2]], meta={"own": OnDevice()})
    assert exporter.counts["refused:own"] == 1
    assert exporter.counts["records"] == 1


def test_nothing_is_logged_while_a_graph_is_captured(tmp_path, monkeypatch):
    monkeypatch.setattr("exporters.writing.intake.is_capturing", lambda: True)
    with RolloutExporter(tmp_path) as exporter:
        exporter.log(1, prompt_ids=[[1]], response_ids=[[2]])
    assert exporter.counts["skipped:capture"] == 1
    assert exporter.counts["records"] == 0


def test_a_sharded_tensor_is_refused_because_gathering_it_is_a_collective(tmp_path):
    class DTensor(torch.Tensor):
        def full_tensor(self) -> torch.Tensor:
            raise AssertionError("this waits for other ranks")

    sharded = torch.zeros(1, 1).as_subclass(DTensor)
    with RolloutExporter(tmp_path) as exporter:
        exporter.log(1, prompt_ids=[[1]], response_ids=[[2]], logprobs=sharded)
    assert exporter.counts["refused:logprobs"] == 1


def test_a_call_in_a_compiled_function_is_one_break_behind_which_nothing_is_compiled(tmp_path):
    from torch._dynamo.utils import counters

    with RolloutExporter(tmp_path) as exporter:

        def step(ids: torch.Tensor) -> torch.Tensor:
            exporter.log(1, response_ids=ids, logprobs=ids * -0.5)
            return ids * 2

        torch._dynamo.reset()
        compiled = torch.compile(step, backend="eager")
        counters.clear()
        for _ in range(2):
            assert compiled(torch.tensor([[1, 2], [3, 4]])).tolist() == [[2, 4], [6, 8]]
    assert len(counters["graph_break"]) == 1
    assert counters["frames"]["total"] <= 2, "the function before the call and behind it"
    assert exporter.counts["records"] == 4
    torch._dynamo.reset()
