"""Records, or the columns that a reader makes of many lines -> rows of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import pyarrow as pa

from board.core.arrays import FloatArray
from board.core.metrics.aggregate import NEEDED
from board.core.metrics.definitions import ROLLOUT_METRICS, base_name
from board.core.records import NumberArray, Record, Remark, Sparse
from board.core.schema import TOPK_FIELDS
from board.core.texts.tool_use import ToolUse, tool_use
from board.core.texts.turns import may_hold_turns
from board.core.tokens.pieces import joined
from board.core.tokens.vocabulary import Vocabulary, id_texts
from board.errors import RecordError
from board.formats.columns import FieldColumns, Values
from board.formats.failures.any_field import failure_of_fields, failures_of_columns
from board.formats.messages import message_text, message_texts, role_texts
from board.formats.number_arrays import (
    first_values,
    last_values,
)
from board.formats.outputs.answered_calls import (
    AnsweredCall,
    ToolOutputs,
    tool_outputs,
    tool_outputs_in_text,
    tool_outputs_in_texts,
)
from board.index import segments
from board.index.reading import own_tokens
from board.index.reading.cells import PREVIEW_CHARS, cells_of
from board.index.segments import PROMPT_KEY, TOKEN_ROLES, WHOLE
from board.index.whole_texts import (
    TEXTS,
    ids_may_hold_turns,
    key_of_ids,
    key_of_text,
    may_have_token_roles,
    stored_messages,
    whole_text,
)

CUT_SIGN: Final = "…"
PREVIEW_TOKENS: Final = 80
_WITHOUT_PREVIEW: Final = ("ref_response", "ground_truth")
_RESERVED: Final = segments.FIXED.union(
    (*ROLLOUT_METRICS, *map(base_name, ROLLOUT_METRICS), "index"),
    (*segments.CAUSE_COLUMNS, *segments.LABEL_COLUMNS, segments.FAILED_TOOLS),
)
"""Columns the board fills itself."""


def column_name(key: str) -> str:
    """The column of a key of the log: `logged.KEY` where the board has another column of that name."""
    return f"logged.{key}" if key in _RESERVED else key


_TOOL_COLUMNS: Final = (*segments.TURN_COLUMNS, segments.TOOLS)
_LAST: Final = (segments.LAST_OUTPUT, segments.LAST_OUTPUT_KEY, segments.LAST_TOOL)
_CALLS: Final = (segments.CALLS, segments.CALL_SHAPES, segments.ANSWERS)
_OUTPUTS: Final = (*_LAST, *_CALLS, segments.ENDS)


def _outputs(rollouts: FieldColumns) -> Values:
    """The ToolOutputs of each rollout: of its messages, else in its response."""
    responses = rollouts.texts.get("response")
    if responses is None:
        return []
    prompts = rollouts.texts.get("prompt") or [None] * len(responses)
    outputs = tool_outputs_in_texts(responses, prompts)
    if rollouts.messages is None or rollouts.outputs is None:
        return outputs
    of_messages = zip(outputs, rollouts.messages, rollouts.outputs, strict=True)
    return [by_text if messages is None else output for by_text, messages, output in of_messages]


def _output_columns(outputs: ToolOutputs | None) -> dict[str, Any]:
    """The columns of the first output of a tool and of the last; none where there is none."""
    row: dict[str, Any] = {}
    if outputs is not None and (last := outputs.last) is not None:
        same = last.normalized
        row |= zip(_LAST, (last.text, key_of_text(same) if same else None, last.tool), strict=True)
    if outputs is not None and outputs.ends:
        row[segments.ENDS] = outputs.ends
    if outputs is not None and outputs.calls:
        row |= zip(_CALLS, zip(*_keys_of_calls(outputs.calls), strict=True), strict=True)
    return row


def _keys_of_calls(calls: Sequence[AnsweredCall]) -> Iterator[tuple[int, int, int]]:
    """Of each call a hash of it and all before it, one of their shapes, and one of its answer."""
    before = shapes_before = 0
    for call in calls:
        before = key_of_text(f"{before}\n{call.call}")
        shapes_before = key_of_text(f"{shapes_before}\n{call.shape}")
        yield before, shapes_before, key_of_text(call.output)


def _tool_columns(use: ToolUse | None) -> dict[str, Any]:
    """The columns of turns and tools. Without any call or result that of calls is empty: whether there
    are tools at all is for the run to say.
    """
    if use is None:
        return {}
    calls, answered = sum(use.calls.values()), sum(use.answered.values())
    tools = [
        {
            "tool": tool,
            "calls": n,
            "answered": use.answered.get(tool, 0),
            "errors": use.errors.get(tool, 0),
        }
        for tool, n in use.calls.items()
    ]
    errors = sum(use.errors.values()) if answered else None
    return {
        "turns": use.turns,
        "tool_calls": calls or None,
        "tool_errors": errors,
        segments.TOOLS: tools or None,
    }


def preview(text: str | None) -> str | None:
    """The first characters of a text."""
    if text is None or len(text) <= PREVIEW_CHARS:
        return text
    return text[: PREVIEW_CHARS - 1] + CUT_SIGN


def row_of(
    record: Record, vocabulary: Vocabulary | None, *, is_joined: bool = False
) -> dict[str, Any]:
    """The table row of a rollout, without location and aggregates; None is not recorded. is_joined:
    whether other logs may say what prompt and response are, so that messages can't be parts of them.

    Raises RecordError where token ids can't be read.
    """
    texts, prompt_ids = record.texts, record.prompt_ids
    row: dict[str, Any] = {
        "step": record.step,
        **record.ids,
        **record.scores,
        "response_tokens": record.response_length,
        "prompt_tokens": None if prompt_ids is None else len(prompt_ids),
        "pad_tokens": record.pad_tokens or None,
        "response_chars": len(texts["response"]) if "response" in texts else None,
        "finish_reason": texts.get("finish_reason"),
        **{WHOLE + name: texts.get(name) for name in _WITHOUT_PREVIEW},
        TOKEN_ROLES: may_have_token_roles(record, vocabulary) or None,
        segments.FAILURE: failure_of_fields(texts, record.extras),
    }
    if record.messages:
        row |= _output_columns(tool_outputs(record.messages, texts.get("prompt") or ""))
        row |= _tool_columns(tool_use(record.messages))
    elif "response" in texts:
        row |= _output_columns(tool_outputs_in_text(texts["response"], texts.get("prompt")))
    prompt, response = whole = [whole_text(record, vocabulary, name) for name in TEXTS]
    for name, begin, text in zip(TEXTS, previews(record, vocabulary), whole, strict=True):
        row |= {name: begin, WHOLE + name: None if text == begin else text}
    if prompt is None and prompt_ids is not None:
        row[PROMPT_KEY] = key_of_ids(prompt_ids)
    if record.messages:
        messages = role_texts(record.messages, message_texts(record.messages))
        within = (None, None) if is_joined else (prompt, response)
        row[segments.MESSAGES] = stored_messages(messages, *within)
    return row


def previews(record: Record, vocabulary: Vocabulary | None) -> tuple[str | None, str | None]:
    """The first characters of prompt and response; decoded from ids where there is no text."""
    prompt, response = map(record.texts.get, TEXTS)
    if prompt is None:
        prompt = _first_of_role("user", record.messages)
    if response is None:
        response = _first_of_role("assistant", reversed(record.messages))
    if response is None and record.response_tokens is not None:
        response = "".join(record.response_tokens[:PREVIEW_TOKENS])
    if prompt is None and record.prompt_ids is not None:
        prompt = prompt_of_ids(record.prompt_ids, vocabulary)
    if response is None and record.response_ids is not None:
        response = response_of_ids(record.response_ids, vocabulary)
    return preview(prompt), preview(response)


def _first_of_role(role: str, messages: Iterable[Mapping[str, Any]]) -> str | None:
    return next((message_text(m) for m in messages if m.get("role") == role), None)


def prompt_of_ids(ids: NumberArray, vocabulary: Vocabulary | None) -> str:
    """The end of a prompt."""
    return _decoded(last_values(ids, PREVIEW_TOKENS), vocabulary)


def response_of_ids(ids: NumberArray, vocabulary: Vocabulary | None) -> str:
    """The beginning of a response."""
    return _decoded(first_values(ids, PREVIEW_TOKENS), vocabulary)


def _decoded(ids: FloatArray, vocabulary: Vocabulary | None) -> str:
    return "".join(vocabulary.texts(ids) if vocabulary else id_texts(ids))


def arrays_for_aggregates(record: Record) -> tuple[dict[str, FloatArray], list[Remark]]:
    """The arrays that aggregates need, all of one length; and which are left out for their length or
    what is in them.
    """
    lengths = {name: len(record.tokens[name]) for name in NEEDED if name in record.tokens}
    if not lengths:
        return {}, []
    counts = Counter(lengths.values())
    common = max(
        lengths, key=lambda name: counts[lengths[name]]
    )  # the first of the commonest length
    length = lengths[common]
    arrays: dict[str, FloatArray] = {}
    remarks: list[Remark] = []
    for name in ("loss_mask", *lengths):
        array = record.tokens.get(name)
        if array is None:
            continue
        try:
            if len(array) == length:
                # The tokens in the loss are those that such an array has values for.
                arrays[name] = array.filled() if isinstance(array, Sparse) else array.values()
                continue
            # The lengths themselves go into the hint: problems are folded by their reason.
            reason = f"{name} and {common} are of unequal length"
            hint = f"e.g. {len(array)} and {length} entries; "
            hint += "metrics that need both are not shown for these rollouts"
            remarks.append(Remark(name, reason, hint))
        except RecordError as error:
            remarks.append(Remark(name, f"{name} {error.reason}", f"expected: {error.hint}"))
        if name == "loss_mask":  # without it the means would be over other tokens
            return {}, remarks
    return arrays, remarks


def table_columns(rollouts: FieldColumns, vocabulary: Vocabulary | None) -> dict[str, Any] | None:
    """The table's columns without location and aggregates, as `row_of` makes them of each Record.

    A column is a list of values, a numpy array, NaN where there is none, or a pyarrow Array of the type
    that it has in a table. None where two keys of the log make one column: which of them a row shows is
    for the row to say. Raises RecordError where token ids can't be read.
    """
    columns: dict[str, Any] = {"step": rollouts.steps, **rollouts.ids, **rollouts.scores}
    if (responses := rollouts.texts.get("response")) is not None:
        columns["response_chars"] = [None if text is None else len(text) for text in responses]
    if (reasons := rollouts.texts.get("finish_reason")) is not None:
        columns["finish_reason"] = reasons
    for key in TEXTS:
        if (texts := rollouts.texts.get(key)) is not None:
            _add_text(columns, key, texts)
    for key in _WITHOUT_PREVIEW:
        if (texts := rollouts.texts.get(key)) is not None:
            columns[WHOLE + key] = text_array(texts)
    if any(failures := failures_of_columns(rollouts.texts, rollouts.extras)):
        columns[segments.FAILURE] = text_array(failures)
    if any(outputs := _outputs(rollouts)):
        rows = [*map(_output_columns, outputs)]
        columns |= {name: [row.get(name) for row in rows] for name in _OUTPUTS}
    if any(uses := rollouts.tool_uses or ()):
        rows = [*map(_tool_columns, uses)]
        columns |= {name: [row.get(name) for row in rows] for name in _TOOL_COLUMNS}
    if rollouts.messages is not None:
        columns[segments.MESSAGES] = [
            stored_messages(own, prompt, response) if own else None
            for own, prompt, response in zip(
                rollouts.messages, rollouts.texts["prompt"], rollouts.texts["response"], strict=True
            )
        ]
    of_tokens: dict[str, FloatArray] = {}
    for key, values in rollouts.extras.items():
        of_tokens |= own_tokens.of_columns(key, values, rollouts)
        cells, name = cells_of(values, rollouts.lengths), column_name(key)
        if cells is None or key in TOPK_FIELDS:
            continue
        if name in columns:
            return None
        columns[name] = cells
    for name, numbers in of_tokens.items():
        columns.setdefault(column_name(name), numbers)
    if rollouts.lengths.count(None) < len(rollouts.lengths) or rollouts.token_ids:
        _add_tokens(columns, rollouts, vocabulary)
    return columns


def text_array(texts: Sequence[str | bytes | None]) -> pa.Array[Any]:
    """Parsed texts, or UTF-8, as strings."""
    # What was parsed is UTF-8 already, and Arrow takes three times as long where it looks for itself.
    return pa.array(texts, pa.binary()).view(pa.string())


def _add_text(columns: dict[str, Any], key: str, texts: Values) -> None:
    """Adds the previews of texts, and the whole of those whose preview is cut."""
    whole = [None if text is None or len(text) <= PREVIEW_CHARS else text for text in texts]
    if any(whole):
        columns[WHOLE + key] = text_array(whole)
        # Cut as UTF-8: ASCII with another sign at its end takes several times as long to encode.
        texts = [
            text if own is None else own[: PREVIEW_CHARS - 1].encode() + CUT_SIGN.encode()
            for text, own in zip(texts, whole, strict=True)
        ]
    columns[key] = text_array(texts)


def _add_tokens(
    columns: dict[str, Any], rollouts: FieldColumns, vocabulary: Vocabulary | None
) -> None:
    """Adds lengths, and texts that are logged as tokens alone."""
    nothing: Values = [None] * len(rollouts.lengths)
    prompts = rollouts.token_ids.get("prompt_ids") or nothing
    responses = rollouts.token_ids.get("response_ids") or nothing
    columns["response_tokens"] = rollouts.lengths
    columns["prompt_tokens"] = [None if one is None else len(one) for one in prompts]

    def text_of_ids(array: NumberArray) -> str:
        return joined(cast("Vocabulary", vocabulary).texts(array.values()))

    def add(name: str, tokens: Values, preview_of: Callable[[Any], str], whole_of: Any) -> None:
        """Adds previews, and whole texts where they can be read, to rows that have none yet."""
        texts = rollouts.texts.get(name) or nothing
        missing = [r for r in range(len(nothing)) if texts[r] is None and tokens[r] is not None]
        if not missing:
            return
        previews, whole = _as_list(columns, name, nothing), _as_list(columns, WHOLE + name, nothing)
        for row in missing:
            if previews[row] is None:
                previews[row] = preview(preview_of(tokens[row]))
                text = None if whole_of is None else whole_of(tokens[row])
                whole[row] = None if text == previews[row] else text
        columns[name], columns[WHOLE + name] = previews, whole

    whole_of_ids = None if vocabulary is None else text_of_ids
    if vocabulary is None:
        texts = rollouts.texts.get("prompt") or nothing
        columns[PROMPT_KEY] = [
            key_of_ids(ids) if text is None and ids is not None else None
            for text, ids in zip(texts, prompts, strict=True)
        ]
    add("prompt", prompts, lambda ids: prompt_of_ids(ids, vocabulary), whole_of_ids)
    add("response", rollouts.pieces, lambda one: "".join(one[:PREVIEW_TOKENS]), joined)
    add("response", responses, lambda ids: response_of_ids(ids, vocabulary), whole_of_ids)
    roles = [
        may_hold_turns("".join(own)) if own is not None else ids_may_hold_turns(ids, vocabulary)
        for own, ids in zip(rollouts.pieces, responses, strict=True)
    ]
    if any(roles):
        columns[TOKEN_ROLES] = [one or None for one in roles]


def _as_list(columns: Mapping[str, Any], name: str, nothing: Values) -> Values:
    values = columns.get(name, nothing)
    return values.to_pylist() if isinstance(values, pa.Array) else [*values]
