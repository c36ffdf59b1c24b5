"""Which texts of a logtree are whose: summaries of rollouts joined with what environments told of them.

Read from thinking-machines-lab/tinker-cookbook@9dfcc3a tinker_cookbook/rl/{rollouts,metric_util,train,
problem_env,preference_envs}.py. Only the first groups of an iteration are told of, each in a section.

- Which group a section is: it tells lengths, rewards and metrics of each trajectory by its index, and so
  do the summaries. A section is joined with the one group whose trajectories have exactly these; where
  two groups or two sections have the same, none is. Positions tell nothing of a training iteration, whose
  groups stand in the summaries in the order in which they ended; those of an evaluation stand in the
  order in which they began, as their sections do, and are joined so where all of them agree.
- Which trajectory a text is: by its index where the section tells it (completions that are compared with
  each other; before 438a2ea, March 2026, each rollout's own section). Else prompt and response stand in
  the order in which concurrent rollouts ended, without an index or a number of tokens. The only text of
  the only trajectory is its own. Of several a text is joined by what is told below it (reward, its parts,
  how it ended), where one text and one trajectory alone have it, or where all that have it are the same.

What can't be told apart is not recorded; the texts that may be a rollout's own are kept beside it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Real
from pathlib import Path
from typing import Any, Final, cast

from board.errors import RecordError
from board.formats.frameworks.tinker_logtree import Section, read_logtree
from board.formats.io.lines import read_lines
from board.formats.io.locations import (
    Location,
    Objects,
    State,
    existing_file,
    open_binary,
    state_of,
)
from board.formats.messages import Message
from board.formats.parse import as_object, parse_whole

_SUMMARIES: Final = "_rollout_summaries.jsonl"
_MOST_BYTES: Final = 128 << 20
_DETAILS: Final = "Trajectory Details"
_ROLLOUT: Final = "do_single_rollout"
_COMPARED: Final = "compute_group_rewards"
_PROMPT: Final = "Prompt"
_RESPONSE: Final = "Policy Response"

_Row = Mapping[str, Any]
_Signature = tuple[object, ...]
Key = tuple[int, int]
"""group_idx and traj_idx of a rollout."""


@dataclass(frozen=True, slots=True)
class Texts:
    """What a logtree has of a rollout. prompt, response: messages; empty: not known.

    candidates: responses of which one is the rollout's own. paragraphs: of a section with nothing else.
    """

    prompt: Sequence[Message] = ()
    response: Sequence[Message] = ()
    candidates: Sequence[Sequence[Message]] = ()
    paragraphs: Sequence[str] = ()
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """The texts of the rollouts of one file of summaries; error: why there are none."""

    texts: Mapping[Key, Texts]
    error: str = ""


def logtree_of(summaries: Location, objects: Objects) -> Location | None:
    """The logtree beside a file of summaries, as JSON, or else as a page; None: there is none."""
    names = _logtree_names(summaries.name)
    files = (existing_file(summaries.parent / name, objects) for name in names)
    return next((file for file in files if file is not None), None)


def _logtree_names(summaries: str) -> Sequence[str]:
    if not summaries.endswith(_SUMMARIES):
        return ()
    base = summaries.removesuffix(_SUMMARIES)
    return [f"{base}{end}" for end in ("_logtree.json", ".html")]


def joined_texts(summaries: Location) -> Joined | None:
    """The texts of the rollouts in a file of summaries; None where there is no logtree beside it."""
    try:
        logtree = _existing_logtree(summaries)
        return None if logtree is None else _joined(state_of(summaries), state_of(logtree))
    except OSError as error:
        return Joined({}, _unusable(summaries.name, error))


def _existing_logtree(summaries: Location) -> Location | None:
    objects = Objects()
    if not isinstance(summaries, Path):
        names = "|".join(re.escape(name) for name in _logtree_names(summaries.name))
        objects = Objects(summaries.parent.children_named(re.compile(names)))
    return logtree_of(summaries, objects)


def _unusable(name: str, error: Exception) -> str:
    return f"{name} can't be read: {str(error)[:120]}"


@lru_cache(maxsize=4)
def _joined(summaries: State, logtree: State) -> Joined:
    """The texts of files in this state. Raises OSError."""
    path, size, *_ = logtree
    try:
        if size > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MB")
        page = read_logtree(_whole(path, size), html=path.name.endswith(".html"))
        sections = [section for section in page.below() if section.named(_DETAILS) is not None]
    except (ValueError, RecursionError) as error:
        return Joined({}, _unusable(path.name, error))
    groups = _groups(summaries[0])
    return Joined(
        {
            (number, index): texts
            for number, section in _matched(groups, sections)
            for index, texts in _texts_of(section, groups[number]).items()
        }
    )


def _whole(location: Location, size: int) -> bytes:
    if not isinstance(location, Path):
        return location.read(0, size)
    with open_binary(location) as file:
        return file.read()


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
    of_groups = {number: _of_group(rows) for number, rows in groups.items()}
    of_sections = [_of_section(section) for section in sections]
    in_order = sorted(of_groups)[: len(sections)]
    if _is_evaluation(groups) and [of_groups[n] for n in in_order] == of_sections:
        return list(zip(in_order, sections, strict=True))
    seen = Counter(of_groups.values()), Counter(of_sections)
    by_signature = {signature: number for number, signature in of_groups.items()}
    return [
        (by_signature[signature], section)
        for signature, section in zip(of_sections, sections, strict=True)
        if seen[0][signature] == seen[1][signature] == 1 and signature
    ]


def _is_evaluation(groups: Mapping[int, Mapping[int, _Row]]) -> bool:
    splits = {str(row.get("split")) for rows in groups.values() for row in rows.values()}
    return all(split.startswith("eval") for split in splits)


def _of_group(rows: Mapping[int, _Row]) -> _Signature:
    """What the summaries say of a group, as its section would."""
    return tuple((index, _of_row(rows[index])) for index in sorted(rows))


def _of_row(row: _Row) -> _Signature:
    turns = [
        (
            *(str(step.get("ob_len")), str(step.get("ac_len")), _as_logged(step.get("reward"))),
            tuple(sorted((k, _as_logged(v)) for k, v in as_object(step.get("metrics")).items())),
        )
        for step in steps_of(row)
    ]
    return (*turns, str(row.get("final_ob_len")), _as_logged(row.get("final_reward")))


def _of_section(section: Section) -> _Signature:
    details = section.named(_DETAILS)
    signatures: dict[int, _Signature] = {}
    for episode in details.sections if details is not None else ():
        inner = episode.named("Episode Details") or Section()
        index = episode.title.removeprefix("Trajectory ").removesuffix(" Episode")
        totals = _first_table(inner)
        turns = (*map(_of_turn, inner.sections), totals.get("final_ob_len"))
        if index.isdecimal():
            signatures[int(index)] = (int(index), (*turns, totals.get("final_group_reward")))
    return tuple(signatures[index] for index in sorted(signatures))


def _of_turn(turn: Section) -> _Signature:
    table = _first_table(turn)
    metrics = _first_table(turn.named("Step Metrics") or Section())
    values = tuple(table.get(key) for key in ("ob_len", "ac_len", "step_reward"))
    return (*values, tuple(sorted(metrics.items())))


def _as_logged(value: object) -> str:
    """A value as the logtree tells it: numbers with three decimals."""
    return f"{float(value):.3f}" if isinstance(value, Real) else str(value)


def _first_table(section: Section) -> Mapping[str, str]:
    return section.tables[0] if section.tables else {}


def steps_of(row: _Row) -> list[dict[str, Any]]:
    """The steps of a trajectory."""
    steps = row.get("steps")
    entries = cast("list[Any]", steps) if isinstance(steps, list) else []
    return [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]


def _texts_of(section: Section, rows: Mapping[int, _Row]) -> dict[int, Texts]:
    """By traj_idx what is known of the texts of a group's trajectories."""
    compared = section.named(_COMPARED)
    if compared is not None and any(s.title.startswith("Completion ") for s in compared.sections):
        return _of_comparison(compared, rows)
    own = [inner for inner in section.sections if inner.title == _ROLLOUT]
    if own and len(own) == len(rows):
        return {
            index: _of_one(inner, rows[index])
            for index, inner in zip(sorted(rows), own, strict=True)
        }
    if len(rows) == 1:
        (index,) = rows
        return {index: _of_one(section, rows[index])}
    attempts = _attempts(section)
    if not attempts:
        return dict.fromkeys(rows, Texts(_problem(section)))
    return _of_several(attempts, rows)


