"""Columns that a user names: `--columns reward,k3_mean` and `--sort COLUMN`."""

from __future__ import annotations

from collections.abc import Sequence

from board.core.suggestions import did_you_mean
from board.errors import ChoiceError


def known_column(name: str, columns: Sequence[str]) -> str:
    """`name`. Raises ChoiceError, with the names that come close, when it is none of `columns`."""
    if name in columns:
        return name
    raise ChoiceError(f"the run has no column {name!r}; {did_you_mean(name, columns)}")


def named_columns(text: str, columns: Sequence[str]) -> list[str]:
    """The columns of a list with commas. Raises ChoiceError for one that is not there."""
    names = [name.strip() for name in text.split(",")]
    return [known_column(name, columns) for name in dict.fromkeys(names) if name]
