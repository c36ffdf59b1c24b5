"""The words of one speaker in many rollouts: from the index, or the log where tokens say who spoke."""

# pyright: reportAttributeAccessIssue=false
# pyarrow makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from board.analysis.step_records import PLACES, StepRecords
from board.analysis.utterances import split_reasoning, utterances
from board.index.segments import MESSAGES, TOKEN_ROLES
from board.index.whole_texts import TEXTS, texts_of_role
from board.query.open_run import Run
from board.query.run_rows import quoted
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
            found = utterances(record, run.vocabulary, by)
            known[places[place]] = None if found is None else [one.text for one in found]
            is_readable[places[place]] = True
        texts = pa.array(known, _TEXT_LISTS)
    return SpokenTexts(rows, texts, is_readable)


def _texts_of(table: pa.Table, by: str) -> Any:
    """Lists of texts, null where the index does not record who spoke."""
    if by in TEXTS:
        return _alone(table.column(by))
    is_part = by in ("reasoning", "answer")
    role = "assistant" if is_part else by
    found: list[list[str] | None] = []
    columns = (table.column(name).to_pylist() for name in ("messages", "prompt", "response"))
    for messages, prompt, response in zip(*columns, strict=True):
        texts = None if messages is None else texts_of_role(messages, prompt, response, role)
        if is_part:
            if messages is None and response is not None:
                texts = [response]
            texts = split_reasoning(texts, by) if texts else None
        found.append(texts)
    return pa.array(found, _TEXT_LISTS)


def _alone(texts: pa.ChunkedArray) -> Any:
    """Texts as lists of one, null for null."""
    whole = texts.combine_chunks()
    is_text = whole.is_valid()
    offsets = np.concatenate(([0], np.cumsum(is_text.to_numpy(zero_copy_only=False))))
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), whole.drop_null(), mask=pc.invert(is_text)
    )
