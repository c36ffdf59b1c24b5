"""A text of a rollout, whatever is in it, leads to the rollouts that hold it."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from read_formats import run_of

from board.core.expression_tree import text_literal
from board.query.rollouts import filter_of_text

TRICKY = st.sampled_from(
    ["'", '"', '""', "\\", "\n", "\r\n", "\t", "%", "␊", "ß", "İ", "é", "☃", "🙂"]
)
TEXTS = st.lists(st.one_of(TRICKY, st.text(st.characters(exclude_categories=["Cs"]), max_size=4)))


@given(TEXTS.map("".join), TEXTS.map("".join), st.data())
def test_any_part_of_a_text_finds_its_rollout(response, other, data):
    first = data.draw(st.integers(0, len(response)))
    part = response[first : data.draw(st.integers(first, len(response)))]
    with tempfile.TemporaryDirectory() as folder:
        rows = [{"step": 1, "prompt": "p", "response": text} for text in (response, other)]
        run = run_of(Path(folder), rows)
        where = filter_of_text(run, 1, 0, part)
        if not part.strip():
            assert not where
            return
        assert where == f"response contains {text_literal(part)}"
        passing = run.where(where).of_step(1)["index"].tolist()
        assert 0 in passing
        if other == response:
            assert passing == [0, 1]


def test_a_text_of_a_tool_or_over_two_messages_is_found(tmp_path):
    messages = [
        {"role": "user", "content": "ask"},
        {"role": "assistant", "content": "I look\nit up"},
        {"role": "tool", "content": "Error: gone"},
    ]
    run = run_of(tmp_path, [{"step": 1, "messages": messages}, {"step": 1, "response": "x"}])
    assert run.where(filter_of_text(run, 1, 0, "Error: gone")).rollout_count == 1
    over_two = filter_of_text(run, 1, 0, "it up\n3\ntool\n11 chars\nError: gone")
    assert over_two.endswith('contains "Error: gone"')
    assert filter_of_text(run, 1, 0, "nowhere") == ""
