"""What is kept of each step beside its rollouts: groups, prompts and environments, and what rules ask.

Made of the rollouts that are shown, when the table of steps is, and like it only of steps whose rollouts
changed. So pages and rules over a whole run read a few numbers a step, and following costs what is new.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from board.core.group_sums import group_order, group_sums
from board.core.groups import RIGHT_PARTS
from board.core.metrics import REWARD_PART
from board.core.records import FloatArray
from board.core.step_checks import StepChecks, step_checks
from board.store import group_ids
from board.store.kept_sums import columns_of_sums

IntArray = npt.NDArray[np.int64]

KINDS: Final = ("groups", "prompts", "envs", "checks")
COLUMNS: Final = (
    *("rank", *group_ids.COLUMNS, "env", "prompt", "prompt_tokens", "reward", "advantage"),
    *("response_tokens", "response_chars", "timestamp", "rollout_id"),
)
"""Columns of the rollouts that parts are made of, besides those that make a curve."""
SAME: Final = ("rollout_id", "split", "env", "response_tokens", "reward", "response", "rank")
"""What two rollouts of one id have in common when they are one, and the rank that wrote them."""
LENGTHS: Final = ("response_tokens", "response_chars")

CHECKED: Final = ("reward", "advantage", "response_tokens", "timestamp", "rank")
_FIT: Final = ("hits", "differs", "furthest")

RowsOf = Callable[[Sequence[int]], pd.DataFrame]
"""Rollouts of some steps with step, index and SAME, as far as the log has them."""


def columns_of(kind: str, metrics: Sequence[str]) -> tuple[str, ...]:
    """Columns of the rollouts that a kind of part is made of, as far as the log has them."""
    judging = [name for name in metrics if judges(name)]
    by_kind = {
        "groups": (*group_ids.COLUMNS, "reward", *judging),
        "prompts": ("prompt", "prompt_tokens", "reward", *LENGTHS, *judging),
        "envs": ("env", *metrics),
        "checks": (*group_ids.COLUMNS, *CHECKED, "rollout_id", *judging),
    }
    return tuple(dict.fromkeys(by_kind[kind]))


def part_of(
    kind: str,
    rows: pd.DataFrame,
    metrics: Sequence[str],
    same: RowsOf,
    spread: FloatArray | None = None,
) -> pa.Table:
    """One kind of part of some steps.

    rows: all their rollouts, ordered by step and index, with `columns_of` the kind. spread: as
    checks_table takes it.
    """
    steps = rows["step"].to_numpy(np.int64)
    if kind == "envs":
        return _envs(rows, steps, metrics)
    judged = judged_of(rows, metrics)
    if kind == "prompts":
        return prompts_table(rows, steps, judged)
    codes = group_ids.group_codes(rows)
    if kind == "groups":
        return groups_table(rows, steps, codes, judged)
    return checks_table(rows, steps, codes, judged, copies_of(rows, same), spread)


def parts_of(rows: pd.DataFrame, metrics: Sequence[str], same: RowsOf) -> dict[str, pa.Table]:
    """By kind what is kept of some steps. rows: as in part_of, with the columns of all kinds."""
    return {kind: part_of(kind, rows, metrics, same) for kind in KINDS}


def judged_of(rows: pd.DataFrame, metrics: Sequence[str]) -> dict[str, FloatArray]:
    """[rows] the scores that may say what is right."""
    return {name: numbers(rows, name) for name in metrics if judges(name)}


def numbers(rows: pd.DataFrame, column: str) -> FloatArray:
    """[rows] a column as numbers, NaN where it has none or is not there."""
    values = rows.get(column)
    if values is None or not pd.api.types.is_numeric_dtype(values):
        return np.full(len(rows), np.nan)
    return values.to_numpy(np.float64, na_value=np.nan)


def judges(name: str) -> bool:
    """Whether a column is a score that may say what is right."""
    return name.startswith(REWARD_PART) and name.removeprefix(REWARD_PART).lower() in RIGHT_PARTS


def category(rows: pd.DataFrame, name: str) -> IntArray:
    """[rows] codes in the order of the names, -1 where there is none."""
    if name not in rows:
        return np.full(len(rows), -1, np.int64)
    return np.asarray(rows[name].cat.codes, np.int64)


def groups_table(
    rows: pd.DataFrame, steps: IntArray, codes: IntArray, judged: Mapping[str, FloatArray]
) -> pa.Table:
    """The groups of each step in the order of their codes."""
    sums = group_sums(steps, codes, numbers(rows, "reward"), judged)
    return pa.table({"member": sums.codes >= 0, **columns_of_sums(sums)})


def prompts_table(
    rows: pd.DataFrame, steps: IntArray, judged: Mapping[str, FloatArray]
) -> pa.Table:
    """Prompts of each step in the order in which they come first, with the numbers of their rollouts."""
    return prompts_of_codes(rows, steps, judged, *_told_apart(rows))


def prompts_of_codes(
    rows: pd.DataFrame,
    steps: IntArray,
    judged: Mapping[str, FloatArray],
    codes: IntArray,
    texts: pa.Array,
    keys: IntArray,
) -> pa.Table:
    """As prompts_table. codes: [rows] of prompts, -1 for none; texts, keys: [codes] and [codes, 2]."""
    places = np.flatnonzero(codes >= 0)
    if len(places) < len(rows):
        rows, steps, codes = rows.iloc[places], steps[places], codes[places]
        judged = {name: values[places] for name, values in judged.items()}
    sums = group_sums(steps, codes, numbers(rows, "reward"), judged)
    order, starts = group_order(steps, codes)
    columns = columns_of_sums(sums)
    columns |= {"key": pa.array(keys[sums.codes, 0]), "text_key": pa.array(keys[sums.codes, 1])}
    columns["text"] = texts.take(pa.array(sums.codes))
    offsets = pa.array(np.append(starts, len(order)), pa.int32())
    lists = {"index": rows["index"].to_numpy(np.int64), "reward": numbers(rows, "reward")}
    lists |= {name: numbers(rows, name) for name in LENGTHS if name in rows}
    for name, values in lists.items():
        columns[f"of:{name}"] = pa.ListArray.from_arrays(offsets, pa.array(values[order]))
    return pa.table(columns)


def _told_apart(rows: pd.DataFrame) -> tuple[IntArray, pa.Array, IntArray]:
    """[rows] a code by first appearance, -1 for none; the text of each code; [codes, 2] its keys.

    Prompts are the same when what the index keeps of them is: their beginning, and their number of
    tokens where that is recorded. The first key is of both, the second of the text alone: the same in
    every run (64 bits of BLAKE2).
    """
    if "prompt" not in rows:
        none = np.full(len(rows), -1, np.int64)
        return none, pa.array([], pa.string()), np.zeros((0, 2), np.int64)
    encoded = pc.dictionary_encode(pa.array(rows["prompt"]).cast(pa.string()))
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    place = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    tokens = np.nan_to_num(numbers(rows, "prompt_tokens"), nan=-1.0).astype(np.int64)
    widest = int(tokens.max(initial=0)) + 2
    both, unique = pd.factorize(np.where(place < 0, -1, place * widest + tokens + 1))
    known = np.flatnonzero(unique >= 0)
    codes = np.full(len(unique), -1, np.int64)
    codes[known] = np.arange(len(known))
    texts = encoded.dictionary.take(pa.array(unique[known] // widest))
    return codes[both], texts, prompt_keys(texts, unique[known] % widest - 1)


def prompt_keys(texts: pa.Array, lengths: IntArray) -> IntArray:
    """[texts, 2] the keys of prompts, as _told_apart has them. lengths: [texts] in tokens, -1: none."""
    digests: list[bytes] = []
    for length, text in zip(lengths.tolist(), texts.to_pylist(), strict=True):
        content = text.encode("utf-8", "surrogatepass")
        digests += (_digest(b"%d " % length + content), _digest(content))
    return np.frombuffer(b"".join(digests), ">i8").astype(np.int64).reshape(-1, 2)


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=8).digest()


def _envs(rows: pd.DataFrame, steps: IntArray, metrics: Sequence[str]) -> pa.Table:
    """By step and environment (null: of those without one) the count and the sum of every metric."""
    codes = category(rows, "env")
    order, starts = group_order(steps, codes)
    first = order[starts]
    names = list(rows["env"].cat.categories) if "env" in rows else []
    columns: dict[str, Any] = {
        "step": steps[first],
        "env": pa.array([names[c] if c >= 0 else None for c in codes[first].tolist()], pa.string()),
        "rollouts": np.diff(np.append(starts, len(order))),
    }
    for name in metrics:
        values = numbers(rows, name)[order]
        finite = np.isfinite(values)
        if finite.any():
            columns[f"{name}:known"] = np.add.reduceat(finite, starts, dtype=np.int64)
            columns[f"{name}:sum"] = np.add.reduceat(np.where(finite, values, 0.0), starts)
    return pa.table(columns)


def checks_table(
    rows: pd.DataFrame,
    steps: IntArray,
    codes: IntArray,
    judged: Mapping[str, FloatArray],
    copies: pd.DataFrame,
    spread: FloatArray | None = None,
) -> pa.Table:
    """What rules ask of each step. codes: of groups. copies: as copies_of has them. spread: [rows] as
    spread_of has it, where the rollouts are some of their steps' alone.
    """
    held = {name: numbers(rows, name) for name in CHECKED if name in rows}
    found = step_checks(steps, held, codes, spread)
    names = (
        *("steps", "rollouts", "scored", "lowest", "highest", "clock", "started", "earliest"),
        *("pairs", "xx", "yy", "xy"),
    )
    columns: dict[str, Any] = {name: getattr(found, name) for name in names}
    columns["step"] = columns.pop("steps")
    columns["earliest"] = _indices(rows, steps, found.steps, found.earliest)
    columns |= {f"{n}:highest": _highest(found.steps, steps, v) for n, v in judged.items()}
    if found.fit is not None:
        columns |= _fit_columns(found)
    if len(found.ranks):
        last = _indices(rows, steps, found.rank_steps, found.rank_last)
        for name, values in (("ranks", found.ranks), ("rank_last", last)):
            columns[name] = _lists(found.steps, found.rank_steps, pa.array(values))
    if len(copies):
        for name in ("index", "of", "rank"):
            values = pa.array(copies[name], pa.int64(), from_pandas=True)
            columns[f"copy:{name}"] = _lists(found.steps, copies["step"].to_numpy(), values)
    return pa.table(columns)


def spread_of(steps: IntArray, checks: pa.Table | None) -> FloatArray:
    """[n] the spread of all rewards of each step, NaN where none is known. checks: of these steps, with
    step and, where advantages are recorded, spread.
    """
    if checks is None or "spread" not in checks.column_names:
        return np.full(len(steps), np.nan)
    of = checks.column("step").to_numpy()
    place = np.minimum(np.searchsorted(of, steps), len(of) - 1)
    return np.where(of[place] == steps, checks.column("spread").to_numpy()[place], np.nan)


def _indices(rows: pd.DataFrame, steps: IntArray, of: IntArray, places: IntArray) -> IntArray:
    """[of] the index of the rollout at that place within its step, -1 for none.

    The two differ where the rows are some of their steps' alone. steps: [rows] ascending.
    """
    at = np.searchsorted(steps, of) + np.maximum(places, 0)
    return np.where(places >= 0, rows["index"].to_numpy(np.int64)[at], -1)


def _highest(steps: IntArray, step_of: IntArray, values: FloatArray) -> FloatArray:
    """[steps] the highest finite value of each step, NaN without one; step_of: [values] ascending."""
    finite = np.where(np.isfinite(values), values, np.nan)
    return np.fmax.reduceat(finite, np.searchsorted(step_of, steps)) if len(steps) else np.zeros(0)


def _lists(steps: IntArray, step_of: IntArray, values: pa.Array) -> pa.ListArray:
    """[steps] the values of each step; step_of: [values] ascending."""
    offsets = np.append(np.searchsorted(step_of, steps), len(step_of))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _fit_columns(found: StepChecks) -> dict[str, Any]:
    fit = found.fit
    assert fit is not None
    place = np.searchsorted(found.steps, fit.steps)

    def spread(numbers: IntArray | FloatArray) -> pa.Array:
        values = np.full(len(found.steps), np.nan)
        values[place] = numbers
        whole = pa.int64() if numbers.dtype.kind == "i" else pa.float64()
        return pa.array(values, from_pandas=True).cast(whole)

    columns = {"telling": spread(fit.telling), "spread": spread(fit.spread)}
    for field in _FIT:
        columns |= {f"{field}:{name}": spread(c) for name, c in getattr(fit, field).items()}
    return columns


def copies_of(rows: pd.DataFrame, same: RowsOf) -> pd.DataFrame:
    """Rollouts of one step with the same id that are the same: same length, reward and beginning.

    Columns step, index, of, rank. The same id alone may be of one trajectory that was cut into several
    training samples, and training and evaluation count from 0 alike.
    """
    none = pd.DataFrame({"step": np.zeros(0, np.int64)})
    if "rollout_id" not in rows:
        return none
    known = rows.loc[rows["rollout_id"].notna(), ["step", "rollout_id"]]
    twice = known[known.duplicated(keep=False)]
    if twice.empty:
        return none
    whole = same(sorted(twice["step"].unique().tolist()))
    whole = whole[whole["rollout_id"].notna()]
    keys = ["step", *(name for name in SAME[:-1] if name in whole)]
    first = whole.groupby(keys, dropna=False, observed=True)["index"].transform("min")
    again = whole[whole["index"] > first]
    rank = (
        again["rank"].astype("Int64") if "rank" in again else pd.array([None] * len(again), "Int64")
    )
    found = {"step": again["step"], "index": again["index"], "of": first[again.index], "rank": rank}
    return pd.DataFrame(found).reset_index(drop=True)


def loaded(tables: Iterable[pa.Table]) -> pa.Table | None:
    """One kind of all steps, ordered by step; None where no step has any."""
    parts = [table for table in tables if table.num_rows]
    if not parts:
        return None
    return by_step(pa.concat_tables(parts, promote_options="permissive"))


def by_step(table: pa.Table) -> pa.Table:
    """The rows ordered by step, those of one step in their order."""
    steps = table.column("step").to_numpy()
    if (np.diff(steps) < 0).any():
        return table.take(pa.array(np.argsort(steps, kind="stable")))
    return table
