"""The readers on files that other people's frameworks wrote, where these lie beside the checkout."""

import pytest
from read_formats import collection, json_lines, run_at

from board.index.discovery.discovered_runs import discover

FORMATS = collection()
pytestmark = pytest.mark.skipif(
    not FORMATS.is_dir(), reason=f"the collection of real log files is not at {FORMATS}"
)


def test_every_trace_of_prime_rls_stream_opens():
    run = run_at(FORMATS / "prime_rl")
    episodes = json_lines(FORMATS / "prime_rl" / "traces" / "stream" / "00000.jsonl")
    index = json_lines(FORMATS / "prime_rl" / "traces" / "stream.index.jsonl")
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
    result = discover(FORMATS)
    assert {run.name: run.formats for run in result.runs} == {
        "broken": ("verifiers",),
        "nemo_gym/calendar.example_rollouts.jsonl": ("nemo_gym",),
        "nemo_gym/workplace_assistant.example_rollouts.jsonl": ("nemo_gym",),
        "prime_rl": ("episodes",),
        "rlloggingboard": ("rllb",),
        "verifiers/gsm8k": ("verifiers",),
        "verifiers/math-python · gpt-4.1-mini": ("verifiers",),
        "verifiers/mcp_env": ("verifiers",),
        "verl": ("verl",),
        "xtuner": ("xtuner",),
    }
    on_disk = {path.relative_to(FORMATS).as_posix() for path in FORMATS.rglob("*.jsonl")}
    opened = {f.path.relative_to(FORMATS).as_posix() for run in result.runs for f in run.files}
    left_out = {problem.path for problem in result.left_out}
    assert on_disk - opened - left_out == {"broken/lfs_pointer.jsonl"}  # told of its run
    assert left_out == {"prime_rl/traces/stream.index.jsonl"}
    assert all(problem.reason for problem in result.left_out)
