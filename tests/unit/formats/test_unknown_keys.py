"""Keys that no reader knows, of any type: a line of any format shows them, or the audit names them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import ONE_OF_EACH

from board.analysis.audit import parsed_line
from board.core.conservation import not_shown
from board.core.records import Record
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
