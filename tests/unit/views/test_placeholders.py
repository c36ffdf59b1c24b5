"""What stands in an empty field as an example can be typed there, and headings too, on every run."""

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from read_formats import ONE_OF_EACH, REAL_RUNS, real_run, run_of

from board.analysis.run_summary import RunSummary, settings_of
from board.components.run_table import RunRow
from board.core.expression_tree import text_literal
from board.core.metrics.headings import narrow_headings
from board.errors import ExpressionError
from board.query.open_run import reader_titles
from board.query.predicate import BoundSql, names_for, parsed, predicate_of
from board.query.run_rows import RunRows
from board.query.steps import own_steps
from board.views.rollouts.rollout_list import HIDDEN
from board.views.rollouts.text_search import as_expression, sought_text
from board.views.runs.columns import choose_columns
from board.views.runs.filters import example, search
from board.views.runs.names import path_of
from board.views.shared import examples

RUNS = pytest.mark.parametrize("info", ONE_OF_EACH, ids=lambda info: str(info.path.name))


@RUNS
def test_the_examples_of_the_pages_of_a_run_can_be_typed(info):
    run = real_run(info)
    text = examples.filter_over(run.columns)
    assert sought_text(run.columns, text) == ""
    assert 0 <= run.where(text).rollout_count <= run.rollout_count
    assert len(own_steps(run, examples.curve_over(run.metrics))) == len(run.counts)


@RUNS
def test_a_heading_of_the_list_filters_as_its_column_does(info):
    run = real_run(info)

    def filter_of(name: str) -> BoundSql:
        text = f"missing(col({text_literal(name)}))"
        return predicate_of(run.rows, parsed(run.columns, text))

    above = narrow_headings(names_for(run.columns))
    for name in run.columns:
        if name not in HIDDEN:
            assert filter_of(above[name]) == filter_of(name)
            assert parsed(run.columns, f"{above[name]} > 0").names == (name,)


def test_a_word_that_is_no_column_searches_the_texts(tmp_path):
    rows = [{"prompt": "Why?", "response": "I think so."}, {"prompt": "THINK", "response": "r"}]
    run = run_of(tmp_path, [{"step": 0, "reward": 1.0, **row} for row in rows])
    for text, count in (
        ("think", 2),
        ("I think", 1),
        ('"why?"', 1),
        ("don't", 0),
        ("42", 0),
        ("7-4=3", 0),
        ("reward", 2),  # a column, which is not 0
        ('"reward"', 0),
    ):
        assert run.where(as_expression(run.columns, text)).rollout_count == count


@pytest.mark.parametrize(
    "text", ["reward >", "think and so", "think (so", "(think)", "not think", "a = b", "", "1 2 >"]
)
def test_what_has_a_sign_or_a_word_of_the_language_is_an_expression(text):
    assert sought_text(("reward",), text) == ""


@given(
    st.from_regex(
        r"[0-9]{1,3}([-+*/=<>]{1,2}[0-9]{1,3}){0,4}( (and|or) [0-9]=[0-9])?", fullmatch=True
    )
)
def test_what_names_no_column_is_searched_for_and_is_no_filter(text):
    columns = ("reward", "rewards.correct")
    try:
        parsed(columns, text)
    except ExpressionError:
        return
    assert sought_text(columns, text) == text
    sought = as_expression(columns, text)
    assert parsed(columns, sought).names == ("any_text",)
    with pytest.raises(ExpressionError, match="names no column") as raised:
        predicate_of(cast("RunRows", None), parsed(columns, text))
    assert sought in raised.value.reason


@pytest.mark.parametrize(
    "pasted",
    ["KeyError: 'foo'", "Ones and Tens", 'a "b" = c', "x ==", "reward <", 'File "a.py", in f'],
)
def test_what_cannot_be_read_in_quotes_is_what_is_searched_for(pasted):
    assert sought_text(("reward",), pasted) == ""
    assert sought_text(("reward",), text_literal(pasted)) == pasted


@pytest.mark.parametrize("name", ["truncated", "is_truncated", '"truncated"', "flag"])
@pytest.mark.parametrize("columns", [{}, {"yes": 0.5, "rewards.no": 0.5}])
def test_flags_are_compared_with_what_stands_in_their_rows(tmp_path, name, columns):
    flags = [True, False, False]
    rows = [{"is_truncated": flag, "flag": flag} for flag in flags]
    columns = {f"x.{key}": value for key, value in columns.items()}
    run = run_of(
        tmp_path, [{"step": 0, "prompt": "p", "response": "r", **columns, **row} for row in rows]
    )
    for words, count in ((("yes", "Yes", "TRUE", '"yes"'), 1), (("no", "NO", "false", "'No'"), 2)):
        for word in words:
            for text in (f"{name} = {word}", f"{name} in ({word})", f"not {name} != {word}"):
                assert run.where(text).rollout_count == count, text


def summary_of(info) -> RunSummary:
    run = real_run(info)
    return RunSummary(len(run.counts), 0, settings=settings_of(run.settings)[0])


def row_of(info) -> RunRow:
    cells = {"format": {"text": reader_titles(info)}, "changed": {"at": info.mtime}}
    return RunRow(info.name, info.name, "unchanged", "", cells)


def folder_of(info) -> str:
    return info.path.relative_to(info.root).parts[0]


@pytest.mark.parametrize("folder", [*dict.fromkeys(map(folder_of, REAL_RUNS))])
def test_the_example_of_the_table_of_runs_and_its_heads_can_be_typed(folder):
    infos = [info for info in REAL_RUNS if folder_of(info) == folder]
    summaries, rows = [*map(summary_of, infos)], [*map(row_of, infos)]
    settings = [one.settings for one in summaries]
    columns = choose_columns(settings, {"format"}, (), "changed", dark=False)
    visible = [columns.by_id[name] for name in columns.visible]
    for known in (summaries, [None] * len(rows)):  # also before anything is read
        found = search(rows, known, example(visible, known), columns.by_id)
        assert found.refused == ""
    for column in visible:
        text = f"missing({column.label})"
        assert search(rows, summaries, text, columns.by_id).refused == "", column
        path = path_of(column.name)
        if path != column.name:
            lacking = [n for n, own in enumerate(settings) if own.get(path) is None]
            assert search(rows, summaries, text, columns.by_id).places == lacking
