"""Elements of JSON arrays, cut at any byte."""

import json
import random

import pytest

from board.formats.io import lines


def some_value(dice, depth=0):
    kind = dice.randrange(6 if depth < 3 else 4)
    if kind == 0:
        return dice.choice([1, -2.5, None, True])
    if kind < 4:
        return "".join(dice.choice('a"\\[]{},é \n') for _ in range(dice.randrange(12)))
    inner = [some_value(dice, depth + 1) for _ in range(dice.randrange(4))]
    return inner if kind == 4 else {f'k"{number}': value for number, value in enumerate(inner)}


@pytest.mark.parametrize("block_bytes", [1, 7, 4096])
def test_elements_are_those_that_a_parser_gives_and_lie_where_they_say(
    tmp_path, monkeypatch, block_bytes
):
    monkeypatch.setattr(lines, "_ARRAY_BLOCK_BYTES", block_bytes)
    dice = random.Random(block_bytes)
    path = tmp_path / "array.json"
    for _ in range(150):
        values = [some_value(dice) for _ in range(dice.randrange(6))]
        text = json.dumps(values, indent=dice.choice([None, 2]), ensure_ascii=dice.random() < 0.5)
        path.write_text(f"{text}\n")
        content = path.read_bytes()
        elements = list(lines.array_elements(path))
        assert [json.loads(line.text) for line in elements] == values
        assert all(content[line.offset :][: line.size] == line.text for line in elements)


def test_what_a_cut_array_still_holds_is_read_and_the_missing_end_is_named(tmp_path):
    path = tmp_path / "array.json"
    text = '[{"a": 1}, {"a": 2}]'
    for size in range(1, len(text)):
        path.write_text(text[:size])
        *elements, end = lines.array_elements(path)
        assert isinstance(end, lines.Fault)
        assert end.reason == lines.NO_END
        wholes = [element.text for element in elements if element.text.endswith(b"}")]
        assert wholes == [b'{"a": 1}', b'{"a": 2}'][: text[:size].count("}")]


def test_an_element_that_is_too_long_ends_the_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "_ARRAY_BLOCK_BYTES", 8)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 32)
    path = tmp_path / "array.json"
    path.write_text(json.dumps([{"a": 1}, {"a": "x" * 100}, {"a": 2}]))
    assert [line.text for line in lines.array_elements(path)] == [b'{"a": 1}', None]
