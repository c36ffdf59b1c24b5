"""The filter of Rollouts: one field in the language of `--where`, over whole texts; words alone are
searched for in these.

Choices of older links (search, finish reasons, groups, ranges) are shown as the filter that says them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from board.components.filter_field import FilterContent, Offered, Refused, filter_field
from board.core.expression_tree import text_literal
from board.core.metrics.definitions import rollout_metric
from board.core.metrics.headings import meanings, narrow_headings
from board.errors import ExpressionError
from board.index.segments import ANY_TEXT, TEXT_NAMES
from board.query.open_run import Run
from board.query.predicate import names_for
from board.views.rollouts.text_search import as_expression, sought_text
from board.views.shared import cache, examples, state
from board.views.shared.text import counted, one_line

_KEY: Final = "filter-field"
_ENTERED: Final = "_filter_entered"
_REFUSED: Final = "_filter_refused"
_OLDER: Final = ("q", "finish", "group", "range")
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


class Listed(NamedTuple):
    """The rollouts of a scope that pass the filters, and how many they are."""

    run: Run
    count: int


def show(run: Run, scope: Run, *, is_open: bool) -> Listed:
    """Draws the field; the rollouts of the scope that pass the filter, which stays where another can't be
    read. is_open: whether a rollout is open, where `/` is the reader's.
    """
    refused = _apply_entered(run, scope)
    text, envs = wanted(run), tuple(state.get("env"))
    chosen = scope.where(envs=envs)
    if text:
        try:
            chosen = chosen.where(as_expression(run.columns, text))
        except ExpressionError as error:
            refused = refused or (text, error)
    low, high = scope.step_range or (-np.inf, np.inf)
    total = sum(n for step, n in run.counts.items() if low <= step <= high)
    place = st.container()  # above the spinner of the count
    count = total if chosen is scope else cache.rollout_count(chosen)
    mistake = None
    if refused is not None:
        text, error = refused
        mistake = Refused(
            one_line(error.reason, 300), error.start, error.end, error.instead, text_literal(text)
        )
    words = f"{'' if count == total else f'{count:,} of '}{counted(total, 'rollout')}"
    with place:
        content = FilterContent(
            text=text,
            columns=_offered(run),
            count=words,
            sought=one_line(sought_text(run.columns, text) if text else "", 60),
            placeholder=examples.filter_over(run.columns),
            refused=mistake,
            focus=not is_open,
        )
        filter_field(
            content, key=_KEY, on_apply=lambda text: st.session_state.update({_ENTERED: text})
        )
    return Listed(chosen, count)


def wanted(run: Run) -> str:
    """The filter that is chosen, with the choices of older links."""
    older, where = [*_from_older_links()], str(state.get("where")).strip()
    if not older or not where:
        return " and ".join(filter(None, (where, *older)))
    parts = [as_expression(run.columns, where), *older]
    return " and ".join(f"({part})" if " or " in part.lower() else part for part in parts)


def clear() -> None:
    """Takes every filter back, the environments too."""
    state.forget("where", "env", "page", *_OLDER)


def _from_older_links() -> Iterable[str]:
    if text := str(state.get("q")):
        yield f"{ANY_TEXT} contains {text_literal(text)}"
    for key, column in (("finish", "finish_reason"), ("group", "group_id")):
        values: list[str] = state.get(key)
        if len(values) == 1:
            yield f"{column} == {text_literal(values[0])}"
        elif values:
            yield f"{column} in ({', '.join(map(text_literal, values))})"
    bounds: Mapping[str, tuple[float, float]] = state.get("range")
    for name, (low, high) in bounds.items():
        for sign, bound in ((">=", low), ("<=", high)):
            if np.isfinite(bound):
                yield f"{_written(name)} {sign} {repr(bound).removesuffix('.0')}"


def _written(name: str) -> str:
    return name if name.replace(".", "").isidentifier() else f"col({text_literal(name)})"


def _apply_entered(run: Run, scope: Run) -> tuple[str, ExpressionError] | None:
    """Chooses the filter that was entered, or gives it back with what is wrong with it."""
    text = st.session_state.pop(_ENTERED, None)
    situation = (run.info.name, state.pulls(), wanted(run))
    if text is None:
        before, refused = st.session_state.get(_REFUSED, (None, None))
        return refused if before == situation else None
    try:
        if text:
            scope.where(as_expression(run.columns, text))
    except ExpressionError as error:
        st.session_state[_REFUSED] = (situation, (text, error))
        return text, error
    st.session_state.pop(_REFUSED, None)
    state.put(where=text, page=0, **{name: state.CHOICES[name].default for name in _OLDER})
    # Before the list: who sees it may enter the next filter, and that begins with the browser's URL.
    state.push()
    return None


def _offered(run: Run) -> list[Offered]:
    """The columns, and the values of those of texts: of environments all, of others those of the step."""
    rows = run.of_step(int(state.get("step")))
    envs = cache.environments_of(run)[:_MOST_VALUES]
    offered: list[Offered] = []
    names = names_for(run.columns)
    others = _other_names(names)
    for name in names:
        if name in TEXT_NAMES:
            offered.append(Offered(name, name, _ABOUT[name], is_text=True))
            continue
        is_text = name in rows and not pd.api.types.is_numeric_dtype(rows[name].dtype)
        label = one_line(rollout_metric(name).label, 80)
        about = "" if is_text or label == name else label
        values = () if not is_text else envs if name == "env" else _values(rows[name])
        is_text = is_text or name == "file"
        offered.append(Offered(name, _written(name), about, is_text, values, others[name]))
    # The columns most filtered by first, where a line is in the log last.
    ranks = {name: rank for rank, name in enumerate(_FIRST)} | dict.fromkeys(_LAST, len(_FIRST) + 1)
    return sorted(offered, key=lambda one: ranks.get(one.name, len(_FIRST)))


def _other_names(names: tuple[str, ...]) -> Mapping[str, Sequence[str]]:
    """What means each column besides its name, what stands above it in the list first."""
    others = {name: [words] for name, words in narrow_headings(names).items()}
    for words, meant in meanings(names).items():
        if len(meant) == 1:
            others[meant[0]].append(one_line(words))
    return {name: [*dict.fromkeys(own)] for name, own in others.items()}


def _values(column: pd.Series[Any]) -> list[str]:
    values = sorted({str(value) for value in column.dropna().unique()})
    return [value for value in values if len(value) <= _LONGEST_VALUE][:_MOST_VALUES]
