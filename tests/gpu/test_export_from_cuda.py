"""The exporter on a real CUDA device; skipped where there is none."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from opened_logs import lines

from exporters import RolloutExporter

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

_CYCLES_OF_HALF_A_SECOND = 1_000_000_000
_LAUNCH_SECONDS = 0.1  # far below the sleep: whoever synchronised would take longer


@pytest.fixture
def no_synchronisation() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def rollouts(value: float = -1.0) -> dict[str, Any]:
    ids = torch.ones(4, 256, dtype=torch.long, device="cuda")
    logprobs = torch.full((4, 256), value, dtype=torch.bfloat16, device="cuda")
    logprobs[:, 0] = 0.0
    return {
        "prompt_ids": ids[:, :8],
        "response_ids": ids,
        "response_mask": ids != 0,
        "logprobs": logprobs,
        "rewards": torch.ones(4, device="cuda"),
    }


def test_log_never_synchronises(tmp_path, no_synchronisation):
    with RolloutExporter(tmp_path) as exporter:
        given = rollouts()
        exporter.log(1, **given)
        exporter.end_step(1, loss=torch.ones((), device="cuda"))
    assert exporter.counts["records"] == 4
    assert exporter.counts.get("errors:log", 0) == 0


def test_log_returns_while_the_device_is_busy_and_keeps_the_values_of_the_call(tmp_path):
    with RolloutExporter(tmp_path) as exporter:
        exporter.log(1, **rollouts())  # pinned memory is allocated once
        assert exporter.flush()
        given = rollouts(-2.0)
        torch.cuda.synchronize()
        torch.cuda._sleep(_CYCLES_OF_HALF_A_SECOND)
        start = time.perf_counter()
        exporter.log(2, **given)
        elapsed = time.perf_counter() - start
        given["logprobs"].zero_()
    assert elapsed < _LAUNCH_SECONDS
    second = [s["logprobs"] for s in lines(exporter, "sample") if s["step"] == 2]
    assert [logprobs[1:] for logprobs in second] == [[-2.0] * 255] * 4


def test_pinned_memory_does_not_grow_from_step_to_step(tmp_path):
    stored = []
    with RolloutExporter(tmp_path) as exporter:
        for step in range(30):
            exporter.log(step, **rollouts())
            exporter.end_step(step)
            assert exporter.flush()
            stored.append(torch.cuda.host_memory_stats()["allocated_bytes.current"])
    assert stored[-1] <= stored[5]


def test_a_step_under_graph_capture_is_skipped_and_counted(tmp_path):
    given = rollouts()
    torch.cuda.synchronize()
    with RolloutExporter(tmp_path) as exporter:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            given["logprobs"].mul_(1)
            exporter.log(1, **given)
        assert exporter.counts["skipped:capture"] == 1
        exporter.log(2, **given)
    assert {s["step"] for s in lines(exporter, "sample")} == {2}
