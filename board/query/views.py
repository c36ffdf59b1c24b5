"""The views of a run that SQL asks: rollouts, steps, groups, prompts and problems.

`rollouts` is made of the index as it is stored: `stored` (segments), without the rows that a resumed
training wrote again (`superseded`) and without further copies of a rollout (`repeats`).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from board.query.engine import Engine
from board.store import segments
from board.store.manifest import NO_RANK
from board.store.opened_run import Run
from board.store.repeats import lines_and_parts
from board.store.segments import Column
from board.store.shown_columns import GAP

COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "rollouts": {
        "step": "trainer step",
        "index": "position within the step, from 0: by rank, file and line",
        "rank": "rank of the trainer that wrote it",
        "group_id": "rollouts of one prompt that are compared with each other",
        "env": "environment",
        "file": "path of its file, relative to the run",
        "line": "line of the file, from 1; of a file of rows: the row",
    },
    "steps": {
        "step": "trainer step",
        "rollouts": "rollouts of the step",
        "M_mean": "mean of the metric M over the rollouts of the step",
        "M_std": "standard deviation, n - 1 in the denominator",
        "M_n": "rollouts that have a value",
        "M_q00": "smallest value; further M_q05, M_q25, M_q50, M_q75, M_q95 and M_q100",
        "groups": "groups of the step",
        "zero_std_group_fraction": "share of the groups of 2 rewards or more whose rewards are equal",
        "ranks": "ranks that wrote rollouts",
        "complete": "whether all ranks have ended the step",
    },
    "groups": {
        "step": "trainer step",
        "split": "train where the log names no split",
        "group_id": "as in rollouts",
        "rollouts": "rollouts of the group",
        "scored": "those with a reward",
        "reward_mean": "mean reward",
        "reward_std": "standard deviation, n in the denominator",
        "reward_min": "smallest reward",
        "reward_max": "largest reward",
    },
    "prompts": {
        "prompt": "its first 240 characters, by which prompts are told apart",
        "prompt_tokens": "its length in tokens, by which they are told apart too",
        "rollouts": "rollouts of the run that answer it",
        "steps": "steps at which it occurs",
        "first_step": "the first of them",
        "last_step": "the last of them",
        "reward_mean": "mean reward",
        "reward_min": "smallest reward",
        "reward_max": "largest reward",
    },
    "problems": {
        "path": "file",
        "line": "first line, from 1",
        "field": "key of the record",
        "reason": "what is wrong",
        "hint": "what was expected, or what to do",
        "severity": "lost: not shown; partial: shown without a value; note: shown",
        "count": "how often",
    },
}
"""View -> column -> what it is. `rollouts` has every other column of the run's table too."""
HIDDEN_COLUMNS: Final = frozenset(("offset", "size", segments.PART))
"""Columns of the index that say where a rollout's bytes are."""
_INDEX: Final = (
    "row_number() OVER (PARTITION BY step ORDER BY rank NULLS LAST, number, line, row_part) - 1"
)


def create_views(engine: Engine, run: Run) -> None:
    """Creates the views of COLUMNS for a whole run, which is not narrowed to a split or environment."""
    connection = engine.connection
    if run.shown.is_joined:
        _create_joined_rollouts(connection, run)
    else:
        _create_rollouts(engine, run)
    connection.register("steps", pa.Table.from_pandas(run.steps, preserve_index=False))
    _create_groups(connection, run)
    _create_prompts(connection, run)
    names = tuple(COLUMNS["problems"])
    rows = [{name: getattr(problem, name) for name in names} for problem in run.problems]
    types = {"line": pa.int64(), "count": pa.int64()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
    connection.register("problems", pa.Table.from_pylist(rows, schema))


def _create_joined_rollouts(connection: duckdb.DuckDBPyConnection, run: Run) -> None:
    """Of logs that are joined into one rollout each, the rows as the store joins them."""
    frame = run.shown.frame(None, None)
    paths = pd.Series([run.info.path_of(file) for file in run.info.files])
    frame["file"] = paths[frame["file"]].to_numpy()
    shown = [name for name in run.columns if name in frame and name not in HIDDEN_COLUMNS]
    table = pa.Table.from_pandas(frame[shown], preserve_index=False)
    connection.register("rollouts", table)


def _create_rollouts(engine: Engine, run: Run) -> None:
    connection = engine.connection
    stored = _create_stored(engine, run)
    connection.register("files", _files(run))
    held = {name: f'stored."{_quoted(name)}"' for name in stored}
    part = held.get(segments.PART, "0")
    rank = f"coalesce({held['rank']}, files.rank)" if "rank" in held else "files.rank"
    values = {
        "rank": rank,
        "file": "files.path",
        **{
            column.name: _value(column, held)
            for column in run.shown.columns
            if column.name not in ("index", "rank", "file", GAP)
        },
    }
    if GAP in run.columns:
        values[GAP] = f"{values['reward']} - {values['ref_reward']}"
    connection.execute(f"""
        CREATE VIEW visible AS
        SELECT {", ".join(f'{value} AS "{_quoted(name)}"' for name, value in values.items())},
            files.number, coalesce({part}, 0) AS row_part
        FROM stored JOIN files ON stored.file = files.id
            {_without_superseded(connection, run, held)}
            {_without_repeats(connection, run, part)}
    """)
    shown = [name for name in run.columns if name not in HIDDEN_COLUMNS]
    selected = (f"{_INDEX} AS index" if name == "index" else f'"{_quoted(name)}"' for name in shown)
    cap = run.options.max_per_step
    kept = "" if cap is None else f"QUALIFY index < {cap}"
    connection.execute(f"CREATE VIEW rollouts AS SELECT {', '.join(selected)} FROM visible {kept}")


def _create_stored(engine: Engine, run: Run) -> list[str]:
    """The rows of the index as they are stored, and the names of their columns."""
    storage, names = run.shown.index.storage, run.shown.index.segments(None)
    if engine.index is not None and names:
        paths = ", ".join(f"'{engine.index / name}'" for name in names)
        engine.connection.execute(
            f"CREATE VIEW stored AS FROM read_parquet([{paths}], union_by_name = true)"
        )
    else:
        table = segments.joined(storage.get(name) for name in names)
        engine.connection.register("stored", table)
    return [name for name, *_ in engine.connection.execute("DESCRIBE stored").fetchall()]


def _value(column: Column, held: Mapping[str, str]) -> str:
    """SQL for a column of the run: NULL where it is not recorded, also where the log says NaN."""
    found = [held[name] for name in segments.stored_names(column) if name in held]
    if not found:
        return "NULL"
    if column.name in segments.FIXED:
        return _recorded(column, found[0])
    if column.words:
        return f"coalesce({', '.join(f'CAST({one} AS VARCHAR)' for one in reversed(found))})"
    numbers = (f"TRY_CAST({one} AS DOUBLE)" for one in found)
    return f"nullif(coalesce({', '.join(numbers)}), CAST('nan' AS DOUBLE))"


def _recorded(column: Column, value: str) -> str:
    if column.texts or column.name in segments.WHOLE_NUMBERS:
        return value
    return f"nullif({value}, CAST('nan' AS DOUBLE))"


def _files(run: Run) -> pa.Table:
    """The files of the run: id in the index, number in the run, rank of the header, path."""
    index = run.shown.index
    rows = [(state.id, index.number_of[state.id], state.rank, state.path) for state in index.files]
    columns = [*zip(*rows, strict=True)] if rows else [(), (), (), ()]
    types = (pa.int64(), pa.int64(), pa.int64(), pa.string())
    return pa.table(
        [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)],
        ["id", "number", "rank", "path"],
    )


