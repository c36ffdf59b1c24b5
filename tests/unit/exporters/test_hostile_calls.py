"""Whatever a careless caller hands over, and when: no bad line, nothing raised, every loss counted."""

import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from exporters import RolloutExporter  # noqa: E402 - what is handed over needs torch

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*nested tensors.*:UserWarning", "ignore:.*[Ss]parse.*:UserWarning"
)

IDS = np.arange(1, 9).reshape(4, 2)


class Raising:
    """Whose every use raises something unusual."""

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array")

    def __str__(self) -> str:
        raise KeyError("no text")

    __iter__ = __getitem__ = __array__


def circle() -> list[Any]:
    deep: list[Any] = []
    deep.append(deep)
    return deep


ODD: dict[str, Callable[[], Any]] = {
    "device meta": lambda: torch.zeros(4, 2, device="meta"),
    "sparse": lambda: torch.ones(4, 2).to_sparse(),
    "jagged": lambda: torch.nested.nested_tensor([torch.ones(2)] * 4, layout=torch.jagged),
    "complex": lambda: torch.zeros(4, 2, dtype=torch.complex64),
    "complex of numpy": lambda: np.zeros((4, 2), complex),
    "texts": lambda: ["a", "b", "c", "d"],
    "surrogate": lambda: ["fine", "\ud83d", "\ud83d\ude00", {"\udfff": "\ud800"}],
    "80 bits": lambda: [1 << 80, -(1 << 80), 1, [1 << 64]],
    "10,000 digits": lambda: [10**10_000, 1, 2, 3],
    "ragged": lambda: [[1.0], [1.0, 2.0], [], [1.0]],
    "circle": lambda: [circle(), 1, 2, 3],
    "deep": lambda: [json.loads("[" * 900 + "]" * 900), 1, 2, 3],
    "raising": Raising,
    "raising ones": lambda: [Raising(), 1, 2, 3],
    "times": lambda: np.array(["2026-01-01"] * 4, "datetime64[D]"),
    "objects": lambda: [object(), Decimal("1.5"), {1, 2}, b"\xff"],
    "keys": lambda: [{(1, 2): 3}, {None: 1}, {"rewards": Raising()}, {}],
    "nan": lambda: [float("nan"), float("inf"), None, -0.0],
    "one number": lambda: 1.0,
    "one text": lambda: "text",
    "scalars of torch": lambda: [torch.tensor(1.5)] * 4,
    "nothing": list,
    "many dimensions": lambda: np.zeros((4, 2, 3, 1)),
    "a mapping": lambda: {"a": [1, 2, 3, 4], "b": Raising()},
    "structured": lambda: np.zeros(4, [("a", int)]),
}
BESIDE = ("logprobs", "mine", "advantage", "rewards", "type", "timestamp", "step_")
IN_META = ("rewards", "group_id", "response", "messages", "prompt", "own", "index", "\ud800")
FRAME = ("response_ids", "response_mask", "prompt_ids", "loss_mask")
STEPS = (1, 2.7, None, "one", float("nan"), 1 << 80, np.int64(2), torch.tensor(3), -1, True)

Use = Callable[[RolloutExporter], tuple[int, int]]
"""A call; returns how many rollouts it handed over, and how many of them may be lost at most."""


def log(**odd: Any) -> Use:
    def use(exporter: RolloutExporter) -> tuple[int, int]:
        given = {"response_ids": IDS, **odd}
        exporter.log(given.pop("step", 1), **given)
        return 4, 4 if set(odd) & {*FRAME, "step"} else 0

    return use


def end_step(step: Any, metrics: dict[str, Any]) -> Use:
    def use(exporter: RolloutExporter) -> tuple[int, int]:
        exporter.end_step(step, **metrics)
        return 0, 0

    return use


def close(exporter: RolloutExporter) -> tuple[int, int]:
    exporter.close()
    return 0, 1 << 20  # what comes after it


def terminate(exporter: RolloutExporter) -> tuple[int, int]:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0)
    exporter.log(1, response_ids=IDS)  # beside the thread that drains
    return 4, 1 << 20


