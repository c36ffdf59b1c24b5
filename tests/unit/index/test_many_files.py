"""A run of very many small files costs what its rollouts cost, whatever the number of files."""

import pyarrow as pa

from board.index import segments
from board.query.database import Database, create_table


def rows_of_file(number: int) -> pa.Table:
    columns = {f"number:score {i}": pa.array([float(number)]) for i in range(30)}
    step = {"step": pa.array([number]), "file": pa.array([number])}
    return pa.table({**step, **columns, "response": pa.array([f"answer {number}"])})


def test_rows_of_ten_thousand_files_fit_into_the_memory_of_the_database():
    table = segments.joined(rows_of_file(number) for number in range(10_000))
    database = Database()
    create_table(database.cursor(), "main", "stored", table)
    count = database.cursor().execute("SELECT count(*), sum(step) FROM stored").fetchone()
    assert count == (10_000, sum(range(10_000)))


def test_joined_rows_are_those_of_the_tables_in_their_order():
    tables = [rows_of_file(number) for number in range(50)]
    joined = segments.joined(tables)
    assert joined.column("step").to_pylist() == list(range(50))
    assert joined.column("response").num_chunks == 1
    large = pa.table({"step": pa.array(range(1000)), "file": pa.array([0] * 1000)})
    assert segments.joined([large, large]).column("step").num_chunks == 2  # nothing is copied
