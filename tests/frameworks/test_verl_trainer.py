"""The recipe for verl's v1 trainers, on verl 0.9.1 itself: it exports, and training stays what it was."""

import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("verl", reason="see tests/frameworks/install")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def hooked() -> Any:
    from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    from exporters.hooks.verl import ExportV1

    class ExportTrainer(ExportV1, PPOTrainerSync):
        pass

    TRAINER_REGISTRY["sync"] = ExportTrainer
    yield ExportTrainer
    TRAINER_REGISTRY["sync"] = PPOTrainerSync


def test_the_trainer_that_verl_makes_of_its_default_mode_is_the_one_with_the_hook(hooked):
    from verl.trainer.ppo.v1.trainer_base import get_trainer_cls

    assert get_trainer_cls("sync") is hooked


def test_the_replay_buffer_is_that_of_the_trainer_without_the_hook(hooked):
    """Verl compares the mode's name with "sync": `trainer_base.py:153, 731, 902, 912, 1004, 1499`."""
    import verl
    from omegaconf import OmegaConf
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    file = Path(verl.__file__).with_name("trainer") / "config/_generated_ppo_trainer.yaml"
    made = []
    for kind in (hooked, PPOTrainerSync):
        trainer = object.__new__(kind)
        trainer.config = OmegaConf.load(file)
        trainer.trainer_mode = trainer.config.trainer.v1.trainer_mode
        made.append(type(trainer._build_replay_buffer()).__name__)
    assert made == ["ReplayBuffer", "ReplayBuffer"]


def test_what_the_hook_overrides_is_there_with_the_same_parameters(hooked):
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    from exporters.hooks.verl_v0 import ExportV0

    for theirs, ours in ((PPOTrainer, hooked), (RayPPOTrainer, ExportV0)):
        expected = [*inspect.signature(theirs._log_rollout_data).parameters]
        assert [*inspect.signature(ours._log_rollout_data).parameters] == expected
    assert [*inspect.signature(PPOTrainer._compute_metrics).parameters][1:3] == ["batch", "metrics"]


def test_the_settings_of_verls_own_configuration_are_described(hooked):
    import verl
    from omegaconf import OmegaConf

    from exporters.frameworks.verl_columns import bypasses, settings_of

    file = Path(verl.__file__).with_name("trainer") / "config/_generated_ppo_trainer.yaml"
    config = OmegaConf.load(file)
    described = settings_of(config)
    assert described["actor_rollout_ref.rollout.n"] == 1
    assert described["trainer.v1.trainer_mode"] == "sync"
    assert bypasses(config) is False
    config.algorithm.rollout_correction.bypass_mode = True
    assert bypasses(config) is True
    assert bypasses(SimpleNamespace()) is False
