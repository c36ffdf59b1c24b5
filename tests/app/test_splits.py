"""The pages show one split at a time, training's unless told otherwise, and say which."""

from pathlib import Path
from typing import Any

import pytest
from page_elements import (
    assert_sound,
    buttons,
    cards,
    choice,
    go_to,
    notices,
    query,
    table,
    texts,
    tiles,
)
from written_logs import native_sample, write_lines

PAGES = ("findings", "step", "rollouts", "rollout", "prompts")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training at steps 1 to 4, evaluation at 0, 2 and 4: of 2 rollouts, with rewards above 50."""
    root = tmp_path_factory.mktemp("splits")
    rows: list[dict[str, Any]] = []
    for step in range(5):
        own: list[dict[str, Any]] = []
        if step:
            own += [native_sample(step, 0, i) | {"split": "train"} for i in range(4)]
        if step % 2 == 0:
            own += [native_sample(step, 0, i) | {"split": "eval"} for i in range(2)]
        for row in own:
            row["reward"] += 50.0 if row["split"] == "eval" else 0.0
        rows += own
    write_lines(root / "mixed" / "log.jsonl", rows)
    write_lines(root / "evaluated" / "log.jsonl", [r for r in rows if r["split"] == "eval"])
    return root


def test_training_is_shown_and_what_is_set_aside_is_said(open_app, root):
    app = open_app(root, run="mixed")
    assert tiles(app)["Reward"]["value"] == "0.175"  # of steps 1 to 4
    assert "not shown: 6 eval rollouts; choose them above" in texts(app)
    assert "split" not in query(app)
    app = open_app(root, run="mixed", split="eval")
    assert tiles(app)["Reward"]["value"] == "50.07"  # of steps 0, 2 and 4
    assert "not shown: 16 train rollouts" in texts(app)


def test_a_step_of_evaluations_alone_is_none_of_training(open_app, root):
    app = open_app(root, run="mixed", step="0")
    assert any("0 is not available" in text for text in notices(app))
    assert choice(app, "step") == 4
    assert choice(open_app(root, run="mixed", step="0", split="eval"), "step") == 0


def test_evaluations_are_points_beside_the_curves_of_training(open_app, root):
    app = open_app(root, run="mixed")
    lines = {line["name"]: line for line in cards(app)[0]["chart"]["lines"]}
    assert lines["Reward"]["x"] == [1, 2, 3, 4]
    assert lines["eval"]["x"] == [0, 2, 4]
    assert min(lines["eval"]["y"]) >= 50
    assert all(lines["eval"]["lone"])
    assert [name for name in lines if not lines[name]["named"]] == ["eval"]  # by the page, once
    app = open_app(root, run="mixed", overview_evals="0")
    assert {line["name"] for line in cards(app)[0]["chart"]["lines"]} == {
        "Reward",
        "Reference reward",
        "correct",
        "format",
    }


def test_the_split_goes_with_the_reader_over_the_pages(open_app, root):
    app = open_app(root, "findings", findings_part="health", run="mixed", split="eval", step="2")
    assert "the rollouts of all splits, train, eval" in texts(app)
    app = open_app(root, run="mixed", split="eval", step="2")
    for page in PAGES:
        app = go_to(app, page)
        assert_sound(app)
        assert query(app)["split"] == "eval"
        assert "split eval" in texts(app)
        if page == "rollouts":
            assert table(app)["reward"].min() >= 50


def test_names_of_splits_are_text_wherever_they_stand(open_app, tmp_path):
    name = "![x](http://127.0.0.1:9/x.png) *b*"
    rows = [native_sample(1, 0, i) | {"split": "train" if i else name} for i in range(3)]
    write_lines(tmp_path / "run" / "log.jsonl", rows)
    app = open_app(tmp_path)
    assert buttons(app, "Split").options[1].startswith(r"\!\[x\]\(http")
    assert "![x]" not in texts(app)
    buttons(app, "Split").set_value(name).run()
    assert query(app)["split"] == name
    assert "![x]" not in texts(app)


def test_a_run_of_evaluations_alone_just_shows_them(open_app, root):
    app = open_app(root, run="evaluated")
    assert "split eval" in texts(app)
    assert_sound(app)
    assert tiles(app)["Reward"]["value"] == "50.07"  # of steps 0, 2 and 4
    assert "not shown" not in texts(app)
    assert "Split" not in [group.label for group in app.button_group]
