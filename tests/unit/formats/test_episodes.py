import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zstandard
from read_formats import DATA, opened, reasons, records, run_at

from board.index.discovery.discovered_runs import discover
from board.query.open_run import Follower, open_run

EVALUATION = DATA / "verifiers/traces/adder-v1--tiny--bash/7b1f"
BEFORE_STREAMS = DATA / "prime_rl/episodes"
BARE = DATA / "prime_rl/bare"
STREAM = DATA / "prime_rl/stream"
TRACES = STREAM / "monitors/file/traces"


def plain(path: Path) -> list[dict]:
    content = path.read_bytes()
    if path.suffix == ".zst":
        unpacker = zstandard.ZstdDecompressor()
        content = unpacker.stream_reader(content, read_across_frames=True).read()
    return [json.loads(line) for line in content.decode().split("\n") if line]


def reward(trace: dict) -> float | None:
    scored = [r for r in trace["rewards"].values() if r is not None]
    return sum(r["score"] * r["weight"] for r in scored) if scored else None


def sampled(trace: dict, key: str, path: list[int]) -> list[float]:
    """The values of a stream at every token of a branch, as its messages hold them."""
    values = []
    for node in (trace["nodes"][i] for i in path):
        compact = iter(node.get(key) or [np.nan] * sum(node["mask"]))
        values += [next(compact) if hit else np.nan for hit in node["mask"]]
    return values


def by_id(run) -> dict:
    return {r.ids["rollout_id"]: r for r in records(run)}


@pytest.fixture(scope="module")
def written():
    return plain(TRACES / "stream/00000.jsonl.zst") + plain(TRACES / "stream/00001.jsonl")


def assert_is_trace(record, trace, episode):
    assert record.scores.get("reward") == pytest.approx(reward(trace))
    reported = [{**node["message"], "timestamp": node["timestamp"]} for node in trace["nodes"]]
    remaining = [{k: v for k, v in message.items() if v is not None} for message in reported]
    assert all(message in remaining for message in record.messages)
    assert record.texts["ground_truth"] == trace["task"]["data"]["answer"]
    assert record.extras["agent"] == trace["agent"]["name"]
    assert record.extras["turns"] == trace["metrics"]["turns"]
    assert "never" not in record.extras or record.extras["never"] is None
    if episode:
        assert record.ids["env"] == episode["env"]["name"]


def test_every_trace_of_an_evaluation_is_a_rollout_with_its_values():
    lines, result = plain(EVALUATION / "traces.jsonl"), records(run_at(EVALUATION))
    assert [r.ids["rollout_id"] for r in result] == ["t0", "t1", "t2", "e3"]
    for record, line in zip(result, lines[:3], strict=False):
        assert_is_trace(record, line["traces"][0], line)
        assert record.response_ids is None
    assert {r.ids["split"] for r in result} == {"eval"}
    assert [r.ids["group_id"] for r in result] == [line["task"]["key"] for line in lines]
    *ended, unscored, failed = result  # the last without a trace
    assert [record.scores["is_truncated"] for record in ended] == [0, 1]  # by the limit of turns
    assert "reward" not in unscored.scores
    assert unscored.extras["error"] == "ToolError: no such tool"
    assert failed.extras["error"] == "SandboxError: did not start"
    failure = "sandbox: error=SandboxError: did not start"
    assert (failed.texts, failed.scores) == ({"prompt": "2+2?", "failure": failure}, {})


def test_the_tokens_of_a_trace_are_those_of_its_messages_in_order():
    lines = plain(BEFORE_STREAMS / "rollouts/step_2/train/all/traces.jsonl")
    result = by_id(run_at(BEFORE_STREAMS))
    for line in lines:
        (trace,) = line["traces"]
        record = result[trace["id"]]
        ids = [i for node in trace["nodes"] for i in node["token_ids"]]
        mask = [m for node in trace["nodes"] for m in node["mask"]]
        first = mask.index(True)
        assert record.prompt_ids.values().tolist() == ids[:first]
        assert record.response_ids.values().tolist() == ids[first:]
        assert record.tokens["loss_mask"].values().tolist() == [float(m) for m in mask[first:]]
        expected = sampled(trace, "logprobs", list(range(len(trace["nodes"]))))[first:]
        np.testing.assert_array_equal(record.tokens["sampling_logprobs"].values(), expected)
        assert np.isnan(expected).any()


