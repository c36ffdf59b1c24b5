"""The filter of Rollouts: one field in the language of `--where`, over whole texts.

Older links hold a search, finish reasons, groups and ranges as choices of their own: they are shown as
the filter that says the same, and go once another one is applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from board.components.filter_field import FilterContent, Offered, Refused, filter_field
from board.core.metrics.definitions import rollout_metric
from board.errors import ExpressionError
from board.index.segments import ANY_TEXT
from board.index.table_files import StepRange
from board.query.open_run import Run
from board.query.predicate import WHOLE_TEXTS, names_for
from board.query.selection import Selection
from board.views.shared import cache, state
from board.views.shared.text import one_line

_KEY: Final = "filter-field"
_ASKED: Final = "_filter_asked"
_REFUSED: Final = "_filter_refused"
_OLD: Final = ("q", "finish", "group", "range")
_FIRST: Final = ("reward", "response", "prompt", "env", "finish_reason", "k3_mean", "advantage")
_LAST: Final = ("rank", "file", "line", "micro_step", "index")
_MOST_VALUES: Final = 60
_LONGEST_VALUE: Final = 120
_ABOUT: Final = {
    "prompt": "whole text",
    "response": "whole text",
    "ref_response": "whole text of the reference",
    "ground_truth": "whole text",
    ANY_TEXT: "all of these, and every message",
}


def show(run: Run, scope: Selection, *, is_open: bool = False) -> tuple[Selection, int]:
    """Draws the field; the rollouts of the scope that pass the filter, and how many they are.

    A filter that can't be read is refused in the field, and the one before stays. is_open: whether a
    rollout is open, where `/` is the reader's.
    """
    refused = _apply_asked(run, scope)
    place = st.container()
    text, found = wanted(), _of_environments(run, scope)
    if text:
        try:
            found = found.where(text)
        except ExpressionError as error:
            refused = refused or (text, error)
    total = sum(n for step, n in run.counts.items() if _is_within(step, scope.steps))
    count = total if found == scope else cache.rollout_count(found)
    with place:
        _draw(run, text, refused, _in_words(count, total), focus=not is_open)
    return found, count


def _is_within(step: int, steps: StepRange | None) -> bool:
    return steps is None or steps[0] <= step <= steps[1]


def wanted() -> str:
    """The filter that is chosen, with what older links hold beside it."""
    parts = [str(state.get("where")).strip(), *_from_old()]
    parts = [part for part in parts if part]
    return parts[0] if len(parts) == 1 else " and ".join(map(_in_brackets, parts))


def clear() -> None:
    """Takes every filter back, the environments too."""
    state.forget("where", "env", "page", *_OLD)


def _in_brackets(part: str) -> str:
    return f"({part})" if " or " in part.lower() else part


def _from_old() -> Iterable[str]:
    if text := str(state.get("q")):
        yield f"{ANY_TEXT} contains {_quoted(text)}"
    for key, column in (("finish", "finish_reason"), ("group", "group_id")):
        values: list[str] = state.get(key)
        if len(values) == 1:
            yield f"{column} == {_quoted(values[0])}"
        elif values:
            yield f"{column} in ({', '.join(map(_quoted, values))})"
    bounds: Mapping[str, tuple[float, float]] = state.get("range")
    for name, (low, high) in bounds.items():
        if np.isfinite(low):
            yield f"{_written(name)} >= {_number(low)}"
        if np.isfinite(high):
            yield f"{_written(name)} <= {_number(high)}"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")


def _written(name: str) -> str:
    """A column as it stands in a filter."""
    return name if name.replace(".", "").isidentifier() else f"col({_quoted(name)})"


def _asks(text: str) -> None:
    st.session_state[_ASKED] = text


def _apply_asked(run: Run, scope: Selection) -> tuple[str, ExpressionError] | None:
    """Chooses the filter that was entered, or gives it back with what is wrong with it."""
    text = st.session_state.pop(_ASKED, None)
    shown_for = (run.info.name, state.pulls(), wanted())
    if text is None:
        kept = st.session_state.get(_REFUSED)
        return kept[1] if kept is not None and kept[0] == shown_for else None
    try:
        if text:
            scope.where(text)
    except ExpressionError as error:
        st.session_state[_REFUSED] = (shown_for, (text, error))
        return text, error
    st.session_state.pop(_REFUSED, None)
    state.put(where=text, page=0, **{name: state.CHOICES[name].default for name in _OLD})
    return None


def _of_environments(run: Run, scope: Selection) -> Selection:
    """Those of the environments chosen in the sidebar."""
    envs = tuple(state.get("env"))
    return replace(scope, envs=envs) if envs and "env" in run.columns else scope


def _in_words(count: int, total: int) -> str:
    noun = "rollout" if total == 1 else "rollouts"
    return f"{count:,} of {total:,} {noun}" if count != total else f"{total:,} {noun}"


def _draw(
    run: Run,
    text: str,
    refused: tuple[str, ExpressionError] | None,
    count: str,
    *,
    focus: bool,
) -> None:
    wrong = None
    if refused is not None:
        text, error = refused
        wrong = Refused(one_line(error.reason, 300), error.start, error.end, error.instead)
    content = FilterContent(text, _offered(run), count, wrong, focus)
    filter_field(content, key=_KEY, on_apply=_asks)


def _offered(run: Run) -> list[Offered]:
    """The columns, and the values of those of texts: of environments all, of others those of the step."""
    rows = run.of_step(int(state.get("step")))
    envs = cache.environments_of(run)[:_MOST_VALUES]
    found: list[Offered] = []
    for name in names_for(run.columns):
        if name in WHOLE_TEXTS:
            found.append(Offered(name, name, _ABOUT[name], is_text=True))
            continue
        is_text = name in rows and not pd.api.types.is_numeric_dtype(rows[name].dtype)
        label = one_line(rollout_metric(name).label, 80)
        about = "" if is_text or label == name else label
        values = () if not is_text else envs if name == "env" else _values(rows[name])
        found.append(Offered(name, _written(name), about, is_text or name == "file", values))
    return sorted(found, key=_place)


def _place(one: Offered) -> int:
    """The columns most filtered by first, where a line stands in the log last."""
    if one.name in _FIRST:
        return _FIRST.index(one.name)
    return len(_FIRST) + (one.name in _LAST)


def _values(column: pd.Series[Any]) -> list[str]:
    values = sorted({str(value) for value in column.dropna().unique()})
    return [value for value in values if len(value) <= _LONGEST_VALUE][:_MOST_VALUES]
