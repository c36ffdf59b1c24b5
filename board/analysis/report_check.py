"""Whether what a report cites is what the log says: quotes in texts, numbers at their places."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

import pandas as pd

from board.analysis.rollout import OpenRollout, open_rollout
from board.core.citations import Citation, Number
from board.core.metrics.definitions import base_name
from board.core.metrics.shares import NOT_RECORDED
from board.core.metrics.trainer import PREFIX
from board.core.tokens.pieces import joined
from board.errors import BoardError, NotFoundError, UnreadableError
from board.formats.messages import conversation_text
from board.query.columns import known_column
from board.query.environments import of_known_environments
from board.query.run import Run
from board.query.splits import chosen_split
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
    """Checks citations, opening each run and rollout once.

    open_run: by the name in a citation, "" where it names none. Raises BoardError.
    """

    open_run: Callable[[str], Run]
    _runs: dict[str, Run] = field(default_factory=dict[str, Run])
    _rollouts: dict[tuple[str, int, int], OpenRollout] = field(
        default_factory=dict[tuple[str, int, int], OpenRollout]
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
            value = self._value(citation)
            if value is None or not isfinite(value):
                return Checked(citation, False, NOT_RECORDED)
            return Checked(citation, citation.says.agrees(value), f"{value:.6g}")
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

    def _value(self, citation: Citation) -> float | None:
        """The value of a metric at a token, of a rollout, or its mean at a step."""
        metric, step = citation.keys["metric"], citation.whole("step")
        assert step is not None, "else it has an error"
        index, token = citation.whole("rollout"), citation.whole("token")
        if index is None:
            return self._step_value(citation, metric, step)
        if token is None:
            run = self._run(citation)
            value = run.row(step, index)[known_column(metric, run.columns)]
            return _number(value)
        opened = self._opened(citation)
        values = opened.metrics[known_column(metric, opened.metrics)]
        at = _token(opened, token)
        return float(values[at]) if at < len(values) else None

    def _step_value(self, citation: Citation, metric: str, step: int) -> float | None:
        run = chosen_split(self._run(citation), citation.keys.get("split", ""))
        envs = citation.keys.get("env", "")
        run = of_known_environments(run, [name for name in envs.split(",") if name])
        if metric.startswith(PREFIX):
            name = citation.keys.get("run", "")
            if name not in self._trainers:
                self._trainers[name] = read_trainer_metrics(run)
            curves = self._trainers[name].curves
            curve = curves[known_column(metric, curves)]
            return next((float(v) for v in curve.values[curve.steps == step]), None)
        run.row(step, 0)
        table = run.step_table(quantiles=True).to_pandas()
        mean = f"{base_name(metric)}_mean"
        column = known_column(metric if metric in table else mean, [*map(str, table.columns)])
        own = table.loc[table["step"] == step, column]
        return _number(own.iloc[0]) if len(own) else None

    def _run(self, citation: Citation) -> Run:
        name = citation.keys.get("run", "")
        if name not in self._runs:
            self._runs[name] = self.open_run(name)
        return self._runs[name]

    def _opened(self, citation: Citation) -> OpenRollout:
        step, index = citation.whole("step"), citation.whole("rollout")
        assert step is not None, "else it has an error"
        assert index is not None, "else it has an error"
        key = (citation.keys.get("run", ""), step, index)
        if key not in self._rollouts:
            self._rollouts[key] = open_rollout(self._run(citation), step, index)
        return self._rollouts[key]


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
