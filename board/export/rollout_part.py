"""One rollout on a page: its facts, what it was given, what it answered, and its largest tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from board.analysis.rollout import OpenRollout
from board.core.metrics.shares import NOT_RECORDED, number
from board.core.texts.conversation import (
    Block,
    ConversationTurn,
    arguments_text,
    conversation_of,
)
from board.core.tokens.pieces import joined
from board.export.page_text import html
from board.export.rollout_facts import TEXTS, has_text, has_value, notes_of, place_of, scores_of
from board.export.sheet import Room, Sheet
from board.export.token_markup import (
    Tokens,
    largest_tokens,
    legend,
    token_turns,
    tokens_of,
    turn_markup,
)
from board.query.open_run import Run

_IDS: Final = ("group_id", "env", "split", "policy_version", "finish_reason", "rollout_id")
_NOTE_BYTES: Final = 300
"""For what is said of a text that is cut."""
_FRAME_BYTES: Final = 400
"""Of what stands around a turn or a block: role, name, error, seconds."""


@dataclass(frozen=True, slots=True)
class Address:
    """A rollout. position: of the token that something is said about; None for the whole rollout. metric:
    the token metric that it is about, empty for none.
    """

    step: int
    index: int
    position: int | None = None
    metric: str = ""

    @property
    def anchor(self) -> str:
        """The id of its part of the page."""
        return f"r{self.step}-{self.index}"

    @property
    def words(self) -> str:
        """Its name."""
        return f"Step {self.step}, rollout {self.index}"


def shows_tokens(opened: OpenRollout) -> bool:
    """Whether it is shown token by token: not where ids that nothing decodes stand beside a text."""
    return bool(opened.tokens) and not (opened.tokens_are_ids and has_text(opened))


def rollout_markup(
    sheet: Sheet,
    run: Run,
    opened: OpenRollout,
    address: Address,
    room: Room,
    metric: str | None = None,
) -> str:
    """A part of the page about one rollout. room: what it may take; texts are cut there, and it says so.

    metric: that of the colours, in place of the address's; the first one where the rollout has neither.
    """
    row = run.row(address.step, address.index)
    parts = [f"<section id={address.anchor}><h2>{address.words}</h2>"]
    parts += [facts_markup(sheet, row, place_of(run, row)), notes_markup(sheet, opened)]
    room.take("".join(parts))
    conversation = conversation_on(sheet, opened)
    parts += prompt_markup(sheet, conversation, room)
    if shows_tokens(opened):
        tokens = tokens_of(sheet, opened, metric or address.metric)
        parts += _tokens(sheet, tokens, address, room)
    else:
        turns = [turn for turn in conversation if not turn.given]
        parts += ["<h3>Response</h3>", *_turns(sheet, turns, room)]
    parts += _own_texts(sheet, opened, room)
    return "".join((*parts, "</section>"))


def prompt_markup(
    sheet: Sheet, conversation: Sequence[ConversationTurn], room: Room
) -> Iterator[str]:
    """What was there before the response; nothing where that is not recorded."""
    if given := [turn for turn in conversation if turn.given]:
        yield "<h3>Prompt</h3>"
        yield from _turns(sheet, given, room)


def _tokens(sheet: Sheet, tokens: Tokens, address: Address, room: Room) -> Iterator[str]:
    table, anchors = largest_tokens(sheet, tokens, lambda place: f"{address.anchor}-{place}")
    if address.position is not None:
        anchors[address.position] = f"{address.anchor}-{address.position}"
    yield room.take(f"<h3>Response</h3>{legend(sheet, tokens)}{table}")
    yield token_turns(sheet, tokens, room, anchors, evidence=address.position)


def _own_texts(sheet: Sheet, opened: OpenRollout, room: Room) -> Iterator[str]:
    for name, title in TEXTS.items():
        if name in opened.record.texts:
            text = sheet.redaction.text(opened.record.texts[name])
            yield f"<h3>{title}</h3>{_pre(text, room, title.lower())}"


def facts_markup(sheet: Sheet, row: Mapping[str, Any], place: str) -> str:
    """What is recorded of reward, lengths, ending and group. place: in the log, a text."""
    pairs: list[tuple[str, str, str]] = []
    if not has_value(row, "reward"):
        pairs.append(("reward", NOT_RECORDED, ""))
    for metric, value in scores_of(row):
        words = f"{number(value, metric.unit)} {sheet.line(metric.unit_after_label, 20)}".rstrip()
        pairs.append((sheet.line(metric.label, 60), words, sheet.line(metric.formula, 300)))
    if row.get("is_truncated") == 1:
        pairs.append(("truncated", "yes", "The response was cut off before it ended."))
    ids = [name for name in _IDS if has_value(row, name) and str(row[name])]
    pairs += [(name.replace("_", " "), sheet.line(row[name], 60), "") for name in ids]
    pairs.append(("in the log", sheet.line(place), ""))
    return "<dl>" + "".join(map(_fact, pairs)) + "</dl>"


def _fact(pair: tuple[str, str, str]) -> str:
    label, value, explained = pair
    title = f' title="{explained}"' if explained else ""
    return f"<div{title}><dt>{label}</dt><dd>{value}</dd></div>"


def notes_markup(sheet: Sheet, opened: OpenRollout) -> str:
    """What was wrong with the record."""
    return "".join(f"<p class=note>{sheet.line(note, 400)}</p>" for note in notes_of(opened))


def conversation_on(sheet: Sheet, opened: OpenRollout) -> list[ConversationTurn]:
    """The turns that the page shows; of a rollout that is shown token by token those before its response.

    Their texts are redacted before they are cut into turns: a match may go over a border.
    """
    record, redaction = opened.record, sheet.redaction
    texts = {n: record.texts[n] for n in ("prompt", "response") if n in record.texts}
    if shows_tokens(opened):
        texts.pop("response", None)  # its tokens say it
        if opened.prompt_tokens is not None:
            texts["prompt"] = joined(opened.prompt_tokens)
    texts = {name: redaction.text(text) for name, text in texts.items()}
    messages = [redaction.value(message) for message in record.messages]
    if shows_tokens(opened) and "prompt" in texts:
        messages = []
    return conversation_of(messages, texts)


def _turns(sheet: Sheet, turns: Sequence[ConversationTurn], room: Room) -> list[str]:
    parts: list[str] = []
    for place, turn in enumerate(turns):
        if room.left < _FRAME_BYTES:
            words = f"{len(turns) - place:,} of {len(turns):,} turns"
            room.cut.append(words)
            parts.append(f"<p class=note>{words} are left out.</p>")
            break
        blocks = "".join(_blocks(sheet, turn, room))
        seconds = "" if turn.seconds is None else f"{number(turn.seconds)} s"
        room.spend(_FRAME_BYTES)
        parts.append(turn_markup(sheet, turn.role, turn.name, blocks, seconds))
    return parts or ["<p class=mute>No text is recorded.</p>"]


def _blocks(sheet: Sheet, turn: ConversationTurn, room: Room) -> Iterator[str]:
    for rank, block in enumerate(turn.blocks):
        if rank and room.left < _FRAME_BYTES:
            room.cut.append("the rest of a turn")
            yield "<p class=note>The rest of this turn is left out.</p>"
            return
        room.spend(_FRAME_BYTES)
        yield _block(sheet, block, room, "" if turn.given else "response")
        if rank in turn.results:
            room.spend(_FRAME_BYTES)
            yield _result(sheet, turn.results[rank], room)


def _block(sheet: Sheet, block: Block, room: Room, name: str) -> str:
    """name: the class of a text; what was given scrolls where it is long, a response does not."""
    text = sheet.redaction.text(block.text)
    match block.kind:
        case "reasoning":
            return f"<p class=mute>thought</p>{_pre(text, room, 'reasoning', 'thought')}"
        case "call":
            named = f"<p><b>call {sheet.line(block.name, 80)}</b> {sheet.line(block.error)}</p>"
            # Before they are written as JSON, which escapes signs, and after: keys may match too.
            arguments = _written_arguments(sheet.redaction.value(block.arguments))
            return named + _pre(sheet.redaction.text(arguments), room, "arguments of a call")
        case "result":
            return _result(sheet, block, room)
        case "image":
            return f"<p class=mute>[image: {sheet.line(block.text, 80)}]</p>"
        case _:
            return _pre(text, room, "text", name)


def _result(sheet: Sheet, block: Block, room: Room) -> str:
    own = "failed" if block.error else "tool"
    seconds = "" if block.seconds is None else f"{number(block.seconds)} s"
    words = ", ".join(filter(None, (sheet.line(block.error), seconds)))
    text = _pre(sheet.redaction.text(block.text), room, "result of a tool")
    name = f" · {sheet.line(block.name, 60)}" if block.name else ""
    return (
        f'<div class="turn {own}"><b>result{name}</b> <span class=mute>{words}</span>{text}</div>'
    )


def _written_arguments(arguments: Any) -> str:
    """Arguments of a call: texts of several lines as they are, anything else as JSON."""
    if isinstance(arguments, Mapping):
        texts = {k: v for k, v in arguments.items() if isinstance(v, str) and "\n" in v.strip()}
        if texts:
            rest = {k: v for k, v in arguments.items() if k not in texts}
            own = [arguments_text(rest)] if rest else []
            return "\n".join((*own, *(f"{name}:\n{text}" for name, text in texts.items())))
    return arguments_text(arguments)


def _pre(text: str, room: Room, what: str, name: str = "") -> str:
    """A redacted text as it is, cut where there is no room for more. what: it is, in words."""
    fitting, note = fitted(text, room), ""
    if left_out := len(text) - len(fitting):
        room.cut.append(f"{left_out:,} of {len(text):,} characters of the {what}")
        note = f"<p class=note>{left_out:,} characters more are left out.</p>"
    own = f" class={name}" if name else ""
    return room.take(f"<pre{own}>{html(fitting)}</pre>{note}")


def fitted(text: str, room: Room) -> str:
    """As much of the beginning of a text as there is room for."""
    size = len(html(text).encode())
    if size <= room.left:
        return text
    return text[: int(len(text) * max(room.left - _NOTE_BYTES, 0) / size)]
