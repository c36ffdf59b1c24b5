"""The readers on files that other people's frameworks wrote, where these lie beside the checkout."""

import json
from pathlib import Path

import pandas as pd
import pytest
from read_formats import collection

from board.index.discovery.discovered_runs import discover
from board.query.open_run import OpenOptions, open_run

FORMATS = collection()
pytestmark = pytest.mark.skipif(
    not FORMATS.is_dir(), reason=f"the collection of real log files is not at {FORMATS}"
)


@pytest.fixture(scope="module")
def poems():
    (info,) = discover(FORMATS / "rlloggingboard").runs
    return open_run(info)


@pytest.fixture(scope="module")
def lines() -> pd.DataFrame:
    path = FORMATS / "rlloggingboard" / "data.jsonl"
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    frame = pd.DataFrame(rows)
    numeric = {"step": int, "reward": float, "ref_reward": float}
    return frame.astype({name: kind for name, kind in numeric.items() if name in frame})


def test_its_texts_can_be_searched(poems, lines):
    word = lines["response"].iloc[17][:4]
    columns = ["prompt", "response", "ref_response"]
    expected = lines[columns].apply(lambda c: c.str.contains(word, regex=False)).any(axis=1)
    assert poems.where(f'any_text contains "{word}"').rollout_count == int(expected.sum()) > 0


def test_its_cap_holds(poems, lines):
    capped = open_run(poems.info, OpenOptions(max_per_step=10))
    assert capped.steps["rollouts"].max() == 10
    assert len(capped.rollouts) + capped.over_cap == len(lines)


def test_of_a_file_with_shell_text_between_lines_all_rollouts_are_shown():
    path = FORMATS / "broken" / "shell_text_between_lines.jsonl"
    (info,) = discover(path).runs
    run = open_run(info)
    lines = path.read_bytes().split(b"\n")
    expected = [json.loads(line) for line in lines if line.startswith(b"{")]
    assert run.rollouts["reward"].tolist() == [row["reward"] for row in expected]
    lost = [problem.count for problem in run.problems if problem.severity == "lost"]
    assert sum(lost) == len([line for line in lines if line]) - len(expected) > 0


def plain(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def test_every_trace_of_prime_rls_stream_opens():
    (info,) = discover(FORMATS / "prime_rl").runs
    run = open_run(info)
    episodes = plain(FORMATS / "prime_rl" / "traces" / "stream" / "00000.jsonl")
    index = plain(FORMATS / "prime_rl" / "traces" / "stream.index.jsonl")
    ids = [trace["id"] for episode in episodes for trace in episode["traces"] or [episode]]
    assert run.rollouts["rollout_id"].tolist() == ids
    by_episode = run.rollouts.groupby(run.rollouts["episode"].fillna("episode-0003"))
    for row in index:
        if row["reward"] is not None:
            assert by_episode["reward"].mean()[row["id"]] == pytest.approx(row["reward"])
            assert by_episode["advantage"].mean()[row["id"]] == pytest.approx(row["advantage"])
            assert by_episode["response_tokens"].sum()[row["id"]] == row["output_tokens"]
    assert run.rollouts["error"].notna().sum() == 1


def test_no_file_of_another_format_is_taken_for_one_that_is_read():
    found = discover(FORMATS)
    assert {run.name: run.formats for run in found.runs} == {
        "broken": ("verifiers",),
        "nemo_gym": ("nemo_gym",),
        "prime_rl": ("episodes",),
        "rlloggingboard": ("rllb",),
        "verifiers/gsm8k": ("verifiers",),
        "verifiers/math_python": ("verifiers",),
        "verifiers/mcp_env": ("verifiers",),
        "verl": ("verl",),
        "xtuner": ("xtuner",),
    }
    on_disk = {path.relative_to(FORMATS).as_posix() for path in FORMATS.rglob("*.jsonl")}
    opened = {f.path.relative_to(FORMATS).as_posix() for run in found.runs for f in run.files}
    left_out = {problem.path for problem in found.left_out}
    assert on_disk - opened - left_out == {"broken/lfs_pointer.jsonl"}  # told of its run
    assert left_out == {"prime_rl/traces/stream.index.jsonl"}
    assert all(problem.reason for problem in found.left_out)


def test_a_file_of_no_known_format_chosen_as_a_run_gives_a_reason_and_no_crash():
    found = discover(FORMATS / "broken" / "lfs_pointer.jsonl")
    assert found.runs == ()
    assert len(found.left_out) == 1
