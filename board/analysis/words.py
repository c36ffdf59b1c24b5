"""How often a phrase or pattern occurs over a training, with which rewards, and which phrases trend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from board.analysis.step_records import PLACES, StepRecords
from board.analysis.utterances import Pattern, split_reasoning, utterances
from board.core.texts.phrases import Changed, changed_phrases
from board.index.segments import MESSAGES, TOKEN_ROLES
from board.index.whole_texts import TEXTS, texts_of_role
from board.query.database import quoted
from board.query.open_run import Run
from board.query.selection import Selection

_BATCH_ROLLOUTS: Final = 2048
"""Whose texts are in memory at a time."""
_ROWS: Final = ("step", "index", "env", "reward")
_TEXT_LISTS: Final = pa.list_(pa.string())


@dataclass(frozen=True, slots=True)
class SpokenTexts:
    """What a speaker says in some rollouts, [n] each.

    rows: step, index, env and reward. texts: an Arrow array of lists of texts, null where the log does
    not record who spoke. is_readable: False where a rollout had to be read from the log and could not.
    """

    rows: pd.DataFrame
    texts: Any
    is_readable: npt.NDArray[np.bool_]


def spoken_texts(
    run: Run, by: str, steps: Sequence[int], indices: Sequence[int] | None = None
) -> Iterator[SpokenTexts]:
    """What one of utterances.SPEAKERS says at these steps, some rollouts at a time, in no order.

    indices: [steps] of one rollout of each step; None: all rollouts of the steps. Raises UnreadableError.
    """
    selection = run.selection
    where = f"{selection.condition} AND step IN ({', '.join(map(str, {*steps})) or 'NULL'})"
    if indices is not None:
        where += " AND (step, position) IN (SELECT (unnest($steps), unnest($indices)))"
        selection = replace(selection, parameters={"steps": [*steps], "indices": [*indices]})
    sql = f"""
        SELECT step, position AS "index", {selection.column("env")} AS env,
            {selection.column("reward")} AS reward, {_places(selection, by)},
            {_texts(selection, by)}
        FROM {selection.view} WHERE {where}
    """
    records = StepRecords(run)
    for table in selection.batches(sql, _BATCH_ROLLOUTS):
        yield _spoken(run, records, table, by)


def has_token_roles(run: Run) -> bool:
    """Whether words of roles are in the tokens of some rollouts, so that the log is read for them."""
    return TOKEN_ROLES in run.selection.names


def _places(selection: Selection, by: str) -> str:
    """SQL of the columns that say whether and where a rollout has to be read."""
    names = selection.names
    if by in TEXTS or TOKEN_ROLES not in names:
        return "false AS in_tokens"
    places = [name for name in PLACES if name in names and name not in ("step", "index")]
    return ", ".join((*map(quoted, places), f"coalesce({quoted(TOKEN_ROLES)}, false) AS in_tokens"))


def _texts(selection: Selection, by: str) -> str:
    """SQL of the columns that the texts are made of: a text, or messages with the texts they are in."""
    if by in TEXTS:
        return f"{selection.whole_text(by)} AS {by}"
    messages = quoted(MESSAGES) if MESSAGES in selection.names else "NULL"
    if by in ("reasoning", "answer"):
        is_text = f"{selection.column('response_chars')} IS NOT NULL"
        messages = f"CASE WHEN {is_text} THEN NULL ELSE {messages} END"
    texts = ", ".join(f"{selection.whole_text(name)} AS {name}" for name in TEXTS)
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
        return _alone(table.column(by))
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


def _alone(texts: pa.ChunkedArray) -> Any:
    """Texts as lists of one, null for null."""
    whole = texts.combine_chunks()
    is_text = whole.is_valid()
    offsets = np.concatenate(([0], np.cumsum(is_text.to_numpy(zero_copy_only=False))))
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), whole.drop_null(), mask=pc.invert(is_text)
    )


_EXAMPLES: Final = 240
_QUERY_ROLLOUTS: Final = 65_536
"""Of the steps that one query asks."""


@dataclass(slots=True)
class Watched:
    """A pattern at one step in one environment. env: None where none is recorded.

    rollouts: those whose log records who said what; not_recorded: the others that were read. hits:
    rollouts in which it occurs; times: occurrences in all. reward_hits, reward_misses: mean reward of
    rollouts with and without it, NaN where none is scored; scored_hits, scored_misses: how many of these
    are. examples: indices of the first hits.
    """

    step: int
    env: str | None
    rollouts: int = 0
    hits: int = 0
    times: int = 0
    reward_hits: float = float("nan")
    reward_misses: float = float("nan")
    examples: list[int] = field(default_factory=list[int])
    not_recorded: int = 0
    scored_hits: int = 0
    scored_misses: int = 0

    @property
    def share(self) -> float:
        """Of the rollouts, those in which it is said."""
        return self.hits / self.rollouts if self.rollouts else float("nan")


def within_steps(entries: Sequence[Watched]) -> float:
    """Mean reward with it less that without, of rollouts of one step and environment; NaN where none
    has both.

    Over a run both the words and the reward change: means over all its steps would compare early
    rollouts with late ones. A step counts by n·m / (n + m) of its n hits and m misses.
    """
    pairs = [
        (one.reward_hits - one.reward_misses, one.scored_hits, one.scored_misses) for one in entries
    ]
    known = [(gap, n * m / (n + m)) for gap, n, m in pairs if n and m]
    total = sum(weight for _, weight in known)
    return sum(gap * weight for gap, weight in known) / total if total else float("nan")


def watch(
    run: Run,
    pattern: Pattern,
    by: str = "response",
    steps: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Watched]:
    """One entry per step and environment, as it is read; who asks for no more stops the reading.

    by: whose words, one of utterances.SPEAKERS. progress: called with rollouts done and in all.
    """
    wanted = [*run.counts] if steps is None else [*steps]
    total, done = sum(run.counts.get(step, 0) for step in wanted), 0
    is_slow = by not in TEXTS and has_token_roles(run)
    for several in ([step] for step in wanted) if is_slow else _step_batches(run, wanted):
        rows = _counted(run, several, [pattern], by)
        for step in several:
            own = rows[rows["step"] == step]
            yield from _by_env(step, own, own["times 0"].to_numpy())
            done += len(own)
            if progress is not None:
                progress(done, total)


def watch_step(
    run: Run, step: int, patterns: Sequence[Pattern], by: str = "response"
) -> list[list[Watched]]:
    """As `watch` of one step, for each of several patterns; the step is read once."""
    rows = _counted(run, [step], patterns, by)
    times = (rows[f"times {number}"].to_numpy() for number in range(len(patterns)))
    return [[*_by_env(step, rows, own)] for own in times]


def _step_batches(run: Run, steps: Sequence[int]) -> Iterator[list[int]]:
    """The steps in their order, several together while they are small."""
    several: list[int] = []
    rollouts = 0
    for step in steps:
        rollouts += run.counts.get(step, 0)
        if several and rollouts > _QUERY_ROLLOUTS:
            yield several
            several, rollouts = [], run.counts.get(step, 0)
        several.append(step)
    if several:
        yield several


_NOT_READ: Final = -1
_NOT_RECORDED: Final = -2


def _counted(run: Run, steps: Sequence[int], patterns: Sequence[Pattern], by: str) -> pd.DataFrame:
    """The rollouts of some steps in their order, with columns step, index, env and reward, and `times N`:
    how often the pattern N is said, or why that is not known.
    """
    batches: list[pd.DataFrame] = []
    for spoken in spoken_texts(run, by, steps):
        rows = spoken.rows
        not_known = np.where(spoken.is_readable, _NOT_RECORDED, _NOT_READ)
        is_known = np.asarray(spoken.texts.is_valid())
        for number, pattern in enumerate(patterns):
            times = pattern.counts_in_lists(spoken.texts)
            rows[f"times {number}"] = np.where(is_known, times, not_known)
        batches.append(rows)
    if not batches:
        names = ("step", "index", "env", "reward", *(f"times {n}" for n in range(len(patterns))))
        batches = [pd.DataFrame(columns=names)]
    return pd.concat(batches).sort_values(["step", "index"], ignore_index=True)


def _by_env(step: int, rows: pd.DataFrame, times: npt.NDArray[np.int64]) -> Iterator[Watched]:
    rewards = _numbers(rows, "reward")
    codes, names = _environments(rows)
    indices = rows["index"].to_numpy()
    for number, env in enumerate(names):
        of_env = codes == number
        own = of_env & (times >= 0)
        hits = own & (times > 0)
        yield Watched(
            step,
            env,
            int(own.sum()),
            int(hits.sum()),
            int(times[own].sum()),
            _mean(rewards[hits]),
            _mean(rewards[own & ~hits]),
            indices[hits][:_EXAMPLES].tolist(),
            int((of_env & (times == _NOT_RECORDED)).sum()),
            int(np.isfinite(rewards[hits]).sum()),
            int(np.isfinite(rewards[own & ~hits]).sum()),
        )


def _numbers(rows: pd.DataFrame, name: str) -> npt.NDArray[np.float64]:
    """[rows] a column, NaN where there is none."""
    if name not in rows:
        return np.full(len(rows), np.nan)
    return rows[name].to_numpy(np.float64, na_value=np.nan)


def _environments(rows: pd.DataFrame) -> tuple[npt.NDArray[np.int64], list[str | None]]:
    """[rows] the number of each one's environment, and their names as they first occur; None: of none."""
    if "env" not in rows:
        return np.zeros(len(rows), np.int64), [None]
    codes, names = pd.factorize(rows["env"].astype(object), use_na_sentinel=False)
    return codes, [None if pd.isna(name) else str(name) for name in names]


