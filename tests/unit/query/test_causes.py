"""The cause of each rollout's failure, and what failures did, asked of small logs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from read_formats import info_at, run_of
from written_logs import write_lines

from board.core.failures.causes import recorded, undecided
from board.query.failures import cause_counts, clusters, counts_by, headline, run_effect
from board.query.open_run import Run, open_run


def conversation(output: str, tool: str = "search", *, turns_after: int = 1) -> dict[str, Any]:
    """Prompt and response as messages, in which a tool says something."""
    call = {"id": "c", "function": {"name": tool, "arguments": "{}"}}
    after = [{"role": "assistant", "content": f"answer {n}"} for n in range(turns_after)]
    return {
        "prompt": [{"role": "user", "content": "q"}],
        "response": [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": output},
            *after,
        ],
    }


def causes_of(run: Run) -> list[str | None]:
    return [row["cause"] for row in rows_of(run)]


def rows_of(run: Run) -> list[dict[str, Any]]:
    columns = ", ".join(f"{run.column(n)} AS {n}" for n in ("cause", "cause_evidence"))
    return run.table(
        f"SELECT {columns} FROM {run.view} WHERE {run.condition} ORDER BY step, position"
    ).to_pylist()


def cause_of(folder: Path, row: dict[str, Any], reward: float | None = 0.0) -> str | None:
    """Of a rollout beside one that is right and one that is wrong."""
    others = [{"prompt": "p", "response": "r", "reward": value} for value in (1.0, 0.0)]
    own = {"prompt": "p", "response": "r", "reward": reward} | row
    rows = [{"step": 1, **one} for one in (*others, own)]
    return causes_of(run_of(folder, rows))[2]


LIBRARY = "/usr/lib/python3.11/site-packages/httpx/_transports/default.py"


def traceback(*files: str) -> str:
    frames = "".join(f'  File "{file}", line 3, in run\n    call()\n' for file in files)
    return f"Traceback (most recent call last):\n{frames}httpx.ConnectError: no route to host"


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        ({}, "policy"),
        ({"response": "I can't do that."}, "policy"),
        ({"response_ids": []}, "server"),
        ({"response_ids": [7]}, "policy"),  # an end of text alone
        ({"finish_reason": "length"}, "truncated"),
        (conversation("Search request failed or timed out after retries."), "tool_error"),
        (conversation("UnknownError"), "tool_error"),
        (conversation(traceback(LIBRARY)), "tool_error"),
        (conversation(traceback(LIBRARY), "python"), "policy"),  # a piece, maybe of its program
        (conversation(traceback(LIBRARY, LIBRARY), "python"), "tool_error"),  # no program in it
        ({"response": ""}, "server"),
        (conversation(traceback(LIBRARY, "/tmp/script.py")), "policy"),
        (conversation("Error code: 429 - too many requests"), "server"),
        (conversation("Error code: 429 - too many requests", "bash"), "policy"),
        (conversation("UnknownError", turns_after=3), "policy"),  # it had its chance
        (conversation("no results found"), "policy"),
        ({"response": "x <tool_response>UnknownError</tool_response> so 4"}, "tool_error"),
        ({"response": "<tool_response>UnknownError</tool_response>" + "y" * 300}, "policy"),
        ({"response": "It said UnknownError."}, "policy"),
        (
            {"response": "Error: upstream connect error is in the log. So it is \\boxed{3}."},
            "policy",
        ),
        ({"response": "Error: upstream connect error"}, "server"),
    ],
)
def test_a_zero_has_the_cause_that_its_log_shows(tmp_path, row, cause):
    assert cause_of(tmp_path, row) == cause


@pytest.mark.parametrize(
    ("row", "reward", "cause"),
    [
        ({}, 1.0, None),
        ({}, None, "unscored"),
        (conversation("UnknownError"), 1.0, None),  # solved all the same
        (conversation("UnknownError"), None, "tool_error"),  # what failed says why it has none
        (conversation("no results found"), None, "unscored"),
    ],
)
def test_a_rollout_that_was_paid_is_not_asked_and_one_without_reward_is_unscored(
    tmp_path, row, reward, cause
):
    assert cause_of(tmp_path, row, reward) == cause


def test_a_recorded_failure_leaves_the_other_rollouts_their_causes(tmp_path):
    rows = [
        {"step": 1, "prompt": "p", "response": "r", "reward": reward, **more}
        for reward, more in (
            (0.0, {"error": "SandboxError: no route"}),
            (0.0, {"error": "something odd"}),
            (1.0, {"error": "SandboxError: too late to matter"}),
            (0.0, {}),
            (None, {}),
            (1.0, {}),
            (0.0, {"error": "ToolParseError: not JSON"}),
        )
    ]
    causes = ["sandbox", "unknown", "sandbox", "policy", "unscored", None, "policy"]
    assert causes_of(run_of(tmp_path, rows)) == causes


def of_outputs(
    folder: Path, before: list[str], after: list[str], reward: float = 0.0
) -> list[str | None]:
    """Causes of rollouts that end with the outputs `after` at the last of five steps, each of a prompt of
    its own; at the others rollouts end with `before`, and every second one is right.
    """
    steps = [(step, output, float(n % 2)) for step in range(4) for n, output in enumerate(before)]
    steps += [(4, output, reward) for output in after]
    rows = [{"step": step, **conversation(output), "reward": own} for step, output, own in steps]
    for n, row in enumerate(rows):
        row["prompt"] = [{"role": "user", "content": f"prompt {n}"}]
    return causes_of(run_of(folder, rows))[-len(after) :]


AWAY = ["The oracle is away, try in 3 minutes.", "The oracle is away, try in 99 minutes."] * 2
FOUND = [f"{word} was found" for word in ("tea", "gold", "a cave", "rain", "salt", "wood")]


def test_an_output_that_many_prompts_suddenly_end_with_is_not_clear(tmp_path):
    assert of_outputs(tmp_path / "a", FOUND, AWAY) == ["unknown"] * 4
    assert of_outputs(tmp_path / "b", FOUND, AWAY[:2]) == ["policy"] * 2
    assert of_outputs(tmp_path / "c", FOUND, ["43", "17", "8", "1"]) == ["policy"] * 4
    assert of_outputs(tmp_path / "d", FOUND, AWAY, reward=0.5) == [None] * 4


def test_an_output_that_prompts_have_always_ended_with_is_the_policy_s(tmp_path):
    usual = ["nothing was found"] * 4
    assert of_outputs(tmp_path / "a", [*FOUND, *usual], usual) == ["policy"] * 4
    assert of_outputs(tmp_path / "b", [], AWAY) == ["policy"] * 4


def test_the_evidence_names_what_was_seen(tmp_path):
    rows = [{"step": 1, **conversation("UnknownError"), "reward": 0.0}]
    (row,) = rows_of(run_of(tmp_path, rows))
    assert row == {"cause": "tool_error", "cause_evidence": "last output of search: UnknownError"}


def test_a_causes_toml_of_the_run_goes_before_the_packages_and_a_wrong_one_is_said(tmp_path):
    rows = [{"step": 1, **conversation("The oracle is away."), "reward": 0.0}]
    path = write_lines(tmp_path / "run" / "a.jsonl", rows)
    own = path.parent / "causes.toml"
    own.write_text("[[output]]\ncause = 'judge'\npattern = '''^The oracle'''\n")
    run = open_run(info_at(path.parent))
    assert causes_of(run) == ["judge"]
    for text, words in (
        ("[[output]]\ncause = 'judge'\npattern = '('\n", "no regular expression"),
        ("[[output]]\ncause = 'gremlins'\npattern = 'x'\n", "not one of policy"),
        ("[output]\ncause = 'judge'\n", "two brackets"),
        ("[[outputs]]\n", r"may have [[recorded]]"),
    ):
        own.write_text(text)
        run = open_run(info_at(path.parent))
        assert causes_of(run) == ["policy"]
        assert any(words in problem.reason for problem in run.problems), run.problems


def test_what_a_reader_records_is_cut_and_says_its_cause_first():
    assert recorded("judge", "x" * 900).startswith("judge: xxx")
    assert undecided("error=" + "y" * 900).startswith("?: error=yyy")
    assert len(recorded("judge", "x" * 900)) == len(undecided("z" * 900)) == 300


def failing(step: int, group: str, rank: int, *, fails: bool, reward: float) -> dict[str, Any]:
    output = "UnknownError" if fails else "three results"
    return {
        **conversation(output),
        "step": step,
        "group_id": group,
        "rank": rank,
        "reward": 0.0 if fails else reward,
    }


@pytest.fixture(scope="module")
def failed_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Groups of four at two steps; in one group of the second step the last rollout failed."""
    rows = [
        failing(
            step, f"g{g}", g, fails=step == 2 and g == 1 and n == 3, reward=[1.0, 3.0, 2.0, 2.0][n]
        )
        for step in (1, 2)
        for g in (0, 1)
        for n in range(4)
    ]
    return run_of(tmp_path_factory.mktemp("failed") / "run", rows)


