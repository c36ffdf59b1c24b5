"""Logtrees of Tinker cookbook: what an environment told of its rollouts, as sections of a page.

Read from thinking-machines-lab/tinker-cookbook@9dfcc3a tinker_cookbook/utils/{logtree,
logtree_formatters}.py and tinker_cookbook/rl/{rollouts,problem_env,preference_envs}.py. A logtree is
written twice: as JSON (`{base}_logtree.json`, a tree of {tag, attrs, children, data?} whose texts are
escaped as in HTML) and as the page itself (`{base}.html`). Conversations are `data` of a node; before
438a2ea (March 2026) they were HTML within the JSON. Nothing of HTML is ever shown as such.

Which trajectory of a group a text is: by its index where the section tells it (completions that are
compared with each other; before 438a2ea each rollout's own section). Else prompt and response stand in
the order in which concurrent rollouts ended, without an index or a number of tokens. The only text of the
only trajectory is its own. Of several a text is joined by what is told below it (reward, its parts, how
it ended), where one text and one trajectory alone have it, or where all that have it are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from numbers import Real
from typing import Any, Final

import orjson

from board.formats.messages import Message
from board.formats.parse import as_list, as_object, is_object, object_at, objects_in

MOST_DEPTH: Final = 200
_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})
_UNSEEN: Final = frozenset({"head", "script", "style"})
_PROMPT: Final = "Prompt"
_FLAGS: Final = {
    "correct": "correct",
    "format_valid": "format",
    "emotion_correct": "emotion_correct",
}
"""From what a reward's table tells to the metric of the step that says so."""


@dataclass(slots=True)
class Section:
    """A section of a logtree: what stands in it, in order of each kind.

    conversations: lists of chat messages. tables: of two columns, by the first. texts: paragraphs.
    """

    title: str = ""
    conversations: list[list[Message]] = field(default_factory=list[list[Message]])
    tables: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    texts: list[str] = field(default_factory=list[str])
    sections: list[Section] = field(default_factory=list["Section"])

    def named(self, title: str) -> Section:
        """The first section right below of that title; an empty one where there is none."""
        return next((section for section in self.sections if section.title == title), Section())

    @property
    def table(self) -> Mapping[str, str]:
        """The first table; an empty one where there is none."""
        return self.tables[0] if self.tables else {}

    @property
    def conversation(self) -> Sequence[Message]:
        """The first conversation; an empty one where there is none."""
        return self.conversations[0] if self.conversations else ()

    def below(self) -> Iterator[Section]:
        """All sections below, each before those in it."""
        for section in self.sections:
            yield section
            yield from section.below()


@dataclass(slots=True)
class _Node:
    """An element. children: elements, and texts without their escapes."""

    tag: str
    classes: frozenset[str] = frozenset()
    children: list[_Node | str] = field(default_factory=list["_Node | str"])
    messages: list[Message] | None = None

    def nodes(self) -> list[_Node]:
        return [child for child in self.children if isinstance(child, _Node)]

    def all_nodes(self) -> Iterator[_Node]:
        """All elements below, in reading order."""
        for node in self.nodes():
            yield node
            yield from node.all_nodes()

    def text(self) -> str:
        if self.tag in _UNSEEN:
            return ""
        return "".join(c if isinstance(c, str) else c.text() for c in self.children)


def read_logtree(content: bytes, *, html: bool) -> Section:
    """The page as a section without a title. Raises ValueError or RecursionError where it is none."""
    if html:
        root = _of_html(content.decode("utf-8", "replace"))
    else:
        tree = as_object(orjson.loads(content)).get("root")
        if not is_object(tree):
            raise ValueError("it has no root")
        root = _of_json(tree, 0)
    page = Section()
    _fill(page, root)
    return page


