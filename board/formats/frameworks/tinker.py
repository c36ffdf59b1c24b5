"""Tinker cookbook's rollout summaries: iteration_NNNNNN/{train,eval_NAME}_rollout_summaries.jsonl.

Read from thinking-machines-lab/tinker-cookbook@9dfcc3a tinker_cookbook/rl/rollout_logging.py
(`serialize_rollout_summaries`), tinker_cookbook/stores/training_store.py and tinker_cookbook/rl/train.py.
total_reward is that of all steps and the group's, final_reward the group's. The texts of the first groups
of an iteration are in the logtree beside it (tinker_logtree.py), each group in a section that tells
lengths, rewards and metrics of each trajectory by its index. It is joined with the one group whose
trajectories have exactly these (tinker_cookbook/rl/metric_util.py); where two groups or two sections have
the same, none is. Positions tell nothing of a training iteration, whose groups stand in the summaries in
the order in which they ended; those of an evaluation stand in the order in which they began, as their
sections do, and are joined so where all of them agree. What can't be told apart is not recorded; the
texts that may be a rollout's own are kept beside it.

Environments may log what they like at a step; these log the model's own words, so that they are known of
every trajectory, without a logtree:

- agents with tools, tool_use/agent_tool_message_env.py: assistant_content (without thoughts),
  tool_call_N "NAME(ARGUMENTS)", tool_result_N;
- recipes/multiplayer_rl/guess_number/env.py: guess, feedback; recipes/audio/asr/env.py: transcript.

A step whose sampling was cut has no logs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from board.core.records import Record
from board.errors import RecordError
from board.formats.base import Head, LineContext, Reader
from board.formats.failures import failure_of, verdict_of
from board.formats.field_values import FAILURE
from board.formats.fields import RecordBuilder
from board.formats.frameworks.tinker_logtree import (
    Section,
    Texts,
    as_logged,
    read_logtree,
    steps_of,
    texts_of,
)
from board.formats.io.lines import read_bytes, read_lines
from board.formats.io.locations import Location, Objects, State, existing_file, state_of
from board.formats.messages import Message, response_text
from board.formats.parse import as_list, as_object, is_measure, object_at, parse_whole

_LOGGED_CALL: Final = re.compile(r"([^(]*)\((.*)\)", re.DOTALL)
_STOP: Final = "stop/"
_SUMMARIES: Final = "_rollout_summaries.jsonl"
_MOST_BYTES: Final = 128 << 20
_DETAILS: Final = "Trajectory Details"


def _turns(step: Mapping[str, Any]) -> Iterator[Message]:
    """The messages that a step's logs tell of; none where they do not say what the model said."""
    logs = {key: value for key, value in object_at(step, "logs").items() if isinstance(value, str)}
    spoken = (logs.get(key) for key in ("assistant_content", "guess", "transcript"))
    content = next((text for text in spoken if text is not None), None)
    calls: list[_Row] = []
    for key, value in logs.items():
        if re.fullmatch(r"tool_call_[0-9]+", key):
            match = _LOGGED_CALL.fullmatch(value)
            name, arguments = match.groups() if match else (value, "")
            calls.append({"function": {"name": name, "arguments": arguments}})
    if content is None and not calls:
        return
    message: dict[str, Any] = {"role": "assistant", "content": content or ""}
    yield {**message, "tool_calls": calls} if calls else message
    for key, value in logs.items():
        if re.fullmatch(r"tool_result_[0-9]+", key):
            yield {"role": "tool", "content": value}
    if "guess" in logs and "feedback" in logs:
        yield {"role": "user", "content": logs["feedback"]}


class TinkerReader(Reader):
    """Reads the summaries of rollouts that Tinker cookbook exports."""

    name = "tinker"
    title = "Tinker cookbook"
    left_out: Mapping[str, str] = {"schema_version": "the version of the file's layout"}
    keys: Mapping[str, str] = {
        "total_reward": "reward",
        "sampling_client_step": "policy_version",
        **dict.fromkeys(("schema_version", "split", "iteration", "group_idx", "traj_idx"), ""),
        **dict.fromkeys(("tags", "trajectory_metrics", "steps"), ""),
    }
    layout = re.compile(r"(?:iteration_(?P<step>[0-9]+)/)?[^/]+_rollout_summaries\.jsonl")

    def recognises(self, head: Head) -> bool:
        """A trajectory of a group in an iteration, with its total reward."""
        return head.has("group_idx", "traj_idx", "total_reward", "iteration")

    def sidecar_files(self, log: Location, objects: Objects) -> Sequence[Location]:
        names = _logtree_names(log.name)
        files = (existing_file(log.parent / name, objects) for name in names)
        return [file for file in files if file is not None][:1]

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record:
        builder = RecordBuilder(at.options)
        _take_ids(builder, line)
        builder.take_keys(line, self.keys)
        for name, value in as_object(line.get("trajectory_metrics")).items():
            builder.take(f"metrics.{name}", value)
        _take_steps(builder, line)
        _take_texts(builder, line, at.sidecar(joined_texts))
        iteration = line.get("iteration")
        return builder.build(at.step if iteration is None else iteration)


