"""Several logs of the same rollouts as one run: which rows are one rollout, by SQL.

A trainer and what feeds it write about the same rollouts, each in files of its own. Rows are joined by
keys that both logs hold (formats.base.Join), within a step, and only where a key is unique in each log:
what is not certain stays as it is, and is counted. The row of the first log is shown. The others fill in
what it lacks; token counts and aggregates come from the trainer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from board.core.metrics.aggregate import COLUMNS
from board.core.metrics.definitions import REWARD_PART
from board.core.problems import Problem
from board.formats import reader_named
from board.index import segments
from board.index.manifest import FileState
from board.index.repeat_keys import NO_KEY
from board.query.database import quoted

_NEVER_JOINED: Final = frozenset(
    (
        *("step", "file", "file_id", "path", "side", *segments.LOCATION, segments.PART),
        *(segments.REPEAT_KEY, *segments.JOIN_KEYS),
    )
)
"""Columns that say where a row is; never filled in from another log."""
_LENGTHS: Final = ("prompt_tokens", "response_tokens")
_TRAINERS: Final = frozenset((*COLUMNS, *_LENGTHS, "pad_tokens"))
_TOKENS: Final = "tokens"
_COMPARED: Final = ("reward", "ref_reward", "advantage", "is_truncated", "policy_version")
_COMPARED_TEXTS: Final = ("group_id", "env")
_REWARD_PARTS: Final = f"{segments.NUMBER}{REWARD_PART}"
_TOLERANCE: Final = "1e-9 + 1e-5"
"""Absolute, and relative to the second number: one of the two may have been through float32."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the logs that are joined. title: on screen; by: the key in words."""

    reader: str
    title: str
    by: str
    is_trainer: bool


@dataclass(frozen=True, slots=True)
class JoinCount:
    """How far one log was joined to those before it.

    joined: rollouts that were joined with a row of it. rollouts: all that could have been: those that
    have a key and are of the splits that it has. rows: its rows. doubled: of both logs, rows that were
    not joined because a key of theirs is not unique. last_step: of its rows.
    """

    source: str
    title: str
    by: str
    joined: int = 0
    rollouts: int = 0
    rows: int = 0
    doubled: int = 0
    last_step: int | None = None

    @property
    def words(self) -> str:
        """In one sentence."""
        text = (
            f"{self.joined:,} of {self.rollouts:,} rollouts joined with {self.title} by {self.by}"
        )
        if alone := self.rows - self.joined:
            text += f"; {alone:,} of its {self.rows:,} rows have no rollout and are shown alone"
        if self.doubled:
            text += (
                f"; {self.doubled:,} rows have a key that occurs more than once, and are not joined"
            )
        return text


@dataclass(frozen=True, slots=True)
class JoinSummary:
    """How the logs of a run are joined. hidden: by id of a file and step, how many of its rows are shown
    with another row. differences: values of which the logs say different things.
    """

    hidden: Mapping[int, Counter[int]] = field(default_factory=dict[int, Counter[int]])
    counts: tuple[JoinCount, ...] = ()
    differences: tuple[Problem, ...] = ()


def sides_of(readers: Sequence[str]) -> tuple[Side, ...]:
    """The logs that are joined, the one whose rows are shown first; none where there is only one."""
    joins = {name: reader_named(name).join for name in dict.fromkeys(readers)}
    joined = sorted((join.order, name, join) for name, join in joins.items() if join is not None)
    if len(joined) < 2:
        return ()
    return tuple(
        Side(name, reader_named(name).title, join.by, join.is_trainer) for _, name, join in joined
    )


def join_pairs(rows: str, names: frozenset[str]) -> str:
    """SQL for the address of each row that is added to another row, and the `lead_` address of that one.

    rows: a statement for whole steps. A key joins rows only where it is unique in each of their logs. The
    second key joins no rows that the first one tells apart, and none of a log that a row already has.
    """
    return f"""
        WITH keyed AS MATERIALIZED (
            SELECT file, line, part, side, row_number() OVER () AS id, {_keys(names)} FROM ({rows})),
        first_keys AS (
            SELECT key_1, side, any_value(id) AS id FROM keyed
            WHERE key_1 IS NOT NULL GROUP BY key_1, side HAVING count(*) = 1),
        first_pairs AS MATERIALIZED (
            SELECT id, side, first_value(id) OVER by_key AS lead FROM first_keys
            WINDOW by_key AS (PARTITION BY key_1 ORDER BY side) QUALIFY id <> lead),
        second_keys AS (
            SELECT key_2, side, any_value(id) AS id, any_value(key_1) AS key_1 FROM keyed
            WHERE key_2 IS NOT NULL GROUP BY key_2, side HAVING count(*) = 1),
        second_pairs AS (
            SELECT id, side, key_1, first_value(id) OVER by_key AS lead,
                first_value(key_1) OVER by_key AS lead_key
            FROM (FROM second_keys ANTI JOIN first_pairs USING (id))
            WINDOW by_key AS (PARTITION BY key_2 ORDER BY side) QUALIFY id <> lead),
        pairs AS (
            SELECT id, lead FROM first_pairs UNION ALL
            SELECT id, lead FROM second_pairs AS s
                ANTI JOIN first_pairs AS known ON known.lead = s.id
                ANTI JOIN first_pairs AS other ON other.lead = s.lead AND other.side = s.side
            WHERE (key_1 <> lead_key) IS NOT TRUE)
        SELECT own.file, own.line, own.part,
            shown.file AS lead_file, shown.line AS lead_line, shown.part AS lead_part
        FROM pairs JOIN keyed AS own USING (id) JOIN keyed AS shown ON shown.id = pairs.lead
    """


