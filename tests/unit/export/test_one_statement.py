"""A page of rollouts asks the index as often as a page of one."""

import pytest
from read_formats import DATA

from board.export.pages import PageOptions, listed_page
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Follower
from board.query.rollouts import Sorting, frame
from board.query.run import Run


@pytest.mark.parametrize("log", ["verl", "trl"])
def test_the_statements_of_a_page_do_not_grow_with_its_rollouts(log, monkeypatch):
    info, *_ = discover(DATA / log).runs
    run = Follower().run(info)
    rows = frame(run, ("step", "index", "reward"), Sorting())
    assert len(rows) > 2
    asked = list[str]()
    select = Run._select

    def counted(self: Run, columns: object, source: str) -> object:
        if columns is None:
            asked.append(source)
        return select(self, columns, source)

    monkeypatch.setattr(Run, "_select", counted)
    counts = list[int]()
    for number in (1, len(rows)):
        run._cache.rows.clear()
        asked.clear()
        listed_page(run, rows.head(number), len(rows), "rollouts", PageOptions())
        counts.append(len(asked))
    assert counts[0] == counts[1] > 0