def _take_ids(builder: RecordBuilder, line: Mapping[str, Any]) -> None:
    """The split keeps an evaluation's name: several of one iteration count their groups each from 0."""
    split = str(line.get("split") or "train")
    builder.ids["split"] = split
    name = split.partition("/")[2]
    group = "-".join(str(part) for part in (name, line.get("group_idx")) if part not in ("", None))
    builder.take("group_id", group)
    builder.take("rollout_id", f"{group}-{line.get('traj_idx')}")
    builder.take("env", ", ".join(map(str, as_list(line.get("tags")))) or None)


def _take_texts(builder: RecordBuilder, line: Mapping[str, Any], joined: Joined | None) -> None:
    """Takes the texts of the logtree, or else those of its own logs; says what is not recorded."""
    texts = Texts() if joined is None else joined.texts.get(_key(line), Texts())
    turns_of_steps = [] if texts.response else [list(_turns(step)) for step in steps_of(line)]
    turns = [message for own in turns_of_steps for message in own]
    if texts.prompt or texts.response or turns:
        builder.take_turns(texts.prompt, texts.response or turns)
    builder.take("ground_truth", texts.reference)
    builder.take("logtree", list(texts.paragraphs) or None)
    if turns and not all(turns_of_steps):
        hint = "a step that was cut off logs nothing; the response holds the logged steps"
        builder.note("response", "its logs do not hold the text of each step", hint)
    elif joined is not None and not turns and not texts.response:
        _say_why_not(builder, line, joined, texts)


def _key(line: Mapping[str, Any]) -> _Key:
    group, index = line.get("group_idx"), line.get("traj_idx")
    return (group, index) if isinstance(group, int) and isinstance(index, int) else (-1, -1)


def _say_why_not(
    builder: RecordBuilder, line: Mapping[str, Any], joined: Joined, texts: Texts
) -> None:
    if joined.error:
        builder.remark("prompt", joined.error, "prompts and responses are not recorded")
    elif _key(line) not in joined.texts:
        hint = "it covers only the first groups; groups with equal numbers can't be distinguished"
        builder.note("prompt", "its group has no section in the logtree", hint)
    elif texts.candidates:
        builder.take("logtree_candidates", [response_text(own) for own in texts.candidates])
        hint = "logtree entries have no index; logtree_candidates lists those that match"
        builder.note("response", "its response can't be matched to one in the logtree", hint)
    else:
        hint = "its environment told none"
        builder.note("response", "the logtree has no separate response", hint)


def _take_steps(builder: RecordBuilder, line: Mapping[str, Any]) -> None:
    """Takes how many steps there were, their tokens, the means of their metrics, and why they ended."""
    steps = steps_of(line)
    if not steps:
        return
    builder.take("turns", len(steps))
    builder.take("ac_len", _total([step.get("ac_len") for step in steps]))
    builder.take("ob_len", steps[0].get("ob_len"))
    metrics = [as_object(step.get("metrics")) for step in steps]
    for name in dict.fromkeys(name for step_metrics in metrics for name in step_metrics):
        if name.startswith(_STOP):
            reason = name.removeprefix(_STOP)
            builder.take("finish_reason", reason)
            builder.take(FAILURE, failure_of(verdict_of(reason), {"stop": reason}))
        else:
            values = [step_metrics[name] for step_metrics in metrics if name in step_metrics]
            total = _total(values)
            builder.take(f"step_metrics.{name}", None if total is None else total / len(values))
    builder.take("steps", steps)


def _total(values: Sequence[object]) -> float | None:
    """The sum; None where one of the values is no number."""
    numbers = [value for value in values if is_measure(value)]
    return sum(numbers) if len(numbers) == len(values) else None


_Row = Mapping[str, Any]
_Signature = tuple[object, ...]
_Key = tuple[int, int]
"""group_idx and traj_idx of a rollout."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The texts of the rollouts of one file of summaries; error: why there are none."""

    texts: Mapping[_Key, Texts]
    error: str = ""


