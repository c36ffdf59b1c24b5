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


def as_kind(kind: Any) -> dict[str, Any]:
    """A rollout of arrays or tensors, whose missing values are NaN."""
    return {name: kind(np.array(values, float)) for name, values in rollout().items()}


RIGHT = rollout()
UNKNOWN = RIGHT | {"logprobs": [*RIGHT["logprobs"][:3], *[None] * 7, *RIGHT["logprobs"][10:]]}
WITHOUT_PROMPT = {
    "prompt_ids": [],
    "response_ids": RIGHT["prompt_ids"] + RIGHT["response_ids"],
    "logprobs": [None] * 8 + RIGHT["logprobs"],
}
OTHER_FIELD = RIGHT | {"ref_logprobs": RIGHT["logprobs"], "logprobs": np.zeros(22)}
NOWHERE = RIGHT | {"logprobs": [-9.0 + 0.1 * i for i in range(22)]}
HOT = rollout(temperature=0.5)


@pytest.mark.parametrize(
    ("records", "options", "shift", "tokens", "message"),
    [
        pytest.param(RIGHT, {}, 0, 22, "as it should be", id="a right log"),
        pytest.param(rollout(-1), {}, -1, 22, "token i-1: off by one", id="one too early"),
        pytest.param(rollout(1), {}, 1, 21, "token i+1: off by one", id="one too late"),
        pytest.param([rollout(seed=s) for s in range(3)], {}, 0, 66, "", id="several are pooled"),
        pytest.param(NOWHERE, {}, None, 22, "at no shift", id="values that fit nowhere"),
        pytest.param(HOT, {}, None, 22, "at no shift", id="the wrong temperature"),
        pytest.param(HOT, {"temperature": 0.5}, 0, 22, "", id="the right temperature"),
        pytest.param(UNKNOWN, {}, 0, 15, "", id="what is not recorded is not compared"),
        pytest.param(WITHOUT_PROMPT, {}, 0, 22, "", id="an empty prompt"),
        pytest.param(as_kind(np.array), {}, 0, 22, "", id="arrays"),
        pytest.param(as_kind(torch.tensor), {}, 0, 22, "", id="tensors"),
        pytest.param(OTHER_FIELD, {"field": "ref_logprobs"}, 0, 22, "", id="another field"),
    ],
)
def test_a_log_is_aligned_at_the_shift_that_fits_its_model(
    records, options, shift, tokens, message
):
    result = check_alignment(MODEL, records, **options)
    assert (result.aligned, result.shift, result.tokens) == (shift == 0, shift, tokens)
    assert message in result.message
    if shift == 0:
        assert result.errors[0] < 1e-5
        assert min(result.errors[-1], result.errors[1]) > 0.5


def test_a_response_of_one_token_over_and_over_decides_nothing():
    def uniform(ids: Any) -> Any:
        return torch.zeros(*ids.shape, V)

    record = {"prompt_ids": [1, 1], "response_ids": [1] * 9, "logprobs": float(-np.log(V))}
    result = check_alignment(uniform, record)
    assert result.shift is None
    assert "several shifts" in result.message


def test_a_model_in_training_is_checked_without_dropout_and_left_in_training():
    model = Causal().train()
    assert check_alignment(model, RIGHT).aligned
    assert model.training


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (RIGHT | {"logprobs": None}, "record 0: logprobs is missing"),
        (RIGHT | {"logprobs": [-1.0]}, "expected one value per response token"),
        (RIGHT | {"logprobs": [None] * 22}, "nothing can be compared"),
        ([], "nothing can be compared"),
    ],
)
def test_what_cannot_be_compared_is_an_error(records, message):
    with pytest.raises(ValueError, match=message):
        check_alignment(MODEL, records)


def test_a_model_that_returns_no_logits_of_every_token_is_an_error():
    with pytest.raises(ValueError, match=r"expected logits \[1, 30, V\]"):
        check_alignment(lambda ids: torch.zeros(1, 1, V), rollout())
