"""Tools that ask about a step: what a metric's mean is made of, its groups, and prompts over steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
import pandas as pd
from pydantic import Field

from board.analysis.spike import Spike, spike_of
from board.core.metrics.definitions import MEAN_COLUMNS, base_name, rollout_metric
from board.core.tokens.contributions import (
    TOKEN_SOURCES,
    Contributions,
    Grouping,
    Headline,
    TokenShare,
    TypeShare,
    context,
    whole,
)
from board.errors import ChoiceError, did_you_mean
from board.mcp_server.answers import Answer, cell, cells, page_of, paged, untrusted
from board.mcp_server.links import Links, cite, cite_mean
from board.mcp_server.open_runs import OpenRuns
from board.mcp_server.run_tools import Envs, Limit, Offset, RightFrom, RunName, Split, Where
from board.query.columns import known_column, numbers, records_of
from board.query.groups import group_table, judged_rollouts
from board.query.prompts import LISTS, prompt_table, prompts_with, run_prompts, written_key
from board.query.rollouts import at_step
from board.query.run import Run

Step = Annotated[int, Field(description="trainer step")]

_FIRST: Final = ("k3_mean", "mismatch_kl_mean", "entropy_mean", "reward")
_GROUPINGS: Final[tuple[Grouping, ...]] = ("piece", "kind", "role")
_TYPES: Final = 8
_MOST_TYPES: Final = 1000
_CONTEXT_TOKENS: Final = 8
_COURSE: Final = (
    *("steps", "graded", "earlier", "later", "rate", "volatility"),
    *("never_solved", "regressed", "newly_solved"),
)


@dataclass(frozen=True, slots=True)
class StepTools:
    """Each public method is a tool; its docstring is the tool's description."""

    open_runs: OpenRuns
    links: Links

    def spike(
        self,
        run: RunName,
        step: Step,
        metric: Annotated[
            str,
            Field(description="a metric of rollouts, such as k3_mean; default: the first recorded"),
        ] = "",
        only: Annotated[
            str, Field(description="tokens of one type: kind:CJK, piece:<eos> or role:tool")
        ] = "",
        split: Split = "",
        envs: Envs = [],
        offset: Offset = 0,
        limit: Limit = 20,
    ) -> Answer:
        """Which rollouts and tokens make a metric's mean at a step.

        rows: single tokens, the one that contributes most first, each with its rollout, place in the
        response, value, share of the mean and what stands around it; of a metric that is not of tokens,
        the rollouts with the highest values. kinds: shares by kind of token. Read on with `show`.
        """
        part = self.open_runs.part(run, split, envs)
        at, column = at_step(part, step), _column(part, metric)
        rows = at.frame([column])
        values = numbers(rows, column)
        known = values[np.isfinite(values)]
        about = rollout_metric(column)
        head: Answer = {
            "run": run,
            "step": step,
            "metric": column,
            "formula": about.formula,
            "unit": about.unit,
            "mean": cell(float(known.mean())) if len(known) else None,
            "n": len(known),
            "rollouts": len(rows),
            "cite_mean_as": cite_mean(part, f"{base_name(column)}_mean", step),
            **dict.fromkeys(("token_metric", "tokens", "rollouts_not_read", "headline")),
            "kinds": [],
            "pieces": [],
            "link": self.links.page("step", part, step=step, step_metric=column, step_only=only),
        }
        spike = None
        if column in TOKEN_SOURCES and len(known):
            spike = spike_of(at, step, column)
        if spike is None or spike.headline is None:
            ranked = self._rollouts(part, step, rows, column)
            return paged(head, ranked, offset, limit)
        head |= _headline(spike, spike.headline)
        chosen, total = _only(spike.contributions, only), _total(spike)
        tokens = chosen.top_tokens(offset + limit)[offset:]
        answered = [self._token(part, spike, one, total) for one in tokens]
        return page_of(head, answered, int(chosen.counted.sum()), offset)

    def _token(self, run: Run, spike: Spike, one: TokenShare, total: float) -> Answer:
        own = spike.contributions
        pieces = [*context(own.tokens, one.index, one.position, _CONTEXT_TOKENS)]
        before = min(one.position, _CONTEXT_TOKENS)
        return {
            "index": one.index,
            "token": one.position,
            "piece": untrusted(one.piece),
            "kind": one.kind,
            "role": cell(one.role) if one.role else None,
            "value": cell(one.value),
            "share": cell(one.contribution / total),
            "before": untrusted("".join(pieces[:before])),
            "after": untrusted("".join(pieces[before + 1 :])),
            "cite_as": cite(
                run, step=own.tokens.step, rollout=one.index, token=one.position, metric=own.metric
            ),
            "link": self.links.rollout(run, own.tokens.step, one.index, one.position, own.metric),
        }

    def _rollouts(self, run: Run, step: int, rows: pd.DataFrame, column: str) -> list[Answer]:
        """The rollouts of a step with the highest values of a column."""
        if column not in rows:
            return []
        ranked = rows.sort_values(column, ascending=False, kind="stable").dropna(subset=column)
        return [
            {
                "index": int(row["index"]),
                "value": cell(float(row[column])),
                "cite_as": cite(run, step=step, rollout=int(row["index"]), metric=column),
                "link": self.links.rollout(run, step, int(row["index"])),
            }
            for row in records_of(ranked[["index", column]])
        ]

    def groups(
        self,
        run: RunName,
        step: Step,
        split: Split = "",
        envs: Envs = [],
        where: Where = "",
        offset: Offset = 0,
        limit: Limit = 50,
    ) -> Answer:
        """The groups of a step (rollouts of one prompt that are compared), with their rewards.

        reward_std has n in the denominator; a group with reward_std 0 gives no gradient.
        """
        chosen = self.open_runs.part(run, split, envs, where)
        table = group_table(chosen, step)
        head: Answer = {
            "run": run,
            "step": step,
            "link": self.links.page("step", chosen, step=step, step_part="groups"),
        }
        head["not_recorded"] = [] if "group_id" in chosen.columns else ["group_id"]
        rows = [
            {
                **cells(row),
                "link": self.links.page(
                    "step", chosen, step=step, step_part="groups", groups_id=row["group_id"]
                ),
            }
            for row in records_of(table)[offset : offset + limit]
        ]
        return page_of(head, rows, len(table), offset)

    def prompts(
        self,
        run: RunName,
        which: Annotated[
            str,
            Field(
                description="all, never (solved), lost (regressed), new (newly solved), volatile"
            ),
        ] = "all",
        words: Annotated[
            list[str], Field(description="words that all occur in the prompt, in any case")
        ] = [],
        split: Split = "",
        envs: Envs = [],
        right_from: RightFrom = None,
        offset: Offset = 0,
        limit: Limit = 20,
    ) -> Answer:
        """Prompts over the steps of a run: how often each was solved, earlier and later.

        earlier, later: shares of right rollouts in the first and second half of its graded steps; rate:
        false discovery rate of their difference. The rollouts of one: the tool `sql`, by prompt_key.
        """
        if which not in LISTS:
            raise ChoiceError(f"there is no list of prompts {which!r}; it has {', '.join(LISTS)}")
        chosen = self.open_runs.part(run, split, envs, right_from=right_from)
        link = self.links.page("prompts", chosen)
        head: Answer = {"run": run, "which": which, "not_recorded": [], "link": link}
        head["what_is_right"] = None
        own = run_prompts(chosen)
        if own is None:
            return paged({**head, "not_recorded": ["prompt or reward"]}, [], offset, limit)
        head["what_is_right"] = cell(judged_rollouts(chosen).text)
        places = own.listed(which)
        if words:
            places = places[np.isin(own.keys[places], prompts_with(chosen, words))]
        shown_places = places.tolist()[offset : offset + limit]
        table = prompt_table(chosen, own.keys[shown_places].tolist())
        rows = [
            {
                "prompt_key": str(int(own.keys[place])),
                "prompt": untrusted(row["prompt"]),
                "rollouts": int(row["rollouts"]),
                **cells({name: getattr(own, name)[place].item() for name in _COURSE}),
                "link": self.links.page(
                    "prompts", chosen, prompt=written_key(int(own.keys[place]))
                ),
            }
            for place, row in zip(shown_places, records_of(table), strict=True)
        ]
        return page_of(head, rows, len(places), offset)


