"""A threshold that is set decides alike on every surface that says what is right."""

import pytest
from written_logs import write_lines

import board
from board import cli
from board.analysis.rollout import open_rollout
from board.cli.opened_runs import open_run
from board.export.rollout_frame import content_and_frame
from board.formats.io.locations import location_of

pytest.importorskip("mcp")
from board.mcp_server.links import Links
from board.mcp_server.open_runs import OpenRuns
from board.mcp_server.step_tools import StepTools


@pytest.fixture
def root(tmp_path):
    """A run of two prompts, whose rollouts have rewards 0, 0, 0.5 and 1 at each of four steps."""
    rows = [
        {
            "step": step,
            "prompt": f"p{prompt}",
            "group_id": f"{prompt}",
            "response": "an answer",
            "reward": reward,
        }
        for step in range(4)
        for prompt in range(2)
        for reward in (0.0, 0.0, 0.5, 1.0)
    ]
    write_lines(tmp_path / "run" / "log.jsonl", rows)
    return tmp_path


@pytest.mark.parametrize(("right_from", "right"), [(0.5, 2), (1.0, 1)])
def test_a_threshold_decides_alike_in_python_mcp_and_exports(root, right_from, right):
    frame = board.open_run(root / "run", right_from=right_from).prompts()
    assert frame["earlier"].tolist() == [right / 4] * 2
    tools = StepTools(OpenRuns(location_of(str(root))), Links())
    answer = tools.prompts("run", right_from=right_from)
    assert [row["earlier"] for row in answer["rows"]] == [right / 4] * 2
    assert f"right_from={right_from:g}" in answer["link"]
    assert "as set" in str(answer["what_is_right"])
    asked = ["export", str(root / "run"), "--step", "1", "--index", "2", "--interactive"]
    args = cli.build_parser().parse_args([*asked, "--right-from", str(right_from)])
    run = open_run(args)
    facts = content_and_frame(run, open_rollout(run, 1, 2))[1].facts
    assert [fact.after for fact in facts if fact.label == "group"] == [f"· {right}/4 solved"]