values = st.sampled_from(sorted(ODD)).map(lambda name: ODD[name]())
CALLS = st.one_of(
    st.tuples(st.sampled_from(BESIDE), values).map(lambda odd: log(**dict([odd]))),
    st.tuples(st.sampled_from(IN_META), values).map(lambda odd: log(meta=dict([odd]))),
    values.map(lambda odd: log(meta=odd) if isinstance(odd, list | dict) else log(own=odd)),
    st.tuples(st.sampled_from(STEPS), values).map(lambda odd: end_step(odd[0], {"step": odd[1]})),
    st.tuples(st.sampled_from(STEPS), st.sampled_from(STEPS)).map(
        lambda odd: log(step=odd[0], micro_step=odd[1])
    ),
    st.just(log()),
    st.sampled_from([close, terminate]),
)
"""Each is a call that a trainer could make. What costs a frame its rollouts has a law of its own."""


def told(exporter: RolloutExporter) -> list[dict[str, Any]]:
    assert exporter.path
    return [json.loads(line) for line in exporter.path.read_bytes().splitlines()]


@settings(max_examples=100)
@given(calls=st.lists(CALLS, min_size=1, max_size=4), mode=st.sampled_from(["thread", "sync"]))
def test_hostile_calls_and_signals_write_no_bad_line_raise_nothing_and_count_every_loss(
    calls, mode
):
    ended = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        with tempfile.TemporaryDirectory() as folder:
            exporter = RolloutExporter(folder, mode=mode, flush_on_sigterm=True, strict=False)
            handed, may_be_lost = map(sum, zip(*(call(exporter) for call in calls), strict=True))
            if terminate in calls:
                assert ended.wait(30)
            exporter.close()
            lines, counts = told(exporter), exporter.counts
    finally:
        signal.signal(signal.SIGTERM, before)
    samples = [line for line in lines if line["type"] == "sample"]
    assert len(samples) == counts["records"] == handed - counts["lost"]
    assert counts["lost"] <= may_be_lost
    closing = [line for line in lines if line["type"] == "close"][-1]
    assert (closing["records"], closing["lost"]) == (counts["records"], counts["lost"])


@given(name=st.sampled_from(FRAME), odd=values)
def test_what_hides_whose_tokens_they_are_costs_the_rollouts_of_its_call_and_they_are_counted(
    name, odd
):
    with tempfile.TemporaryDirectory() as folder:
        with RolloutExporter(folder, mode="sync", strict=False) as exporter:
            log(**{name: odd})(exporter)
            log()(exporter)
            exporter.end_step(1)
        lines, counts = told(exporter), exporter.counts
    (end,) = (line for line in lines if line["type"] == "step_end")
    assert (end["records"], end["dropped"]) == (counts["records"], counts["lost"])
    assert counts["records"] >= 4
    if name != "response_ids":  # of which another number of rows may have been meant
        assert counts["records"] + counts["lost"] == 8


@pytest.mark.parametrize("odd", sorted(set(ODD) - {"one text", "one number", "raising", "nothing"}))
def test_an_odd_value_leaves_the_rollout_and_what_stands_beside_it_as_they_are(tmp_path, odd):
    with RolloutExporter(tmp_path, strict=False) as exporter:
        exporter.log(
            1,
            response_ids=IDS,
            entropy=IDS * 0.5,
            odd=ODD[odd](),
            meta={"also": ODD[odd](), "env": list("abcd")},
        )
        exporter.end_step(1, loss=0.5, odd=ODD[odd]())
    samples = [line for line in told(exporter) if line["type"] == "sample"]
    assert [s["response_ids"] for s in samples] == IDS.tolist()
    assert [s["entropy"] for s in samples] == (IDS * 0.5).tolist()
    assert [s["env"] for s in samples] == list("abcd")
    (end,) = (line for line in told(exporter) if line["type"] == "step_end")
    assert end["metrics"]["loss"] == 0.5


@pytest.mark.parametrize(
    "mask", [[[0.25, 1]], [[float("nan"), 1]], [[2, 1]], [[-1, 0]]], ids=["part", "nan", "2", "-1"]
)
@pytest.mark.parametrize("name", ["loss_mask", "response_mask", "prompt_mask"])
def test_a_mask_of_something_else_than_0_and_1_is_refused_by_name(tmp_path, mask, name, caplog):
    fields = {"prompt_ids": [[1, 2]], "response_ids": [[3, 4]], name: np.array(mask)}
    with RolloutExporter(tmp_path) as exporter:
        exporter.log(1, **fields)
    assert exporter.counts["lost"] == 1
    assert f"{name}: expected 0 or 1" in caplog.text
    with RolloutExporter(tmp_path, strict=True) as strict, pytest.raises(ValueError, match=name):
        strict.log(1, **fields)


