"""Integers of more than 64 bits keep their digits in the table, and so in SQL and exports."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import run_at
from written_logs import write_lines

from board.query.sql.user_sql import select

TEXTS = {"prompt": "what is it?", "response": "It is that."}
CHAT = [{"role": "user", "content": "what is it?"}], [{"role": "assistant", "content": "That."}]
LINES = {
    "generic": {"step": 1, **TEXTS, "reward": 1.0},
    "verl": {"input": "what?", "output": "that", "gts": "7", "score": 1.0, "step": 1},
    "tokens": {
        "step": 1,
        **TEXTS,
        "reward": 1.0,
        "logprobs": [-0.5] * 40,
        "response_ids": [3] * 40,
    },
    "verifiers": {
        **dict(zip(("prompt", "completion"), CHAT, strict=True)),
        "example_id": 3,
        "reward": 1.0,
        "is_truncated": False,
        "metrics": {},
    },
}
LONG = st.integers(2**63, 2**130).flatmap(lambda n: st.sampled_from((n, -n)))
ID = {"generic": "group_id", "verl": "uid", "tokens": "group_id", "verifiers": "example_id"}


@pytest.mark.parametrize("name", LINES)
@settings(max_examples=5)
@given(numbers=st.lists(LONG | st.integers(0, 9), min_size=1, max_size=4))
def test_integers_of_any_size_have_all_of_their_digits_in_the_table(
    tmp_path_factory, name, numbers
):
    folder = tmp_path_factory.mktemp("long")
    lines = [
        {**LINES[name], ID[name]: abs(n), "zz_seed": n, "zz_meta": {"seed": n}} for n in numbers
    ]
    write_lines(folder / "1.jsonl", lines)
    run = run_at(folder)
    query = "SELECT group_id, zz_seed, zz_meta FROM rollouts ORDER BY line"
    rows = select(run, query).to_pylist()
    assert [row["group_id"] for row in rows] == [str(abs(n)) for n in numbers]
    assert [int(row["zz_seed"]) for row in rows] == numbers
    assert [json.loads(row["zz_meta"]) for row in rows] == [{"seed": n} for n in numbers]