def test_failures_are_counted_by_step_and_kind_and_put_together(failed_run):
    counts = cause_counts(failed_run)
    assert headline(counts).by_class["infrastructure"] == 1
    assert headline(counts).rollouts == 16
    failed = counts[counts["cause"] == "tool_error"]
    assert failed["step"].tolist() == [2]
    by_rank, by_tool = counts_by(failed_run, "rank"), counts_by(failed_run, "tool")
    assert by_rank[by_rank["cause"].notna()]["value"].tolist() == ["1"]
    assert by_tool["value"].unique().tolist() == ["search"]
    assert counts_by(failed_run, "env") is None
    similar = clusters(failed_run)
    assert similar.total == 1
    assert similar.table.loc[0, ["cause", "rollouts", "step", "index"]].tolist() == [
        "tool_error",
        1,
        2,
        7,
    ]


def test_the_effect_is_that_of_the_group_with_the_failure(failed_run):
    effect = run_effect(failed_run).effect
    assert (effect.groups, effect.changed, effect.only_failed) == (4, 1, 0)
    assert effect.baseline_shift == pytest.approx(0.5)
    assert effect.without.reward == pytest.approx(np.mean([1, 3, 2, 2] * 3 + [1, 3, 2]))


def test_a_run_without_failures_has_no_effect(tmp_path):
    rows = [
        {"step": 1, "group_id": "g", "prompt": "p", "response": "r", "reward": n} for n in (0, 1)
    ]
    run = run_of(tmp_path, rows)
    assert run_effect(run) is None
    assert clusters(run).total == 0
