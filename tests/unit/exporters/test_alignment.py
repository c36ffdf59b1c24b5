from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from exporters.alignment import check_alignment  # noqa: E402 - not there without torch
from exporters.token_stats import token_stats  # noqa: E402

V = 23


class Causal(torch.nn.Module):
    """Logits that depend on all tokens so far, and on dropout when it is not switched off."""

    def __init__(self) -> None:
        super().__init__()
        made = torch.Generator().manual_seed(1)
        self.table = torch.nn.Parameter(3 * torch.randn(V, V, generator=made))
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, ids: Any) -> Any:
        decay = 0.5 ** torch.arange(ids.shape[1])
        mixed = torch.stack(
            [(self.table[ids[:, : t + 1]] * decay[: t + 1].flip(0)[:, None]).sum(1)
             for t in range(ids.shape[1])], 1,
        )  # fmt: skip
        return SimpleNamespace(logits=self.dropout(mixed))


MODEL = Causal().eval()


def rollout(shift: int = 0, *, seed: int = 0, temperature: float = 1.0) -> dict[str, Any]:
    """A rollout whose logprobs[i] is that of token i + shift."""
    ids = torch.randint(V, (1, 30), generator=torch.Generator().manual_seed(seed))
    logits = MODEL(ids).logits[:, :-1]
    logprobs = token_stats(logits, ids[:, 1:], temperature=temperature).logprobs[0].tolist()
    first = 8  # logprobs[t] is of token t + 1
    values = [*logprobs, float("nan")][first - 1 + shift : 29 + shift]
    return {
        "prompt_ids": ids[0, :first].tolist(),
        "response_ids": ids[0, first:].tolist(),
        "logprobs": [None if np.isnan(v) else v for v in values],
    }


def test_a_right_log_is_aligned():
    found = check_alignment(MODEL, rollout())
    assert found.aligned
    assert found.errors[0] < 1e-5
    assert min(found.errors[-1], found.errors[1]) > 0.5
    assert found.tokens == 22
    assert "as it should be" in found.message


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_deliberate_off_by_one_is_caught_and_named(shift):
    found = check_alignment(MODEL, rollout(shift))
    assert not found.aligned
    assert found.shift == shift
    assert f"token i{shift:+d}: off by one" in found.message


def test_several_rollouts_are_pooled():
    found = check_alignment(MODEL, (rollout(seed=seed) for seed in range(3)))
    assert found.tokens == 66
    assert found.aligned


def test_values_that_fit_nowhere_are_no_off_by_one():
    record = rollout() | {"logprobs": [-9.0 + 0.1 * i for i in range(22)]}
    found = check_alignment(MODEL, record)
    assert found.shift is None
    assert "at no shift" in found.message


def test_the_wrong_temperature_fits_nowhere_and_the_right_one_does():
    record = rollout(temperature=0.5)
    assert not check_alignment(MODEL, record).aligned
    assert check_alignment(MODEL, record, temperature=0.5).aligned


def test_a_response_of_one_token_over_and_over_decides_nothing():
    def uniform(ids: Any) -> Any:
        return torch.zeros(*ids.shape, V)

    record = {"prompt_ids": [1, 1], "response_ids": [1] * 9, "logprobs": float(-np.log(V))}
    found = check_alignment(uniform, record)
    assert found.shift is None
    assert "several shifts" in found.message


def test_what_is_not_recorded_is_not_compared():
    record = rollout()
    record["logprobs"][3:10] = [None] * 7
    found = check_alignment(MODEL, record)
    assert found.aligned
    assert found.tokens == 15


def test_an_empty_prompt_leaves_the_first_token_out():
    record = rollout()
    record["response_ids"] = record.pop("prompt_ids") + record["response_ids"]
    record["logprobs"] = [None] * 8 + record["logprobs"]
    found = check_alignment(MODEL, record | {"prompt_ids": []})
    assert found.aligned


def test_arrays_and_tensors_are_records_too_and_another_field_can_be_checked():
    record = {name: np.array(values) for name, values in rollout().items()}
    assert check_alignment(MODEL, record).aligned
    assert check_alignment(MODEL, {k: torch.tensor(v) for k, v in record.items()}).aligned
    record |= {"ref_logprobs": record["logprobs"], "logprobs": np.zeros(22)}
    assert check_alignment(MODEL, record, field="ref_logprobs").aligned


def test_a_model_in_training_is_checked_without_dropout_and_left_in_training():
    model = Causal().train()
    assert check_alignment(model, rollout()).aligned
    assert model.training


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (rollout() | {"logprobs": None}, "record 0: logprobs is missing"),
        (rollout() | {"logprobs": [-1.0]}, "expected one value per response token"),
        (rollout() | {"logprobs": [None] * 22}, "nothing can be compared"),
        ([], "nothing can be compared"),
    ],
)
def test_what_cannot_be_compared_is_an_error(records, message):
    with pytest.raises(ValueError, match=message):
        check_alignment(MODEL, records)


def test_a_model_that_returns_no_logits_of_every_token_is_an_error():
    with pytest.raises(ValueError, match=r"expected logits \[1, 30, V\]"):
        check_alignment(lambda ids: torch.zeros(1, 1, V), rollout())