def _problem(section: Section) -> Sequence[Message]:
    """The prompt where paragraphs tell it, the same for each trajectory."""
    start = "Problem: "
    problems = {text.removeprefix(start) for text in section.texts if text.startswith(start)}
    return [{"role": "user", "content": problems.pop()}] if len(problems) == 1 else ()


def _of_comparison(section: Section, rows: Mapping[int, _Row]) -> dict[int, Texts]:
    prompt = _conversation(section.named(_PROMPT))
    responses = {index: _conversation(section.named(f"Completion {index}")) for index in rows}
    return {index: Texts(prompt, response) for index, response in responses.items()}


def _conversation(section: Section | None) -> Sequence[Message]:
    return section.conversations[0] if section is not None and section.conversations else ()


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A response, the prompt that stands right before it, and what tells whose it is: the table of the
    reward that stands right after it, and how it ended.
    """

    prompt: Sequence[Message]
    response: Sequence[Message]
    reward: Mapping[str, str]
    termination: str | None = None


def _attempts(section: Section) -> list[_Attempt]:
    inner = [Section(), *section.sections, Section()]
    attempts: list[_Attempt] = []
    for before, response, after in zip(inner, inner[1:], inner[2:], strict=False):
        if response.title == _RESPONSE:
            prompt = _conversation(before) if before.title == _PROMPT else ()
            reward = _first_table(after if after.title.startswith("Reward") else Section())
            ended = [t.removeprefix(_ENDED) for t in response.texts if t.startswith(_ENDED)]
            messages = _conversation(response) or _plainly(response.texts)
            attempts.append(_Attempt(prompt, messages, reward, ended[0] if ended else None))
    return attempts


def _plainly(texts: Sequence[str]) -> Sequence[Message]:
    """A response that is told as a paragraph."""
    return [{"role": "assistant", "content": texts[0]}] if len(texts) == 1 else ()


def _of_one(section: Section, row: _Row) -> Texts:
    """The texts of a section that has one trajectory's alone."""
    attempts = _attempts(section)
    paragraphs = [text for inner in (section, *section.sections) for text in inner.texts]
    if not attempts or len(attempts) != len(steps_of(row)):
        return _of_paragraphs(paragraphs)
    first, last = attempts[0], attempts[-1]
    if list(last.prompt[: len(first.prompt)]) == list(first.prompt):
        later = last.prompt[len(first.prompt) :]
        return Texts(first.prompt, [*later, *last.response], reference=_reference([last]))
    turns = [message for a in attempts[1:] for message in (*a.prompt, *a.response)]
    return Texts(first.prompt, [*first.response, *turns], reference=_reference([last]))