def _mean(values: npt.NDArray[np.float64]) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


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
    table = run.chosen(("step", "index", "size"))
    of = table["step"].to_numpy()
    steps = _evenly(np.unique(of), _STEPS).tolist()
    rows = [_rows(table, of, step) for step in steps]
    sizes = [float(part["size"].mean()) for part in rows if len(part)]
    each = int(np.clip(budget // max(sum(sizes), 1.0), 2, _ROLLOUTS))
    chosen = pd.concat([part.iloc[_evenly(np.arange(len(part)), each)] for part in rows])
    texts: dict[int, list[str]] = {step: [] for step in steps}
    places = (chosen[name].astype(int).tolist() for name in ("step", "index"))
    for spoken in spoken_texts(run, by, *places):
        for step, own in zip(spoken.rows["step"].tolist(), spoken.texts.to_pylist(), strict=True):
            if own is not None:
                texts[step].append("\n".join(own))
    phrases = changed_phrases([*texts.values()])
    return TrendingPhrases(tuple(phrases), tuple(steps), sum(map(len, texts.values())))


def _rows(table: pd.DataFrame, of: np.ndarray, step: int) -> pd.DataFrame:
    first, end = np.searchsorted(of, (step, step + 1)).tolist()
    return table.iloc[first:end]


def _evenly(values: np.ndarray, most: int) -> np.ndarray:
    """At most so many of them, evenly spread, the first and the last among them."""
    if len(values) <= most:
        return values
    return values[np.unique(np.linspace(0, len(values) - 1, most).round().astype(np.int64))]
