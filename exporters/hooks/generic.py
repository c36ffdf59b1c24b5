"""For a loop of your own: from what `generate` returned to a record, in one call a batch.

    log_generated(exporter, step, sequences, prompt_width, eos_ids={tokenizer.eos_token_id},
                  attention_mask=mask, tokenizer=tokenizer, rewards=rewards, logprobs=logprobs)
    exporter.end_step(step, loss=loss)

What is not of this shape goes to `RolloutExporter.log`, `log_packed` or `log_ragged` itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import torch
from torch import Tensor

from exporters.frameworks.guard import guarded
from exporters.token_stats import token_stats
from exporters.writer import RolloutExporter


def log_generated(
    exporter: RolloutExporter,
    step: int,
    sequences: Tensor,
    prompt_width: int,
    *,
    eos_ids: Set[int],
    attention_mask: Tensor | None = None,
    response_mask: Tensor | None = None,
    micro_step: int = 0,
    logits: Tensor | None = None,
    temperature: float = 1.0,
    tokenizer: Any = None,
    rewards: Any = None,
    meta: Mapping[str, Sequence[Any]] | None = None,
    **arrays: Any,
) -> None:
    """Logs B rollouts that are in one tensor, prompts left padded and responses right padded.

    Args:
        exporter: where to.
        step: the step as the trainer counts.
        sequences: [B, P + R] ids, as `model.generate` returns them.
        prompt_width: P, the width of the padded prompts.
        eos_ids: ids that end a response; a response without one was cut off (`is_truncated`).
        attention_mask: [B, P] or wider, 1 = a token of the prompt; default: no padding.
        response_mask: [B, R], 1 = a token; default: up to and with the first of `eos_ids`.
        micro_step: which micro batch of the step.
        logits: [B, P + R, V] of a forward pass over `sequences`, unshifted. Where given, `logprobs`
            and `entropy` are computed from them; at the size of a real vocabulary prefer what the
            loss computed anyway.
        temperature: what those logits are divided by: the sampling temperature.
        tokenizer: where given, prompts and responses are decoded, special tokens left out. On a GPU
            that waits for the ids; the exporter's own `tokenizer` lets the board decode them later.
        rewards: [B], the total.
        meta: column -> B values, as in `RolloutExporter.log`.
        **arrays: [B, R] per response token without a shift, or [B].
    """
    if not exporter.wants(step):
        return
    with guarded(exporter, "log_generated", step, lambda: sequences):
        prompts, responses = sequences[:, :prompt_width], sequences[:, prompt_width:]
        mask = up_to_end(responses, eos_ids) if response_mask is None else response_mask
        arrays = {"is_truncated": without_end(responses, mask, eos_ids), **arrays}
        columns = dict(meta or {})
        if tokenizer is not None:
            columns = {**_texts(tokenizer, prompts, responses, attention_mask, mask), **columns}
        if logits is not None:
            predicting = logits[:, prompt_width - 1 : -1]
            stats = token_stats(predicting, responses, temperature=temperature)
            arrays = {"logprobs": stats.logprobs, "entropy": stats.entropy, **arrays}
        exporter.log(
            step,
            micro_step=micro_step,
            prompt_ids=prompts,
            prompt_mask=None if attention_mask is None else attention_mask[:, :prompt_width],
            response_ids=responses,
            response_mask=mask,
            rewards=rewards,
            meta=columns,
            **arrays,
        )


def up_to_end(responses: Tensor, eos_ids: Set[int]) -> Tensor:
    """[B, R] True up to and with the first of `eos_ids` in each of `responses` [B, R]."""
    ends = _is_any(responses, eos_ids)
    return (ends.cumsum(1) - ends.long()) == 0


def without_end(responses: Tensor, mask: Tensor, eos_ids: Set[int]) -> Tensor:
    """[B] True where the last token of `mask` [B, R] is none of `eos_ids`: the response was cut."""
    # Nothing here reads a value, which on a GPU would wait for it.
    places = torch.arange(1, mask.shape[1] + 1, device=mask.device)
    last = (mask.long() * places).amax(1).sub(1).clamp(min=0)
    return ~_is_any(responses, eos_ids).gather(1, last[:, None])[:, 0]


def _is_any(ids: Tensor, wanted: Set[int]) -> Tensor:
    return torch.stack([ids == one for one in wanted]).any(0)


def _texts(
    tokenizer: Any, prompts: Tensor, responses: Tensor, attention: Tensor | None, mask: Tensor
) -> dict[str, list[str]]:
    known = torch.ones_like(prompts) if attention is None else attention[:, : prompts.shape[1]]
    rows = {
        "prompt": [p[m.bool()].tolist() for p, m in zip(prompts, known, strict=True)],
        "response": [r[m.bool()].tolist() for r, m in zip(responses, mask, strict=True)],
    }
    return {k: tokenizer.batch_decode(v, skip_special_tokens=True) for k, v in rows.items()}
