"""What a hook does never raises into training, opening included; what it lost is counted and told."""

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from exporters import RolloutExporter  # noqa: E402 - hooks need torch
from exporters.frameworks.guard import guarded, open_guarded  # noqa: E402
from exporters.hooks.miles import MilesExport  # noqa: E402
from exporters.hooks.nemo_rl import ExportLogger  # noqa: E402
from exporters.hooks.openrlhf import export_experiences  # noqa: E402
from exporters.hooks.prime_rl import TokenExporter  # noqa: E402
from exporters.hooks.skyrl import ExportCallback  # noqa: E402
from exporters.hooks.slime import SlimeExport  # noqa: E402
from exporters.hooks.verl import ExportV1  # noqa: E402
from exporters.hooks.verl_v0 import ExportV0  # noqa: E402

Step = Callable[[], Any]
ODD = object()


def openrlhf(folder: str) -> Step:
    trainer = SimpleNamespace(tokenizer=None)
    return lambda: export_experiences(trainer, [ODD], 0, folder)


def verl(kind: Any) -> Callable[[str], Step]:
    def hook(folder: str) -> Step:
        trainer = kind()
        trainer.global_steps, trainer.total_training_steps = 1, 9
        odd = (ODD, {}) if kind is ExportV1 else (ODD, {}, {})
        return lambda: trainer._log_rollout_data(*odd, folder)

    return hook


def nemo_rl(folder: str) -> Step:
    logger = ExportLogger(SimpleNamespace(), folder)
    return lambda: logger.log_batched_dict_as_jsonl({"token_ids": ODD}, "train_data_step1.jsonl")


def skyrl(folder: str) -> Step:
    callback = ExportCallback(folder)
    state = SimpleNamespace(global_step=1, batch={}, metrics={"step": 1})
    callback.on_train_start(SimpleNamespace(), state, None)
    return lambda: callback.on_step_end(SimpleNamespace(), state, None)


def prime_rl(folder: str) -> Step:
    exporter = TokenExporter(Path(folder), 0)

    def step() -> None:
        exporter.export(1, 0, {}, {}, [4], None)
        exporter.mark_stable()

    return step


HOOKS: dict[str, Callable[[str], Step]] = {
    "openrlhf": openrlhf,
    "verl": verl(ExportV1),
    "verl_v0": verl(ExportV0),
    "nemo_rl": nemo_rl,
    "skyrl": skyrl,
    "prime_rl": prime_rl,
    "slime": lambda folder: lambda: SlimeExport(folder)(ODD, 1, {}),
    "miles": lambda folder: lambda: MilesExport(folder)(1, ODD, ODD, ODD, ODD),
}


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("target", ["a file", "s3://bucket/../run", "writable"])
def test_a_hook_raises_neither_where_it_cannot_open_nor_on_what_it_does_not_understand(
    tmp_path, hook, target, caplog
):
    (tmp_path / "a file").touch()
    folder = target if "://" in target else str(tmp_path / target)
    with caplog.at_level(logging.WARNING):
        step = HOOKS[hook](folder)
        step()
        step()
    if target != "writable":
        assert "rollouts are not exported" in caplog.text


@pytest.mark.parametrize("hook", sorted(set(HOOKS) - {"nemo_rl", "skyrl", "prime_rl"}))
def test_in_strict_mode_a_hook_raises_for_development(tmp_path, monkeypatch, hook):
    monkeypatch.setenv("ROLLOUT_EXPORT_STRICT", "1")
    (tmp_path / "a file").touch()
    with pytest.raises(Exception, match=r".+"):
        HOOKS[hook](str(tmp_path / "a file"))()


def test_what_is_logged_where_nothing_could_be_opened_is_counted_as_lost():
    def fails() -> RolloutExporter:
        raise PermissionError("no room here")

    exporter = open_guarded(fails, strict=False)
    assert not exporter.wants(1)
    exporter.log(1, response_ids=[[1], [2]])
    exporter.end_step(1)
    exporter.close()
    assert exporter.counts["lost"] == 2
    assert exporter.counts["errors:open"] == 1


def test_what_the_guard_catches_costs_the_rollouts_that_were_to_be_logged(tmp_path):
    with RolloutExporter(tmp_path, strict=False) as exporter:
        with guarded(exporter, "hook", 1, lambda: [1, 2, 3]):
            raise RuntimeError("broken")
        with guarded(exporter, "hook", 1, lambda: ODD.missing):
            raise RuntimeError("broken")
        exporter.end_step(1)
    assert exporter.counts["lost"] == 3
    assert exporter.counts["errors:hook"] == 2
    assert '"dropped":3' in exporter.path.read_text()
