"""Test files that slime and miles wrote, and what the board calls their arrays."""

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
