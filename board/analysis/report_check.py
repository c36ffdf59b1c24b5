"""Whether what a report cites is what the log says: quotes in texts, numbers at their places."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

import pandas as pd

from board.analysis.rollout import OpenRollout, open_rollout
from board.core.citations import Citation
from board.core.metrics.definitions import base_name
from board.core.metrics.shares import NOT_RECORDED
from board.core.metrics.trainer import PREFIX
from board.core.tokens.pieces import joined
from board.core.written_numbers import Number
from board.errors import BoardError, NotFoundError, UnreadableError
from board.formats.messages import conversation_text
from board.query.columns import known_column, records_of
from board.query.environments import environments_of, of_known_environments
from board.query.run import Run
from board.query.splits import TRAIN, chosen_split
from board.query.splits import meant as meant_split
from board.query.trainer.metrics import TrainerMetrics, read_trainer_metrics

_LEFT_OUT: Final = re.compile(r"\s*(?:\[?…\]?|\[?\.\.\.\]?)\s*")
"""Stands in a quote for what was left out of it."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A citation with whether it holds, and what the log says in its place."""

    citation: Citation
    holds: bool
    log: str


@dataclass(slots=True)
class ReportCheck:
    """Checks citations, reading each run, rollout and table of steps once.

    open_run: by the name in a citation, "" where it names none. Raises BoardError.
    """

    open_run: Callable[[str], Run]
    _runs: dict[str, Run] = field(default_factory=dict[str, Run])
    _rollouts: dict[tuple[str, int, int], OpenRollout] = field(
        default_factory=dict[tuple[str, int, int], OpenRollout]
    )
    _steps: dict[tuple[str, ...], _StepValues] = field(
        default_factory=dict[tuple[str, ...], "_StepValues"]
    )
    _rows: dict[tuple[str, ...], Sequence[Mapping[str, Any]]] = field(
        default_factory=dict[tuple[str, ...], Sequence[Mapping[str, Any]]]
    )
    _trainers: dict[str, TrainerMetrics] = field(default_factory=dict[str, TrainerMetrics])

    def check(self, citation: Citation) -> Checked:
        """Whether it holds. Raises UnreadableError where the log can't be read."""
        if citation.error:
            return Checked(citation, False, citation.error)
        try:
            return self._checked(citation)
        except UnreadableError:
            raise
        except BoardError as error:
            return Checked(citation, False, str(error))

    def _checked(self, citation: Citation) -> Checked:
        if isinstance(citation.says, Number):
            return self._number_checked(citation, citation.says)
        if citation.says is None and "rollout" not in citation.keys:
            return Checked(citation, False, "it names a metric, and no number")
        self._row(citation)
        if citation.says is None and "token" not in citation.keys:
            return Checked(citation, True, "it is there")
        opened = self._opened(citation)
        token = citation.whole("token")
        piece = None if token is None else opened.tokens[_token(opened, token)]
        if citation.says is None:
            return Checked(citation, True, "it is there")
        if piece is not None:
            return Checked(citation, piece.strip() == citation.says.strip(), repr(piece))
        texts = _texts(opened)
        if "text" in citation.keys:
            name = known_column(citation.keys["text"], texts)
            texts = {name: texts[name]}
        holding = [name for name, text in texts.items() if holds_quote(text, citation.says)]
        if holding:
            return Checked(citation, True, f"in its {holding[0]}")
        return Checked(citation, False, f"not in its {', '.join(texts) or 'texts'}")

    def _number_checked(self, citation: Citation, says: Number) -> Checked:
        value, errors = self._value(citation)
        if value is None or not isfinite(value):
            return Checked(citation, False, NOT_RECORDED)
        log = f"{value:.6g}"
        if says.error is not None:
            log = f"{log} ± {' or '.join(f'{error:.6g}' for error in errors) or 'nothing recorded'}"
            if not any(map(says.error_agrees, errors)):
                return Checked(citation, False, log)
        return Checked(citation, says.agrees(value), log)

    def _value(self, citation: Citation) -> tuple[float | None, Sequence[float]]:
        """The value of a metric at a token, of a rollout, or its mean at a step; and what may stand after
        ±: of a mean its standard error, that of 95 %, and the standard deviation.
        """
        metric, step = citation.keys["metric"], citation.whole("step")
        assert step is not None, "else it has an error"
        if citation.whole("rollout") is None:
            return self._step_value(citation, metric, step)
        token = citation.whole("token")
        if token is None:
            return _number(self._row(citation, metric).get(metric)), ()
        self._row(citation)
        opened = self._opened(citation)
        values = opened.metrics[known_column(metric, opened.metrics)]
        at = _token(opened, token)
        return (float(values[at]) if at < len(values) else None), ()

    def _row(self, citation: Citation, *columns: str) -> Mapping[str, Any]:
        """The row of a rollout. Raises BoardError where there is none, or it is of another split or
        environment than the citation says.
        """
        run, step, index = self._run(citation), *_address(citation)
        wanted = {name: citation.keys[name] for name in ("split", "env") if name in citation.keys}
        names = [known_column(name, run.columns) for name in columns]
        names += [name for name in wanted if name in run.columns]
        rows = self._rows_of(citation, step, names)
        row = rows[index] if 0 <= index < len(rows) else run.row(step, index)
        for name, value in wanted.items():
            meant = meant_split(value) if name == "split" else value
            has = row.get(name)
            if has is None and name == "split":
                has = TRAIN
            if meant not in (None, has):
                raise NotFoundError(
                    f"the {name} of that rollout is {NOT_RECORDED if has is None else repr(has)}, "
                    f"not {value!r}"
                )
        return row

    def _rows_of(
        self, citation: Citation, step: int, names: Sequence[str]
    ) -> Sequence[Mapping[str, Any]]:
        """All rows of a step, of which a report cites more than one; none of a step that there is not."""
        key = (citation.keys.get("run", ""), str(step), *names)
        if key not in self._rows:
            run = self._run(citation)
            is_there = step in run.counts
            self._rows[key] = records_of(run.frame(names, (step, step))) if is_there else ()
        return self._rows[key]

    def _step_value(
        self, citation: Citation, metric: str, step: int
    ) -> tuple[float | None, Sequence[float]]:
        whole = self._run(citation)
        if metric.startswith(PREFIX):
            name = citation.keys.get("run", "")
            if name not in self._trainers:
                self._trainers[name] = read_trainer_metrics(whole)
            curves = self._trainers[name].curves
            curve = curves[known_column(metric, curves)]
            return next((float(v) for v in curve.values[curve.steps == step]), None), ()
        key = tuple(citation.keys.get(name, "") for name in ("run", "split", "env"))
        if key not in self._steps:
            run = chosen_split(whole, key[1])
            envs = [name for name in key[2].split(",") if name]
            run = of_known_environments(run, [key[2]] if key[2] in environments_of(run) else envs)
            self._steps[key] = _StepValues(run.step_table(quantiles=True).to_pandas())
        if step not in whole.counts:
            whole.row(step, 0)  # raises, and says which steps there are
        return self._steps[key].of(step, metric)

    def _run(self, citation: Citation) -> Run:
        name = citation.keys.get("run", "")
        if name not in self._runs:
            self._runs[name] = self.open_run(name)
        return self._runs[name]

    def _opened(self, citation: Citation) -> OpenRollout:
        key = (citation.keys.get("run", ""), *_address(citation))
        if key not in self._rollouts:
            self._rollouts[key] = open_rollout(self._run(citation), *key[1:])
        return self._rollouts[key]


