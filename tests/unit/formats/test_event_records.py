"""Records of event files are read as TensorBoard's own protocol buffers read them, in any mixture."""

import random
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from board.formats.metrics.base import Points
from board.formats.metrics.event_records import scalars_of
from board.formats.metrics.tensorboard import EventFiles

event_pb2 = pytest.importorskip("tensorboard.compat.proto.event_pb2")
FLOAT, DOUBLE, INT64 = 1, 2, 9

steps = st.sampled_from([0, 1, 127, 128, 20_000, -3, 2**40])
values = st.sampled_from([0.0, 1.5, -2.25, float("nan"), float("inf")])
tags = st.sampled_from(["loss", "kl", "reward/mean", "grad", "", "é"])
KINDS = (
    *("simple", "float_val", "double_val", "content", "double_content"),
    *("several", "shaped", "integer", "text", "two", "none", "start", "version"),
)
events = st.tuples(st.sampled_from(KINDS), tags, steps, values, st.booleans())


def written(kind, tag, step, value, has_time) -> bytes:
    """An event of a kind, as TensorBoard's protocol buffers write it."""
    event = event_pb2.Event(step=step)
    if has_time:
        event.wall_time = 1.7e9 + step % 1000
    if kind == "version":
        event.file_version = "brain.Event:2"
        return event.SerializeToString()
    if kind == "start":
        event.session_log.status = event.session_log.START
        return event.SerializeToString()
    if kind == "none":
        return event.SerializeToString()
    own = event.summary.value.add(tag=tag)
    tensor = own.tensor
    if kind in ("simple", "two"):
        own.simple_value = value
    elif kind == "text":
        tensor.dtype = 7
        tensor.string_val.append(b"a text")
    elif kind in ("float_val", "several", "shaped"):
        tensor.dtype = FLOAT
        tensor.float_val.extend([value] * (2 if kind == "several" else 1))
        if kind == "shaped":
            tensor.tensor_shape.dim.add(size=1)
    elif kind == "double_val":
        tensor.dtype = DOUBLE
        tensor.double_val.append(value)
    elif kind == "integer":
        tensor.dtype = INT64
        tensor.int64_val.append(3)
    else:
        is_double = kind == "double_content"
        tensor.dtype = DOUBLE if is_double else FLOAT
        tensor.tensor_content = struct.pack("<d" if is_double else "<f", value)
    if kind == "two":
        event.summary.value.add(tag=tag + " again", simple_value=value)
    return event.SerializeToString()


def plainly(contents) -> Points:
    """The points of events, by the protocol buffers themselves."""
    points = Points()
    for content in contents:
        event = event_pb2.Event.FromString(content)
        if event.HasField("session_log") and event.session_log.status == event.session_log.START:
            points.drop_from(event.step)
        for value in event.summary.value:
            kind, tensor = value.WhichOneof("value"), value.tensor
            if kind == "simple_value":
                points.add(event.step, value.tag, value.simple_value)
            elif kind == "tensor" and not tensor.tensor_shape.dim:
                code = {FLOAT: "<f", DOUBLE: "<d"}.get(tensor.dtype)
                numbers = [*(tensor.float_val if code == "<f" else tensor.double_val)]
                if not numbers and code and len(tensor.tensor_content) == struct.calcsize(code):
                    numbers = struct.unpack(code, tensor.tensor_content)
                if code and len(numbers) == 1:
                    points.add(event.step, value.tag, float(numbers[0]))
    return points


def framed(contents) -> bytes:
    return b"".join(
        struct.pack("<QI", len(content), 0) + content + bytes(4) for content in contents
    )


def assert_equal(points: Points, expected: Points) -> None:
    assert {*points.names} == {*expected.names}
    assert (points.count, points.non_finite) == (expected.count, +expected.non_finite)
    for name in expected.names:
        for ours, theirs in zip(points.curve(name), expected.curve(name), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def read(path, contents, block: int | None = None) -> EventFiles:
    path.write_bytes(framed(contents))
    source = EventFiles("e", (path,))
    with pytest.MonkeyPatch.context() as patch:
        if block:
            patch.setattr("board.formats.metrics.tensorboard._BLOCK_BYTES", block)
        source.update()
    return source


@given(
    st.lists(events, min_size=1, max_size=6), st.integers(1, 12), st.sampled_from([64, 500, 10**6])
)
@example([("simple", "loss", 1, 1.5, True), ("start", "", 1, 0.0, True)], 9, 10**6)
@example(
    [("simple", "loss", 0, 0.0, False), ("start", "", 0, 0.0, False), ("start", "", 0, 0.0, True)],
    6,
    500,
)
def test_events_in_any_mixture_are_read_as_their_protocol_buffers_say(
    tmp_path_factory, kinds, times, block
):
    """times: each kind again, so that records of one size are many. block: bytes read at once."""
    contents = [written(*event) for event in kinds] * times
    random.Random(len(contents)).shuffle(contents)
    source = read(tmp_path_factory.mktemp("e") / "events.out.tfevents.1", contents, block)
    assert_equal(source.points, plainly(contents))
    assert source.problems == ()


def curves(step: int) -> list[bytes]:
    return [written("simple", f"metric {n:02}", step, step / (n + 1), True) for n in range(20)]


def test_records_of_many_curves_are_read_together_and_broken_ones_among_them_are_counted(tmp_path):
    good = [content for step in range(300) for content in curves(step)]
    broken = [content[:-1] + b"" for content in curves(7)]  # each ends within its value
    strange = [b"\x0b" + content[1:] for content in good[:40]]
    contents = [*good[:3000], *broken, *strange, *good[3000:]]
    source = read(tmp_path / "events.out.tfevents.1", contents)
    assert_equal(source.points, plainly(good))
    (problem,) = source.problems
    assert (problem.reason, problem.count) == ("an event that can't be read", 60)


def test_records_of_one_layout_are_looked_at_one_by_one_only_once_for_each_curve(monkeypatch):
    reads = []
    module = "board.formats.metrics.event_records"
    real = scalars_of.__globals__["read_event"]
    monkeypatch.setattr(f"{module}.read_event", lambda content: reads.append(1) or real(content))
    counts = []
    for times in (100, 400):
        contents = [content for step in range(256, 256 + times) for content in curves(step)]
        sizes = np.array([len(content) for content in contents])
        offsets = np.cumsum(sizes) - sizes
        reads.clear()
        scalars = scalars_of(b"".join(contents), offsets, sizes)
        counts.append(len(reads))
        assert len(scalars.number) == len(contents)
    assert counts[0] == counts[1] < 50
