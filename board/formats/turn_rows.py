"""Which logs have a row for each turn: by names of keys, a trajectory's id beside a turn's number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.errors import BoardError
from board.formats.base import Head, Reader
from board.formats.generic import quoted, rows_with_texts, suggested_mapping
from board.formats.mapping import GENERIC, MappingReader
from board.formats.mapping_files import LAST_FLAGS, mapping_reader

_TRAJECTORIES: Final = (
    *("trajectory_id", "traj_id", "trajectory_uid", "traj_uid", "trajectory", "traj"),
    *("episode_id", "episode_uid", "session_id", "conversation_id"),
)
_ROLLOUTS: Final = ("rollout_id", "sample_id", "request_id", "id")
"""Ids of trajectories where they come again with another turn; elsewhere each is of one line."""
_TURNS: Final = (
    *("turn", "turn_idx", "turn_index", "turn_id", "turn_number", "turn_num"),
    *("step_idx", "step_index", "step_id", "step_in_trajectory", "step_in_episode", "env_step"),
)
_BY_KEYS: Final = frozenset({"native", "rllb", "verl"})
"""Readers that take any line with a few keys, so that its others may say that it is a turn."""
_MOST_ID_CHARACTERS: Final = 200


def is_by_keys(reader: Reader) -> bool:
    """Whether the lines of a reader's files may be turns as well as rollouts."""
    is_generic = type(reader) is MappingReader and reader.title == GENERIC
    return is_generic or reader.name in _BY_KEYS


def turns_mapping(head: Head) -> str | None:
    """The text of the mapping by which a file of turns is read; None where no key says that it is one."""
    rows = rows_with_texts(head.records)
    head = Head(head.path, rows)
    if (keys := _turn_keys(rows)) is None or (text := suggested_mapping(head)) is None:
        return None
    trajectory, turn = keys
    order = f"turn = {quoted(turn)}\n" if turn else ""
    text = f"title = {quoted(GENERIC)}\ntrajectory = {quoted(trajectory)}\n{order}{text}"
    try:
        reader = mapping_reader(text)
    except BoardError:  # its lines hold rows
        return None
    return None if reader.why_not(head) else text


def likely_trajectory(head: Head) -> str:
    """The key of an id that lines share, where none says its turn; empty where there is none."""
    for name in (*_TRAJECTORIES, "episode"):
        ids = _ids(head.records, name)
        keys = [(record.get("step"), one) for record, one in zip(head.records, ids, strict=False)]
        if ids and len(set(keys)) < len(keys):
            return name
    return ""


def _turn_keys(records: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """The keys of the trajectory and of the turn's number, empty where only a flag says which is last."""
    if any("type" in record for record in records):  # lines of a writer that says what each is
        return None
    turn = next((name for name in _TURNS if _has_numbers(records, name)), "")
    has_flag = any(
        all(isinstance(record.get(name), bool) for record in records) for name in LAST_FLAGS
    )
    if not turn and not has_flag:
        return None
    for name in (*_TRAJECTORIES, *_ROLLOUTS):
        if not (ids := _ids(records, name)):
            continue
        pairs = {(one, record.get(turn)) for one, record in zip(ids, records, strict=True)}
        comes_again = len(set(ids)) < len(ids) and (not turn or len(pairs) > len(set(ids)))
        if name in _TRAJECTORIES or comes_again:
            return name, turn
    return None


def _ids(records: Sequence[Mapping[str, Any]], name: str) -> list[str | int]:
    """The ids under a key; none where a record has no id there."""
    ids = [record.get(name) for record in records]
    known = [
        one for one in ids if isinstance(one, str | int) and len(str(one)) <= _MOST_ID_CHARACTERS
    ]
    return known if len(known) == len(ids) else []


def _has_numbers(records: Sequence[Mapping[str, Any]], name: str) -> bool:
    values = [record.get(name) for record in records]
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)
