"""What the reader is given: words for each metric, segments, and the Arrow tables it reads."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from board.core.metrics.definitions import LOW_IS_NOTABLE, RATIOS, Metric
from board.core.records import TopK
from board.core.tokens.scales import Span

TokenValues = npt.NDArray[np.floating] | npt.NDArray[np.integer] | npt.NDArray[np.bool_]
"""[R] numbers, one per response token. NaN = measured and not a number; an entry that was not
recorded is masked (np.ma.MaskedArray)."""

_IN_SPEC: Final = ("label", "unit", "formula", "group", "short", "axis")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A part of what was given to the model. tokens: display texts, which joined are `text`; None where
    not recorded. ids: as many, or none.
    """

    text: str
    role: str = "prompt"
    name: str = ""
    tokens: Sequence[str] | None = None
    ids: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class TokenSegment:
    """Response tokens start..end-1 are of one role; `name` of a tool; `error`: why its result is one."""

    start: int
    end: int
    role: str
    name: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class TokenContent:
    """A response and what is known of it.

    tokens: [R] display text, see `board.core.tokens.pieces.display_pieces`.
    metrics: name -> [R] numbers in the order of the menu; NaN is measured and not a number, a masked
        entry (np.ma) or None for the whole metric is not recorded.
    specs: words and kind per metric; a metric without one is named by its key.
    loss_mask: [R], 0 = outside the loss. Scale, percentiles and peaks leave those tokens out.
    ids: [R] token ids. surplus: how many of the last `tokens` are values without a token.
    segments: by role, all tokens in order; empty where no role is known.
    advantage: of the whole rollout, for the what-if masks, where none per token is recorded.
    clip: the run's own clip range, by the threshold names of `core.masks.RULES["ratio_clip"]`.
    """

    tokens: Sequence[str]
    metrics: Mapping[str, TokenValues | None]
    specs: Mapping[str, Metric] = field(default_factory=dict)
    loss_mask: TokenValues | None = None
    ids: TokenValues | None = None
    surplus: int = 0
    segments: Sequence[TokenSegment] = ()
    prompt: Sequence[PromptPart] = ()
    top_k: TopK | None = None
    advantage: float | None = None
    clip: Mapping[str, float] | None = None


def spec_of(metric: Metric) -> dict[str, Any]:
    """How scripts name and colour a metric.

    kind: "diverging" is blue below `centre` and orange above it, which ratios are around 1;
        "sequential" is strong at the `notable` end; "flag" is 0 or 1.
    notable: the end that peaks, ranks and strong colour are for: "low" for a log-probability, where the
        rare token is the one to look at.
    """
    is_ratio = metric.name in RATIOS
    return {
        **{name: getattr(metric, name) for name in _IN_SPEC},
        "kind": "diverging" if is_ratio else metric.kind,
        "centre": 1.0 if is_ratio else 0.0,
        "notable": "low" if metric.name in LOW_IS_NOTABLE else "high",
    }


def unknown_metric(name: str, values: TokenValues | None) -> Metric:
    """A metric that the board has no words for: diverging where both signs occur."""
    recorded = np.ma.masked_invalid(np.ma.asarray([] if values is None else values, np.float64))
    finite = recorded.compressed()
    both_signs = bool(finite.size and finite.min() < 0 < finite.max())
    return Metric(name, name, kind="diverging" if both_signs else "sequential")


def spec_list(
    metrics: Mapping[str, TokenValues | None],
    specs: Mapping[str, Metric],
    spans: Mapping[str, Span],
) -> list[dict[str, Any]]:
    """The metrics in order as scripts take them: name, spec, and the span of a shared colour scale."""
    return [
        {
            "name": name,
            **spec_of(specs.get(name) or unknown_metric(name, values)),
            "span": _span_data(spans[name]) if name in spans else None,
        }
        for name, values in metrics.items()
    ]


def _span_data(span: Span) -> dict[str, Any]:
    numbers = {name: getattr(span, name) for name in ("low", "high", "least", "most")}
    return {**numbers, "words": encodable(span.words)}


def token_table(
    tokens: Sequence[str],
    loss_mask: TokenValues | None = None,
    ids: TokenValues | None = None,
) -> pa.Table:
    """A row per token: `text` (lone surrogates, which UTF-8 cannot carry, as ⟨D800⟩), `in_loss` (null
    where the mask has no entry for the token) and `id` (int32, null where unknown).

    loss_mask: [R], 0 = outside the loss; None: all are in the loss.
    """
    loss_mask = np.ones(len(tokens)) if loss_mask is None else loss_mask
    mask = np.ma.masked_invalid(loss_mask.astype(np.float32))
    in_loss = pa.array(np.ma.getdata(mask) != 0, mask=np.ma.getmaskarray(mask))
    id_column = _id_column(ids, len(tokens))
    return pa.table({"text": _text_column(tokens), "in_loss": in_loss, "id": id_column})


def _id_column(ids: TokenValues | None, length: int) -> pa.Array:
    if ids is None:
        return pa.nulls(length, pa.int32())
    numbers = np.ma.filled(ids.astype(np.float64), np.nan)
    known = np.abs(numbers) < 2**31
    return pa.array(np.where(known, numbers, 0).astype(np.int32), mask=~known)


def metric_table(metrics: Mapping[str, TokenValues | None], length: int) -> pa.Table:
    """A float32 column per metric of [length] numbers: NaN stays, masked entries and None are null."""
    columns = {
        # from_pandas=False: with pandas' rules NaN (measured) would become null (not recorded).
        name: pa.nulls(length, pa.float32())
        if values is None
        else pa.array(values.astype(np.float32), from_pandas=False)
        for name, values in metrics.items()
    }
    return pa.table(columns)


def prompt_tables(prompt: Sequence[PromptPart]) -> dict[str, pa.Table]:
    """Arrow tables `prompt`, a row per part: text (empty where the tokens say it), role, name, tokens
    (how many; null where not known); and `prompt_tokens`: text and id (null where unknown) of all parts.
    """
    counts = [None if part.tokens is None else len(part.tokens) for part in prompt]
    parts = {
        "text": _text_column(["" if part.tokens is not None else part.text for part in prompt]),
        "role": _text_column([part.role for part in prompt]),
        "name": _text_column([part.name for part in prompt]),
        "tokens": pa.array(counts, pa.int32()),
    }
    texts = [text for part in prompt for text in part.tokens or ()]
    ids: list[float] = []
    for part in prompt:
        ids.extend(part.ids if len(part.ids) else [math.nan] * len(part.tokens or ()))
    tokens = {"text": _text_column(texts), "id": _id_column(np.array(ids, np.float64), len(texts))}
    return {"prompt": pa.table(parts), "prompt_tokens": pa.table(tokens)}


def top_k_tables(top: TopK | None) -> dict[str, pa.Table]:
    """Arrow tables `topk` (place, logprob; k rows per token) and `topk_texts` (text); empty for None."""
    top = top or TopK((), np.empty((0, 0), np.int32), np.empty((0, 0), np.float32))
    places = pa.array(np.ravel(top.places).astype(np.int32))
    # from_pandas=False: see `metric_table`.
    logprobs = pa.array(np.ravel(top.logprobs).astype(np.float32), from_pandas=False)
    return {
        "topk": pa.table({"place": places, "logprob": logprobs}),
        "topk_texts": pa.table({"text": _text_column(top.texts)}),
    }


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
