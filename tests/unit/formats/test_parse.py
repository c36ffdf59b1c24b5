"""Cutting arrays out of a line gives what parsing the whole line gives, for every line there is."""

import contextlib
import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from board.errors import RecordError
from board.formats import number_arrays
from board.formats.number_arrays import LineParser, RawNumbers, as_numbers, numbers_from_list
from board.formats.parse import parse_exactly, parse_plain_lines, parse_whole, repeated_keys

KEYS = ("logprobs", "ref_logprobs", "values", "entropy", "loss_mask", "mine", 'a"b', "ü", "x\\")
TEXTS = (
    "plain",
    "",
    '"logprobs":[1,2,3]',
    'quote " and \\" and "values": [9]',
    '\\"entropy\\": [1]',
    "]",
    "[",
    "],[",
    "\u2028 \u0085",
    "日本語 🎉",
    "-7.0313e-301",
    "null, NaN",
)


def number(source: random.Random):
    kind = source.random()
    if kind < 0.5:
        return round(source.gauss(0, 3), source.randint(0, 6))
    if kind < 0.7:
        return source.randint(-5, 5)
    return source.choice([0, -0.0, 1e-7, 1e300, 2**53, 2**70, True, False, None])


def array(source: random.Random):
    kind = source.random()
    if kind < 0.6:
        return [number(source) for _ in range(source.randint(1, 6))]
    numbers = ([], [None, None], [True, False], [math.nan, 1.0], [math.inf, -math.inf], [10**400])
    others = ([[1, 2], [3]], ["0.5", "b"], [1, "two", 3], [1, {"logprobs": [1]}], [{}], [1, {}])
    choices = (*numbers, *others, 5, None, "text")
    return source.choice(choices)


def record(source: random.Random):
    result = {"step": source.randint(0, 9), "response": source.choice(TEXTS)}
    for key in source.sample(KEYS, source.randint(0, len(KEYS))):
        result[key] = array(source)
    if source.random() < 0.3:
        result["info"] = {source.choice(KEYS): array(source), "t": source.choice(TEXTS)}
    if source.random() < 0.5:
        items = list(result.items())
        source.shuffle(items)
        result = dict(items)
    return result


def written(source: random.Random, result) -> bytes:
    separators = source.choice([(",", ":"), (", ", ": "), (" , ", " : ")])
    line = json.dumps(result, separators=separators, ensure_ascii=source.random() < 0.5)
    if source.random() < 0.1 and len(result) > 2:  # a key that stands twice: the last one counts
        key = source.choice(list(result))
        twice = json.dumps({key: array(source)}, separators=separators)
        line = (
            twice[:-1] + separators[0] + line[1:]
            if source.random() < 0.5
            else line[:-1] + separators[0] + twice[1:]
        )
    return line.encode()


def plain(value):
    """What an array means, whichever way it was parsed; the error where it means nothing."""
    if isinstance(value, RawNumbers | list):
        try:
            numbers = as_numbers(value)
            return None if numbers is None else [repr(v) for v in numbers.values().tolist()]
        except RecordError as error:
            return error.reason
    return repr(json.loads(json.dumps(value), parse_int=float))


def assert_same(parser: LineParser, line: bytes):
    whole, mended = parse_whole(line)
    quick, mended_quickly = parser.parse(line)
    assert mended == mended_quickly
    assert list(quick) == list(whole)
    for key in whole:
        assert plain(quick[key]) == plain(whole[key]), (key, line)
        if isinstance(quick[key], RawNumbers):
            assert len(quick[key]) == len(whole[key])


@pytest.mark.parametrize("seed", range(8))
def test_a_line_parsed_in_parts_equals_the_line_parsed_whole(seed):
    source = random.Random(seed)
    parser = LineParser()
    for _ in range(500):
        assert_same(parser, written(source, record(source)))


@pytest.mark.parametrize("seed", range(60))
def test_a_large_line_of_which_nothing_is_known_equals_the_line_parsed_whole(seed, monkeypatch):
    monkeypatch.setattr(number_arrays, "LARGE_LINE", 0)
    monkeypatch.setattr(number_arrays, "LONG_ARRAY_BYTES", 0)
    source = random.Random(seed)
    for _ in range(20):
        assert_same(LineParser(), written(source, record(source)))


