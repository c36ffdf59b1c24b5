"""Do logged logprobs belong to the tokens at their places? A fresh forward pass says so."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from exporters.token_stats import token_stats

SHIFTS = (-1, 0, 1)

# A shift is found where the best fits at least so many times better than the next.
_CLEARLY_BETTER = 2.0


@dataclass(frozen=True)
class Alignment:
    """What `check_alignment` found.

    errors: shift s -> median |recorded[i] - fresh[i + s]| over all tokens, nats; NaN where nothing
        could be compared. tokens: how many were compared at shift 0. shift: the shift that the
        values have, None where none fits or several do. message: the finding and what to do.
    """

    errors: Mapping[int, float]
    tokens: int
    shift: int | None
    message: str

    @property
    def aligned(self) -> bool:
        """Whether value i is that of token i."""
        return self.shift == 0


def check_alignment(
    model: Callable[..., Any],
    records: Mapping[str, Any] | Iterable[Mapping[str, Any]],
    *,
    field: str = "logprobs",
    temperature: float = 1.0,
    tolerance: float = 0.05,
) -> Alignment:
    """Compares recorded logprobs with those of a forward pass, at the shifts -1, 0 and +1.

    The model must have the weights that the values are of: for `logprobs` those before the step's
    update, for `ref_logprobs` the reference. A few rollouts of 20 tokens are enough.

    Args:
        model: called with ids [1, T]; returns logits [1, T, V] or an object with `.logits`. A module
            is put into evaluation mode for the time of the check.
        records: one rollout or several: lines of the log or mappings of arrays, with `prompt_ids`
            [P], `response_ids` [R] and `field` [R] in nats (or one number where it is constant);
            None and NaN are left out.
        field: which values to check.
        temperature: what the recorded values were divided by; the log's header says it.
        tolerance: median error in nats up to which values count as the same: 0.05 leaves room for
            bfloat16 and another kernel.

    Raises:
        ValueError: there is nothing to compare, or a record's lengths do not fit.
    """
    rollouts: list[Any] = [records] if isinstance(records, Mapping) else list(records)
    apart: dict[int, list[Tensor]] = {shift: [] for shift in SHIFTS}
    with _evaluation(model):
        for number, rollout in enumerate(rollouts):
            prompt, response, recorded = _arrays(rollout, field, number)
            fresh = _fresh_logprobs(model, torch.cat([prompt, response]), temperature)
            for shift in SHIFTS:
                apart[shift].append(_differences(recorded, fresh, len(prompt) + shift))
    pooled = {shift: torch.cat(parts) for shift, parts in apart.items() if parts}
    if not pooled or not len(pooled[0]):
        raise ValueError(f"no token has both {field} and a fresh value: nothing can be compared")
    errors = {s: float(d.median()) if len(d) else math.nan for s, d in pooled.items()}
    shift, finding = _judge(errors, field, tolerance)
    by_shift = ", ".join(f"{error:.3g} at {s:+d}" for s, error in errors.items())
    message = f"{finding} Median error in nats over {len(pooled[0])} tokens, by shift: {by_shift}."
    return Alignment(errors, len(pooled[0]), shift, message)


@contextmanager
def _evaluation(model: Any) -> Iterator[None]:
    was_training = getattr(model, "training", False)
    if was_training:
        model.eval()
    try:
        yield
    finally:
        if was_training:
            model.train()


def _arrays(record: Mapping[str, Any], field: str, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """Prompt ids [P], response ids [R] and values [R], NaN where nothing is recorded."""
    for name in ("prompt_ids", "response_ids", field):
        if record.get(name) is None:
            raise ValueError(f"record {number}: {name} is missing; it has {sorted(record)}")
    prompt, response = (torch.as_tensor(record[n]).long() for n in ("prompt_ids", "response_ids"))
    values = record[field]
    if isinstance(values, list | tuple):
        values = [math.nan if value is None else value for value in values]
    recorded = torch.as_tensor(values).double().cpu()
    if recorded.ndim == 0:
        recorded = recorded.expand(len(response))
    if recorded.shape != response.shape:
        raise ValueError(
            f"record {number}: {field} {list(recorded.shape)}, response_ids {list(response.shape)}: "
            "expected one value per response token"
        )
    return prompt, response, recorded


@torch.no_grad()
def _fresh_logprobs(model: Any, ids: Tensor, temperature: float) -> Tensor:
    """[T] log p(ids[t] | ids[:t]); NaN for the first, which nothing comes before."""
    weights = getattr(model, "parameters", lambda: ())()
    device = next((weight.device for weight in weights), ids.device)
    ids = ids.to(device)
    output = model(ids[None])
    logits = getattr(output, "logits", output)
    if logits.ndim != 3 or logits.shape[:2] != (1, len(ids)):
        raise ValueError(
            f"the model returned {list(logits.shape)} for ids [1, {len(ids)}]: expected logits "
            f"[1, {len(ids)}, V]"
        )
    stats = token_stats(logits[:, :-1], ids[None, 1:], temperature=temperature, entropy=False)
    return torch.nn.functional.pad(stats.logprobs[0].double().cpu(), (1, 0), value=math.nan)


def _differences(recorded: Tensor, fresh: Tensor, start: int) -> Tensor:
    """|recorded[i] - fresh[start + i]| where both are there."""
    places = torch.arange(start, start + len(recorded))
    inside = (places >= 0) & (places < len(fresh))
    apart = (recorded[inside] - fresh[places[inside]]).abs()
    return apart[apart.isfinite()]


def _judge(errors: Mapping[int, float], field: str, tolerance: float) -> tuple[int | None, str]:
    known = {shift: error for shift, error in errors.items() if not math.isnan(error)}
    best, *others = sorted(known, key=lambda shift: (known[shift], abs(shift)))
    if known[best] > tolerance:
        return None, (
            f"{field} fit the forward pass at no shift: is it of the same weights, temperature, "
            "tokens and attention mask, and are the values log p in nats?"
        )
    if any(known[other] <= _CLEARLY_BETTER * known[best] for other in others):
        return None, (
            f"{field} fit at several shifts, so that nothing can be said: take rollouts with more "
            "tokens or less alike ones."
        )
    if best == 0:
        return 0, f"{field}[i] is of token i, as it should be."
    cut = "logits[:, :-1] with ids[:, 1:]"
    return best, (
        f"{field}[i] is of token i{best:+d}: off by one. A logit at position t predicts the token at "
        f"t + 1, so pair {cut} and cut both at the same place."
    )
