"""Filters that are no expression but what is searched for in the texts of rollouts.

That is a text in quotes and nothing else, what can be read but names no column, such as 7-4=3 and 42, and
words alone that can't be read: no sign of
the language is among them, no word of it, and no name of a column.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from board.core.column_names import ColumnNames
from board.core.expression_tree import Text, names_column, text_literal
from board.core.expressions import KEYWORDS
from board.core.metrics.headings import meanings
from board.errors import ExpressionError
from board.index.segments import ANY_TEXT
from board.query.predicate import names_for, parsed

_WORDS: Final = re.compile(r"[^\s\"'()\[\]<>=!&|*/%+^]+(?:'\w+)?")
"""A word, with an apostrophe or without."""


def sought_text(columns: Collection[str], text: str) -> str:
    """The text that is searched for in rollouts with these columns; "" where it is an expression, or is
    to be one.
    """
    text = text.strip()
    try:
        expression = parsed(columns, text)
    except ExpressionError:
        words = text.split()
        is_plain = all(_WORDS.fullmatch(word) for word in words)
        is_named = len(words) == 1 and _is_name(columns, text)
        return "" if is_named or not is_plain or _has_keyword(words) else text
    tree = expression.tree
    if isinstance(tree, Text):
        return tree.value
    return "" if names_column(expression) else text


def as_expression(columns: Collection[str], text: str) -> str:
    """A filter as an expression: of what is searched for, that any text of the rollout contains it."""
    sought = sought_text(columns, text)
    return f"{ANY_TEXT} contains {text_literal(sought)}" if sought else text


def _is_name(columns: Collection[str], word: str) -> bool:
    """Whether it means several columns: then it says too little."""
    names = names_for(columns)
    return bool(ColumnNames(names, meanings(names), ()).meant(word))


def _has_keyword(words: Collection[str]) -> bool:
    return any(word.lower() in KEYWORDS for word in words)
