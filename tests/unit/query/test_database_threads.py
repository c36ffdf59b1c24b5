"""A process that opens runs of many roots does not keep all their databases."""

import gc
import weakref
from pathlib import Path

from board.query.database import database_of


def test_databases_of_roots_that_nobody_uses_are_closed(tmp_path: Path):
    databases = []
    for number in range(40):
        root = tmp_path / str(number)
        root.mkdir()
        database = database_of(root)
        database.cursor().execute("SELECT 1")
        databases.append(weakref.ref(database))
        del database
    gc.collect()
    assert sum(one() is not None for one in databases) <= 8


def test_a_root_that_is_asked_for_again_has_its_database(tmp_path: Path):
    assert database_of(tmp_path) is database_of(tmp_path)
