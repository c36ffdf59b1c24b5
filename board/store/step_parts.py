"""What is kept of each step beside its rollouts: groups, prompts and environments, and what rules ask.

Made of the rollouts that are shown, when the table of steps is, and like it only of steps whose rollouts
changed. So pages and rules over a whole run read a few numbers a step, and following costs what is new.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from board.core.group_sums import group_order, group_sums
from board.core.groups import RIGHT_PARTS
from board.core.metrics import REWARD_PART
from board.core.records import FloatArray
from board.store import group_ids
from board.store.kept_sums import columns_of_sums

IntArray = npt.NDArray[np.int64]

KINDS: Final = ("prompts",)
COLUMNS: Final = (
    *("rank", *group_ids.COLUMNS, "prompt", "prompt_tokens", "reward"),
    *("response_tokens", "response_chars"),
)
"""Columns of the rollouts that parts are made of, besides those that make a curve."""
LENGTHS: Final = ("response_tokens", "response_chars")


def columns_of(kind: str, metrics: Sequence[str]) -> tuple[str, ...]:
    """Columns of the rollouts that a kind of part is made of, as far as the log has them."""
    return ("prompt", "prompt_tokens", "reward", *LENGTHS, *filter(judges, metrics))


def part_of(kind: str, rows: pd.DataFrame, metrics: Sequence[str]) -> pa.Table:
    """One kind of part of some steps.

    rows: all their rollouts, ordered by step and index, with `columns_of` the kind.
    """
    return prompts_table(rows, rows["step"].to_numpy(np.int64), judged_of(rows, metrics))


def parts_of(rows: pd.DataFrame, metrics: Sequence[str]) -> dict[str, pa.Table]:
    """By kind what is kept of some steps. rows: as in part_of, with the columns of all kinds."""
    return {kind: part_of(kind, rows, metrics) for kind in KINDS}


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