@given(st.lists(st.floats(allow_nan=False) | st.integers(-99, 99) | st.none(), max_size=200))
def test_a_sample_of_an_array_is_as_long_and_begins_like_it(numbers):
    sampled = RawNumbers(json.dumps(numbers).encode()).sampled()
    assert len(sampled) == len(numbers)
    known = number_arrays._SAMPLE
    assert sampled[:known] == numbers[:known]
    assert {*map(type, sampled[known:])} <= {type(number) for number in numbers[:known]}


@pytest.mark.parametrize("seed", range(4))
def test_parts_equal_the_whole_when_the_layout_changes_under_a_learned_plan(seed):
    source = random.Random(seed)
    for _ in range(150):
        parser = LineParser()
        layout = record(source)
        for _ in range(3):
            for key, value in layout.items():
                if isinstance(value, list):
                    layout[key] = array(source)
            assert_same(parser, written(source, layout))


def unparsed(raw: bytes) -> RawNumbers:
    parser = LineParser()
    parser.parse(b'{"step":1,"x":[1]}')
    result = parser.parse(b'{"step":1,"x":' + raw + b"}")[0]["x"]
    assert isinstance(result, RawNumbers)
    return result


def taught() -> LineParser:
    parser = LineParser()
    parser.parse(b'{"step":1,"logprobs":[1,2],"values":[3,4]}')
    return parser


def test_long_arrays_of_later_lines_are_left_unparsed():
    quick, _ = taught().parse(b'{"step":2,"logprobs":[5,6],"values":[7,8]}')
    assert isinstance(quick["logprobs"], RawNumbers)
    assert quick["values"].values().tolist() == [7, 8]


@pytest.mark.parametrize(
    "line",
    [
        b'{"step":1,"info":{"logprobs":[9,9]},"values":[3]}',
        b'{"info":{"logprobs":[9,9]},"logprobs":[1],"values":[3]}',
        b'{"step":1,"values":[3],"logprobs":[1]}',
        b'{"step":1,"logprobs":[[1],[2]],"values":[3]}',
        b'{"step":1,"logprobs":["a]b"],"values":[3]}',
        b'{"step":1,"logprobs":[{}],"values":[3]}',
        b'{"step":1,"logprobs":[1],"logprobs":[2,3],"values":[3]}',
        b'{"step":1,"logprobs":[1],"logprobs":7,"values":[3]}',
        b'{"step":1,"response":"\\"logprobs\\":[8]","logprobs":[1],"values":[3]}',
        b'{"step":NaN,"logprobs":[NaN,Infinity,null],"values":[3]}',
        b'{"step":1,"logprobs":[],"values":[ ]}',
        b'{"step":1,"logprobs":[ 1 , 2 ],"values":[\t3\t]}',
        b'{"step":1,"logprobs":[null,null],"values":[ null]}',
        b'{"step":1,"logprobs":-7.0313e-301,"values":[3]}',
    ],
)
def test_a_wrong_guess_costs_time_and_never_a_value(line):
    assert_same(taught(), line)


def test_a_line_that_is_no_json_is_refused_after_a_plan_was_learned():
    with pytest.raises(RecordError, match="not JSON"):
        taught().parse(b'{"step":1,"logprobs":[1,2],"values":[3,4]')


DEEP_SURROGATE = b'{"a":' * 3000 + b'"\\ud800"' + b"}" * 3000
NO_OBJECTS = {
    "not JSON": (b"", b"{", b"not json", b'{"step":1} {"step":2}', b"\x00\x00", b"[" * 100_000),
    "a list": (b"[1]",),
    "text": (b'"text"',),
    "a number": (b"3",),
    "null": (b"null",),
    "true or false": (b"true",),
    "not JSON|nested too deep": (DEEP_SURROGATE,),
}


@pytest.mark.parametrize("reason", NO_OBJECTS)
def test_what_is_no_object_is_refused_and_named(reason):
    for line in NO_OBJECTS[reason]:
        with pytest.raises(RecordError, match=reason):
            parse_whole(line)


def test_a_deep_line_with_a_lone_surrogate_is_read_or_refused_and_never_a_crash():
    line = b'{"a":' * 700 + b'"\\ud800"' + b"}" * 700
    with contextlib.suppress(RecordError):
        parse_whole(line)


def test_reasons_do_not_hold_what_differs_from_line_to_line():
    reasons = set()
    for line in (b"{", b'{"a" 1}', b'{"aaaa": x}'):
        with pytest.raises(RecordError) as caught:
            parse_whole(line)
        reasons.add(caught.value.reason)
        assert "char" in caught.value.hint
    assert reasons == {"the line is not JSON"}