def _of_json(node: Mapping[str, Any], depth: int) -> _Node:
    if depth > MOST_DEPTH:
        raise ValueError(f"it is nested deeper than {MOST_DEPTH} levels")
    classes = object_at(node, "attrs").get("class")
    made = _Node(str(node.get("tag")), frozenset(str(classes or "").split()))
    for child in as_list(node.get("children")):
        if is_object(child):
            made.children.append(_of_json(child, depth + 1))
        elif isinstance(child, str):
            made.children += _of_html(child).children
    if is_object(data := node.get("data")):
        made.messages = [_of_parts(message) for message in objects_in(data.get("messages"))]
    return made


def _of_parts(message: Mapping[str, Any]) -> Message:
    """A message of the cookbook as a chat message: thoughts and calls stand beside the content."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    parts = objects_in(message["content"])
    thoughts = [str(part.get("thinking")) for part in parts if part.get("type") == "thinking"]
    calls = [part.get("tool_call") for part in parts if part.get("type") == "tool_call"]
    others = [part for part in parts if part.get("type") not in ("thinking", "tool_call")]
    # Of a call that could not be parsed: as the model wrote it.
    texts: list[Any] = [part.get("text", part.get("raw_text")) for part in others]
    is_text = all(isinstance(text, str) for text in texts)
    made: dict[str, Any] = {**message, "content": "".join(texts) if is_text else others}
    if thoughts:
        made["reasoning_content"] = "\n".join(thoughts)
    if calls:
        made["tool_calls"] = [*(message.get("tool_calls") or ()), *calls]
    return made


class _Tree(HTMLParser):
    """Builds nodes of HTML. An end without a beginning is passed by, what is left open ends last."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = _Node("")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = _Node(tag, frozenset((dict(attrs).get("class") or "").split()))
        self._open[-1].children.append(node)
        if tag not in _VOID:
            if len(self._open) > MOST_DEPTH:
                raise ValueError(f"it is nested deeper than {MOST_DEPTH} levels")
            self._open.append(node)

    def handle_endtag(self, tag: str) -> None:
        depths = [i for i, node in enumerate(self._open) if node.tag == tag and i]
        if depths:
            del self._open[depths[-1] :]

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


def _of_html(text: str) -> _Node:
    if "<" not in text and "&" not in text:
        return _Node("", children=[text])
    tree = _Tree()
    tree.feed(text)
    tree.close()
    return tree.root


def _fill(section: Section, node: _Node) -> None:
    """Puts what stands in a node into the section that it is in."""
    for child in node.nodes():
        if child.tag == "section":
            inner = Section()
            _fill(inner, child)
            section.sections.append(inner)
        elif child.messages is not None:
            section.conversations.append(child.messages)
        elif "lt-conversation" in child.classes:
            section.conversations.append([_message_of(m) for m in _having(child, "lt-message")])
        elif child.tag == "table":
            rows = [
                [cell.text() for cell in row.nodes() if cell.tag == "td"]
                for row in child.all_nodes()
                if row.tag == "tr"
            ]
            section.tables.append({row[0]: row[1] for row in rows if len(row) == 2})
        elif child.tag == "p":
            section.texts.append(child.text())
        elif re.fullmatch(r"h[1-6]", child.tag):
            section.title = section.title or child.text().strip()
        elif child.tag not in _UNSEEN:
            _fill(section, child)


def _having(node: _Node, name: str) -> list[_Node]:
    return [below for below in node.all_nodes() if name in below.classes]


def _message_of(message: _Node) -> Message:
    """A message of a page as a chat message."""
    role = "".join(node.text() for node in _having(message, "lt-message-role"))
    contents = _having(message, "lt-message-content")[:1]
    parts = [part for content in contents for node in content.nodes() for part in _part(node)]
    return _of_parts({"role": role.strip().removesuffix(":"), "content": parts})


def _part(node: _Node) -> Iterator[dict[str, Any]]:
    code = "".join(below.text() for below in node.all_nodes() if below.tag in ("pre", "code"))
    if "lt-text-part" in node.classes:
        yield {"type": "text", "text": node.text()}
    elif "lt-thinking-part" in node.classes:
        yield {"type": "thinking", "thinking": code}
    elif "lt-tool-call-part" in node.classes:
        name, _, arguments = code.partition("(")
        call = {"name": name, "arguments": arguments.removesuffix(")")}
        yield {"type": "tool_call", "tool_call": {"function": call}}
    elif "lt-image-part" in node.classes:
        yield {"type": "image"}
    elif code:
        yield {"type": "text", "text": code}


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


