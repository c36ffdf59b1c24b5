"""A process that opens runs of many roots does not keep all their databases."""

import gc
import threading
from pathlib import Path

from board.query.database import Database, database_of


def databases() -> int:
    gc.collect()
    return sum(isinstance(one, Database) for one in gc.get_objects())


def test_databases_of_roots_that_nobody_uses_are_closed(tmp_path: Path):
    before, threads = databases(), threading.active_count()
    for number in range(40):
        root = tmp_path / str(number)
        root.mkdir()
        database_of(root).cursor().execute("SELECT 1")
    assert databases() - before <= 8
    assert threading.active_count() == threads


def test_a_root_that_is_asked_for_again_has_its_database(tmp_path: Path):
    assert database_of(tmp_path) is database_of(tmp_path)
