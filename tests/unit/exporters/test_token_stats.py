import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from exporters.token_stats import TokenStats, token_stats  # noqa: E402 - not there without torch

V = 301


def some(*, dtype: Any = None, seed: int = 0, shape: tuple[int, int] = (3, 11)) -> tuple[Any, Any]:
    made = torch.Generator().manual_seed(seed)
    logits = 4 * torch.randn(*shape, V, generator=made, dtype=torch.float64)
    ids = torch.randint(V, shape, generator=made)
    return logits.to(dtype or torch.float32), ids


def exact(logits: Any, ids: Any, temperature: Any = 1.0) -> tuple[Any, Any]:
    distribution = (logits.double() / temperature).log_softmax(-1)
    entropy = -torch.special.xlogy(distribution.exp(), distribution.exp()).sum(-1)
    return distribution.gather(-1, ids[..., None])[..., 0], entropy


def close(result: Any, wanted: Any, atol: float = 1e-5) -> None:
    torch.testing.assert_close(result.double(), wanted, atol=atol, rtol=0, equal_nan=True)


def assert_exact(stats: TokenStats, logits: Any, ids: Any, temperature: Any = 1.0) -> None:
    logprobs, entropy = exact(logits, ids, temperature)
    close(stats.logprobs, logprobs)
    close(stats.entropy, entropy)


CASES = {
    **{f"{rows} rows at a time": (None, {"rows": rows}) for rows in (1, 4, 11, 64)},
    **{f"{t}": (t, {"rows": 5}) for t in (torch.bfloat16, torch.float16, torch.float64)},
    "a temperature": (None, {"temperature": 0.6}),
    "a temperature by token": (
        None,
        {"temperature": torch.linspace(0.5, 1.5, 33).reshape(3, 11), "rows": 4},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_logprobs_and_entropy_equal_float64(case):
    dtype, options = CASES[case]
    logits, ids = some(dtype=dtype)
    stats = token_stats(logits, ids, **options)
    assert stats.logprobs.dtype == torch.float32
    temperature = options.get("temperature", 1.0)
    shaped = temperature if isinstance(temperature, float) else temperature[..., None].double()
    assert_exact(stats, logits, ids, shaped)
    of_slice = token_stats(logits[:, :-1], ids[:, 1:], entropy=False)
    close(of_slice.logprobs, exact(logits[:, :-1], ids[:, 1:])[0])
    assert of_slice[1:] == (None, None, None)  # nothing else was asked for


def test_logits_are_left_as_they_were_and_no_gradient_flows():
    logits, ids = some()
    before = logits.clone()
    stats = token_stats(logits.requires_grad_(), ids, temperature=0.7, topk=3)
    assert torch.equal(logits, before)
    assert not stats.logprobs.requires_grad


def test_filtered_logits_have_probability_zero():
    logits, ids = some()
    logits[logits < 2] = -torch.inf
    stats = token_stats(logits, ids, rows=4)
    assert stats.logprobs.isinf().any()
    assert_exact(stats, logits, ids)


def test_a_row_without_any_logit_is_not_a_number():
    logits, ids = some()
    logits[1, 2] = -torch.inf
    stats = token_stats(logits, ids)
    assert stats.logprobs.isnan().sum() == stats.logprobs[1, 2].isnan() == 1
    assert stats.entropy.isnan().sum() == stats.entropy[1, 2].isnan() == 1


def test_an_id_outside_the_vocabulary_has_no_logprob_but_an_entropy():
    logits, ids = some()
    ids[0, 0], ids[2, 3] = -100, V
    stats = token_stats(logits, ids)
    assert stats.logprobs.isnan().nonzero().tolist() == [[0, 0], [2, 3]]
    close(stats.entropy, exact(logits, ids.clamp(0, V - 1))[1])


def test_topk_is_the_head_of_the_sorted_distribution():
    logits, ids = some()
    stats = token_stats(logits, ids, topk=5, rows=4)
    wanted = logits.double().log_softmax(-1).topk(5)
    assert torch.equal(stats.topk_ids, wanted.indices)
    close(stats.topk_logprobs, wanted.values)


def test_a_single_sequence_needs_no_batch():
    logits, ids = some()
    temperature = torch.full(ids.shape, 0.9)
    one = token_stats(logits[0], ids[0], topk=2, temperature=temperature[0])
    for part, whole in zip(one, token_stats(logits, ids, topk=2, temperature=0.9), strict=True):
        assert torch.equal(part, whole[0])


def test_no_tokens_give_no_numbers():
    logits, ids = some(shape=(2, 0))
    assert token_stats(logits, ids, topk=2).topk_logprobs.shape == (2, 0, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": torch.zeros(3, 10, dtype=torch.long)}, r"logits\[:, :-1\] and ids\[:, 1:\]"),
        ({"ids": torch.zeros(3, 11)}, "integer ids"),
        ({"logits": torch.zeros(3, 11, V, dtype=torch.long)}, "floating logits"),
        ({"rows": 0}, "rows"),
        ({"topk": V + 1}, "topk"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": torch.ones(3)}, "one per token"),
    ],
)
def test_what_cannot_work_is_an_error_that_says_so(change, message):
    logits, ids = some()
    with pytest.raises(ValueError, match=message):
        token_stats(**({"logits": logits, "ids": ids} | change))


def test_a_dtensor_is_refused_rather_than_gathered():
    class Sharded:
        to_local = None

    with pytest.raises(TypeError, match="to_local"):
        token_stats(Sharded(), some()[1])  # what the test is about


SPLITS = {"equal": [0, 150, 300], "unequal": [0, 200, 300]}


def sharded(rank: int, folder: str) -> None:
    """What each of two processes does: its part of the vocabulary in, the whole result out."""
    import torch.distributed as dist

    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    for name, bounds in SPLITS.items():
        logits, ids = vocabulary_parallel_case()
        part = logits[..., bounds[rank] : bounds[rank + 1]]
        stats = token_stats(
            part, ids, rows=4, temperature=0.8, topk=3, group=dist.group.WORLD,
            first_id=None if name == "equal" else bounds[rank],
        )  # fmt: skip
        torch.save(tuple(stats), f"{folder}/{name}-{rank}.pt")
    dist.destroy_process_group()


def vocabulary_parallel_case() -> tuple[Any, Any]:
    logits, ids = some(dtype=torch.bfloat16)
    logits = logits[..., :300].contiguous()
    logits[0, 0, :150] = -torch.inf  # one rank has nothing to offer for this token
    logits[1, 1] = -torch.inf
    ids = ids.clamp(max=299)
    ids[2, 2] = -100
    return logits, ids


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vocabulary")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.multiprocessing.spawn(sharded, (str(folder),), nprocs=2)
    return folder


@pytest.mark.parametrize("name", SPLITS)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_split_vocabulary_gives_every_rank_the_unsplit_result(shards, rank, name):
    result = TokenStats(*torch.load(shards / f"{name}-{rank}.pt"))
    logits, ids = vocabulary_parallel_case()
    whole = token_stats(logits, ids, temperature=0.8, topk=3)
    # Equal logits have no order, so that the ids are compared by what they point at.
    assert torch.equal(logits.gather(-1, result.topk_ids), logits.gather(-1, whole.topk_ids))
    for field in ("logprobs", "entropy", "topk_logprobs"):
        close(getattr(result, field), getattr(whole, field).double())
