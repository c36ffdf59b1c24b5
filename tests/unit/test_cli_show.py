"""A rollout on the terminal: as one document in pieces, and as a table that somebody can read."""

import json

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_logs import write_lines

from board import cli
from board.analysis import log_line
from board.cli import output
from board.cli.commands import analysis
from board.cli.terminal import escaped_json
from board.formats import number_arrays, recognition

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_a_document_in_pieces_is_the_document(document):
    written: list[str] = [*output._pieces(document, 2)]
    assert "".join(written) == escaped_json(orjson.dumps(document).decode())


def test_arrays_are_lists_and_what_is_no_number_is_null(capsys):
    values = np.array([0.5, np.nan, -np.inf])
    output.begin("show")
    output.print_json({"metrics": {"k1": values}, "beyond": {"big": 2**70}, "by_step": {3: 1}})
    assert json.loads(capsys.readouterr().out) == {
        "metrics": {"k1": [0.5, None, None]},
        "beyond": {"big": 2**70},
        "by_step": {"3": 1},
        "schema": "show/1",
        "notes": [],
    }


@pytest.mark.parametrize(("count", "listed"), [(10, range(10)), (11, (0, 1, 2, 8, 9, 10))])
def test_of_very_many_tokens_those_at_both_ends_are_listed(
    count, listed, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(analysis, "_MOST_LISTED", 10)
    monkeypatch.setattr(analysis, "_LISTED_ENDS", 3)
    tokens = [f"t{place}" for place in range(count)]
    row = {"step": 1, "prompt": "Q", "response": "".join(tokens), "response_tokens": tokens}
    write_lines(tmp_path / "log.jsonl", [row | {"logprobs": [-0.5] * count}])
    assert cli.main(["show", str(tmp_path), "--step", "1", "--index", "0"]) == 0
    head, *lines = capsys.readouterr().out.partition("== tokens")[2].splitlines()
    first_words = [line.split()[0] for line in lines if line.strip()]
    assert [int(word) for word in first_words if word.isdigit()] == [*listed]
    assert ("5 between are left out" in head) == (count == 11)


def test_a_rollout_of_a_large_line_is_shown_as_one_of_a_small_line(tmp_path, monkeypatch, capsys):
    row = {"type": "sample", "step": 1, "prompt": "Q", "response_ids": [5, 7, 2**40], "reward": 1}
    row |= {"logprobs": [-0.5, None, -1.5], "mine": [1, 0, 1], "note": {"mine": [2, 3]}}
    write_lines(tmp_path / "log.jsonl", [row])
    shown: list[str] = []
    for _ in range(2):
        assert cli.main(["show", str(tmp_path), "--step", "1", "--index", "0", "--json"]) == 0
        shown.append(capsys.readouterr().out)
        for module in (log_line, number_arrays, recognition):
            monkeypatch.setattr(module, "LARGE_LINE", 0)
        monkeypatch.setattr(number_arrays, "LONG_ARRAY_BYTES", 0)
    assert shown[0] == shown[1]
    assert json.loads(shown[0])["rows"][0]["response_ids"] == [5, 7, 2**40]
