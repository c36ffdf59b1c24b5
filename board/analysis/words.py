"""How often a phrase or pattern occurs over a training, with which rewards, and which phrases trend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any, Final, cast

import numpy as np
import pandas as pd
import pyarrow as pa

from board.analysis.step_records import PLACES, StepRecords
from board.analysis.utterances import Pattern, split_reasoning, utterances
from board.core.arrays import BoolArray, FloatArray
from board.core.groups.contrasts import WithinDifference, within_difference
from board.core.sampling import evenly_spaced
from board.core.texts.phrases import Changed, changed_phrases
from board.index.segments import MESSAGES, TOKEN_ROLES
from board.index.whole_texts import TEXTS, texts_of_role
from board.query.database import quoted
from board.query.groups import GROUP_COLUMNS
from board.query.open_run import Run

_BATCH_ROLLOUTS: Final = 2048
"""Whose texts are in memory at a time."""
_ROWS: Final = ("step", "index", "env", "reward", *GROUP_COLUMNS)
_TEXT_LISTS: Final = pa.list_(pa.string())


@dataclass(frozen=True, slots=True)
class SpokenTexts:
    """What a speaker says in some rollouts, [n] each.

    rows: step, index, env, reward, group_id and split. texts: an Arrow array of lists of texts, null
    where the log does not record who spoke. is_readable: False where a rollout had to be read from the
    log and could not.
    """

    rows: pd.DataFrame
    texts: Any
    is_readable: BoolArray


def spoken_texts(
    run: Run, by: str, steps: Sequence[int], indices: Sequence[int] | None = None
) -> Iterator[SpokenTexts]:
    """What one of utterances.SPEAKERS says at these steps, some rollouts at a time, in no order.

    indices: [steps] of one rollout of each step; None: all rollouts of the steps. Raises UnreadableError.
    """
    parameters = None
    where = f"{run.condition} AND step IN ({', '.join(map(str, {*steps})) or 'NULL'})"
    if indices is not None:
        where += " AND (step, position) IN (SELECT (unnest($steps), unnest($indices)))"
        parameters = {"steps": [*steps], "indices": [*indices]}
    columns = ("env", "reward", *GROUP_COLUMNS)
    sql = f"""
        SELECT step, position AS "index", {", ".join(f"{run.column(n)} AS {n}" for n in columns)},
            {_places(run, by)}, {_texts(run, by)}
        FROM {run.view} WHERE {where}
    """
    records = StepRecords(run)
    for table in run.batches(sql, _BATCH_ROLLOUTS, parameters):
        yield _spoken(run, records, table, by)


def has_token_roles(run: Run) -> bool:
    """Whether words of roles are in the tokens of some rollouts, so that the log is read for them."""
    return TOKEN_ROLES in run.rows.names


def _places(run: Run, by: str) -> str:
    """SQL of the columns that say whether and where a rollout has to be read."""
    names = run.rows.names
    if by in TEXTS or TOKEN_ROLES not in names:
        return "false AS in_tokens"
    places = [name for name in PLACES if name in names and name not in ("step", "index")]
    return ", ".join((*map(quoted, places), f"coalesce({quoted(TOKEN_ROLES)}, false) AS in_tokens"))


def _texts(run: Run, by: str) -> str:
    """SQL of the columns that the texts are made of: a text, or messages with the texts they are in."""
    if by in TEXTS:
        text = run.rows.whole_text(by)
        return f"CASE WHEN {text} IS NOT NULL THEN [{text}] END AS texts"
    messages = quoted(MESSAGES) if MESSAGES in run.rows.names else "NULL"
    if by in ("reasoning", "answer"):
        is_text = f"{run.column('response_chars')} IS NOT NULL"
        messages = f"CASE WHEN {is_text} THEN NULL ELSE {messages} END"
    texts = ", ".join(f"{run.rows.whole_text(name)} AS {name}" for name in TEXTS)
    return f"{texts}, {messages} AS messages"


def _spoken(run: Run, records: StepRecords, table: pa.Table, by: str) -> SpokenTexts:
    texts = _texts_of(table, by)
    rows = table.select(_ROWS).to_pandas()
    in_tokens = table.column("in_tokens").to_numpy()
    is_readable = ~in_tokens
    if in_tokens.any():
        known: list[list[str] | None] = texts.to_pylist()
        places = np.flatnonzero(in_tokens)
        names = [name for name in PLACES if name in table.column_names]
        addresses = table.select(names).filter(pa.array(in_tokens)).to_pandas()
        for place, record in records.of(addresses):
            own = utterances(record, run.vocabulary, by)
            known[places[place]] = None if own is None else [one.text for one in own]
            is_readable[places[place]] = True
        texts = pa.array(known, _TEXT_LISTS)
    return SpokenTexts(rows, texts, is_readable)


def _texts_of(table: pa.Table, by: str) -> Any:
    """Lists of texts, null where the index does not record who spoke."""
    if by in TEXTS:
        return table.column("texts").combine_chunks()
    is_part = by in ("reasoning", "answer")
    role = "assistant" if is_part else by
    result: list[list[str] | None] = []
    columns = (table.column(name).to_pylist() for name in ("messages", "prompt", "response"))
    for messages, prompt, response in zip(*columns, strict=True):
        texts = None if messages is None else texts_of_role(messages, prompt, response, role)
        if is_part:
            if messages is None and response is not None:
                texts = [response]
            texts = split_reasoning(texts, by) if texts else None
        result.append(texts)
    return pa.array(result, _TEXT_LISTS)


_EXAMPLES: Final = 240
_QUERY_ROLLOUTS: Final = 65_536
"""Of the steps that one query asks, about."""


@dataclass(slots=True)
class Watched:
    """A pattern at one step in one environment. env: None where none is recorded.

    rollouts: those whose log records who said what; not_recorded: the others that were read. hits:
    rollouts in which it occurs; times: occurrences in all. reward_hits, reward_misses: mean reward of
    rollouts with and without it, NaN where none is scored; scored_hits, scored_misses: how many of these
    are. examples: indices of the first hits. gaps, weights: as of within_difference, of the groups of the
    step that have both; rollouts without a group are one.
    """

    step: int
    env: str | None
    rollouts: int
    hits: int
    times: int
    reward_hits: float
    reward_misses: float
    examples: list[int]
    not_recorded: int
    scored_hits: int
    scored_misses: int
    gaps: FloatArray
    weights: FloatArray


def within_groups(entries: Sequence[Watched]) -> WithinDifference:
    """Mean reward with it minus that without, of rollouts of the same group and step.

    Over a run both the words and the reward change, and prompts differ: means over all would compare
    early rollouts with late ones, and easy prompts with hard ones.
    """
    gaps = [np.zeros(0), *(one.gaps for one in entries)]
    weights = [np.zeros(0), *(one.weights for one in entries)]
    return within_difference(np.concatenate(gaps), np.concatenate(weights))


def watch(
    run: Run, pattern: Pattern, by: str = "response", steps: Sequence[int] | None = None
) -> Iterator[Watched]:
    """One entry per step and environment, as it is read; who asks for no more stops the reading.

    by: whose words, one of utterances.SPEAKERS. steps: None is all.
    """
    wanted = [*run.counts] if steps is None else steps
    rollouts = accumulate(run.counts.get(step, 0) for step in wanted)
    is_slow = by not in TEXTS and has_token_roles(run)
    together = 1 if is_slow else _QUERY_ROLLOUTS
    batches = groupby(zip(wanted, rollouts, strict=True), lambda one: one[1] // together)
    for _, batch in batches:
        several = [step for step, _ in batch]
        by_step = _by_step(_counted(run, several, [pattern], by), "times 0")
        for step in several:
            yield from by_step.get(step, ())


def watch_step(
    run: Run, step: int, patterns: Sequence[Pattern], by: str = "response"
) -> list[list[Watched]]:
    """What `watch` gives of one step, for each of several patterns; the step is read once."""
    rows = _counted(run, [step], patterns, by)
    return [_by_step(rows, f"times {n}").get(step, []) for n in range(len(patterns))]


_NOT_READ: Final = -1
_NOT_RECORDED: Final = -2


def _counted(run: Run, steps: Sequence[int], patterns: Sequence[Pattern], by: str) -> pd.DataFrame:
    """The rollouts of some steps in their order, with the columns of _ROWS, and `times N`: how often the
    pattern N is said, or why that is not known.
    """
    batches: list[pd.DataFrame] = []
    for spoken in spoken_texts(run, by, steps):
        not_known = np.where(spoken.is_readable, _NOT_RECORDED, _NOT_READ)
        is_known = np.asarray(spoken.texts.is_valid())
        for number, pattern in enumerate(patterns):
            times = pattern.counts_in_lists(spoken.texts)
            spoken.rows[f"times {number}"] = np.where(is_known, times, not_known)
        batches.append(spoken.rows)
    if not batches:
        return pd.DataFrame()
    return pd.concat(batches).sort_values(["step", "index"], ignore_index=True)


def _by_step(rows: pd.DataFrame, name: str) -> dict[int, list[Watched]]:
    """Of each step, its environments in the order of their rollouts. name: of the column of times."""
    if rows.empty:
        return {}
    times, reward = rows[name], rows["reward"].astype(float)
    is_scored = np.isfinite(reward)
    table = pd.DataFrame(
        {
            "step": rows["step"],
            "env": rows["env"].astype(object),
            "rollouts": times >= 0,
            "hits": times > 0,
            "times": times.clip(lower=0),
            "reward_hits": reward.where(is_scored & (times > 0)),
            "reward_misses": reward.where(is_scored & (times == 0)),
            "examples": rows["index"].where(times > 0),
            "not_recorded": times == _NOT_RECORDED,
        }
    )
    entries = table.groupby(["step", "env"], sort=False, dropna=False).agg(
        rollouts=("rollouts", "sum"),
        hits=("hits", "sum"),
        times=("times", "sum"),
        reward_hits=("reward_hits", "mean"),
        reward_misses=("reward_misses", "mean"),
        examples=("examples", lambda own: own.dropna()[:_EXAMPLES].astype(int).tolist()),
        not_recorded=("not_recorded", "sum"),
        scored_hits=("reward_hits", "count"),
        scored_misses=("reward_misses", "count"),
    )
    of_groups = _gaps(rows, times, reward)
    results: dict[int, list[Watched]] = {}
    for entry in entries.reset_index().to_dict("records"):
        values: dict[str, Any] = {str(name): value for name, value in entry.items()}
        values["env"] = None if pd.isna(values["env"]) else values["env"]
        gaps, weights = of_groups.get((values["step"], values["env"]), (np.zeros(0), np.zeros(0)))
        own = Watched(**values, gaps=gaps, weights=weights)
        results.setdefault(own.step, []).append(own)
    return results


def _gaps(
    rows: pd.DataFrame, times: pd.Series[Any], reward: pd.Series[Any]
) -> dict[tuple[int, str | None], tuple[FloatArray, FloatArray]]:
    """By step and environment the gaps and weights of the groups with scored hits and misses."""
    scored = reward[np.isfinite(reward) & (times >= 0)]
    table = rows.loc[scored.index, ["step", "env", *GROUP_COLUMNS]].astype(object)
    table = table.where(table.notna(), None)
    hit = times.loc[scored.index] > 0
    table["hits"], table["misses"] = scored.where(hit), scored.where(~hit)
    by_group = table.groupby(["step", "env", *GROUP_COLUMNS], sort=False, dropna=False)
    means, counts = by_group[["hits", "misses"]].mean(), by_group[["hits", "misses"]].count()
    gaps = (means["hits"] - means["misses"]).rename("gap").to_frame()
    gaps["weight"] = counts["hits"] * counts["misses"] / counts.sum(axis=1)
    gaps = gaps[gaps["weight"] > 0].reset_index()
    result: dict[tuple[int, str | None], tuple[FloatArray, FloatArray]] = {}
    for key, own in gaps.groupby(["step", "env"], sort=False, dropna=False):
        step, env = cast("tuple[int, Any]", key)
        arrays = own["gap"].to_numpy(np.float64), own["weight"].to_numpy(np.float64)
        result[step, None if pd.isna(env) else env] = arrays
    return result


_STEPS: Final = 12
_ROLLOUTS: Final = 24
_BYTES: Final = 12 << 20


@dataclass(frozen=True, slots=True)
class TrendingPhrases:
    """phrases: those that change most. steps, rollouts: the sample; rollouts that do not record who
    speaks are not counted.
    """

    phrases: tuple[Changed, ...]
    steps: tuple[int, ...]
    rollouts: int


def trending_phrases(run: Run, by: str = "response", budget: int = _BYTES) -> TrendingPhrases:
    """Phrases whose share changes over a sample: up to 24 rollouts of each of up to 12 steps, both evenly
    spread.

    by: whose words, one of utterances.SPEAKERS. budget: bytes that the sampled rollouts have in the log,
    about; at least two rollouts of a step are sampled.
    """
    steps = [*run.counts]
    steps = [steps[place] for place in evenly_spaced(len(steps), _STEPS)]
    rows = [run.frame(("size",), (step, step)) for step in steps]
    usual = sum(float(own["size"].mean()) for own in rows)
    each = int(np.clip(budget // max(usual, 1.0), 2, _ROLLOUTS))
    sampled = pd.concat([own.iloc[evenly_spaced(len(own), each)] for own in rows])
    texts: dict[int, list[str]] = {step: [] for step in steps}
    groups: dict[int, list[object]] = {step: [] for step in steps}
    places = (sampled[name].astype(int).tolist() for name in ("step", "index"))
    for spoken in spoken_texts(run, by, *places):
        names = spoken.rows[[*GROUP_COLUMNS]].astype(object)
        known = names["group_id"].notna().tolist()
        of_groups = names.itertuples(index=False, name=None)
        for step, own, is_known, group in zip(
            spoken.rows["step"].tolist(), spoken.texts.to_pylist(), known, of_groups, strict=True
        ):
            if own is not None:
                texts[step].append("\n".join(own))
                groups[step].append(group if is_known else None)
    phrases = changed_phrases([*texts.values()], [*groups.values()])
    return TrendingPhrases(tuple(phrases), tuple(steps), sum(map(len, texts.values())))
