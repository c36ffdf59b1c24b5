"""Tools that ask about rollouts: a list of them, one with its texts and tokens, and two compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
from pydantic import Field

from board.analysis.rollout import OpenRollout, open_rollout
from board.core.arrays import FloatArray
from board.core.citations import citation_text
from board.core.metrics.definitions import in_menu_order
from board.core.texts.diff import Change, similarity, text_diff
from board.core.tokens.pieces import PLACEHOLDER_SIGN
from board.errors import ChoiceError, NotFoundError
from board.mcp_server.answers import Answer, cell, cells, page_of, paged, untrusted
from board.mcp_server.links import Links
from board.mcp_server.open_runs import OpenRuns
from board.mcp_server.run_tools import Envs, Limit, Offset, RunName, Split, Where
from board.mcp_server.step_tools import Step
from board.query.columns import known_column, known_columns, rows_of
from board.query.predicate import parsed
from board.query.rollouts import Sorting, at_step, count, rollout_table
from board.query.run import Run

Index = Annotated[int, Field(ge=0, description="position of the rollout within its step, from 0")]

_USUAL: Final = (
    *("step", "index", "split", "group_id", "env", "reward", "advantage", "response_tokens"),
    *("k3_mean", "finish_reason", "cause", "response"),
)
_SHOWN_METRICS: Final = 4
_MOST_METRICS: Final = 12
_FIRST_CHARACTERS: Final = 400
_MOST_CHARACTERS: Final = 8000
_CHANGE_CHARACTERS: Final = 600


@dataclass(frozen=True, slots=True)
class RolloutTools:
    """Each public method is a tool; its docstring is the tool's description."""

    open_runs: OpenRuns
    links: Links

    def rollouts(
        self,
        run: RunName,
        where: Where = "",
        sort: Annotated[str, Field(description="a column; default: by step and index")] = "",
        descending: Annotated[bool, Field(description="the largest first")] = False,
        columns: Annotated[
            list[str], Field(description="columns of the answer; default: the usual ones")
        ] = [],
        step: Annotated[int | None, Field(description="of this step alone")] = None,
        split: Split = "all",
        envs: Envs = [],
        offset: Offset = 0,
        limit: Limit = 20,
    ) -> Answer:
        """Rollouts of a run, filtered, sorted and cut to a page; texts are their beginnings.

        `columns` of the answer are the names there are; rows without a value come last. Read one whole
        with `show`.
        """
        part = self.open_runs.part(run, split, envs)
        chosen = (part if step is None else at_step(part, step)).where(where)
        hidden = ("offset", "size", "part", "file", "line")
        names = [name for name in (part.whole or part).columns if name not in hidden]
        asked = parsed(part.columns, where).names if where else ()
        usual = [name for name in dict.fromkeys((*_USUAL, *asked, sort)) if name in names]
        wanted = known_columns(columns, names) if columns else usual
        wanted = [*dict.fromkeys(("step", "index", *wanted))]
        sorting = Sorting(known_column(sort, names) if sort else "", descending)
        total = count(chosen)
        table = rollout_table(chosen, wanted, sorting, limit=limit, offset=offset)
        head = {
            "run": run,
            "columns": [*map(cell, names)],
            "cite_as": citation_text(run, step="STEP", rollout="INDEX", metric="COLUMN"),
        }
        rows = (
            {**cells(row), "link": self.links.rollout(chosen, row["step"], row["index"])}
            for row in rows_of(table)
        )
        return page_of(head, rows, total, offset)

    def show(
        self,
        run: RunName,
        step: Step,
        index: Index,
        token: Annotated[
            int | None,
            Field(ge=0, description="token in the middle of the window; default: the first"),
        ] = None,
        around: Annotated[int, Field(ge=0, le=100, description="tokens before and after it")] = 15,
        metrics: Annotated[
            list[str],
            Field(description="token metrics, such as k3, logprobs; default: the first four"),
        ] = [],
        text: Annotated[
            str,
            Field(description="read this text alone, such as response; default: beginnings of all"),
        ] = "",
        text_from: Annotated[int, Field(ge=0, description="first character of it")] = 0,
        text_length: Annotated[int, Field(ge=1, le=_MOST_CHARACTERS)] = 2000,
    ) -> Answer:
        """One rollout: what is recorded of it, its texts, and a window of its tokens with their values.

        tokens: token (position in the response, from 0), piece, and the metrics, null where not recorded.
        largest: of each metric its largest value in the rollout and where. With `text` a part of that
        text comes in place of the tokens.
        """
        opened_run = self.open_runs.run(run)
        opened = open_rollout(opened_run, step, index)
        texts = opened.texts
        head: Answer = {
            "run": run,
            "step": step,
            "index": index,
            "link": self.links.rollout(opened_run, step, index, token, *metrics[:1]),
            "cite_text_as": citation_text(run, step=step, rollout=index),
        }
        if text:
            whole = texts[known_column(text, texts, "the rollout has no text")]
            own = untrusted(whole, text_length, text_from)
            end = text_from + text_length
            more = {"more": f"go on with text_from={end}"} if end < len(whole) else {}
            return {**head, "text": text, **own, **more}
        record = opened.record
        head |= {
            "facts": cells({**record.ids, **record.scores}),
            "texts": {name: untrusted(one, _FIRST_CHARACTERS) for name, one in texts.items()},
            "other_keys": [cell(name) for name in [*record.extras][:_MOST_METRICS]],
            "remarks": [untrusted(f"{one.reason}; {one.hint}") for one in opened.remarks],
            **_window(opened, token, around, metrics),
        }
        if opened.tokens:
            place = {"step": step, "rollout": index, "token": "TOKEN", "metric": "METRIC"}
            head["cite_value_as"] = citation_text(run, **place)
        return head

    def diff(
        self,
        run: RunName,
        step: Step,
        index: Index,
        other_index: Index,
        other_step: Annotated[int | None, Field(description="default: the same step")] = None,
        other_run: Annotated[str, Field(description="default: the same run")] = "",
        offset: Offset = 0,
        limit: Limit = 50,
    ) -> Answer:
        """Two rollouts compared: their facts, and the responses word by word.

        rows: what differs, in reading order: left is of the first rollout, right of the other; characters
        that are equal before it are counted. Where tokens have texts, these are compared, special tokens
        such as <eos> too. Rollouts of one group answer the same prompt.
        """
        left_run, right_run = self.open_runs.run(run), self.open_runs.run(other_run or run)
        at = step if other_step is None else other_step
        left = open_rollout(left_run, step, index)
        right = open_rollout(right_run, at, other_index)
        changes = text_diff(left.compared_text, right.compared_text)
        rows = [*_changes(changes)]
        vs = f"{at}:{other_index}" if not other_run else f"{other_run}/{at}:{other_index}"
        head = {
            "left": _side(left_run, left),
            "right": _side(right_run, right),
            "share_of_equal_characters": cell(similarity(changes)),
            "are_too_different_to_align": not all(one.is_aligned for one in changes),
            "link": self.links.page("rollouts", left_run, step=step, index=index, reader_vs=vs),
        }
        return paged(head, rows, offset, limit)


