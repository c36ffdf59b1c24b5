"""A generation that is trained on over several steps, as TRL's `steps_per_generation` makes them."""

import json
from typing import Any

import numpy as np
import pytest

from board.cli import main
from exporters import RolloutExporter

GROUPS, SIZE, STEPS = 4, 4, 24


def written(folder: Any, *, with_generation: bool, seed: int = 0) -> None:
    """Two steps a generation, a group shuffled over both; KL logged as k3 times the ratio."""
    random = np.random.default_rng(seed)
    with RolloutExporter(folder, start_step=1, strict=True) as exporter:
        for first in range(1, STEPS, 2):
            rewards = random.normal(size=(GROUPS, SIZE))
            centred = rewards - rewards.mean(1, keepdims=True)
            advantages = centred / (rewards.std(1, ddof=1, keepdims=True) + 1e-4)
            order = random.permutation(GROUPS * SIZE)
            for step, rows in zip((first, first + 1), np.split(order, 2), strict=True):
                shape = (len(rows), 6)
                ref, old = random.normal(-2, 0.5, shape), random.normal(-2, 0.5, shape)
                new = old + random.normal(0, 0.4, shape)
                meta: dict[str, Any] = {
                    "group_id": [f"s{first}g{row // SIZE}" for row in rows],
                    "rollout_id": [f"s{first}r{row}" for row in rows],
                }
                if with_generation:
                    meta["generation"] = [first] * len(rows)
                exporter.log(
                    step,
                    response_ids=random.integers(0, 99, shape),
                    logprobs=new,
                    old_logprobs=old,
                    ref_logprobs=ref,
                    rewards=rewards.reshape(-1)[rows],
                    advantage=advantages.reshape(-1)[rows],
                    meta=meta,
                )
                k3 = np.exp(ref - new) - 1 - ref + new
                metrics = {"kl": float((k3 * np.exp(new - old)).mean())}
                if step == first:
                    metrics["reward"] = float(rewards.mean())
                exporter.end_step(step, **metrics)


def rules(folder: Any, capsys: pytest.CaptureFixture[str]) -> set[str]:
    capsys.readouterr()
    main(["findings", str(folder), "--json"])
    return {found["rule"] for found in json.loads(capsys.readouterr().out)["rows"]}


@pytest.mark.parametrize("seed", range(3))
def test_groups_rewards_and_kl_of_a_healthy_run_are_compared_over_their_generation(
    tmp_path, capsys, seed
):
    written(tmp_path / "run", with_generation=True, seed=seed)
    assert not {"advantages", "trainer_differs"} & rules(tmp_path / "run", capsys)


def test_without_the_generation_the_same_log_looks_wrong(tmp_path, capsys):
    written(tmp_path / "run", with_generation=False)
    assert {"advantages", "trainer_differs"} <= rules(tmp_path / "run", capsys)