def test_nan_and_infinity_as_python_writes_them_are_read():
    result, mended = parse_whole(b'{"reward": NaN, "a": [Infinity, -Infinity]}')
    assert math.isnan(result["reward"])
    assert result["a"] == [math.inf, -math.inf]
    assert not mended


def test_a_byte_order_mark_is_no_part_of_the_line():
    assert parse_whole(b'\xef\xbb\xbf{"step": 1}') == ({"step": 1}, False)


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (b'{"a": "x\xffy"}', {"a": "x\ufffdy"}),
        ('{"a": "\ufffd'.encode() + b'\xff"}', {"a": "\ufffd\ufffd"}),
        (
            b'{"a\\ud800": ["\\udfff", {"b": "x\\ud800"}]}',
            {"a\ufffd": ["\ufffd", {"b": "x\ufffd"}]},
        ),
        (b'{"a": "\\ud83d\\ude00", "b": "\xff"}', {"a": "😀", "b": "\ufffd"}),
    ],
)
def test_broken_text_becomes_the_replacement_sign_and_is_told(line, record):
    assert parse_whole(line) == (record, True)


@pytest.mark.parametrize(
    "raw", [b"[1,2.5,-3e-7]", b"[ 1 , 2 ]", b"[]", b"[ ]", b"[true,false,null]"]
)
@pytest.mark.parametrize("with_simdjson", [True, False])
def test_unparsed_numbers_equal_parsed_ones(monkeypatch, raw, with_simdjson):
    if not with_simdjson:
        monkeypatch.setattr(number_arrays, "_number_parser", None)
    numbers = unparsed(raw)
    wanted = np.array(json.loads(raw), np.float64)
    assert len(numbers) == len(wanted)
    np.testing.assert_array_equal(numbers.values(), wanted)


@pytest.mark.parametrize("value", [None, [None, None], unparsed(b"[ null, null]")])
def test_an_array_of_nulls_is_not_recorded(value):
    assert as_numbers(value) is None


@pytest.mark.parametrize("value", ["", "1,2", 3, 1.5, True, {}, {"a": 1}])
def test_what_is_no_list_is_no_array(value):
    with pytest.raises(RecordError, match=r"^is "):
        as_numbers(value)


@pytest.mark.parametrize("entries", [["a"], [1, "x"], [[1], [2]], [[1], 2], [{}], [10**400]])
def test_a_list_of_something_else_is_no_array(entries):
    with pytest.raises(RecordError):
        numbers_from_list(entries)


def test_lines_parsed_together_are_those_parsed_alone():
    """None for a line that takes a closer look: no object, mended, blank, or too long."""
    lines = [json.dumps({"text": "é" * 3000, "n": number}).encode() for number in range(9)]
    assert parse_plain_lines(lines) == [json.loads(line) for line in lines]
    unusual = [
        b"[1]",
        None,
        b"",
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        b'{"a": Infinity, "b": [1]}',
    ]
    assert parse_plain_lines([lines[0], *unusual]) == [json.loads(lines[0]), *[None] * 6]
    assert parse_plain_lines([b'{"a": Infinity}', b"[1]"]) == [{"a": math.inf}, None]


INTEGERS = st.integers(-(10**30), 10**30)


@settings(max_examples=50, deadline=None)
@given(st.lists(INTEGERS), INTEGERS, st.text())
def test_integers_of_any_size_keep_their_digits(numbers, number, text):
    record = {"ids": numbers, "one": number, "deep": [{"ids": [*numbers, text]}], "text": text}
    assert parse_exactly(json.dumps(record).encode()) == (record, False)


ODD_KEYS = st.text(st.sampled_from('ab":\\ \n'), max_size=3)
ODD_VALUES = st.recursive(
    st.one_of(st.integers(), st.text(st.sampled_from('a":{}\\ '))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(ODD_KEYS, inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(ODD_KEYS, ODD_VALUES), st.sampled_from([None, 1]), ODD_KEYS, st.booleans())
def test_a_key_that_is_written_twice_is_named_and_no_other_is(record, indent, key, is_twice):
    whole = {**record, key: 1}
    text = json.dumps(whole, indent=indent)
    if is_twice:
        text = text.removesuffix("}") + f", {json.dumps(key)}: 2}}"
        whole[key] = 2
    line = text.encode()
    assert json.loads(line) == whole
    assert repeated_keys(line, whole) == ([key] if is_twice else [])
