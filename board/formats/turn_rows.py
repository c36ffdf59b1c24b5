"""Which logs have a row for each turn: by names of keys, a trajectory's id beside a turn's number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from board.errors import BoardError
from board.formats.base import Head, Reader
from board.formats.generic import keys_by_name, quoted, rows_with_texts, suggested_mapping
from board.formats.key_names import words_of
from board.formats.mapping import GENERIC, WHOLE_LINE, MappingReader, value_at
from board.formats.mapping_files import LAST_FLAGS, WHOLE_FILE, mapping_reader
from board.formats.messages import keys_of_message
from board.formats.parse import is_object
from board.formats.sources import JSON_DOCUMENT

_TRAJECTORIES: Final = (
    *("trajectory_id", "traj_id", "trajectory_uid", "traj_uid", "trajectory", "traj"),
    *("episode_id", "episode_uid", "session_id", "conversation_id"),
)
_ROLLOUTS: Final = ("rollout_id", "sample_id", "request_id", "id")
"""Ids of trajectories where they come again with another turn; elsewhere each is of one line."""
_TURNS: Final = (
    *("turn", "turn_idx", "turn_index", "turn_id", "turn_number", "turn_num"),
    *("step_idx", "step_index", "step_id", "step_in_trajectory", "step_in_episode", "env_step"),
    *("timestep", "time_step", "round", "move", "t"),
)
_WEAK_TURNS: Final = frozenset(("timestep", "time_step", "round", "move", "t"))
"""Numbers of turns where they differ within a trajectory; a round may be one of training, too."""
_WORDS_OF_IDS: Final = frozenset(
    (
        *("id", "uid", "uuid", "trajectory", "traj", "episode", "session", "conversation"),
        *("dialogue", "trial", "game"),
    )
)
"""Words of keys that may be the id of a trajectory, where a turn's number comes with each once."""
_OF_MESSAGES: Final = (
    "session",
    "conversation",
    "dialog_id",
    "dialogue_id",
    "chat_id",
    "thread_id",
)
_PLACES: Final = (
    *("message_index", "message_idx", "msg_index", "msg_idx", "message_number", "step", "round"),
    *("position", "order", "seq", "sequence", "index", "idx"),
)
"""Further ids of trajectories, and numbers of turns, where each row is a chat message."""
_ROLES: Final = frozenset(
    ("assistant", "user", "system", "tool", "human", "gpt", "model", "bot", "agent", "developer")
)
_BY_KEYS: Final = frozenset({"native", "rllb", "verl"})
"""Readers that take any line with a few keys, so that its others may say that it is a turn."""
_MOST_ID_CHARACTERS: Final = 200


def is_by_keys(reader: Reader) -> bool:
    """Whether the lines of a reader's files may be turns as well as rollouts."""
    is_generic = type(reader) is MappingReader and reader.title == GENERIC
    return is_generic or reader.name in _BY_KEYS


def turns_mapping(head: Head, *, is_named: bool = False) -> str | None:
    """The text of the mapping by which a file of turns is read; None where no key says that it is one.

    is_named: the user named the file, so that a document of messages alone is a conversation.
    """
    is_conversation = is_named and JSON_DOCUMENT.takes(head.path)
    if text := _messages_mapping(head.records, WHOLE_FILE if is_conversation else ""):
        return text
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


def _messages_mapping(records: Sequence[Mapping[str, Any]], otherwise: str) -> str:
    """The text of the mapping by which rows are read that are a chat message each; empty where they are
    none, or no key says of which conversation. otherwise: what says so where no key does.
    """
    keys = [keys_of_message(record) for record in records]
    if not keys or not all(keys):
        return ""
    roles = {str(row[role]).lower() for row, (role, *_) in zip(records, keys, strict=True)}
    trajectory = next(
        (name for name in (*_TRAJECTORIES, *_OF_MESSAGES) if _ids(records, name)),
        next((name for name in _ROLLOUTS if _comes_again(_ids(records, name))), otherwise),
    )
    if len(roles) < 2 or roles.isdisjoint(_ROLES) or not trajectory:
        return ""
    ids = [WHOLE_FILE] * len(records) if trajectory == otherwise else _ids(records, trajectory)
    turn = next((n for n in (*_TURNS, *_PLACES) if _numbers_turns(records, n, ids)), "")
    used = {trajectory, turn, *(key for of_row in keys for key in of_row)}
    rest = [{key: v for key, v in record.items() if key not in used} for record in records]
    merged = {key: v for record in rest for key, v in record.items() if v is not None}
    known = keys_by_name(merged, rest)
    if known.keys() & {"prompt", "response", "messages"}:
        return ""
    order = f"turn = {quoted(turn)}\n" if turn else ""
    fields = "".join(f"{name} = {quoted(path)}\n" for name, path in known.items())
    begin = f"title = {quoted(GENERIC)}\ntrajectory = {quoted(trajectory)}\n{order}"
    return f"{begin}[keys]\nmessages = {quoted(WHOLE_LINE)}\n{fields}"


def _comes_again(ids: Sequence[str | int]) -> bool:
    return len(set(ids)) < len(ids)


def _numbers_turns(
    records: Sequence[Mapping[str, Any]], name: str, ids: Sequence[str | int]
) -> bool:
    """Whether a key has the number of each row's turn: within a trajectory it is not always the same."""
    if not _has_numbers(records, name):
        return False
    pairs = {(one, value_at(record, name)) for one, record in zip(ids, records, strict=True)}
    return len(pairs) > len(set(ids)) or not _comes_again(ids)


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
    turn = next((path for path in _paths(records, _TURNS) if _has_numbers(records, path)), "")
    has_flag = any(
        all(isinstance(record.get(name), bool) for record in records) for name in LAST_FLAGS
    )
    if not turn and not has_flag:
        return None
    for path in _paths(records, (*_TRAJECTORIES, *_ROLLOUTS)):
        if not (ids := _ids(records, path)):
            continue
        pairs = {(one, value_at(record, turn)) for one, record in zip(ids, records, strict=True)}
        comes_again = _comes_again(ids) and (not turn or len(pairs) > len(set(ids)))
        is_named = path.rpartition(".")[2] in _TRAJECTORIES and turn not in _WEAK_TURNS
        if is_named or comes_again:
            return path, turn
    return _key_by_turns(records, turn)


def _key_by_turns(records: Sequence[Mapping[str, Any]], turn: str) -> tuple[str, str] | None:
    """The key of an id, of whatever name, each of which comes again, every time with another turn."""
    for key in records[0] if turn and records else ():
        ids = _ids(records, key)
        if key == turn or not _comes_again(ids) or _WORDS_OF_IDS.isdisjoint(words_of(key)):
            continue
        pairs = {(one, value_at(record, turn)) for one, record in zip(ids, records, strict=True)}
        if len(pairs) == len(records):
            return key, turn
    return None


def _paths(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[str]:
    """Where records may have a key of these names: the key itself, or within an object."""
    first: Mapping[str, Any] = records[0] if records else {}
    inside = [key for key, value in first.items() if is_object(value)]
    for name in names:
        yield from (name, *(f"{key}.{name}" for key in inside))


def _ids(records: Sequence[Mapping[str, Any]], name: str) -> list[str | int]:
    """The ids under a key; none where a record has no id there."""
    ids = [value_at(record, name) for record in records]
    known = [
        one for one in ids if isinstance(one, str | int) and len(str(one)) <= _MOST_ID_CHARACTERS
    ]
    return known if len(known) == len(ids) else []


def _has_numbers(records: Sequence[Mapping[str, Any]], name: str) -> bool:
    values = [value_at(record, name) for record in records]
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)
