"""From entries to the rollouts that they are about, and from a rollout to a new entry."""

from __future__ import annotations

import getpass
import hashlib
import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from board.core.labels.entries import Entry, Kind, RolloutKey, RolloutLabels, labels_of, last_of
from board.core.problems import Problem
from board.errors import ChoiceError
from board.index import label_files
from board.index.segments import PART, PROMPT_KEY
from board.query.database import quoted
from board.query.labels.columns import Address, Labels, label_table
from board.query.run import Run

_HASH_CHARACTERS: Final = 16
_TEXT_CHARACTERS: Final = 200
"""Of the response's preview: a few less than it has."""


def with_labels(run: Run) -> Run:
    """The whole run with the labels that its files have now; the run itself where they are the same.

    A file of labels that can't be read is a problem of the run, which opens without them.
    """
    refused, entries, unreadable = "", (), 0
    try:
        entries, unreadable = label_files.read_entries(run.info)
    except ChoiceError as error:
        refused = str(error)
    content = repr((entries, unreadable, refused)).encode("utf-8", "replace")
    is_any = entries or unreadable or refused
    version = hashlib.blake2b(content, digest_size=16).hexdigest() if is_any else ""
    if version == run.labels.version:
        return run
    rollouts, before = labels_of(entries), run.labels.addresses
    known = {key: before[key] for key in rollouts if key in before}
    addresses = known | _addresses(run, [key for key in rollouts if key not in known])
    labels = Labels(rollouts, addresses, entries, unreadable, refused, version)
    problems = [problem for problem in run.problems if problem.path != label_files.FILE]
    if refused:
        hint = "no label is shown until it is moved away or mended"
        problems.append(Problem(label_files.FILE, None, None, refused, hint))
    return replace(run.labelled(labels, label_table(labels)), problems=(*problems,))


def _key_sql(run: Run) -> str:
    """SQL for the hash of a rollout."""
    names = run.rows.names
    length = [quoted(name) for name in ("response_chars", "response_tokens") if name in names]
    # A column that the log does not have yet is as empty as one without a value here.
    parts = [
        *(quoted(n) if n in names else "''" for n in ("rollout_id", PROMPT_KEY, "reward")),
        f"coalesce({', '.join(length)})" if length else "''",
        f'left("response", {_TEXT_CHARACTERS})' if "response" in names else "''",
    ]
    texts = (f"coalesce(CAST({part} AS VARCHAR), '')" for part in parts)
    return f"left(md5(concat_ws(chr(31), {', '.join(texts)}, '')), {_HASH_CHARACTERS})"


def keyed_rollouts(run: Run, steps: Collection[int]) -> str:
    """A statement for step, position, address, key and copy of all rollouts of some steps."""
    whole = run.whole or run
    listed = ", ".join(map(str, sorted({*steps}))) or "NULL"
    return f"""
        SELECT step, position, file, line, {PART}, key, row_number() OVER (
            PARTITION BY step, key ORDER BY position) - 1 AS copy
        FROM (SELECT *, {_key_sql(whole)} AS key FROM {whole.view} WHERE step IN ({listed}))"""


def _addresses(run: Run, keys: Sequence[RolloutKey]) -> dict[RolloutKey, Address]:
    """The rollouts of these keys that the run has."""
    steps = {key.step for key in keys} & run.counts.keys()
    if not steps:
        return {}
    hashes = {"hashes": sorted({key.key for key in keys})}
    table = run.rows.table(
        f"SELECT step, key, copy, file, line, {PART} FROM ({keyed_rollouts(run, steps)}) "
        "WHERE key IN (SELECT unnest($hashes))",
        hashes,
    )
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    every = {RolloutKey(step, key, copy): at for step, key, copy, *at in rows}
    return {key: (at[0], at[1], at[2]) for key in keys if (at := every.get(key))}


def label_indices(run: Run) -> dict[Address, int]:
    """The index within its step of each labelled rollout that the run has, by its address."""
    addresses = run.labels.addresses
    steps = {key.step for key in addresses}
    files, lines, parts = [*zip(*addresses.values(), strict=True)] or ((), (), ())
    table = run.rows.table(
        f"""
        SELECT file, line, {PART}, position FROM {run.rows.view()}
            SEMI JOIN (SELECT unnest($files) AS file, unnest($lines) AS line, unnest($parts) AS {PART})
            USING (file, line, {PART})
        WHERE step IN ({", ".join(map(str, steps)) or "NULL"})""",
        {"files": [*files], "lines": [*lines], "parts": [*parts]},
    )
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return {(file, line, part): index for file, line, part, index in rows}


def rollout_key(run: Run, step: int, index: int) -> RolloutKey:
    """The key of a rollout. Raises NotFoundError where there is none."""
    (run.whole or run).row(step, index, ("step",))
    table = run.rows.table(
        f"SELECT key, copy FROM ({keyed_rollouts(run, [step])}) WHERE position = {int(index)}"
    )
    return RolloutKey(step, table["key"][0].as_py(), table["copy"][0].as_py())


def labels_at(run: Run, step: int, index: int) -> RolloutLabels:
    """What is said of a rollout."""
    row = (run.whole or run).row(step, index, ("file", "line", PART))
    at = (int(row["file"]), int(row["line"]), int(row.get(PART) or 0))
    keys = (key for key, address in run.labels.addresses.items() if address == at)
    return next((run.labels.rollouts[key] for key in keys), RolloutLabels())


# Writing


def usual_author() -> str:
    """The name of whoever runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in a container
        return "user"


def new_entry(author: str, kind: Kind, *, entry_id: str = "", **values: Any) -> Entry:
    """An entry of this moment. entry_id: "" for a new one. values: its other fields."""
    return Entry(entry_id or uuid.uuid4().hex[:16], time.time(), author, kind, **values)


def set_label(
    run: Run,
    author: str,
    step: int,
    index: int,
    kind: Kind,
    value: str,
    *,
    tokens: tuple[int, int] = (-1, -1),
    entry_id: str = "",
) -> None:
    """Writes a label, a note or the label of a span of a rollout. value: "" clears it. entry_id:
    "" for a new one.

    Raises ChoiceError where it can't be written, NotFoundError where there is no such rollout.
    """
    key = rollout_key(run, step, index)
    if kind == "span":
        _check_span(run, step, index, *tokens)
    ends = {"first": tokens[0], "last": tokens[1]}
    entry = new_entry(
        author, kind, entry_id=entry_id, index=index, value=value, **key._asdict(), **ends
    )
    label_files.append(run.info, [entry])


def _check_span(run: Run, step: int, index: int, first: int, last: int) -> None:
    row = (run.whole or run).row(step, index, ("response_tokens",))
    count = row.get("response_tokens")
    if count is None:
        raise ChoiceError(
            f"rollout {index} of step {step} has no tokens in the log, so that none can be labelled; "
            "label the rollout"
        )
    if not 0 <= first <= last < count:
        has = f", which has tokens 0 to {count - 1:.0f}" if count else ""
        raise ChoiceError(
            f"tokens {first} to {last} are not within the response of rollout {index}{has}"
        )


def undo_last(run: Run, author: str, *, entry_id: str = "") -> Entry | None:
    """Writes that the last label, note or span of an author does not count, and returns it; None where
    there is none. Raises ChoiceError where it can't be written.
    """
    last = last_of(label_files.read_entries(run.info)[0], author)
    if last is not None:
        undoing = new_entry(
            author, "undo", entry_id=entry_id, undoes=last.id, step=last.step, index=last.index
        )
        label_files.append(run.info, [undoing])
    return last
