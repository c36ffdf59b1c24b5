"""The words above columns as they can be typed in a filter."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from board.core.column_names import ColumnNames, Meanings
from board.core.expression_tree import Column, Operation, text_literal
from board.core.expressions import RESERVED, tree_of
from board.core.texts.one_line import one_line
from board.errors import ExpressionError

_LONGEST: Final = 200
_PLAIN: Final = re.compile(r"[^\W\d][\w.]*(?: [\w.]+)*")
"""Words that are read together, unless one of them is reserved."""


def typed_heads(
    heads: Mapping[str, str], columns: Collection[str], meanings: Meanings
) -> dict[str, str]:
    """By column its head, so that a filter with it is over that column. One that is read as something
    else, as a/b where there are columns a and b, gives way to the column's name, and that to the name in
    quotes. meanings: of the heads and others.
    """
    names = ColumnNames(columns, meanings, RESERVED)
    return {
        name: next(
            (text for text in (head, one_line(name, _LONGEST)) if _means(text, name, names)),
            text_literal(name),
        )
        for name, head in heads.items()
    }


def _means(text: str, column: str, names: ColumnNames) -> bool:
    """Whether a filter that begins with this text is over the column."""
    if names.meant(text) != (column,):
        return False
    if _PLAIN.fullmatch(text) and not {*text.lower().split(" ")} & {*RESERVED}:
        return True
    try:
        tree = tree_of(f"{text} > 0", names)
    except ExpressionError:
        return False
    left = tree.parts[0] if isinstance(tree, Operation) and tree.op == ">" else None
    return isinstance(left, Column) and left.name == column
