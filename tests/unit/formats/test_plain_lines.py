"""Lines that are parsed together have the records that each has for itself."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from board.errors import RecordError
from board.formats.parse import parse_plain_lines, parse_whole

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


@settings(max_examples=150, deadline=None)
@given(lines=st.lists(LINES, min_size=1, max_size=4))
def test_lines_together_have_the_records_of_each(lines):
    found = parse_plain_lines(lines)
    for line, record in zip(lines, found, strict=True):
        if record is None:  # left to the one who looks closer
            continue
        expected, mended = parse_whole(line)
        assert not mended
        assert repr(record) == repr(expected)  # NaN and -0.0 included


def test_plain_lines_need_no_closer_look():
    lines = [json.dumps({"text": "é" * 3000, "n": number}).encode() for number in range(9)]
    assert parse_plain_lines(lines) == [json.loads(line) for line in lines]
    with pytest.raises(RecordError):
        parse_whole(b"[1]")
    assert parse_plain_lines([*lines[:2], b"[1]", None])[2:] == [None, None]
