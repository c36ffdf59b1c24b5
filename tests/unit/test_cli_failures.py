"""The command `failures`."""

import json
from pathlib import Path

import pytest
from written_logs import write_lines

from board import cli


@pytest.fixture
def failing(tmp_path: Path) -> str:
    """Two groups of four, in one of which a rollout has no token."""
    rows = [
        {"step": 1, "group_id": g, "prompt": "p", "response": "r", "response_ids": [4], "reward": r}
        for g in ("a", "b")
        for r in (1.0, 3.0, 2.0, 0.0)
    ]
    rows[3] |= {"response_ids": [], "response": ""}
    return str(write_lines(tmp_path / "run" / "a.jsonl", rows).parent)


def test_failures_are_printed_with_their_effect(failing, capsys):
    assert cli.main(["failures", failing]) == 0
    printed = capsys.readouterr().out
    assert (
        "Infrastructure failed in 1 of 8 rollouts; 0 of 8 failed with an unclear cause" in printed
    )
    assert "the response is empty" in printed
    assert "groups whose advantages they changed: 1 of 2" in printed
    assert "moved by 0.5" in printed


def test_one_document_has_counts_equal_failures_and_effect(failing, capsys):
    assert cli.main(["failures", failing, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["classes"]["infrastructure"], document["rollouts"]) == (1, 8)
    assert {"step": 1, "cause": "server", "rollouts": 1} in document["by_step"]
    assert document["rows"][0]["evidence"] == "the response is empty"
    assert document["effect"]["baseline_shift"] == 0.5
    assert cli.main(["rollouts", failing, "--where", "cause = 'server'", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["index"] for row in rows] == [3]


def test_a_run_without_rewards_says_that_there_are_no_causes(tmp_path, capsys):
    path = write_lines(tmp_path / "run" / "a.jsonl", [{"step": 1, "prompt": "p", "response": "r"}])
    assert cli.main(["failures", str(path.parent)]) == 0
    assert "no reward, limit or stop reason is recorded" in capsys.readouterr().err


def test_means_of_a_run_in_which_every_rollout_failed_are_not_recorded(tmp_path, capsys):
    row = {"step": 1, "group_id": "a", "prompt": "p", "response": "", "response_ids": []}
    rows = [row | {"reward": 0.0}, row | {"reward": 0.0}]
    assert cli.main(["failures", str(write_lines(tmp_path / "run" / "a.jsonl", rows).parent)]) == 0
    printed = capsys.readouterr().out
    assert "reward 0 -> not recorded" in printed
    assert "nan" not in printed
