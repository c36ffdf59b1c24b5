"""The section of the trainer, its settings, and what Log health and Compare say of it."""

import json
import math
from pathlib import Path

import pytest
from page_elements import cards, choice, texts
from written_logs import write_lines

from board.views.shared import trainer

STEPS = range(1, 13)


@pytest.fixture(autouse=True)
def read_at_once(monkeypatch):
    """What reads the metrics is waited for: imports of its packages take a second."""
    monkeypatch.setattr(trainer, "_WAIT_SECONDS", 60.0)


def rewards(step: int) -> list[float]:
    return [step * step % 7 + i for i in (0.0, 1.0)]


def write_run(folder: Path, *, first: int = 1, offset: float = 0.0) -> Path:
    """A run of 12 steps with metrics of its trainer, which begin at another step."""
    rows = [
        {"step": step, "response": f"r{step} {reward}", "reward": reward}
        for step in STEPS
        for reward in rewards(step)
    ]
    write_lines(folder / "log.jsonl", rows)
    metrics = [
        {
            "step": step - 1 + first,
            "reward": sum(rewards(step)) / 2 + offset,
            "loss": 1 / step,
            "timing/gen": 2.0 * step,
        }
        for step in STEPS
    ]
    write_lines(folder / "metrics.jsonl", metrics)
    return folder


def titles(app) -> list[str]:
    return [card["title"] for card in cards(app)]


def test_the_overview_draws_the_trainers_curves_and_those_that_are_searched(open_app, tmp_path):
    write_run(tmp_path / "run")
    app = open_app(tmp_path)
    assert "trainer/loss" in titles(app)
    assert "trainer/timing/gen" not in titles(app)
    assert "timing/gen 24" in texts(app).replace("\\", "")
    app = open_app(tmp_path, overview_trainer="^trainer.*GEN$")
    assert "trainer/timing/gen" in titles(app)
    app = open_app(tmp_path, overview_trainer="(")
    assert "is not a valid RE2 regular expression" in texts(app).replace("\\", "")


def test_a_run_without_metrics_of_a_trainer_has_no_such_section(open_app, tmp_path):
    write_run(tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").unlink()
    assert "Trainer" not in texts(open_app(tmp_path))


def test_a_shift_is_said_and_can_be_set(open_app, tmp_path):
    write_run(tmp_path / "run", first=0)
    app = open_app(tmp_path)
    assert "steps +1" in texts(app).replace("\\", "")
    app = open_app(tmp_path, metric_shift="5")
    assert "steps +5" in texts(app).replace("\\", "")
    assert choice(app, "metric_shift") == 5


def test_log_health_and_findings_say_where_trainer_and_rollouts_differ(open_app, tmp_path):
    write_run(tmp_path / "run", offset=0.25)
    app = open_app(tmp_path, "findings", findings_part="health")
    assert "Do the trainer and the rollouts agree?" in texts(app)
    assert "metrics.jsonl (JSON lines): 3 metrics, 36 points" in texts(app)
    app = open_app(tmp_path, "findings")
    assert "Trainer and rollouts differ in reward" in texts(app).replace("\\", "")
    assert "trainer 4.75, rollouts 4.5 over 2" in texts(open_app(tmp_path)).replace("\\", "")


def test_compare_draws_metrics_of_trainers(open_app, tmp_path):
    for name in ("a", "b"):
        write_run(tmp_path / name)
    app = open_app(tmp_path, "compare", run="a", compare_runs="b", compare_metrics="trainer/loss")
    assert titles(app) == ["trainer/loss"]


def test_an_own_curve_may_use_a_metric_of_the_trainer(open_app, tmp_path):
    write_run(tmp_path / "run")
    app = open_app(tmp_path, overview_expression='reward * col("trainer/loss")')
    assert not app.error
    (own,) = (card for card in cards(app) if card["key"] == "own")
    line = own["chart"]["lines"][0]["y"]
    expected = [sum(rewards(step)) / 2 / step for step in STEPS]
    assert all(math.isclose(a, b, abs_tol=1e-9) for a, b in zip(line, expected, strict=True))


@pytest.mark.parametrize("content", ["", "{", json.dumps({"step": "x", "loss": 1}), "step\n1"])
def test_odd_files_of_metrics_leave_the_pages_as_they_are(open_app, tmp_path, content):
    write_run(tmp_path / "run")
    for name in ("m.jsonl", "progress.csv", "trainer_state.json", "bad.wandb"):
        (tmp_path / "run" / name).write_text(content)
    (tmp_path / "run" / "events.out.tfevents.1").write_bytes(bytes(range(200)))
    assert "trainer/loss" in titles(open_app(tmp_path))
    assert "Do the trainer" in texts(open_app(tmp_path, "findings", findings_part="health"))