@pytest.mark.parametrize("step", [2.7, None, "1", float("nan")])
def test_a_step_that_is_no_whole_number_is_refused_by_name(tmp_path, step, caplog):
    with RolloutExporter(tmp_path) as exporter:
        exporter.log(step, response_ids=IDS)
    assert exporter.counts["lost"] == 4
    assert "step: expected a whole number" in caplog.text


def test_times_versions_and_counters_keep_their_digits(tmp_path):
    when, version, tokens = 1795732211.2, 1234567.0, 123456789.0
    with RolloutExporter(tmp_path) as exporter:
        for array in (np.full, lambda size, value: torch.full((size,), value, dtype=torch.float64)):
            exporter.log(
                1,
                response_ids=IDS,
                timestamp=array(4, when),
                policy_version=array(4, version),
                meta={"reward": [tokens] * 4},
            )
        exporter.end_step(1, num_tokens=tokens, again=torch.tensor(tokens, dtype=torch.float64))
    for line in told(exporter):
        if line["type"] == "sample":
            assert line["timestamp"] == when
            assert (line["policy_version"], line["reward"]) == (version, tokens)
        if line["type"] == "step_end":
            assert line["metrics"] == {"num_tokens": tokens, "again": tokens}


def test_a_metric_may_have_any_name_and_only_a_bad_one_is_left_out(tmp_path):
    metrics = {"step": 1, "self": 2, "loss": 0.5, "big": 1 << 80}
    with RolloutExporter(tmp_path) as exporter:
        exporter.end_step(1, **metrics)
    (end,) = (line for line in told(exporter) if line["type"] == "step_end")
    assert end["metrics"] == {"step": 1, "self": 2, "loss": 0.5}
    assert exporter.counts["refused:big"] == 1


def test_what_is_logged_after_the_closing_line_is_counted_behind_it_and_told_at_once(
    tmp_path, caplog
):
    exporter = RolloutExporter(tmp_path)
    exporter.log(1, response_ids=IDS)
    exporter.close()
    for step in (2, 3):
        exporter.log(step, response_ids=IDS)
    assert [line["lost"] for line in told(exporter) if line["type"] == "close"] == [0, 4, 8]
    assert exporter.counts["lost"] == 8
    assert caplog.text.count("after the exporter was closed") == 1


def test_no_value_is_carried_from_one_packed_sequence_into_the_next(tmp_path):
    values = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    fields = dict.fromkeys(("entropy", "mine", "logit_norm", "weight", "advantages"), values)
    with RolloutExporter(tmp_path) as exporter:
        exporter.log_packed(
            1,
            input_ids=np.arange(6),
            seq_lens=[3, 3],
            prompt_lens=[1, 0],
            loss_mask=np.ones(6),
            positions={"logit_norm": "predicting", "weight": "token", "wrong": "elsewhere"},
            ids=np.arange(6),
            wrong=values,
            **fields,
        )
    first, second = (line for line in told(exporter) if line["type"] == "sample")
    assert (first["mine"], first["logit_norm"], first["ids"]) == ([0.2, 0.3], [0.1, 0.2], [1, 2])
    for name in ("entropy", "mine"):
        assert second[name] == [None, 0.5, 0.6]
    assert second["logit_norm"] == [None, 0.4, 0.5]
    assert second["ids"] == [None, 4, 5]
    assert second["weight"] == second["advantages"] == [0.4, 0.5, 0.6]
    assert exporter.counts["refused:wrong"] == 1


def test_packed_tokens_as_many_as_sequences_leave_no_doubt_whose_a_value_is(tmp_path):
    fields = {"reward": [1.0, 2.0], "logprobs": [-0.5, -0.25], "mine": [3, 4], "weight": [5, 6]}
    with RolloutExporter(tmp_path) as exporter:
        exporter.log_packed(
            1,
            input_ids=[7, 8],
            seq_lens=[1, 1],
            loss_mask=[1, 1],
            positions={"weight": "token"},
            **fields,
        )
    first, second = (line for line in told(exporter) if line["type"] == "sample")
    assert (first["reward"], second["reward"]) == (1, 2)
    assert first["logprobs"] == [None], "of a first token nothing was predicted"
    assert first["weight"] == [5]
    assert exporter.counts["refused:mine"] == 1
