"""What training does around a call, and its callbacks: no bad line, nothing raised, losses counted."""

import json
import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import orjson
import pytest

torch = pytest.importorskip("torch")

from exporters import RolloutExporter  # noqa: E402 - what is handed over needs torch

IDS = np.arange(1, 9).reshape(4, 2)


def lines(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.rglob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


def samples(folder: Path) -> list[dict[str, Any]]:
    return [line for line in lines(folder) if line["type"] == "sample"]


@dataclass
class Holder:
    held: Any


ENCODED = orjson.Fragment(b'{"bad\n')
READABLE = orjson.Fragment(b'{"good": 1}')


@pytest.mark.parametrize(
    "odd",
    [
        *(ENCODED, [{"a": ENCODED}], Holder(ENCODED), MappingProxyType({"a": [ENCODED]})),
        orjson.Fragment("NaN"),
    ],
    ids=("alone", "in a list", "in a dataclass", "in a mapping", "not finite"),
)
def test_what_says_of_itself_that_it_is_json_is_not_taken_at_its_word(tmp_path, odd):
    with RolloutExporter(tmp_path, strict=False) as exporter:
        exporter.log(1, response_ids=IDS, meta={"odd": [odd] * 4, "good": [READABLE] * 4})
        exporter.end_step(1, odd=odd, loss=0.5)
    assert [sample["good"] for sample in samples(tmp_path)] == [{"good": 1}] * 4
    (end,) = (line for line in lines(tmp_path) if line["type"] == "step_end")
    assert end["metrics"] == {"loss": 0.5}
    assert exporter.counts["refused:odd"] == 2


@pytest.mark.parametrize("kind", [">i8", ">u2", ">f4", "<i4"])
def test_the_order_of_bytes_of_an_array_is_its_own_affair(tmp_path, kind):
    with RolloutExporter(tmp_path) as exporter:
        array = IDS.astype(kind)
        exporter.log(1, response_ids=IDS.astype(kind.replace("f", "i")), entropy=array, odd=array)
    assert [sample["odd"] for sample in samples(tmp_path)] == IDS.tolist()
    assert [sample["response_ids"] for sample in samples(tmp_path)] == IDS.tolist()


@pytest.mark.parametrize("mode", ["thread", "sync"])
def test_a_call_is_the_same_whatever_training_set_for_numpy_torch_and_warnings(tmp_path, mode):
    values = {"entropy": IDS * 1e-300, "logprobs": IDS * 1e300, "odd": np.array([[np.nan, 1]] * 4)}
    ids, on_cpu = torch.tensor(IDS.tolist()), torch.tensor([1.5, 2, 3, 4])
    before = np.seterr(all="raise")
    torch.set_default_device("meta")
    try:
        with warnings.catch_warnings(), RolloutExporter(tmp_path, mode=mode) as exporter:
            warnings.simplefilter("error")
            exporter.log(1, response_ids=ids, rewards=on_cpu, **values)
            exporter.end_step(1, loss=on_cpu[0])
    finally:
        torch.set_default_device(None)
        np.seterr(**before)
    assert not [name for name in exporter.counts if name.startswith(("refused", "errors"))]
    assert [sample["response_ids"] for sample in samples(tmp_path)] == IDS.tolist()
    assert samples(tmp_path)[0]["entropy"] == 0


def test_parts_stay_in_their_folder_where_training_goes_to_another(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with RolloutExporter("run", rotate_bytes=1 << 16) as exporter:
        os.chdir("elsewhere")
        for step in range(4):
            exporter.log(step, response_ids=np.zeros((1, 30_000), int))
    assert len(list((tmp_path / "run").glob("*.jsonl"))) == 4
    assert not list((tmp_path / "elsewhere").iterdir())


def test_an_array_may_be_called_as_python_calls_the_exporter(tmp_path):
    with RolloutExporter(tmp_path) as exporter:
        exporter.log(1, response_ids=IDS, self=IDS)
        exporter.log_ragged(1, token_ids=IDS.tolist(), response_lengths=[2] * 4, self=IDS.tolist())
        packed = {"input_ids": IDS.reshape(-1), "seq_lens": [2] * 4, "loss_mask": np.ones(8)}
        exporter.log_packed(1, positions={"self": "token"}, **packed, self=IDS.reshape(-1))
    assert [len(sample["self"]) for sample in samples(tmp_path)] == [2] * 12


@pytest.mark.parametrize("timeout", [None, float("inf"), float("nan"), -1, "soon", [], 1e300])
@pytest.mark.parametrize("mode", ["thread", "sync"])
def test_any_timeout_closes_the_file(tmp_path, timeout, mode):
    exporter = RolloutExporter(tmp_path, mode=mode)
    exporter.log(1, response_ids=IDS)
    exporter.flush(timeout)
    exporter.flush()
    exporter.close(timeout)
    assert lines(tmp_path)[-1]["type"] == "close"
    assert exporter.counts == {"records": 4, "lost": 0}


def leave(_: str) -> str:
    raise SystemExit


@pytest.mark.parametrize(
    "redact", [lambda _: None, lambda _: b"\xff", lambda _: ENCODED, leave], ids=range(4)
)
@pytest.mark.parametrize("mode", ["thread", "sync"])
def test_a_redaction_that_gives_no_text_costs_its_rollouts_and_they_are_counted(
    tmp_path, redact, mode
):
    with RolloutExporter(tmp_path, redact=redact, mode=mode, strict=False) as exporter:
        exporter.log(1, response_ids=IDS, meta={"response": list("abcd")})
        exporter.end_step(1, loss=0.5, text="a")
    assert exporter.counts["lost"] == 4
    assert [line["type"] for line in lines(tmp_path)] == ["header", "step_end", "close"]
    assert lines(tmp_path)[1]["metrics"] == {"loss": 0.5}


class Fails(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError("no room for a log")


def test_a_handler_of_the_log_that_raises_stops_nothing(tmp_path):
    logger, handler = logging.getLogger("exporters"), Fails()
    logger.addHandler(handler)
    try:
        with RolloutExporter(tmp_path, strict=False) as exporter:
            exporter.log(1, response_ids="no ids")
            exporter.log(1, response_ids=IDS, odd="no numbers")
        exporter.log(1, response_ids=IDS)
    finally:
        logger.removeHandler(handler)
    assert exporter.counts["records"] == exporter.counts["late"] == 4


@pytest.fixture
def alarm():
    """Has a function called by a signal after each millisecond of work, until the test ends: never within
    itself, however slow it is, and not by SIGALRM, which ends tests that hang.
    """
    before = signal.getsignal(signal.SIGVTALRM)

    def start(handler: Callable[[], None]) -> None:
        def call(*_: object) -> None:
            handler()
            signal.setitimer(signal.ITIMER_VIRTUAL, 1e-3)

        signal.signal(signal.SIGVTALRM, call)
        signal.setitimer(signal.ITIMER_VIRTUAL, 1e-3)

    yield start
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("mode", ["thread", "sync"])
def test_a_signals_handler_may_log_in_the_middle_of_a_call(tmp_path, mode, alarm):
    handed = 0

    def log(step: int) -> None:
        nonlocal handed
        exporter.log(step, response_ids=IDS, odd=object())
        handed += 4

    def again() -> None:
        if threading.main_thread() is threading.current_thread():
            log(2)

    exporter = RolloutExporter(tmp_path, mode=mode, strict=False)
    alarm(again)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        log(1)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    exporter.close()
    written = samples(tmp_path)
    assert len({sample["step"] for sample in written}) == 2
    assert len(written) == exporter.counts["records"] > 8