def _keys(names: frozenset[str]) -> str:
    keys = (
        f"nullif({name}, {NO_KEY})" if name in names else "NULL::BIGINT"
        for name in segments.JOIN_KEYS
    )
    return ", ".join(f"{key} AS key_{number}" for number, key in enumerate(keys, 1))


def merged_rows(sides: Sequence[Side], visible: str, pairs: str, names: Sequence[str]) -> str:
    """A statement for rows filled in from other logs.

    sides: the logs. visible: a statement for the rows. pairs: the table of `join_pairs`. names: columns
    of the rows.
    """
    sql = f"SELECT *, rank AS own_rank FROM ({visible}) ANTI JOIN {pairs} USING (file, line, part)"
    for number, side in enumerate(sides[1:], 1):
        values = (
            f"{_merged(name, side, names)} AS {quoted(name)}"
            for name in names
            if name not in _NEVER_JOINED
        )
        sql = f"""
            SELECT ours.* REPLACE ({", ".join(values)}) FROM ({sql}) AS ours LEFT JOIN (
                FROM ({visible}) JOIN {pairs} USING (file, line, part) WHERE side = {number}
            ) AS theirs ON theirs.lead_file = ours.file AND theirs.lead_line = ours.line
                AND theirs.lead_part = ours.part AND theirs.step = ours.step"""
    return sql


def _merged(name: str, side: Side, names: Sequence[str]) -> str:
    """SQL for the value of a column of `ours` and `theirs`."""
    ours, theirs = f"ours.{quoted(name)}", f"theirs.{quoted(name)}"
    preview = name.removeprefix(segments.WHOLE)
    if name != preview and preview in names:
        # A preview without a whole text is the whole text.
        return f"CASE WHEN ours.{preview} IS NULL THEN coalesce({ours}, {theirs}) ELSE {ours} END"
    if name in _LENGTHS and {*_LENGTHS} <= {*names}:
        # With equally many tokens, the logs may only differ in where the response begins.
        choose = "least" if name == "prompt_tokens" else "greatest"
        same = f"{_token_count('ours')} = {_token_count('theirs')}"
        return (
            f"CASE WHEN {same} THEN {choose}({ours}, {theirs}) ELSE coalesce({theirs}, {ours}) END"
        )
    if side.is_trainer and name in _TRAINERS:
        return f"coalesce({theirs}, {ours})"
    return f"coalesce({ours}, {theirs})"


def _token_count(row: str) -> str:
    return " + ".join(f"{row}.{length}" for length in _LENGTHS)


def summarize(
    ask: Callable[[str], pa.Table],
    sides: Sequence[Side],
    visible: str,
    pairs: str,
    names: frozenset[str],
    files: Mapping[int, FileState],
) -> JoinSummary:
    """Counts what is joined, and what differs.

    ask: gives what a statement selects. visible, pairs, names: as of merged_rows. files: by id.
    """
    counts = ask(_counts_query(visible, pairs, names)).to_pylist()
    hidden: dict[int, Counter[int]] = {}
    for row in counts:
        if row["joined"]:
            hidden.setdefault(row["file_id"], Counter())[row["step"]] += row["joined"]
    columns = _compared(names)
    rows = ask(_differences_query(visible, pairs, columns)).to_pylist()
    problems = _problems(rows, [*columns], sides, files)
    return JoinSummary(hidden, tuple(_join_counts(sides, counts)), tuple(problems))


def _counts_query(visible: str, pairs: str, names: frozenset[str]) -> str:
    """SQL by file, step and split: rows; joined: shown with another row; keyed: shown and with a key;
    doubled: those that are alone and have a key that is not unique in their log.
    """
    split = "split" if "split" in names else "NULL::VARCHAR AS split"
    repeated = " OR ".join(
        f"""(side, key_{number}) IN (SELECT (side, key_{number}) FROM keyed
            WHERE key_{number} IS NOT NULL GROUP BY side, key_{number} HAVING count(*) > 1)"""
        for number in (1, 2)
    )
    return f"""
        WITH keyed AS MATERIALIZED (
            SELECT file, line, part, file_id, side, step, {split}, {_keys(names)} FROM ({visible})),
        flagged AS (
            SELECT keyed.*, ({repeated}) IS TRUE AS is_repeated, own.lead_file IS NOT NULL AS is_joined,
                shown.lead_file IS NOT NULL AS is_lead
            FROM keyed LEFT JOIN {pairs} AS own USING (file, line, part)
                LEFT JOIN (SELECT DISTINCT lead_file, lead_line, lead_part FROM {pairs}) AS shown
                ON (shown.lead_file, shown.lead_line, shown.lead_part)
                    = (keyed.file, keyed.line, keyed.part))
        SELECT file_id, side, step, split, count(*) AS rows,
            count(*) FILTER (is_joined) AS joined,
            count(*) FILTER (NOT is_joined AND coalesce(key_1, key_2) IS NOT NULL) AS keyed,
            count(*) FILTER (NOT is_joined AND NOT is_lead AND is_repeated) AS doubled
        FROM flagged GROUP BY file_id, side, step, split
    """


