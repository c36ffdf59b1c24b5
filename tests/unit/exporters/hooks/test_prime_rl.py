"""The call site is that of prime-rl 559b4477 (`trainer/rl/train.py`), its batches those of `batch.py`."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from opened_logs import assert_rollouts, opened

torch = pytest.importorskip("torch")

from exporters.hooks.prime_rl import (  # noqa: E402 - not there without torch
    TokenExporter,
    setup_token_exporter,
)

LOSS = SimpleNamespace(type="default", dppo_mask_low=0.2, dppo_mask_high=0.3)


def micro_batch(*, trained: bool = True) -> dict[str, Any]:
    """Sequences of 4 and 3 tokens, and 2 of padding, which prime-rl adds to the last sequence."""
    ids = [5, 6, 7, 8, 15, 16, 17, 1, 1]
    mask = [0, 0, 1, 1, 0, 1, 1, 0, 0]
    return {
        "input_ids": torch.tensor([ids]),
        "position_ids": torch.tensor([[0, 1, 2, 3, 0, 1, 2, 0, 1]]),
        "loss_mask": torch.tensor([mask]).bool() & trained,
        "advantages": torch.tensor([[1.0] * 4 + [-1.0] * 3 + [0.0] * 2]),
        "inference_logprobs": -0.1 * torch.arange(9.0)[None],
        "ref_logprobs": None,
        "env_names": ["math"] * 4 + ["code"] * 3 + [""] * 2,
        "sequence_lengths": [4, 5],
    }


def model_output() -> dict[str, Any]:
    return {"logprobs": -0.2 * torch.arange(9.0)[None], "entropy": torch.full((1, 9), 0.5)}


def train(exporter: TokenExporter) -> None:
    for step in (0, 1):
        for micro_step in range(2):
            batch = micro_batch(trained=micro_step == 0)
            exporter.export(
                step, micro_step, batch, model_output(), batch["sequence_lengths"], LOSS
            )
        exporter.mark_stable()
    exporter.close()


def test_packed_sequences_come_apart_without_their_padding(tmp_path):
    train(TokenExporter(tmp_path, 0, world_size=1, strict=True))
    first = {"prompt_ids": [5, 6], "response_ids": [7, 8], "logprobs": [-0.4, -0.6], "env": "math"}
    second = {"prompt_ids": [15], "response_ids": [16, 17], "logprobs": [-1.0, -1.2]}
    second |= {"sampling_logprobs": [-0.5, -0.6], "advantages": [-1, -1], "entropy": [0.5, 0.5]}
    second |= {"env": "code"}
    of_steps = ({"step": step} for step in (0, 1))
    assert_rollouts(tmp_path / "rollouts", *(r | s for s in of_steps for r in (first, second)))


def test_masks_are_logged_as_the_loss_decided_and_never_derived(tmp_path):
    exporter = TokenExporter(tmp_path, 0, world_size=1, strict=True)
    batch, masked = micro_batch(), torch.tensor([[0, 0, 1, 0, 0, 0, 1, 0, 0]]).bool()
    lengths = batch["sequence_lengths"]
    exporter.export(0, 0, batch, model_output() | {"is_masked": masked}, lengths, LOSS)
    exporter.export(1, 0, batch, model_output(), lengths, LOSS)
    exporter.close()
    masks = [rollout.get("is_masked") for rollout in opened(tmp_path / "rollouts")]
    assert masks == [[1, 0], [0, 1], None, None]


@pytest.mark.parametrize(("rank", "writes"), [(0, True), (1, False), (2, True)])
def test_one_of_the_context_parallel_ranks_writes(tmp_path, rank, writes):
    config = SimpleNamespace(enable_token_export=True, output_dir=tmp_path, loss=LOSS)
    exporter = setup_token_exporter(
        config,
        SimpleNamespace(cp=2),
        SimpleNamespace(rank=rank, world_size=4),
        logging.getLogger("test"),
        attempt="a",
    )
    assert exporter.exporter.wants(1) is writes
    if writes:
        assert (exporter.exporter.rank, exporter.exporter.world_size) == (rank // 2, 2)
    exporter.close()


def test_nothing_is_made_when_it_is_switched_off(tmp_path):
    config = SimpleNamespace(enable_token_export=False, output_dir=tmp_path, loss=LOSS)
    world = SimpleNamespace(rank=0, world_size=1)
    train(setup_token_exporter(config, SimpleNamespace(cp=1), world, logging.getLogger("test")))
    assert list(tmp_path.iterdir()) == []
