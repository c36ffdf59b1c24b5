"""Test files that slime and miles wrote, and what the board calls their arrays."""

from pathlib import Path
from typing import Any

import pytest
from read_formats import DATA

SLIME = DATA / "slime" / "details"
MILES = DATA / "miles" / "details"
ARRAYS = {
    "log_probs": "logprobs",
    "ref_log_probs": "ref_logprobs",
    "rollout_log_probs": "sampling_logprobs",
    "loss_masks": "loss_mask",
    "kl": "trainer_kl_to_ref",
    **{key: key for key in ("values", "advantages", "returns", "entropy")},
}


class Spilled:
    """What a dump says of a tensor in a file of its own."""


def torch_data(path: Path) -> Any:
    """What a dump holds, by torch itself."""
    torch = pytest.importorskip("torch")
    name = "slime.utils.tensor_store.DiskTensorRef"
    with torch.serialization.safe_globals([(Spilled, name)]):
        return torch.load(path, weights_only=True)
