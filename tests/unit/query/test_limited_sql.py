"""SQL of a user ends in time and in memory, whatever it says, and gives what the same SELECT gives."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opened_logs import run_at
from written_logs import native_run

from board.errors import ChoiceError
from board.query.open_run import OpenOptions
from board.query.sql import limited_sql
from board.query.sql.limited_sql import Question, ask
from board.query.sql.user_sql import plain_rows, select


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_at(native_run(tmp_path_factory.mktemp("sql") / "native"))


def asked(run, statement, seconds=2.0, **options):
    return ask(Question(run.info, OpenOptions(), statement, seconds, **options))


def test_the_rows_are_those_of_the_statement(run, monkeypatch):
    statement = (
        "select step, count(*) as n, avg(reward) as mean from rollouts group by step order by step"
    )
    assert asked(run, statement).equals(select(run, statement))
    assert asked(run, "select * from rollouts", limit=3).num_rows == 3
    # A run may be named from where the user is.
    monkeypatch.chdir(run.info.root)
    named = run_at(run.info.path.relative_to(run.info.root))
    assert asked(named, statement).equals(select(run, statement))


GREEDY = (
    "printf('%2000000000d', 1)",
    "map_from_entries([(i, i) for i in range(10000000)])",
)
"""Each has several GB in one value."""
UNENDING = "levenshtein(repeat('x', 100000), repeat('y', 100000))"
"""One value that takes a minute: DuckDB does not look at interrupts meanwhile."""


@pytest.mark.parametrize("expression", GREEDY)
def test_a_value_that_takes_all_the_memory_is_refused_in_a_sentence(run, expression):
    with pytest.raises(ChoiceError, match=r"(?i)memory"):
        asked(run, f"select {expression}", 60.0)


def test_a_value_that_takes_too_long_is_ended(run):
    with pytest.raises(ChoiceError, match="took more than 1 seconds"):
        asked(run, f"select {UNENDING}", 1.0)


def test_a_statement_that_takes_long_to_parse_is_refused(run):
    with pytest.raises(ChoiceError, match="characters"):
        asked(run, "(" * (limited_sql.MOST_CHARACTERS + 1))


ODD = (
    "timestamp '290000-12-31 00:00:00'",
    "date '290000-01-01'",
    "[date '290000-01-01']",
    "{'a': timestamp '290000-12-31 00:00:00'}",
    "interval 90 years",
    "'nan'::double",
    "-170141183460469231731687303715884105728",
    "uuid()",
    "'\\xAA'::blob",
)
"""Values that Python or JSON can't hold."""


def test_every_value_is_a_value_of_json(run):
    selected = ", ".join(f"{value} AS v{number}" for number, value in enumerate(ODD))
    (row,) = plain_rows(asked(run, f"select {selected}"))
    assert len(row) == len(ODD)
    assert all(isinstance(value, str | int | float | list | dict) for value in row.values())
    assert "290000" in str(row["v1"]) or "105200797" in str(row["v1"])


def test_every_type_of_duckdb_is_shown(run):
    rows = plain_rows(asked(run, "select * from test_all_types()"))
    assert len(rows) == 3
    assert all(value is not None for value in rows[0].values())


def test_whole_numbers_keep_their_digits_and_columns_of_one_name_are_told_apart(run):
    values = "(values (9223372036854775807), (5)) t(n)"
    statement = f"select sum(n) total, max(n) as n, 1.5 as n, 2 as n from {values}"
    (row,) = plain_rows(asked(run, statement))
    assert row == {"total": 2**63 + 4, "n": 2**63 - 1, "n_1": 1.5, "n_2": 2}


def test_a_run_that_is_read_by_the_names_of_its_keys_is_asked_as_any_other(tmp_path):
    rows = [{"step": s, "question": "q", "completion": "r", "score": s / 2} for s in (1, 2)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
    table = asked(run_at(tmp_path), "select step, reward from rollouts order by step")
    assert table.to_pylist() == [{"step": 1, "reward": 0.5}, {"step": 2, "reward": 1.0}]
