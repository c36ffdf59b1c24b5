"""docs/formats.md and the readers tell the same story."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from board.formats import READERS
from board.formats.base import Reader

ROOT = Path(__file__).parents[2]
OURS = [reader for reader in READERS if type(reader).__module__.startswith("board.formats.")]
COLUMNS = ["format", "read from", "recognised by", "pages it fills", "test file made by"]


def rows() -> list[list[str]]:
    lines = (ROOT / "docs" / "formats.md").read_text().splitlines()
    cells = [[c.strip() for c in line.strip("|").split(" | ")] for line in lines if line[:1] == "|"]
    start = cells.index(COLUMNS)
    return [row for row in cells[start + 2 :] if len(row) > 1]


@pytest.mark.parametrize("reader", OURS, ids=lambda reader: reader.name)
def test_every_reader_has_a_row_in_the_table_of_formats(reader: Reader):
    named = [
        row
        for row in rows()
        if f"`{reader.name}`" in row[0] or row[0].lower().startswith(reader.title.lower())
    ]
    assert named, f"{reader.name} has no row in docs/formats.md"


def test_every_row_fills_every_column():
    assert len(rows()) >= 15
    for row in rows():
        assert len(row) == len(COLUMNS), row
        assert all(row), row


def test_every_reader_that_a_row_names_is_there():
    names = {reader.name for reader in OURS}
    for row in rows():
        bracket = re.search(r"\((`[a-z_]+`(?:, `[a-z_]+`)*)\)$", row[0])
        if bracket:
            assert set(re.findall(r"`([a-z_]+)`", bracket[1])) <= names


@pytest.mark.parametrize("reader", OURS, ids=lambda reader: reader.name)
def test_every_reader_says_what_it_is_known_by(reader: Reader):
    """`sniff` shows it, so that an inherited sentence would tell nothing."""
    own = type(reader).recognises.__doc__
    assert own
    assert own != Reader.recognises.__doc__