def _without_superseded(
    connection: duckdb.DuckDBPyConnection, run: Run, held: Mapping[str, str]
) -> str:
    """SQL that leaves out rows which a resumed training wrote again. A join that hides nothing would
    still keep filters from the files.
    """
    rows = [*run.shown.index.superseded.ranges()]
    if not rows:
        return ""
    names = ["file", "rank", "before_line", "from_step"]
    columns = [pa.array(values, pa.int64()) for values in zip(*rows, strict=True)]
    connection.register("superseded", pa.table(columns, names))
    rank = f"coalesce({held['rank']}, {NO_RANK})" if "rank" in held else str(NO_RANK)
    return f"""
        ANTI JOIN superseded AS s ON s.file = stored.file AND stored.step >= s.from_step
            AND stored.line < s.before_line AND (s.rank IS NULL OR s.rank = {rank})"""


def _without_repeats(connection: duckdb.DuckDBPyConnection, run: Run, part: str) -> str:
    """SQL that leaves out further copies of rollouts."""
    repeats = run.shown.index.repeats
    if not repeats:
        return ""
    files = np.concatenate([np.full(len(r.codes), number) for number, r in repeats.items()])
    lines, parts = lines_and_parts(np.concatenate([r.codes for r in repeats.values()]))
    connection.register("repeats", pa.table({"file": files, "line": lines, "part": parts}))
    return f"""
        ANTI JOIN repeats AS r ON r.file = stored.file AND r.line = stored.line
            AND r.part = coalesce({part}, 0)"""


def _create_groups(connection: duckdb.DuckDBPyConnection, run: Run) -> None:
    group_id, reward = _column(run, "group_id"), _column(run, "reward", "DOUBLE")
    split = f"coalesce({_column(run, 'split')}, 'train')"
    connection.execute(f"""
        CREATE VIEW groups AS
        SELECT step, {split} AS split, {group_id} AS group_id, count(*) AS rollouts,
            count({reward}) AS scored, avg({reward}) AS reward_mean, stddev_pop({reward}) AS reward_std,
            min({reward}) AS reward_min, max({reward}) AS reward_max
        FROM rollouts WHERE {group_id} IS NOT NULL GROUP BY ALL
    """)


def _create_prompts(connection: duckdb.DuckDBPyConnection, run: Run) -> None:
    prompt, reward = _column(run, "prompt"), _column(run, "reward", "DOUBLE")
    connection.execute(f"""
        CREATE VIEW prompts AS
        SELECT {prompt} AS prompt, {_column(run, "prompt_tokens", "BIGINT")} AS prompt_tokens,
            count(*) AS rollouts, count(DISTINCT step) AS steps,
            min(step) AS first_step, max(step) AS last_step, avg({reward}) AS reward_mean,
            min({reward}) AS reward_min, max({reward}) AS reward_max
        FROM rollouts WHERE {prompt} IS NOT NULL GROUP BY ALL
    """)


def _column(run: Run, name: str, kind: str = "VARCHAR") -> str:
    """A column of `rollouts`, or what stands for it where nothing of it is recorded."""
    return name if name in run.columns else f"CAST(NULL AS {kind})"


def _quoted(name: str) -> str:
    return name.replace('"', '""')