def _logtree_names(summaries: str) -> Sequence[str]:
    """A logtree as JSON, or else as a page."""
    if not summaries.endswith(_SUMMARIES):
        return ()
    base = summaries.removesuffix(_SUMMARIES)
    return [f"{base}{end}" for end in ("_logtree.json", ".html")]


def joined_texts(summaries: Location) -> Joined | None:
    """The texts of the rollouts in a file of summaries; None where there is no logtree beside it."""
    for name in _logtree_names(summaries.name):
        try:
            logtree = state_of(summaries.parent / name)
        except FileNotFoundError:
            continue
        except OSError as error:
            return Joined({}, _unusable(name, error))
        try:
            return _joined(state_of(summaries), logtree)
        except OSError as error:
            return Joined({}, _unusable(summaries.name, error))
    return None


def _unusable(name: str, error: Exception) -> str:
    return f"{name} can't be read: {str(error)[:120]}"


@lru_cache(maxsize=4)
def _joined(summaries: State, logtree: State) -> Joined:
    """The texts of files in this state. Raises OSError."""
    path, size, *_ = logtree
    try:
        if size > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MB")
        page = read_logtree(read_bytes(path, 0, size), html=path.name.endswith(".html"))
    except (ValueError, RecursionError) as error:
        return Joined({}, _unusable(path.name, error))
    groups = _groups(summaries[0])
    sections = [section for section in page.below() if section.named(_DETAILS).title]
    return Joined(
        {
            (number, index): texts
            for number, section in _matched(groups, sections)
            for index, texts in texts_of(section, groups[number]).items()
        }
    )


def _groups(path: Location) -> dict[int, dict[int, _Row]]:
    """The summaries by group_idx and traj_idx; of lines that can't be read none."""
    groups: dict[int, dict[int, _Row]] = {}
    for line in read_lines(path):
        try:
            row, _ = parse_whole(line.text or b"")
        except RecordError:
            continue
        group, index = row.get("group_idx"), row.get("traj_idx")
        if isinstance(group, int) and isinstance(index, int):
            groups.setdefault(group, {})[index] = row
    return groups


def _matched(
    groups: Mapping[int, Mapping[int, _Row]], sections: Sequence[Section]
) -> list[tuple[int, Section]]:
    """The sections whose group is known for certain."""
    of_groups: dict[int, _Signature] = {
        number: tuple((index, _of_row(rows[index])) for index in sorted(rows))
        for number, rows in groups.items()
    }
    of_sections = [_of_section(section) for section in sections]
    in_order = sorted(of_groups)[: len(sections)]
    splits = {str(row.get("split")) for rows in groups.values() for row in rows.values()}
    is_evaluation = all(split.startswith("eval") for split in splits)
    if is_evaluation and [of_groups[n] for n in in_order] == of_sections:
        return list(zip(in_order, sections, strict=True))
    seen = Counter(of_groups.values()), Counter(of_sections)
    by_signature = {signature: number for number, signature in of_groups.items()}
    return [
        (by_signature[signature], section)
        for signature, section in zip(of_sections, sections, strict=True)
        if seen[0][signature] == seen[1][signature] == 1 and signature
    ]


def _of_row(row: _Row) -> _Signature:
    """What the summaries say of a trajectory, as its section would."""
    turns = [
        (
            *(str(step.get("ob_len")), str(step.get("ac_len")), as_logged(step.get("reward"))),
            tuple(sorted((k, as_logged(v)) for k, v in as_object(step.get("metrics")).items())),
        )
        for step in steps_of(row)
    ]
    return (*turns, str(row.get("final_ob_len")), as_logged(row.get("final_reward")))


def _of_section(section: Section) -> _Signature:
    signatures: dict[int, _Signature] = {}
    for episode in section.named(_DETAILS).sections:
        inner = episode.named("Episode Details")
        index = episode.title.removeprefix("Trajectory ").removesuffix(" Episode")
        totals = inner.table
        turns = (*map(_of_turn, inner.sections), totals.get("final_ob_len"))
        if index.isdecimal():
            signatures[int(index)] = (int(index), (*turns, totals.get("final_group_reward")))
    return tuple(signatures[index] for index in sorted(signatures))


def _of_turn(turn: Section) -> _Signature:
    values = tuple(turn.table.get(key) for key in ("ob_len", "ac_len", "step_reward"))
    return (*values, tuple(sorted(turn.named("Step Metrics").table.items())))