def test_segments_say_whose_each_token_of_the_response_is():
    result = by_id(run_at(BEFORE_STREAMS))["at0"]
    assert list(result.segments) == [
        {"start": 0, "end": 3, "role": "assistant"},
        {"start": 3, "end": 5, "role": "tool", "name": "add"},
        {"start": 5, "end": 9, "role": "assistant"},
    ]


def test_an_admitted_episode_is_shown_once_as_effective_and_the_others_are_not():
    run = run_at(BEFORE_STREAMS)
    frame = run.rollouts.set_index("rollout_id")
    assert sorted(frame.index) == ["at0", "at1", "at2", "at3", "at4", "vt0"]
    assert run.repeated == 4
    effective = frame["effective"].to_dict()
    assert effective == {"at0": 1, "at1": 1, "at2": 0, "at3": 0, "at4": 1, "vt0": 1}
    assert sum(n for reason, n in reasons(run) if "written again" in reason) == 4


def test_an_episode_that_shipped_at_a_later_step_than_it_arrived_is_shown_there():
    run = run_at(BEFORE_STREAMS)
    frame = run.rollouts.set_index("rollout_id")
    assert run.counts == {2: 5, 10: 1}
    assert frame.loc["at4", "step"] == 10
    assert frame.loc["at4", "dispatch_step"] == 2
    assert frame["split"].to_dict()["vt0"] == "eval"


def test_advantages_in_the_messages_are_read():
    result = by_id(run_at(BEFORE_STREAMS))
    values = result["at0"].tokens["advantages"].values()
    np.testing.assert_array_equal(values, [-0.5] * 3 + [np.nan] * 4 + [-0.5] * 2)
    assert "advantages" not in result["at2"].tokens


def test_a_line_that_is_a_trace_alone_is_read():
    run = run_at(BARE)
    lines = plain(BARE / "rollouts/step_4/train_rollouts.jsonl")
    assert run.counts == {4: 2}
    for record, trace in zip(records(run), lines, strict=True):
        assert_is_trace(record, trace, None)
        assert record.ids["split"] == "train"


def test_every_trace_of_a_stream_is_a_rollout_whether_its_chunk_is_packed_or_not(written):
    stream = run_at(STREAM)
    result = by_id(stream)
    for line in written:
        for trace in line["traces"]:
            assert_is_trace(result[trace["id"]], trace, line)
    ids = {trace["id"] for line in written for trace in line["traces"]}
    assert set(result) == {*ids, "st1/0", "s3"}
    assert stream.rollout_count == len(result)


def test_a_stream_and_what_is_beside_it_are_one_run_and_nothing_of_it_is_left_out():
    result = discover(STREAM)
    assert [run.path for run in result.runs] == [STREAM]
    assert [Path(p.path).name for p in result.left_out] == ["stream.index.jsonl"]


def test_the_step_is_that_of_shipping_or_else_of_dispatch():
    frame = run_at(STREAM).rollouts.set_index("rollout_id")
    shipped = {"st0": 1, "st1": 1, "st1/0": 1, "st2": 2}
    not_shipped = {"st3": 1, "st4": 1, "st5": 1, "s3": 1}
    assert frame["step"].to_dict() == shipped | not_shipped
    dispatched = {"st0": 0, "st1": 0, "st1/0": 0, "st2": 1}
    assert frame["dispatch_step"].to_dict() == dispatched | not_shipped
    assert frame["effective"].dropna().index.tolist() == ["st0", "st1/0", "st1", "st2"]
    assert frame["split"].to_dict()["st4"] == "eval"