def steps_of(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps of a trajectory."""
    return objects_in(row.get("steps"))


def as_logged(value: object) -> str:
    """A value as the logtree tells it: numbers with three decimals."""
    return f"{float(value):.3f}" if isinstance(value, Real) else str(value)


def texts_of(section: Section, rows: Mapping[int, Mapping[str, Any]]) -> dict[int, Texts]:
    """By traj_idx what is known of the texts of a group's trajectories."""
    compared = section.named("compute_group_rewards")
    if any(inner.title.startswith("Completion ") for inner in compared.sections):
        prompt = compared.named(_PROMPT).conversation
        return {i: Texts(prompt, compared.named(f"Completion {i}").conversation) for i in rows}
    own = [inner for inner in section.sections if inner.title == "do_single_rollout"]
    own = [section] if len(own) != len(rows) == 1 else own
    if own and len(own) == len(rows):
        return {
            index: _of_one(inner, rows[index])
            for index, inner in zip(sorted(rows), own, strict=True)
        }
    if attempts := _attempts(section):
        return _of_several(attempts, rows)
    problems = set(_after_name(section.texts, "Problem"))
    same = [{"role": "user", "content": problems.pop()}] if len(problems) == 1 else ()
    return dict.fromkeys(rows, Texts(same))


def _after_name(paragraphs: Sequence[str], name: str) -> list[str]:
    """What paragraphs tell under a name."""
    start = f"{name}: "
    return [text.removeprefix(start) for text in paragraphs if text.startswith(start)]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A response, the prompt right before it, the reward's table right after it, and how it ended."""

    prompt: Sequence[Message]
    response: Sequence[Message]
    reward: Mapping[str, str]
    termination: str | None = None


def _attempts(section: Section) -> list[_Attempt]:
    inner = [Section(), *section.sections, Section()]
    attempts: list[_Attempt] = []
    for before, response, after in zip(inner, inner[1:], inner[2:], strict=False):
        if response.title == "Policy Response":
            prompt = before.conversation if before.title == _PROMPT else ()
            reward = (after if after.title.startswith("Reward") else Section()).table
            ended = _after_name(
                response.texts, "Termination"
            )  # how it ended, as its step's logs say
            messages = response.conversation
            if not messages and len(response.texts) == 1:  # it is told as a paragraph
                messages = [{"role": "assistant", "content": response.texts[0]}]
            attempts.append(_Attempt(prompt, messages, reward, ended[0] if ended else None))
    return attempts


def _of_one(section: Section, row: Mapping[str, Any]) -> Texts:
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
    problem, response = _after_name(paragraphs, "Problem"), _after_name(paragraphs, "Response")
    if len(problem) != 1 or len(response) != 1:
        return Texts(paragraphs=paragraphs)
    given = [{"role": "user", "content": problem[0]}]
    return Texts(given, [{"role": "assistant", "content": response[0]}])


def _of_several(
    attempts: Sequence[_Attempt], rows: Mapping[int, Mapping[str, Any]]
) -> dict[int, Texts]:
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


def _fits(attempt: _Attempt, row: Mapping[str, Any]) -> bool:
    """Whether nothing that is told of an attempt is another's than this trajectory's."""
    (step,) = steps_of(row)
    metrics = as_object(step.get("metrics"))
    expected = {
        "reward": as_logged(step.get("reward")),
        "total_reward": as_logged(step.get("reward")),
        **{name: str(bool(metrics[key])) for name, key in _FLAGS.items() if key in metrics},
        **({"wer": as_logged(metrics["wer"])} if "wer" in metrics else {}),
    }
    ended = as_object(step.get("logs")).get("termination")
    if None not in (ended, attempt.termination) and ended != attempt.termination:
        return False
    return all(attempt.reward.get(name, value) == value for name, value in expected.items())
