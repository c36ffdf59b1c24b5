"""Tokens in the loss: a mask that is left out because all tokens count is no missing value."""

import hypothesis.strategies as st
from hypothesis import given, settings
from read_formats import run_of

MASKS = st.lists(st.integers(0, 1), min_size=1, max_size=6)


@settings(max_examples=15, deadline=None)
@given(st.lists(MASKS, min_size=1, max_size=6))
def test_masks_of_ones_may_be_left_out_without_changing_a_mean(tmp_path_factory, masks):
    def rows(*, leave_out):
        for i, mask in enumerate(masks):
            arrays = {"response_ids": [7] * len(mask), "logprobs": [-1.0] * len(mask)}
            if not (leave_out and all(mask)):
                arrays["loss_mask"] = mask
            yield {"type": "sample", "step": 1, "index": i, "reward": 1.0, **arrays}

    full = run_of(tmp_path_factory.mktemp("full"), rows(leave_out=False))
    short = run_of(tmp_path_factory.mktemp("short"), rows(leave_out=True))
    if not all(map(all, masks)):
        assert short.steps["loss_tokens_mean"].tolist() == full.steps["loss_tokens_mean"].tolist()
        assert short.steps["loss_tokens_n"].tolist() == [len(masks)]