def test_what_the_trainer_says_of_a_branch_lands_on_its_sampled_tokens():
    tokens = by_id(run_at(STREAM))["st0"].tokens
    gap = [np.nan] * 4
    expected = {
        "logprobs": [-0.1, -0.2, -0.3, *gap, -0.4, -0.5],
        "entropy": [1.0, 1.1, 1.2, *gap, 1.3, 1.4],
        "advantages": [0.5, 0.5, 0.5, *gap, 0.5, 0.5],
        "is_masked": [0, 1, 0, *gap, np.nan, np.nan],
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(tokens[name].values(), values)


def test_the_newest_annotation_wins_where_it_says_something():
    record = by_id(run_at(STREAM))["st2"]
    gap = [np.nan] * 4
    advantages = [0.75] * 3 + gap + [0.125] * 2
    np.testing.assert_array_equal(record.tokens["advantages"].values(), advantages)
    logprobs = [-0.8, np.nan, -0.9, *gap, np.nan, np.nan]
    np.testing.assert_array_equal(record.tokens["logprobs"].values(), logprobs)
    assert record.scores["advantage"] == 0.75
    ship = record.extras["info"]["ship"]
    assert (ship["step"], ship["note"]) == (2, "again")


def test_each_branch_is_a_rollout_and_the_scores_stand_with_the_last():
    stream = run_at(STREAM)
    result = by_id(stream)
    first, last = result["st1/0"], result["st1"]
    assert first.scores == {}
    assert last.scores["reward"] == pytest.approx(0.1)
    assert last.response_ids.values().tolist() == [25, 26]
    assert last.tokens["advantages"].values().tolist() == [-0.25, -0.25]
    assert last.tokens["logprobs"].values().tolist() == [-0.6, -0.7]
    assert "logprobs" not in first.tokens
    assert ("its trace has several branches", 1) in reasons(stream)


def test_agents_with_different_parts_are_compared_among_themselves():
    result = by_id(run_at(STREAM))
    assert [result[i].ids["group_id"] for i in ("st2", "st3")] == ["h1/solver", "h1/judge"]
    assert result["st0"].ids["group_id"] == result["st1"].ids["group_id"] == "h0"


def test_a_value_that_was_not_sampled_is_no_gap():
    gaps = dict(reasons(run_at(STREAM)))
    assert "sampling_logprobs has entries that are null, NaN, infinite or a fill value" not in gaps
    assert (
        gaps["logprobs has entries that are null, NaN, infinite or a fill value"] == 1
    )  # st2, half annotated


@pytest.fixture
def growing(tmp_path):
    shutil.copytree(STREAM, tmp_path / "run")
    traces = tmp_path / "run/monitors/file/traces"
    shutil.rmtree(traces / "annotations/trainer")
    (traces / "annotations/trainer.index.jsonl").unlink()
    return tmp_path / "run", traces / "annotations"


def annotate(folder: Path, update: dict) -> None:
    (folder / "trainer").mkdir(exist_ok=True)
    with (folder / "trainer/00000.jsonl").open("a") as chunk:
        offset = chunk.tell()
        chunk.write(json.dumps(update) + "\n")
    row = {"trace_id": update["trace_id"], "chunk": 0, "offset": offset, "info": {}}
    with (folder / "trainer.index.jsonl").open("a") as index:
        index.write(json.dumps(row) + "\n")


@pytest.mark.parametrize("persist", [False, True])
def test_annotations_that_come_later_are_read_with_their_traces(growing, persist):
    run, folder = growing
    follower = Follower(persist=persist)
    before = follower.run(discover(run).runs[0])
    assert "entropy_mean" not in before.rollouts
    annotate(folder, {"trace_id": "st0", "branches": [{"index": 0, "entropies": [2.0] * 17}]})
    annotate(folder, {"trace_id": "st5", "info": {"ship": {"step": 7}}, "branches": []})
    after = follower.run(discover(run).runs[0])
    assert after.rollouts.set_index("rollout_id").loc["st0", "entropy_mean"] == 2.0
    assert after.counts == {1: 6, 2: 1, 7: 1}
    assert follower.run(discover(run).runs[0]).version == after.version


@pytest.mark.parametrize(
    ("branches", "reason"),
    [
        ([{"index": 9, "entropies": [1.0]}], None),
        ([{"index": 0, "entropies": ["x"]}], "entropies of an annotation"),
        ([{"index": 0, "entropies": [1.0] * 9}], None),
        ("no list", None),
    ],
)
def test_an_annotation_that_can_not_be_used_costs_nothing_else(growing, branches, reason):
    run, folder = growing
    annotate(folder, {"trace_id": "st5", "branches": branches})
    result = open_run(discover(run).runs[0])
    assert result.rollout_count == 8
    reported = [r for r, _ in reasons(result) if r.startswith("entropies of an annotation")]
    assert bool(reported) == (reason is not None)


def test_annotations_that_are_gone_or_packed_otherwise_are_named(growing):
    run, folder = growing
    content = (folder / "orch/00000.jsonl").read_bytes()
    (folder / "orch/00000.jsonl").unlink()
    gone = open_run(discover(run).runs[0])
    packed = zstandard.ZstdCompressor().compress(content)
    (folder / "orch/00000.jsonl.zst").write_bytes(packed)
    foreign = open_run(discover(run).runs[0])
    for result in (gone, foreign):
        assert result.rollout_count == 8
        assert "annotations can't be read" in dict(reasons(result))
    hints = [p.hint for p in foreign.problems if p.field == "annotations"]
    assert "no seek table" in hints[0]


def test_steps_in_no_order_are_no_resume(tmp_path):
    (line,) = plain(BEFORE_STREAMS / "rollouts/step_2/eval/all/traces.jsonl")
    path = tmp_path / "traces/stream/00000.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("w") as file:
        for number, step in enumerate([3, 3, 4, 3, 3]):
            line["run"]["work"]["step"] = step
            line["traces"][0]["id"] = f"t{number}"
            file.write(json.dumps(line) + "\n")
    run = run_at(tmp_path)
    assert run.counts == {3: 4, 4: 1}
    assert run.superseded == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mask": [True]}, "tokens are not shown: the mask of a message"),
        ({"token_ids": ["x"], "mask": [True]}, "tokens are not shown: holds something"),
        ({"parent": 7}, None),
        ({"parent": "x", "message": None}, None),
    ],
)
def test_a_damaged_message_costs_its_tokens_alone(tmp_path, change, reason):
    (line,) = plain(BEFORE_STREAMS / "rollouts/step_2/eval/all/traces.jsonl")
    line["traces"][0]["nodes"][2] |= change
    (tmp_path / "traces.jsonl").write_text(json.dumps(line) + "\n")
    run = run_at(tmp_path)
    assert run.rollouts["reward"].dropna().tolist() == pytest.approx([1.1])
    reported = [r for r, _ in reasons(run) if r.startswith("tokens are not shown")]
    assert [r.startswith(reason or "-") for r in reported] == ([True] if reason else [])


