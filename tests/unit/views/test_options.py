"""Streamlit tells the options of a widget apart by their texts: no two may be the same."""

import ast
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from board import views
from board.views.shared.text import distinct_options, where_they_differ

WIDGETS = {"selectbox", "multiselect", "radio", "pills", "segmented_control", "menu"}
NAMES = st.lists(st.text("ab/\n", max_size=3).map(lambda end: "x" * 90 + end), unique=True)


@given(NAMES)
def test_no_two_options_have_the_same_text(names):
    words = distinct_options(names)
    assert len({*map(words, names)}) == len(names)
    assert words("y" * 99) == "y" * 79 + "…"


@given(NAMES)
def test_prompts_that_differ_have_different_texts(prompts):
    assert len({*where_they_differ(prompts, 60)}) == len(prompts)


def test_no_widget_cuts_its_options():
    """format_func=one_line makes two long names one option: `distinct_options` does not."""
    for path in Path(views.__file__).parent.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        for call in ast.walk(ast.parse(source)):
            if not isinstance(call, ast.Call) or getattr(call.func, "attr", "") not in WIDGETS:
                continue
            for option in call.keywords:
                if option.arg == "format_func":
                    text = ast.get_source_segment(source, option.value) or ""
                    assert "one_line" not in text, (path.name, text)