def _side(run: Run, opened: OpenRollout) -> Answer:
    names = ("reward", "advantage", "response_tokens", "group_id", "finish_reason")
    row = run.row(opened.step, opened.index)
    facts: dict[str, Any] = {name: row[name] for name in names if name in row}
    place = {"run": run.info.name, "step": opened.step, "index": opened.index}
    return {**place, **cells(facts), "compared_characters": len(opened.compared_text)}


def _changes(changes: Sequence[Change]) -> Iterator[Answer]:
    left = right = equal = 0
    for one in changes:
        if one.is_equal:
            equal = len(one.left)
        else:
            yield {
                "equal_characters_before": equal,
                "left_from": left,
                "left": untrusted(one.left, _CHANGE_CHARACTERS),
                "right_from": right,
                "right": untrusted(one.right, _CHANGE_CHARACTERS),
            }
            equal = 0
        left, right = left + len(one.left), right + len(one.right)


def _window(opened: OpenRollout, token: int | None, around: int, wanted: Sequence[str]) -> Answer:
    """The tokens around one, with their values. Raises NotFoundError, ChoiceError."""
    length = opened.token_count
    if not length:
        names = ("token_metrics", "not_of_this_length", "tokens")
        empty: Answer = {name: [] for name in names} | {"largest": {}, "tokens_are_ids": None}
        return {**empty, "tokens_total": 0, "not_recorded": ["tokens"]}
    if token is not None and token >= length:
        raise NotFoundError(f"the response has tokens 0 to {length - 1}, not {token}")
    if len(wanted) > _MOST_METRICS:
        raise ChoiceError(f"ask for at most {_MOST_METRICS} metrics at once")
    aligned = {name: own for name, own in opened.metrics.items() if len(own) == length}
    names = known_columns(wanted, aligned) if wanted else in_menu_order(aligned)[:_SHOWN_METRICS]
    middle = token or 0
    start, end = max(middle - around, 0), min(middle + around + 1, length)
    pieces = opened.listed_tokens or [PLACEHOLDER_SIGN] * length
    rows = [
        {
            "token": place,
            "piece": untrusted(pieces[place]),
            **{name: cell(float(aligned[name][place])) for name in names},
        }
        for place in range(start, end)
    ]
    return {
        "token_metrics": [*map(cell, in_menu_order(aligned))],
        "not_of_this_length": [*map(cell, sorted({*opened.metrics} - {*aligned}))],
        "largest": _largest(aligned, names),
        "tokens": rows,
        "tokens_total": length,
        "tokens_are_ids": opened.tokens_are_ids,
        "not_recorded": [],
    }


def _largest(aligned: Mapping[str, FloatArray], names: Sequence[str]) -> Answer:
    places = {
        name: int(np.nanargmax(own))
        for name in names
        if np.isfinite(own := np.where(np.isfinite(aligned[name]), aligned[name], np.nan)).any()
    }
    return {
        name: {"token": place, "value": cell(float(aligned[name][place]))}
        for name, place in places.items()
    }