def _join_counts(sides: Sequence[Side], counts: Sequence[Mapping[str, Any]]) -> Iterator[JoinCount]:
    for number, side in enumerate(sides[1:], 1):
        own = [row for row in counts if row["side"] == number]
        before = [row for row in counts if row["side"] < number]
        splits = {row["split"] for row in own}
        if None not in splits:  # else it does not say of which splits it is
            before = [row for row in before if row["split"] in splits]
        yield JoinCount(
            *(side.reader, side.title, side.by),
            joined=sum(row["joined"] for row in own),
            rollouts=sum(row["keyed"] for row in before),
            rows=sum(row["rows"] for row in own),
            doubled=sum(row["doubled"] for row in (*own, *before)),
            last_step=max((row["step"] for row in own), default=None),
        )


def _compared(names: frozenset[str]) -> dict[str, tuple[str, str, bool]]:
    """By name what both logs may say: SQL for the values of the two, and whether they are numbers."""
    numbers = [
        name for name in sorted(names) if name in _COMPARED or name.startswith(_REWARD_PARTS)
    ]
    compared = {
        name.removeprefix(segments.NUMBER): _both("ROW." + quoted(name)) for name in numbers
    }
    compared |= {n: (f"ours.{n}", f"theirs.{n}", False) for n in _COMPARED_TEXTS if n in names}
    if {*_LENGTHS} <= names:
        # Where the response begins the two may see differently; how many tokens there are, not.
        compared[_TOKENS] = _both(_token_count("ROW"))
    return compared


def _both(value: str) -> tuple[str, str, bool]:
    """Numbers of both rows. value: SQL of a ROW."""
    ours, theirs = (
        f"CAST({value.replace('ROW.', f'{row}.')} AS DOUBLE)" for row in ("ours", "theirs")
    )
    return ours, theirs, True


def _differences_query(
    visible: str, pairs: str, columns: Mapping[str, tuple[str, str, bool]]
) -> str:
    """SQL by log: for each column how many pairs differ, and the first of them."""
    selected: list[str] = []
    for number, (ours, theirs, is_number) in enumerate(columns.values()):
        differs = f"{ours} <> {theirs}"
        if is_number:
            differs = f"""isfinite({ours}) AND isfinite({theirs})
                AND abs({ours} - {theirs}) > {_TOLERANCE} * abs({theirs})"""
        selected.append(f"""
            , count(*) FILTER ({differs}) AS count_{number},
            arg_min({{'step': ours.step, 'file_id': ours.file_id, 'line': ours.line, 'ours': {ours},
                'theirs': {theirs}}}, place) FILTER ({differs}) AS first_{number}""")
    return f"""
        WITH visible AS NOT MATERIALIZED ({visible}),
        theirs AS (
            SELECT *, row(step, rank IS NULL, rank, file, line, part) AS place
            FROM visible JOIN {pairs} USING (file, line, part))
        SELECT theirs.side AS side {"".join(selected)}
        FROM theirs JOIN visible AS ours ON theirs.lead_file = ours.file AND theirs.lead_line = ours.line
            AND theirs.lead_part = ours.part AND theirs.step = ours.step
        GROUP BY theirs.side
    """


def _problems(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    sides: Sequence[Side],
    files: Mapping[int, FileState],
) -> Iterator[Problem]:
    """What differs, in the order of steps, logs and columns. rows: as of _differences_query."""
    by_side = {row["side"]: row for row in rows}
    titles = {side.reader: side.title for side in sides}
    differences = sorted(
        (row[f"first_{number}"]["step"], side, number)
        for side, row in by_side.items()
        for number in range(len(columns))
        if row[f"count_{number}"]
    )
    for _, side, number in differences:
        column, first = columns[number], by_side[side][f"first_{number}"]
        state, theirs = files[first["file_id"]], sides[side]
        ours = titles[state.reader]
        visible = theirs.title if column == _TOKENS and theirs.is_trainer else ours
        reason = f"{column} differs between {ours} and {theirs.title}"
        hint = f"e.g. {first['ours']} and {first['theirs']}; that of {visible} is shown"
        # A score or tokens that differ are a fault of one log; names may differ by design.
        severity = "note" if column in _COMPARED_TEXTS else "partial"
        count = by_side[side][f"count_{number}"]
        yield Problem(state.path, first["line"], column, reason, hint, severity, count)