def _address(citation: Citation) -> tuple[int, int]:
    step, index = citation.whole("step"), citation.whole("rollout")
    assert step is not None, "else it has an error"
    assert index is not None, "else it has an error"
    return step, index


class _StepValues:
    """The table of steps, looked up by step and column."""

    def __init__(self, table: pd.DataFrame) -> None:
        self._columns = {str(name): table[name].to_numpy() for name in table.columns}
        self._rows = {int(step): row for row, step in enumerate(self._columns["step"])}

    def of(self, step: int, metric: str) -> tuple[float | None, Sequence[float]]:
        """The value of a column, or the mean of a metric, and what may stand after ± beside it."""
        stem = base_name(metric)
        column = metric if metric in self._columns else f"{stem}_mean"
        known_column(column, self._columns)
        row = self._rows.get(step)
        if row is None:
            return None, ()
        of_mean = column.removesuffix("_mean") if column.endswith("_mean") else ""
        names = [f"{of_mean}_{end}" for end in ("se", "std")] if of_mean else []
        errors = [self._columns[name][row] for name in names if name in self._columns]
        if len(errors) > 1:
            errors.append(1.96 * errors[0])
        value = _number(self._columns[column][row])
        return value, [float(one) for one in errors if not pd.isna(one)]


def holds_quote(text: str, quote: str) -> bool:
    """Whether a text has a quote in it: the same characters in the same case, any white space equal to
    any other, and where the quote has … anything in between.
    """
    parts = [_normal(part) for part in _LEFT_OUT.split(quote)] if _LEFT_OUT.search(quote) else []
    where, at = _normal(text), 0
    if quote.strip() and _normal(quote) in where:
        return True
    for part in parts:
        at = where.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return any(parts)


def _normal(text: str) -> str:
    return " ".join(text.split())


def _texts(opened: OpenRollout) -> dict[str, str]:
    """The texts of a rollout by name, with its tokens together and its messages."""
    texts = opened.texts
    if opened.tokens and not opened.tokens_are_ids:
        texts["tokens"] = joined(opened.tokens)
    if opened.record.messages:
        texts["messages"] = conversation_text(opened.record.messages)
    return texts


def _token(opened: OpenRollout, token: int) -> int:
    """The position. Raises NotFoundError where the response has no such token."""
    count = opened.token_count
    if not 0 <= token < count:
        last = f"tokens 0 to {count - 1}" if count else "no tokens"
        raise NotFoundError(f"the response has {last}, not {token}")
    return token


def _number(value: Any) -> float | None:
    if isinstance(value, str) or pd.isna(value):
        return None
    return float(value)


def document_of(checked: Checked) -> Mapping[str, Any]:
    """A checked citation as one JSON object."""
    says = checked.citation.says
    return {
        "line": checked.citation.line,
        "citation": dict(checked.citation.keys),
        "says": says.text if isinstance(says, Number) else says,
        "kind": "number" if isinstance(says, Number) else "place" if says is None else "quote",
        "holds": checked.holds,
        "log": checked.log,
    }
