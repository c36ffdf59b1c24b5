"""Comma-separated values are the same rows to whoever reads them."""

import csv
import io

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from board.core.csv_rows import CsvRows

CELLS = st.text(st.sampled_from(list("ab ,;\"'\r\n\t=\u2028é")), max_size=12)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=8))
def test_every_reader_reads_the_rows_that_were_written(rows):
    file = io.StringIO(newline="")
    writer = CsvRows(file)
    writer.add(("one", "two", "three"))
    for row in rows:
        writer.add(row)
    text = file.getvalue()
    assert [tuple(row) for row in csv.reader(io.StringIO(text, newline=""))][1:] == rows
    frame = pd.read_csv(io.StringIO(text, newline=""), keep_default_na=False, dtype=str)
    assert [tuple(row) for row in frame.itertuples(index=False)] == rows