def _column(run: Run, metric: str) -> str:
    """The column of rollouts that a metric names, by its own name or by that of its tokens. Raises
    ChoiceError.
    """
    if not metric:
        metric = next((name for name in (*_FIRST, *run.metrics) if name in run.metrics), "")
        if not metric:
            raise ChoiceError(f"{run.info.name} records no metric to break down")
    return known_column(MEAN_COLUMNS.get(metric, metric), run.metrics)


def _only(own: Contributions, only: str) -> Contributions:
    grouping, _, name = only.partition(":")
    if not only:
        return own
    for known in _GROUPINGS:
        if known == grouping:
            types = [one.name for one in own.by(known, _MOST_TYPES)]
            if name not in types and len(types) < _MOST_TYPES:
                raise ChoiceError(f"no token has the {known} {name!r}; {did_you_mean(name, types)}")
            return own.only(known, name)
    raise ChoiceError(f"only={only!r} is not of the form kind:NAME, piece:TEXT or role:NAME")


def _total(spike: Spike) -> float:
    """What shares are of; NaN where that is 0."""
    return whole(spike.contributions) or float("nan")


def _headline(spike: Spike, headline: Headline) -> Answer:
    """What contributes most, and the shares of the first types of tokens."""
    own, total = spike.contributions, _total(spike)
    of_type = headline.type
    return {
        "token_metric": own.metric,
        "tokens": int(own.counted.sum()),
        "rollouts_not_read": own.tokens.left_out,
        "headline": {
            "what": headline.what,
            "share": cell(headline.share),
            "of_tokens": cell(headline.of_tokens),
            "type": None if of_type is None else _type(of_type, total),
        },
        "kinds": [{**_type(one, total), "name": one.kind} for one in spike.kinds[:_TYPES]],
        "pieces": [_type(one, total) for one in own.by("piece", _TYPES)],
    }


def _type(one: TypeShare, total: float) -> Answer:
    return {
        "name": untrusted(one.name),
        "kind": one.kind or None,
        "share": cell(one.contribution / total),
        "tokens": one.count,
        "mean": cell(one.mean),
    }