def _of_paragraphs(paragraphs: Sequence[str]) -> Texts:
    """Paragraphs alone, those called Problem and Response as such where there is one of each."""
    named = {
        name: [text.partition(": ")[2] for text in paragraphs if text.startswith(f"{name}: ")]
        for name in ("Problem", "Response")
    }
    if all(len(texts) == 1 for texts in named.values()):
        return Texts(
            [{"role": "user", "content": named["Problem"][0]}],
            [{"role": "assistant", "content": named["Response"][0]}],
        )
    return Texts(paragraphs=paragraphs)


def _of_several(attempts: Sequence[_Attempt], rows: Mapping[int, _Row]) -> dict[int, Texts]:
    """The texts of trajectories of one step each, by what is told of the rewards."""
    if any(len(steps_of(row)) != 1 for row in rows.values()):
        return dict.fromkeys(rows, Texts())
    same = attempts[0].prompt if all(a.prompt == attempts[0].prompt for a in attempts) else ()
    shared = Texts(same, reference=_reference(attempts))
    by_index: dict[int, Texts] = {}
    for index, row in rows.items():
        fitting = [a for a in attempts if _fits(a, row)]
        rivals = sum(any(_fits(a, other) for a in fitting) for other in rows.values())
        if len({str((a.prompt, a.response)) for a in fitting}) == 1 and len(fitting) == rivals:
            one = fitting[0]
            by_index[index] = Texts(one.prompt, one.response, reference=_reference([one]))
        else:
            by_index[index] = replace(shared, candidates=[a.response for a in fitting])
    return by_index


def _reference(attempts: Sequence[_Attempt]) -> str | None:
    """The answer that all of them were compared with."""
    answers = {attempt.reward.get("reference_answer") for attempt in attempts}
    return answers.pop() if len(answers) == 1 else None


def _fits(attempt: _Attempt, row: _Row) -> bool:
    """Whether nothing that is told of an attempt is another's than this trajectory's."""
    (step,) = steps_of(row)
    metrics = as_object(step.get("metrics"))
    expected = {
        "reward": _as_logged(step.get("reward")),
        "total_reward": _as_logged(step.get("reward")),
        **{name: str(bool(metrics[key])) for name, key in _FLAGS if key in metrics},
        **{name: _as_logged(metrics[name]) for name in _NUMBERS if name in metrics},
    }
    ended = as_object(step.get("logs")).get("termination")
    if None not in (ended, attempt.termination) and ended != attempt.termination:
        return False
    return all(attempt.reward.get(name, value) == value for name, value in expected.items())


_FLAGS: Final = (
    *(("correct", "correct"), ("format_valid", "format")),
    ("emotion_correct", "emotion_correct"),
)
_NUMBERS: Final = ("wer",)
_ENDED: Final = "Termination: "
"""How a paragraph begins that says how the response ended, as its step's logs do."""
