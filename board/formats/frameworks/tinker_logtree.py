"""Logtrees of Tinker cookbook: what an environment told of its rollouts, as sections of a page.

Read from thinking-machines-lab/tinker-cookbook@9dfcc3a tinker_cookbook/utils/{logtree,
logtree_formatters}.py. A logtree is written twice: as JSON (`{base}_logtree.json`, a tree of {tag, attrs,
children, data?} whose texts are escaped as in HTML) and as the page itself (`{base}.html`). Conversations
are `data` of a node; before 438a2ea (March 2026) they were HTML within the JSON. Of HTML only the names
of tags, their classes and their text are taken, by the standard library's parser; nothing of it is ever
shown as HTML.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final, cast

import orjson

from board.formats.messages import Message

MOST_DEPTH: Final = 200
_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})
_UNSEEN: Final = frozenset({"head", "script", "style"})
_HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})


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

    def named(self, title: str) -> Section | None:
        """The first section right below of that title."""
        return next((section for section in self.sections if section.title == title), None)

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
        parts = (c if isinstance(c, str) else c.text() for c in self.children)
        return "" if self.tag in _UNSEEN else "".join(parts)


def read_logtree(content: bytes, *, html: bool) -> Section:
    """The page as a section without a title. Raises ValueError or RecursionError where it is none."""
    if html:
        root = _of_html(content.decode("utf-8", "replace"))
    else:
        parsed: object = orjson.loads(content)
        tree = cast("dict[str, Any]", parsed).get("root") if isinstance(parsed, dict) else None
        if not isinstance(tree, dict):
            raise ValueError("it has no root")
        root = _of_json(cast("dict[str, Any]", tree), 0)
    page = Section()
    _fill(page, root)
    return page


def _of_json(node: Mapping[str, Any], depth: int) -> _Node:
    if depth > MOST_DEPTH:
        raise ValueError(f"it is nested deeper than {MOST_DEPTH} levels")
    attributes: object = node.get("attrs")
    classes = (
        cast("dict[str, Any]", attributes).get("class") if isinstance(attributes, dict) else ""
    )
    made = _Node(str(node.get("tag")), frozenset(str(classes or "").split()))
    children = node.get("children")
    for child in cast("list[Any]", children) if isinstance(children, list) else []:
        if isinstance(child, dict):
            made.children.append(_of_json(cast("dict[str, Any]", child), depth + 1))
        elif isinstance(child, str):
            made.children += _of_html(child).children
    data = node.get("data")
    if isinstance(data, dict):
        entries = cast("dict[str, Any]", data).get("messages")
        messages = cast("list[Any]", entries) if isinstance(entries, list) else []
        made.messages = [
            _of_parts(cast("dict[str, Any]", m)) for m in messages if isinstance(m, dict)
        ]
    return made


def _of_parts(message: Mapping[str, Any]) -> Message:
    """A message of the cookbook as a chat message: thoughts and calls stand beside the content."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    parts = [cast("dict[str, Any]", p) for p in cast("list[Any]", content) if isinstance(p, dict)]
    thoughts = [str(part.get("thinking")) for part in parts if part.get("type") == "thinking"]
    calls = [part.get("tool_call") for part in parts if part.get("type") == "tool_call"]
    text_parts = [part for part in parts if part.get("type") not in ("thinking", "tool_call")]
    texts = [text for part in text_parts if isinstance(text := _text_of(part), str)]
    made: dict[str, Any] = {**message, "content": text_parts}
    if len(texts) == len(text_parts):
        made["content"] = "".join(texts)
    if thoughts:
        made["reasoning_content"] = "\n".join(thoughts)
    if calls:
        made["tool_calls"] = [*(message.get("tool_calls") or ()), *calls]
    return made


def _text_of(part: Mapping[str, Any]) -> object:
    """The text of a part; of a call that could not be parsed as the model wrote it."""
    return part.get("text", part.get("raw_text"))


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
            section.tables.append(_table(child))
        elif child.tag == "p":
            section.texts.append(child.text())
        elif child.tag in _HEADINGS:
            section.title = section.title or child.text().strip()
        elif child.tag not in _UNSEEN:
            _fill(section, child)


def _table(table: _Node) -> dict[str, str]:
    rows = [
        [cell.text() for cell in row.nodes() if cell.tag == "td"]
        for row in table.all_nodes()
        if row.tag == "tr"
    ]
    return {row[0]: row[1] for row in rows if len(row) == 2}


def _having(node: _Node, name: str) -> list[_Node]:
    return [below for below in node.all_nodes() if name in below.classes]


def _message_of(message: _Node) -> Message:
    """A message of a page as a chat message."""
    role = "".join(node.text() for node in _having(message, "lt-message-role"))
    parts: Sequence[_Node] = [
        part for content in _having(message, "lt-message-content")[:1] for part in content.nodes()
    ]
    return _of_parts(
        {
            "role": role.strip().removesuffix(":"),
            "content": [part for node in parts for part in _part(node)],
        }
    )


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
