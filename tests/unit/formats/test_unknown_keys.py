"""Keys that no reader knows, of any type: a line of any format shows them, or the audit names them."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import ONE_OF_EACH

from board.analysis.audit import parsed_line
from board.core.conservation import not_shown
from board.core.records import Record
from board.errors import RecordError
from board.formats import reader_named, source_read_by
from board.formats.base import LineContext
from board.formats.joined_rows import Together
from board.index.discovery.packed import readable

OF_SEVERAL = {
    *("evalplus", "inspect", "otlp", "prime_hosted", "slime", "slime_train", "wandb_table"),
    *("miles_tokens", "tau2", "trackio"),
}
"""Readers of files, or lines, that hold several rollouts: what is unknown of all of them is named."""
TABLES = {"ms_swift", "roll", "areal_texts"}
"""Readers of lines whose keys are columns of equal length, and of plain texts: nothing can be added."""
MOST_LINES = 2
TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=12, max_size=20
)
SCALAR = TEXT | st.floats(1e3, 1e6).map(lambda x: round(x, 2)) | st.integers(10**4, 10**6)
VALUE = st.recursive(
    SCALAR,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "value", "inner"]), inner, min_size=1, max_size=3
        )
    ),
    max_leaves=4,
)
UNKNOWN = st.dictionaries(
    st.sampled_from(["zz_note", "zz_flags", "zz_meta", "zz_values"]), VALUE, min_size=1, max_size=4
)


def first_lines(info: Any) -> list[tuple[Any, LineContext, dict[str, Any]]]:
    """Reader, context and content of the first lines with a rollout of a run's first file."""
    found = list[tuple[Any, LineContext, dict[str, Any]]]()
    file = info.files[0]
    reader, source = reader_named(file.reader), source_read_by(file.reader, file.path)
    for number, line in enumerate(source.lines(readable(file).path), 1):
        content = parsed_line(line)
        context = LineContext(file.path, None, reader.layout, number)
        if content and records(reader, content, context):
            found.append((reader, context, dict(content)))
        if len(found) == MOST_LINES:
            break
    return found


def records(reader: Any, line: Any, context: LineContext) -> list[Record]:
    read = (reader.record(row, context) for row in reader.rows(line, context))
    return [one for one in read if isinstance(one, Record)]


def with_keys(line: dict[str, Any], unknown: dict[str, Any]) -> dict[str, Any]:
    """The line, or its first row, with further keys."""
    if isinstance(line.get("rows"), list):
        first, *others = line["rows"]
        return Together(rows=[{**first, **unknown}, *others])
    return {**line, **unknown}


@pytest.mark.parametrize("info", ONE_OF_EACH, ids=lambda info: f"{info.formats[0]}-{info.name}")
@settings(max_examples=6)
@given(unknown=UNKNOWN)
def test_keys_that_a_reader_does_not_know_are_shown_or_named(info, unknown):
    for reader, context, line in first_lines(info):
        if reader.name in TABLES:
            return
        changed = with_keys(line, unknown)
        missing = not_shown(changed, records(reader, changed, context), reader.left_out)
        lost = [path for path in missing if "zz_" in path]
        assert lost == [] or reader.name in OF_SEVERAL


UNIQUE = itertools.count(1)
NOT_ALONE = {
    "art": {"reward", "messages[].content"},  # trajectory_json is the whole, columns repeat it
    "atif": {"agent.name", "agent.version", "agent.model_name"},  # of the trial's result
    "miles_tokens": {"total_length"},
    "miles_trajectory": {"prompt[].content"},  # messages begin with it
    "slime_train": {"samples[].total_lengths"},
    "swe_agent": {"trajectory[].observation"},  # the history has it
    "trackio": {"traces[].key", "tables[].key"},
    "wandb_table": {"columns[]"},
}
"""Values that are in the log twice in other words: changed alone, they contradict the other one, which is
what is shown. The audit names them.
"""
_ROLES = ("role", "type", "kind", "source", "finish_reason")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The keys to each text and number of a line, and these; lists of numbers have none."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list | tuple):
        if not all(inner is None or isinstance(inner, int | float) for inner in value):
            for place, inner in enumerate(value):
                yield from places(inner, (*path, place))
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield path, value


def with_value(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of a value with another one at a path."""
    if not path:
        return new
    changed = copy(value) if isinstance(value, dict) else list(value)
    changed[path[0]] = with_value(value[path[0]], path[1:], new)
    return changed


def changed_alone(line: Any) -> Iterator[tuple[str, Any]]:
    """The line with a fresh value in the place of one that it has once, for each path without numbers."""
    known = Counter(repr(value) for _, value in places(line))
    done = set[str]()
    for path, value in places(line):
        name = re.sub(r"\.?\[\]", "[]", ".".join("[]" if type(p) is int else str(p) for p in path))
        is_other = isinstance(value, str) and (value[:1] in "[{" or path[-1] in _ROLES)
        if name in done or known[repr(value)] > 1 or is_other:  # JSON in a text, a word of few
            continue
        done.add(name)
        number = next(UNIQUE)
        fresh = (
            f"a-text/of-its-own-{number}" if isinstance(value, str) else value + 918_273 + number
        )
        yield name, with_value(line, path, fresh)


@pytest.mark.parametrize("info", ONE_OF_EACH, ids=lambda info: f"{info.formats[0]}-{info.name}")
def test_every_value_that_a_line_has_once_is_shown_or_left_out_for_a_stated_reason(info):
    """A value may be found by chance where its neighbours are alike: here each is another one."""
    lost = set[str]()
    for reader, context, first in first_lines(info)[:1]:
        line = with_keys(first, {})
        remarks = sum(len(record.remarks) for record in records(reader, line, context))
        for name, changed in changed_alone(line):
            with suppress(RecordError):  # the line can't be used, which is said
                rollouts = records(reader, changed, context)
                is_said = sum(len(record.remarks) for record in rollouts) > remarks
                if rollouts and not is_said and not_shown(changed, rollouts, reader.left_out):
                    lost.add(name)
        assert lost <= NOT_ALONE.get(reader.name, set())


ODD_VALUES = (None, [], {}, "a text where none was", 123_456.75, [{"x": ["an odd object"]}], True)


def keys_to(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys to each value of a line, objects and lists included; of lists their first entries."""
    entries = value.items() if isinstance(value, dict) else enumerate([*value][:2])
    for key, inner in entries:
        yield (*path, key)
        if isinstance(inner, dict | list | tuple):
            yield from keys_to(inner, (*path, key))


@pytest.mark.parametrize("info", ONE_OF_EACH, ids=lambda info: f"{info.formats[0]}-{info.name}")
def test_whatever_stands_anywhere_in_a_line_a_reader_reads_or_refuses_it(info):
    for reader, context, first in first_lines(info)[:1]:
        line = with_keys(first, {})
        # `rows` and its entries are made by a source, and always objects.
        paths = [path for path in keys_to(line) if path[0] != "rows" or len(path) > 2]
        for number, path in enumerate(paths):
            for odd in (ODD_VALUES[number % 7], ODD_VALUES[(number + 3) % 7]):
                with suppress(RecordError):
                    records(reader, with_value(line, path, odd), context)
