"""What the reader is given: words for each metric, segments, and the Arrow tables it reads.

Nothing here imports Streamlit, so that views, tests and exports can prepare data without it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from board.core.metrics.definitions import RATIOS, Kind, Metric, menu_entry
from board.core.records import TopK

TokenValues = npt.NDArray[np.floating] | npt.NDArray[np.integer] | npt.NDArray[np.bool_]
"""[R] numbers, one per response token. NaN = measured and not a number; an entry that was not
recorded is masked (np.ma.MaskedArray)."""

_LOW_IS_NOTABLE: Final = (
    *("logprobs", "old_logprobs", "sampling_logprobs", "ref_logprobs"),
    *("prob", "ref_prob", "sampling_prob"),
)
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class TokenMetricSpec:
    """How the reader names and colours one metric.

    label, unit, formula: words on screen; unit and formula may be empty.
    kind: "diverging" is blue below `centre` and orange above it; "sequential" is strong at the
        `notable` end; "flag" is 0 or 1.
    centre: the neutral value of a diverging metric, in the metric's unit (1 for a ratio).
    group, short: the heading it stands below in menu and panel, and its name there; the label where
        that is empty. axis: metrics of one axis share it in the strip chart; "" shares it with none.
    notable: the end of a sequential metric that peaks, ranks and strong colour are for: "high" for a
        divergence, "low" for a log-probability, where the rare token is the one to look at.
    """

    label: str
    unit: str = ""
    formula: str = ""
    kind: Kind = "sequential"
    centre: float = 0.0
    notable: Literal["high", "low"] = "high"
    group: str = "Other"
    short: str = ""
    axis: str = ""


@dataclass(frozen=True, slots=True)
class ScaleSpan:
    """A colour scale that is not this rollout's own: from `low` to `high`, `words` say over what."""

    low: float
    high: float
    words: str


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A stretch of what was given to the model: its text, whose it is, and its tokens where known.

    tokens: display texts, which joined are `text`; None where the prompt's tokens are not recorded.
    ids: as many token ids, empty where they are not known.
    """

    text: str
    role: str = "prompt"
    name: str = ""
    tokens: Sequence[str] | None = None
    ids: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class TokenSegment:
    """Response tokens start..end-1 are of one role ("assistant", "tool", ...), `name` for a tool.

    error: why a tool's result is an error, in a few words; empty where it is none.
    """

    start: int
    end: int
    role: str
    name: str = ""
    error: str = ""


def spec_of(metric: Metric) -> TokenMetricSpec:
    """The spec of a metric that the board knows. Ratios diverge around 1."""
    ratio = metric.name in RATIOS
    place = menu_entry(metric.name)
    return TokenMetricSpec(
        label=metric.label,
        unit=metric.unit,
        formula=metric.formula,
        kind="diverging" if ratio else metric.kind,
        centre=1.0 if ratio else 0.0,
        notable="low" if metric.name in _LOW_IS_NOTABLE else "high",
        group=place.group,
        short=place.name,
        axis=place.axis,
    )


def spec_for_unknown(name: str, values: TokenValues | None) -> TokenMetricSpec:
    """A spec for an array the board has no words for: diverging where both signs occur."""
    recorded = np.ma.masked_invalid(np.ma.asarray([] if values is None else values, np.float64))
    finite = recorded.compressed()
    both_signs = bool(finite.size and finite.min() < 0 < finite.max())
    return TokenMetricSpec(label=name, kind="diverging" if both_signs else "sequential")


def token_table(
    tokens: Sequence[str],
    loss_mask: TokenValues | None = None,
    ids: TokenValues | None = None,
) -> pa.Table:
    """A row per token: `text` (lone surrogates, which UTF-8 cannot carry, as ⟨D800⟩), `in_loss` (null
    where the mask has no entry for the token) and `id` (int32, null where unknown).

    loss_mask: [R], 0 = outside the loss; None where no mask was recorded: all are in the loss. Raises
    ValueError where it is not as long as tokens.
    """
    if loss_mask is None:
        loss_mask = np.ones(len(tokens))
    mask = np.ma.masked_invalid(_checked("loss_mask", loss_mask, len(tokens)).astype(np.float32))
    in_loss = pa.array(np.ma.getdata(mask) != 0, mask=np.ma.getmaskarray(mask))
    id_column = _id_column(ids, len(tokens))
    return pa.table({"text": _text_column(tokens), "in_loss": in_loss, "id": id_column})


def _id_column(ids: TokenValues | None, length: int) -> pa.Array:
    if ids is None:
        return pa.nulls(length, pa.int32())
    numbers = np.ma.filled(_checked("ids", ids, length).astype(np.float64), np.nan)
    known = np.abs(numbers) < 2**31
    return pa.array(np.where(known, numbers, 0).astype(np.int32), mask=~known)


def metric_table(metrics: Mapping[str, TokenValues | None], length: int) -> pa.Table:
    """A float32 column per metric, which is [length] numbers or None where it was not recorded.

    NaN and infinities stay what they are; masked entries and the whole column of a metric that is None
    are null. Raises ValueError where an array is not one-dimensional or not `length` long.
    """
    columns = {name: _float_column(name, values, length) for name, values in metrics.items()}
    return pa.table(columns)


def prompt_tables(prompt: Sequence[PromptPart]) -> dict[str, pa.Table]:
    """Arrow tables `prompt` and `prompt_tokens`.

    prompt: a row per part: text (empty where the tokens say it), role, name, tokens (how many; null
    where not known). prompt_tokens: the tokens of all parts in order: text, id (null where unknown).
    """
    counts = [None if part.tokens is None else len(part.tokens) for part in prompt]
    parts = {
        "text": _text_column(["" if part.tokens is not None else part.text for part in prompt]),
        "role": _text_column([part.role for part in prompt]),
        "name": _text_column([part.name for part in prompt]),
        "tokens": pa.array(counts, pa.int32()),
    }
    texts = [text for part in prompt for text in part.tokens or ()]
    ids = [
        number
        for part in prompt
        for number in (part.ids if len(part.ids) else [math.nan] * len(part.tokens or ()))
    ]
    id_column = _id_column(np.array(ids, np.float64), len(texts))
    tokens = {"text": _text_column(texts), "id": id_column}
    return {"prompt": pa.table(parts), "prompt_tokens": pa.table(tokens)}


def top_k_tables(top: TopK | None) -> dict[str, pa.Table]:
    """Arrow tables `topk` (place, logprob; k rows per token) and `topk_texts` (text); empty for None."""
    top = top or TopK((), np.empty((0, 0), np.int32), np.empty((0, 0), np.float32))
    places = pa.array(np.ravel(top.places).astype(np.int32))
    # from_pandas=False: see `_float_column`.
    logprobs = pa.array(np.ravel(top.logprobs).astype(np.float32), from_pandas=False)
    return {
        "topk": pa.table({"place": places, "logprob": logprobs}),
        "topk_texts": pa.table({"text": _text_column(top.texts)}),
    }


def cover(segments: Sequence[TokenSegment], length: int) -> list[TokenSegment]:
    """Segments in order that cover all tokens; a stretch no segment claims gets the role "".

    Raises:
        ValueError: a segment is empty, leaves 0..length, or overlaps the one before it.
    """
    covered: list[TokenSegment] = []
    position = 0
    for segment in sorted(segments, key=lambda s: (s.start, s.end)):
        if not position <= segment.start < segment.end <= length:
            raise ValueError(
                f"segment {segment.role!r} spans tokens {segment.start} to {segment.end}; expected a "
                f"span of at least one token within {position} to {length}, without overlap. "
                "Leave this rollout's segments out to show it as one block."
            )
        if segment.start > position:
            covered.append(TokenSegment(position, segment.start, ""))
        covered.append(segment)
        position = segment.end
    if position < length:
        covered.append(TokenSegment(position, length, ""))
    return covered


def _float_column(name: str, values: TokenValues | None, length: int) -> pa.Array:
    if values is None:
        return pa.nulls(length, pa.float32())
    # from_pandas=False: with pandas' rules NaN (measured) would become null (not recorded).
    return pa.array(_checked(name, values, length).astype(np.float32), from_pandas=False)


def _checked(name: str, values: TokenValues, length: int) -> TokenValues:
    if values.shape != (length,):
        raise ValueError(
            f"{name} has shape {values.shape}, expected ({length},): one number per response token. "
            "Pad it with masked entries or cut it before the call, and tell the user."
        )
    return values


def _text_column(texts: Sequence[str]) -> pa.Array:
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:  # rare: looking for surrogates in every token takes far longer
        return pa.array([encodable(text) for text in texts], pa.string())


def encodable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot carry, as ⟨D800⟩."""
    if text.isascii():
        return text
    return _LONE_SURROGATE.sub(lambda match: f"⟨{ord(match[0]):04X}⟩", text)
