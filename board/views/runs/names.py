"""What the search of the table of runs calls the columns, and which words on the screen mean them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from board.core.column_names import Meanings, ends_of, meanings_of
from board.core.typed_heads import typed_heads

_SETTING: Final = "settings."
"""Begins the ids of columns of settings: a setting may be called as another column."""
OF_ROWS: Final = (
    *("name", "state", "format", "note", "changed", "steps", "rollouts", "reward", "kl"),
    *("truncated", "finding", "severity", "problems"),
)
"""What is known of each run besides its settings."""
OTHER_NAMES: Final = frozenset((*OF_ROWS, "run", "worst finding"))
"""What the other columns and the filters are called: a setting needs another name in head and filter."""
_ELSEWHERE: Final = {"kl": ("k3", "k3_mean"), "truncated": ("is_truncated",)}
"""What pages of one run call it."""


def id_of(path: str) -> str:
    """The id of the column of a setting."""
    return _SETTING + path


def path_of(column: str) -> str:
    """The path of the setting that a column is of; of another column its id."""
    return column.removeprefix(_SETTING)


def is_setting(column: str) -> bool:
    """Whether an id is of the column of a setting."""
    return column.startswith(_SETTING)


def name_of(column: str) -> str:
    """What expressions call a column of the table, by its id."""
    path = path_of(column)
    return column if path.casefold() in OTHER_NAMES else path


def meanings_in(names: Collection[str], heads: Mapping[str, Sequence[str]]) -> Meanings:
    """What heads of the table mean, then what a metric is called on other pages, and what paths of
    settings end with. names: of the columns in expressions. heads: the names that each head means.
    """
    of_heads = {name: [name] for name in names if name in OTHER_NAMES} | {
        "worst finding": ["finding"]
    }
    for head, meant in heads.items():
        of_heads.setdefault(head, [*meant])
    others: dict[str, list[str]] = {}
    for name in names:
        for end in (*_ELSEWHERE.get(name, ()), *ends_of(name)):
            others.setdefault(end, []).append(name)
    return meanings_of(names, (of_heads, others))


def typed_names(heads: Mapping[str, str], paths: Iterable[str]) -> dict[str, str]:
    """The heads of settings, by path, so that each can be typed in the search. paths: of all settings
    that the runs record.
    """
    names = (*OF_ROWS, *dict.fromkeys(name_of(id_of(path)) for path in paths))
    by_name = {name_of(id_of(path)): head for path, head in heads.items()}
    meanings = meanings_in(names, {head: [name] for name, head in by_name.items()})
    typed = typed_heads(by_name, names, meanings)
    return {path: typed[name_of(id_of(path))] for path in heads}
