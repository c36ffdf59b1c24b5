"""What the hooks override and where their recipes add a line is in the frameworks' own sources."""

from importlib.util import find_spec
from pathlib import Path

import pytest

SWIFT = "swift", "rlhf_trainers/grpo_trainer.py"
SKYRL = "skyrl", "train/trainer.py"
OPENRLHF = "openrlhf", "trainer/ppo_trainer.py"
SAYS = {
    (*SWIFT, "batches"): "def _postprocess_batch(self, samples: ",
    (*SWIFT, "loss"): "def _compute_loss_and_metrics(self, model, model_inputs: ",
    (*SWIFT, "log-probabilities"): "def _get_per_token_logps_and_entropies(",
    (*SWIFT, "truncated"): "if self.overlong_filter and any(truncated_mask)",
    (*SKYRL, "columns"): "def convert_to_training_input(self, generator_output: ",
    (*SKYRL, "rewards"): "def compute_advantages_and_returns(self, data: ",
    (*SKYRL, "steps"): '._fire("on_step_end", batch=training_input, metrics=status)',
    (*OPENRLHF, "batch"): "self.experience_maker.make_experience_batch(rollout_samples)",
    (*OPENRLHF, "steps"): "return status, global_step + 1",
    ("miles", "backends/megatron_utils/actor.py", "no data for a hook on the training ranks"): (
        "self.rollout_data_postprocess(self.args)"
    ),
}


@pytest.mark.parametrize(("package", "file", "what"), SAYS)
def test_the_source_of_a_framework_has_what_its_hook_follows(package, file, what):
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip("not installed: see tests/frameworks/install")
    text = Path(next(iter(found.submodule_search_locations)), file).read_text(encoding="utf-8")
    assert SAYS[package, file, what] in text
