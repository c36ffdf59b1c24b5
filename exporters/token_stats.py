"""Logprob, entropy and top-k of every token from logits, without a second tensor of their size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

# exp() of it is 0 in float32, and 0 * it is 0 where 0 * -inf were NaN.
_LOWEST = -1e4


class TokenStats(NamedTuple):
    """What `token_stats` returns, all float32 but the ids; None where not asked for.

    logprobs: [B, T] log p(ids[t]), nats. entropy: [B, T] over the full vocabulary, nats.
    topk_ids, topk_logprobs: [B, T, k], most probable first.
    """

    logprobs: Tensor
    entropy: Tensor | None
    topk_ids: Tensor | None
    topk_logprobs: Tensor | None


class _Sums(NamedTuple):
    """Of each token, over the vocabulary (of this rank), x being logit / temperature - largest."""

    exp: Tensor  # sum of exp(x)
    exp_x: Tensor  # sum of exp(x) * x
    target: Tensor  # x of the token itself, 0 where another rank holds it
    in_shard: Tensor  # 1 where this rank holds the token


class _Top(NamedTuple):
    x: Tensor  # [B, T, k]
    ids: Tensor  # [B, T, k]


@torch.no_grad()
def token_stats(
    logits: Tensor,
    ids: Tensor,
    *,
    rows: int = 64,
    temperature: float | Tensor = 1.0,
    entropy: bool = True,
    topk: int = 0,
    group: Any = None,
    first_id: int | None = None,
) -> TokenStats:
    """Statistics of the tokens `ids` under softmax(logits / temperature).

    With x = logits / temperature and m = max x: logprob = x[id] - m - log Σ exp(x - m), and
    entropy = log Σ exp(x - m) - Σ exp(x - m)(x - m) / Σ exp(x - m). `rows` tokens at a time are
    taken to float32, so that two buffers of rows · V · 4 bytes are needed beside the logits (one
    without entropy). Nothing is changed in `logits`, and no gradient flows.

    Args:
        logits: [B, T, V] or [T, V], any floating type; logits[:, t] must be those that predict
            ids[:, t], so of a forward pass over the same ids `logits[:, :-1]` and `ids[:, 1:]`.
            Entries of -inf (filtered by top-k or top-p) have probability 0.
        ids: [B, T] or [T] integers. An id outside the vocabulary, e.g. -100, has logprob NaN.
        rows: tokens of a chunk.
        temperature: one number, or one per token shaped like `ids`.
        entropy: False leaves the entropy out.
        topk: how many of the most probable ids to return with their logprobs.
        group: the process group over which the vocabulary is split. Each rank passes its part
            [B, T, V / n] and the same `ids`, and gets the result of the whole vocabulary. Costs two
            all-reduces per call, of B · T and 4 · B · T numbers, and with topk one gather of topk
            ids and logprobs a rank; every rank has to call.
        first_id: id of the first column of `logits`; default: the rank in `group` times the number
            of columns, which holds where all parts are equally wide.

    Returns:
        TokenStats. Where the token itself has a logit of -inf its logprob is -inf; where all logits
        are -inf, or one is NaN, everything is NaN.

    Raises:
        ValueError: shapes that do not belong together, rows < 1, topk outside 0..V,
            temperature <= 0. TypeError: a DTensor.
    """
    _check(logits, ids, rows, temperature, topk)
    if logits.ndim == 2:
        scale = temperature[None] if isinstance(temperature, Tensor) else temperature
        stats = token_stats(
            logits[None],
            ids[None],
            rows=rows,
            temperature=scale,
            entropy=entropy,
            topk=topk,
            group=group,
            first_id=first_id,
        )
        others = [None if part is None else part[0] for part in stats[1:]]
        return TokenStats(stats.logprobs[0], *others)
    if first_id is None:
        first_id = dist.get_rank(group) * logits.shape[-1] if group is not None else 0
    largest = _largest(logits, temperature, group) if group is not None else None
    sums, top = _sum_up(logits, ids - first_id, rows, temperature, entropy, topk, largest)
    if group is not None:
        packed = torch.stack(sums)
        dist.all_reduce(packed, group=group)
        sums = _Sums(*packed)
        top = _merge(_Top(top.x, top.ids + first_id), topk, group) if topk else top
    log_sum = sums.exp.log()
    return TokenStats(
        (sums.target - log_sum).where(sums.in_shard > 0, torch.nan),
        log_sum - sums.exp_x / sums.exp if entropy else None,
        top.ids if topk else None,
        top.x - log_sum[..., None] if topk else None,
    )


def _check(logits: Tensor, ids: Tensor, rows: int, temperature: float | Tensor, topk: int) -> None:
    if hasattr(logits, "to_local"):
        raise TypeError(
            "logits: a DTensor; pass logits.to_local() and, where the vocabulary is what is "
            "sharded, group=logits.device_mesh.get_group(...)"
        )
    if logits.ndim not in (2, 3) or logits.shape[:-1] != ids.shape:
        raise ValueError(
            f"logits {list(logits.shape)} and ids {list(ids.shape)}: expected [B, T, V] and [B, T], "
            "where logits[:, t] predict ids[:, t]; of one forward pass take logits[:, :-1] and "
            "ids[:, 1:]"
        )
    if not logits.is_floating_point() or ids.is_floating_point():
        raise ValueError(
            f"expected floating logits and integer ids, found {logits.dtype}, {ids.dtype}"
        )
    if rows < 1:
        raise ValueError(f"rows: expected at least 1, found {rows}")
    if not 0 <= topk <= logits.shape[-1]:
        raise ValueError(f"topk: expected 0 to {logits.shape[-1]}, found {topk}")
    if isinstance(temperature, Tensor):
        if temperature.shape != ids.shape:
            raise ValueError(
                f"temperature {list(temperature.shape)}: expected one number or one per token "
                f"{list(ids.shape)}"
            )
    elif not temperature > 0:
        raise ValueError(f"temperature: expected more than 0, found {temperature}")


def _chunks(shape: torch.Size, rows: int) -> Iterator[tuple[int, slice]]:
    # Within a row of the batch: a chunk over several rows of logits[:, :-1] would be a copy.
    for row in range(shape[0]):
        for start in range(0, shape[1], rows):
            yield row, slice(start, min(start + rows, shape[1]))


def _largest(logits: Tensor, temperature: float | Tensor, group: Any) -> Tensor:
    """[B, T] largest logit / temperature over all ranks of the group."""
    largest = logits.amax(-1).float().div_(temperature)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
    return largest


def _sum_up(
    logits: Tensor,
    columns: Tensor,
    rows: int,
    temperature: float | Tensor,
    entropy: bool,
    topk: int,
    largest: Tensor | None,
) -> tuple[_Sums, _Top]:
    """The sums of all tokens over the columns of `logits`, with two buffers for all chunks."""
    size, width = columns.shape, logits.shape[-1]
    new = {"dtype": torch.float32, "device": logits.device}
    in_shard = ((columns >= 0) & (columns < width)).float()
    places = columns.clamp(0, width - 1)[..., None]
    exp, exp_x, target = torch.zeros(3, *size, **new)
    sums = _Sums(exp, exp_x, target, in_shard)
    top = _Top(torch.empty(*size, topk, **new), places.new_empty(*size, topk))
    buffer = torch.empty(min(rows, size[1]), width, **new)
    exps = torch.empty_like(buffer) if entropy else buffer
    for row, part in _chunks(size, rows):
        x = buffer[: part.stop - part.start].copy_(logits[row, part])
        if isinstance(temperature, Tensor):
            x.div_(temperature[row, part, None])
        elif temperature != 1:
            x.div_(temperature)
        x.sub_(x.amax(-1, keepdim=True) if largest is None else largest[row, part, None])
        sums.target[row, part] = x.gather(-1, places[row, part])[:, 0]
        if topk:
            top.x[row, part], top.ids[row, part] = x.topk(topk)
        e = torch.exp(x, out=exps[: len(x)])
        sums.exp[row, part] = e.sum(-1)
        if entropy:
            sums.exp_x[row, part] = x.clamp_(min=_LOWEST).mul_(e).sum(-1)
    return sums._replace(target=sums.target.where(in_shard > 0, 0.0)), top


def _merge(mine: _Top, topk: int, group: Any) -> _Top:
    """The k largest of the k largest of every rank."""
    ranks = range(dist.get_world_size(group))
    x, ids = [torch.empty_like(mine.x) for _ in ranks], [torch.empty_like(mine.ids) for _ in ranks]
    dist.all_gather(x, mine.x.contiguous(), group=group)
    dist.all_gather(ids, mine.ids.contiguous(), group=group)
    best = torch.cat(x, -1).topk(topk)
    return _Top(best.values, torch.cat(ids, -1).gather(-1, best.indices))
