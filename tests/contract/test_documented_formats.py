"""docs/formats.md, docs/format_sources.md and the readers agree."""

import re
from pathlib import Path

import pytest

from board.formats import READERS
from board.formats.base import Reader

DOCS = Path(__file__).parents[2] / "docs"
OURS = [reader for reader in READERS if type(reader).__module__.startswith("board.formats.")]
NAMES = {reader.name for reader in OURS}


def rows(document: str) -> list[list[str]]:
    """The rows of a document's table, without its head."""
    lines = (DOCS / document).read_text(encoding="utf-8").splitlines()
    table = [line.strip().strip("|").split(" | ") for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in table[2:]]


FORMATS = rows("formats.md")
SOURCES = rows("format_sources.md")


@pytest.mark.parametrize("reader", OURS, ids=lambda reader: reader.name)
def test_every_reader_has_a_row_in_both_tables(reader):
    assert any(row[1] == f"`{reader.name}`" for row in FORMATS)
    assert any(f"`{reader.name}`" in row[0] for row in SOURCES)


def test_every_row_fills_every_column():
    assert {len(row) for row in FORMATS} == {4}
    assert {len(row) for row in SOURCES} == {3}
    assert all(cell for row in (*FORMATS, *SOURCES) for cell in row)


def test_every_reader_that_a_row_names_exists():
    assert {row[1].strip("`") for row in FORMATS} == NAMES
    assert {name for row in SOURCES for name in re.findall(r"`(\w+)`", row[0])} == NAMES


@pytest.mark.parametrize("reader", OURS, ids=lambda reader: reader.name)
def test_every_reader_says_what_it_is_known_by(reader):
    """`sniff` shows it, so that an inherited sentence would tell nothing."""
    own = type(reader).recognises.__doc__
    assert own
    assert own != Reader.recognises.__doc__


def test_all_that_the_audit_leaves_out_is_documented_with_its_reason():
    documented = {
        (title, path, reason)
        for title, paths, reason in (*rows("left_out.md"), *rows("left_out_of_evaluations.md"))
        for path in re.findall(r"`([^`]+)`", paths)
    }
    common = set.intersection(*({*reader.left_out.items()} for reader in OURS))
    assert documented == {("all", *entry) for entry in common} | {
        (reader.title, *entry)
        for reader in OURS
        for entry in reader.left_out.items()
        if entry not in common
    }
