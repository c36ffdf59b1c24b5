"""Lines that are parsed together have the records that each has for itself."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from board.errors import RecordError
from board.formats.block import Block
from board.formats.frameworks import plain_lines
from board.formats.frameworks.plain_lines import PlainParser
from board.formats.io.lines import Stretch
from board.formats.line_layout import LineLayout
from board.formats.parse import parse_whole
from board.formats.texts import Numbers

WORDS = st.sampled_from(["a", "é", "\U0001f600", "\\u0000", "\\ud83d\\ude00", "\\ud800", "\\n"])
NUMBERS = st.sampled_from(
    [
        *(
            "0",
            "-0",
            "-0.0",
            "1e400",
            "-1e-400",
            "0.1",
            "2.2250738585072011e-308",
            "1E5",
            "01",
            "1.",
        ),
        *(
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775809",
            "NaN",
            "Infinity",
        ),
        *("123456789012345678901234567890", "1.7976931348623159e308", "true", "null", "nul"),
    ]
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False).map(repr)
WHOLE = st.integers(-(2**70), 2**70).map(str)
SCALARS = WORDS.map('"{}"'.format) | NUMBERS | FLOATS | WHOLE
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda values: f"[{','.join(values)}]")
        | st.lists(inner, max_size=3).map(
            lambda values: (
                "{" + ",".join(f'"{"k" * (n % 2)}": {v}' for n, v in enumerate(values)) + "}"
            )
        )
    ),
    max_leaves=4,
)
LINES = VALUES.map(lambda value: f'{{"step": 1, "x": {value}}}'.encode()) | st.sampled_from(
    [
        b"",
        b" ",
        b"[1]",
        b'{"a": "\xff"}',
        b'\xef\xbb\xbf{"a": 1}',
        b'{"a": 1} x',
        b'{"a": 1, "a": 2}',
    ]
)


@pytest.mark.parametrize("long", [0, 1 << 40], ids=["simdjson", "orjson"])
@settings(max_examples=150, deadline=None)
@given(lines=st.lists(LINES, min_size=1, max_size=4))
def test_lines_together_have_the_records_of_each(long, lines):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plain_lines, "_LONG_LINE", long)
        found = PlainParser().parse(lines)
    for line, record in zip(lines, found, strict=True):
        if record is None:  # left to the one who looks closer
            continue
        expected, mended = parse_whole(line)
        assert not mended
        assert repr(record) == repr(expected)  # NaN and -0.0 included


def test_plain_lines_need_no_closer_look():
    lines = [json.dumps({"text": "é" * 3000, "n": number}).encode() for number in range(9)]
    assert PlainParser().parse(lines) == [json.loads(line) for line in lines]
    with pytest.raises(RecordError):
        parse_whole(b"[1]")
    assert PlainParser().parse([*lines[:2], b"[1]", None])[2:] == [None, None]


FIELDS = st.sampled_from(["step", "x", "é", "a b", "long key"])
LIKE = st.sampled_from(["1", "2", "0.5", '"a"', '"é\\n"', "null", "true", "-7", "1e3"])
GAPS = st.sampled_from(["", " ", "\t", "\r", "\n"])
BYTES = st.sampled_from(
    [b"", b" ", b"\n", b"{", b"}", b"}{", b"\xff", b"\\", b'"', b",", b"\0", b"0"]
)


@st.composite
def alike(draw) -> bytes:
    """Lines of a few keys that most of them have, some of them with other values, or torn."""
    keys = draw(st.lists(FIELDS, min_size=1, max_size=3, unique=True))
    found: list[bytes] = []
    for _ in range(draw(st.integers(1, 5))):
        values = [draw(LIKE if draw(st.integers(0, 9)) else SCALARS) for _ in keys]
        own = [*keys, draw(FIELDS)] if draw(st.integers(0, 9)) == 0 else keys
        gap = draw(GAPS) if draw(st.integers(0, 9)) == 0 else ""
        pairs = [f'"{key}":{gap}{value}' for key, value in zip(own, [*values, "3"], strict=False)]
        found.append(f"{gap}{{{','.join(pairs)}}}".encode())
    content = b"\n".join(found) + b"\n"
    if draw(st.booleans()):
        at = draw(st.integers(0, len(content) - 2))
        content = content[:at] + draw(BYTES) + content[at + draw(st.integers(0, 1)) :]
    return content


@settings(max_examples=400, deadline=None)
@given(content=alike())
def test_lines_of_one_layout_have_the_values_of_each(content):
    pieces = content.split(b"\n")[:-1]
    stretch = Stretch(0, np.array([len(piece) + 1 for piece in pieces]), content)
    layout = LineLayout.of(pieces[0])
    found = None if layout is None else layout.block_of(stretch)
    if found is None:  # each is parsed for itself
        return
    block, places = found
    assert list(places) == list(range(len(pieces)))
    records = []
    for line in pieces:
        record, mended = parse_whole(line)
        assert not mended
        records.append(record)
    expected = Block.of(records)
    for key in block.columns.keys() | expected.columns.keys():
        assert repr(list(block.values(key))) == repr(list(expected.values(key)))
        if isinstance(values := block.values(key), Numbers):
            assert repr([float(v) for v in values if v is not None]) == repr(
                values.floats[~np.isnan(values.floats)].tolist()
            )


def test_most_lines_of_texts_and_numbers_are_of_one_layout():
    lines = [
        json.dumps({"a": "é\n", "b": n, "c": None if n else 0.5, "d": n > 2}) for n in range(9)
    ]
    content = "".join(f"{line}\n" for line in lines).encode()
    stretch = Stretch(0, np.array([len(line) + 1 for line in lines]), content)
    layout = LineLayout.of(lines[0].encode())
    assert layout is not None
    found = layout.block_of(stretch)
    assert found is not None
    block, _ = found
    assert [block.row(place) for place in range(9)] == [json.loads(line) for line in lines]
