"""A folder of several logs: joined, and each alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from shown import OpenApp, assert_sound, buttons, choice, go_to, readers, table, texts

PRIME = Path(__file__).parents[1] / "formats/data/prime_rl/joined"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(PRIME, tmp_path / "logs" / "run")
    return tmp_path / "logs"


def test_the_sidebar_offers_the_joined_run_and_each_log_alone(
    folder: Path, open_app: OpenApp
) -> None:
    app = open_app(folder, "rollouts", run="run", step="2")
    assert buttons(app, "Source").options == ["joined", "traces", "trainer"]
    assert table(app)["reward"].notna().sum() == 4
    buttons(app, "Split").set_value("all").run()
    assert table(app)["reward"].notna().sum() == 5
    buttons(app, "Source").set_value("prime_rl_tokens").run()
    assert choice(app, "run") == "run (prime_rl_tokens)"
    assert_sound(app)
    assert len(table(app)) == 4


def test_log_health_says_what_was_joined_and_what_was_not(folder: Path, open_app: OpenApp) -> None:
    app = open_app(folder, "findings", findings_health="1", run="run", step="2")
    said = texts(app)
    assert "3 of 6 rollouts joined with prime-rl token exports by step and exact token ids" in said
    assert "6 rows without a match in another log" in said
    files = app.dataframe[-1].value.set_index("file")
    assert files.loc["token_exports/step_10/rank_0.jsonl", "joined to others"] == 1


def test_log_health_counts_repeats(tmp_path: Path, open_app: OpenApp) -> None:
    shutil.copytree(Path(__file__).parents[1] / "formats/data/verl/v0", tmp_path / "run")
    shutil.copy(tmp_path / "run/10.jsonl", tmp_path / "run/copy_10.jsonl")
    app = open_app(tmp_path, "findings", findings_health="1", run="run")
    assert "4 rows repeat rollouts that the log holds already; each is shown once." in texts(app)


def test_a_joined_rollout_shows_the_tokens_of_one_log_with_the_texts_of_the_other(
    folder: Path, open_app: OpenApp
) -> None:
    app = open_app(folder, "rollout", run="run", step="2", index="1", reader_record="1")
    (view,) = readers(app)
    shown = {detail["title"]: detail for detail in view["details"]}
    calls = [block["name"] for turn in view["turns"] for block in turn["blocks"]]
    assert "add" in calls
    places = [f"{row['label']}, {row['value']}" for row in shown["Place in the log"]["rows"]]
    assert any("token_exports/step_2/rank_1.jsonl, line 2" in place for place in places)
    app = go_to(app, "overview")
    assert_sound(app)