def test_logprobs_of_another_number_than_sampled_tokens_are_left_out_of_that_message(tmp_path):
    (line,) = plain(BEFORE_STREAMS / "rollouts/step_2/eval/all/traces.jsonl")
    line["traces"][0]["nodes"][2]["logprobs"].append(-9.0)
    (tmp_path / "traces.jsonl").write_text(json.dumps(line) + "\n")
    (rollout,) = opened(run_at(tmp_path))
    missing = np.isnan(rollout.metrics["sampling_logprobs"]).tolist()
    assert missing == [True] * 7 + [False] * 2


def test_token_exports_of_other_tokens_than_the_traces_stand_alone_beside_them(tmp_path):
    shutil.copytree(STREAM, tmp_path / "run")
    line = {"step": 1, "rank": 0, "micro_step": 0, "micro_sequence_idx": 0, "env_name": "adder"}
    line |= {"token_ids": [1, 20, 21], "loss_mask": [False, True, True]}
    line |= {"trainer_logprobs": [-9.0, -0.1, -0.2], "inference_logprobs": [0.0, -0.1, -0.2]}
    path = tmp_path / "run/token_exports/step_1/rank_0.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(line) + "\n")
    runs = {run.name: open_run(run) for run in discover(tmp_path).runs}
    assert {name: run.info.formats for name, run in runs.items()} == {
        "run": ("episodes", "prime_rl_tokens"),
        "run (episodes)": ("episodes",),
        "run (prime_rl_tokens)": ("prime_rl_tokens",),
    }
    assert [run.rollout_count for _, run in sorted(runs.items())] == [9, 8, 1]
    assert [(join.joined, join.rows) for join in runs["run"].rows.joins.counts] == [(0, 1)]
