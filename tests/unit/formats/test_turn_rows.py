"""A log with a row for each turn gives the rollouts of the log with a line for each trajectory."""

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import collection, info_at, json_lines, reasons, records, run_at, run_of
from written_logs import write_lines

from board.analysis.audit import audit_all
from board.core.conservation import not_shown
from board.errors import BoardError
from board.formats import joined_rows
from board.formats.base import LineContext
from board.formats.joined_rows import Together
from board.formats.mapping_files import mapping_reader
from board.index.discovery.discovered_runs import discover
from board.query.groups import group_table
from board.query.open_run import Follower, Run

MAPPING = 'trajectory = "trajectory_id"\nturn = "turn"\n[keys]\nresponse = "response"\n'
CASE = collection().parent / "cases" / "reports" / "10_stepwise_rows" / "run"

TURNS = st.integers(1, 4)
TRAJECTORIES = st.lists(
    st.tuples(st.integers(0, 2), TURNS, st.sampled_from([0.0, 1.0])), min_size=2
)


def conversation(number: int, turns: int) -> list[dict[str, str]]:
    messages = [{"role": "user", "content": f"Solve task {number}."}]
    for turn in range(turns):
        messages += [{"role": "user", "content": f"result {number}.{turn}"}] if turn else []
        messages.append({"role": "assistant", "content": f"attempt {number}.{turn}"})
    return messages


def text_prompt(number: int, turn: int) -> str:
    said = [m["content"] for m in conversation(number, turn + 1)[:-1]]
    return "\n".join(said)


def logs_of(
    trajectories: list[tuple[int, int, float]], *, as_texts: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of turns, and the lines of trajectories."""
    rows: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = []
    for number, (step, turns, reward) in enumerate(sorted(trajectories)):
        shared = {"step": step, "uid": f"p{step}.{number // 2}", "trajectory_id": f"t{number}"}
        lines.append({**shared, "messages": conversation(number, turns), "reward": reward})
        for turn in range(turns):
            said = conversation(number, turn + 1)
            texts = {"prompt": text_prompt(number, turn), "response": said[-1]["content"]}
            content = texts if as_texts else {"messages": said}
            rows.append({**shared, "turn": turn, **content, "reward": reward})
    return rows, lines


def facts(run: Run) -> list[tuple[Any, ...]]:
    """What each rollout is: step, group, reward, and the texts of its turns."""
    groups = group_table(run)[["step", "rollouts"]].value_counts().to_dict()
    found = [
        (r.step, r.ids["group_id"], r.scores["reward"], [m["content"] for m in r.messages])
        for r in records(run)
    ]
    return [*sorted(found), groups, run.rollout_count]


def read(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        return facts(run_of(Path(folder), rows))


@settings(max_examples=15, deadline=None)
@given(TRAJECTORIES, st.booleans(), st.randoms(use_true_random=False))
def test_rows_of_turns_are_the_rollouts_of_lines_of_trajectories(trajectories, as_texts, order):
    rows, lines = logs_of(trajectories, as_texts=as_texts)
    if len(rows) == len(lines):  # nothing says that these are turns
        rows = [{**row, "is_last_step": True} for row in rows]
    lines = [{**line, "group_id": line["uid"]} for line in lines]
    expected = read(lines)
    assert read(rows) == expected
    order.shuffle(rows)
    assert read(rows) == expected


@settings(max_examples=15, deadline=None)
@given(TRAJECTORIES, st.integers(0, 2**16), st.sampled_from([1, 400, 4000]))
def test_rows_cut_anywhere_and_read_as_they_come_are_those_read_at_once(
    trajectories, seed, together
):
    rows, _ = logs_of(trajectories, as_texts=True)
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    cuts = [*sorted(random.Random(seed).sample(range(200, len(content)), 2)), len(content)]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(joined_rows, "_MOST_BYTES", together)
        path = Path(folder, "run", "log.jsonl")
        path.parent.mkdir()
        follower = Follower()
        for cut in cuts:
            path.write_bytes(content[:cut])
            grown = follower.run(info_at(path.parent))
        assert facts(grown) == read(rows)


def test_tokens_of_all_turns_follow_each_other_and_say_whose_they_are(tmp_path):
    row = {"step": 1, "trajectory_id": "a", "uid": "p", "prompt_ids": [1], "reward": 1.0}
    turns = [
        {"turn": 0, "response": "one", "response_ids": [5, 6], "logprobs": [-1.0, -2.0]},
        {"turn": 1, "response": "two", "response_ids": [7], "loss_mask": [0]},
    ]
    (record,) = records(run_of(tmp_path, [row | turn for turn in turns]))
    assert record.response_ids is not None
    assert record.response_ids.values().tolist() == [5, 6, 7]
    assert record.tokens["logprobs"].values().tolist()[:2] == [-1.0, -2.0]
    assert record.tokens["loss_mask"].values().tolist() == [1, 1, 0]
    ends = [(segment["start"], segment["end"], segment["name"]) for segment in record.segments]
    assert ends == [(0, 2, "turn 1"), (2, 3, "turn 2")]


def test_rewards_that_differ_between_turns_are_noted_and_shown(tmp_path):
    row = {"step": 1, "trajectory_id": "a", "prompt": "Go.", "response": "left"}
    rows = [{**row, "turn": turn, "reward": reward} for turn, reward in enumerate((0.25, 0.0, 1.0))]
    run = run_of(tmp_path, rows)
    (record,) = records(run)
    assert record.scores["reward"] == 1.0
    assert record.extras["by_turn"] == {"reward": [0.25, 0.0, 1.0]}
    assert ("the rows of a trajectory have different rewards", 1) in reasons(run)


VALUES = st.one_of(
    st.floats(-1e6, 1e6), st.text("abcdef ", min_size=12), st.lists(st.integers(0, 9), max_size=4)
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"response": st.text("abcxyz ", min_size=12)},
        optional=dict.fromkeys(("note", "time", "state"), VALUES)
        | {"prompt": st.text("uvw ", min_size=12), "reward": st.floats(-1e6, 1e6)},
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_nothing_that_a_turn_holds_is_lost_when_rows_are_joined(rows):
    reader = mapping_reader(MAPPING)
    line = Together(rows=[{**row, "trajectory_id": 1, "turn": n} for n, row in enumerate(rows)])
    at = LineContext(Path("log.jsonl"))
    (row,) = reader.rows(line, at)
    record = reader.record(row, at)
    assert not not_shown(line, [record], reader.left_out)


def test_numbers_of_turns_that_begin_again_are_another_trajectory(tmp_path):
    row = {"step": 1, "trajectory_id": 0, "prompt": "Go.", "reward": 1.0}
    turns = [{**row, "turn": t, "response": f"{n}.{t}"} for n in range(2) for t in range(3)]
    assert len(records(run_of(tmp_path, turns))) == 2


def test_rows_that_only_share_an_id_are_a_rollout_each_and_named(tmp_path):
    rows = [
        {"step": 1, "session_id": f"s{n // 2}", "prompt": "Go.", "response": f"{n}", "reward": 0.0}
        for n in range(4)
    ]
    run = run_of(tmp_path, rows)
    assert run.rollout_count == 4
    (problem,) = [p for p in run.problems if "session_id" in p.reason]
    assert problem.severity == "partial"
    assert 'trajectory = "session_id"' in problem.hint
    Path(tmp_path, "run", "rollout-board.toml").write_text(
        'trajectory = "session_id"\n[keys]\nprompt = "prompt"\nresponse = "response"\n'
    )
    joined = run_at(tmp_path / "run")
    assert joined.rollout_count == 2
    assert not [p for p in joined.problems if "session_id" in p.reason]


def test_a_trajectory_that_is_too_far_apart_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(joined_rows, "_MOST_BYTES", 300)
    row = {"step": 1, "prompt": "Go.", "reward": 1.0}
    ids = ["a", *"bcdefgh", "a"]
    rows = [
        {**row, "trajectory_id": one, "turn": n, "response": f"{n}", "pad": "x" * 200}
        for n, one in enumerate(ids)
    ]
    monkeypatch.setattr(joined_rows, "_MOST_OPEN_BYTES", 600)
    run = run_of(tmp_path, rows)
    (problem,) = [p for p in run.problems if "far apart" in p.reason]
    assert problem.severity == "partial"


def test_turns_are_a_setting_with_a_trajectory_alone():
    with pytest.raises(BoardError, match="trajectory"):
        mapping_reader('turn = "turn"\n[keys]\nresponse = "response"\n')
    with pytest.raises(BoardError, match="rows"):
        mapping_reader('rows = "samples"\n' + MAPPING)


@pytest.mark.skipif(not CASE.is_dir(), reason="the handed cases are not here")
def test_stepwise_rows_are_160_rollouts_in_groups_of_four(tmp_path):
    write_lines(tmp_path / "run" / "log.jsonl", json_lines(CASE / "rollouts.jsonl"))
    run = run_at(tmp_path / "run")
    assert run.rollout_count == 160
    assert run.rollouts["reward"].mean() == pytest.approx(0.475)
    assert set(group_table(run)["rollouts"]) == {4}
    assert len(group_table(run)) == 40
    assert not run.problems
    audit = audit_all(run, lambda done, size: None)
    assert not audit.problems
    assert run.rollouts["turns"].sum() == 733


@settings(max_examples=15, deadline=None)
@given(TRAJECTORIES, st.booleans(), st.randoms(use_true_random=False))
def test_rows_of_a_table_are_the_rollouts_of_the_same_lines(trajectories, as_texts, order):
    rows, lines = logs_of(trajectories, as_texts=as_texts)
    if len(rows) == len(lines):  # nothing says that these are turns
        return
    order.shuffle(rows)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "rollouts.parquet"
        pd.DataFrame(rows).to_parquet(table)
        assert facts(run_at(table.parent)) == read(rows)


NAMES = [
    {"id": "trajectory_id", "turn": "turn", "role": "role", "text": "content"},
    {"id": "conversation_id", "turn": "turn_index", "role": "role", "text": "text"},
    {"id": "session", "turn": "step", "role": "from", "text": "value"},
    {"id": "thread_id", "turn": "message_index", "role": "speaker", "text": "utterance"},
]
SPEAKERS = {"from": {"user": "human", "assistant": "gpt"}}


def write_as(path: Path, rows: list[dict[str, Any]]) -> None:
    """Writes rows as a container that the name of the file tells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".csv":
        pd.DataFrame(rows).to_csv(path, index=False)
    elif path.suffix == ".parquet":
        pd.DataFrame(rows).to_parquet(path)
    else:
        write_lines(path, rows)


@settings(max_examples=20, deadline=None)
@given(
    TRAJECTORIES,
    st.sampled_from(NAMES),
    st.sampled_from(["log.jsonl", "log.json", "log.csv", "log.parquet"]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_rows_of_one_message_are_the_rollouts_of_their_conversations(
    trajectories, names, name, is_numbered, order
):
    expected: list[tuple[float, list[tuple[str, str]]]] = []
    rows: list[dict[str, Any]] = []
    for number, (_, turns, reward) in enumerate(trajectories):
        said = conversation(number, turns)
        expected.append((reward, [(m["role"], m["content"]) for m in said]))
        roles = SPEAKERS.get(names["role"], {})
        for turn, message in enumerate(said):
            content = {
                names["role"]: roles.get(message["role"], message["role"]),
                names["text"]: message["content"],
            }
            place = {names["turn"]: turn} if is_numbered else {}
            rows.append({names["id"]: f"t{number}", **place, **content, "reward": reward})
    if is_numbered:
        order.shuffle(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run", name)
        write_as(path, rows)
        run = run_at(path.parent)
        found = [
            (r.scores["reward"], [(m["role"], m["content"]) for m in r.messages])
            for r in records(run)
        ]
        assert sorted(found) == sorted(expected)
        assert audit_all(run, lambda done, total: None).problems == ()


def test_messages_of_one_turn_are_of_one_rollout_until_the_turns_begin_again(tmp_path):
    roles = ("user", "assistant", "tool", "tool", "assistant")
    rows = [
        {"id": "a", "turn": turn, "role": role, "content": f"{role} {turn} {time}"}
        for time in range(2)
        for turn in range(2)
        for role in roles
    ]
    told = [[m["content"] for m in r.messages] for r in records(run_of(tmp_path, rows))]
    assert told == [[row["content"] for row in rows[start : start + 10]] for start in (0, 10)]


PLACES = (
    *(("uid", "turn_idx"), ("conversation", "round"), ("trial_id", "turn"), ("env_id", "env_step")),
    *(
        ("game_id", "move"),
        ("episode_id", "t"),
        ("sample_id", "turn"),
        ("meta.trajectory_id", "turn"),
    ),
    *(("info.episode_id", "info.turn"), ("traj_uid", "info.step_index")),
)


def put(row: dict[str, Any], path: str, value: Any) -> None:
    above, _, name = path.rpartition(".")
    (row.setdefault(above, {}) if above else row)[name] = value


@pytest.mark.parametrize(("identity", "turn"), PLACES)
@pytest.mark.parametrize("as_transitions", [False, True])
def test_an_id_that_comes_with_each_turn_once_is_of_a_trajectory(
    tmp_path, identity, turn, as_transitions
):
    rows: list[dict[str, Any]] = []
    for number in range(2):
        for place in range(3):
            names = ("state", "action") if as_transitions else ("prompt", "response")
            texts = (f"seen {number} {place}", f"done {number} {place}")
            row: dict[str, Any] = {
                "step": 1,
                "reward": float(place == 2),
                **dict(zip(names, texts, strict=True)),
            }
            put(row, identity, f"e{number}")
            put(row, turn, place)
            rows.append(row)
    told = records(run_of(tmp_path, rows))
    said = [[f"{what} {n} {t}" for t in range(3) for what in ("seen", "done")] for n in range(2)]
    assert [[m["content"] for m in record.messages] for record in told] == said
    assert [record.scores["reward"] for record in told] == [1.0, 1.0]


def test_a_round_of_training_is_no_turn(tmp_path):
    rows = [
        {
            "step": step,
            "session_id": f"s{step}",
            "round": 7,
            "prompt": "Go.",
            "response": f"r {step}",
        }
        for step in range(3)
    ]
    run = run_of(tmp_path, rows)
    assert run.rollout_count == 3
    assert run.rollouts["round"].tolist() == [7, 7, 7]


NAMES_OF_TURNS = st.sampled_from(["turns", "conversation", "history", "messages", "trajectory"])
KEYS_OF_A_TURN = st.sampled_from(
    [
        ("prompt", "response"),
        ("human", "assistant"),
        ("toy_input", "toy_output"),
        ("query", "reply"),
    ]
)


@settings(max_examples=12)
@given(st.lists(st.integers(1, 3), min_size=2, max_size=4), NAMES_OF_TURNS, KEYS_OF_A_TURN)
def test_turns_within_a_line_are_one_rollout(turns, name, keys):
    asked, answered = keys
    rows = [
        {
            "step": 1,
            "reward": float(number),
            name: [
                {
                    asked: f"What is {number}, {turn}?",
                    answered: f"It is {number}, {turn}.",
                    "mark": number + turn / 8,
                }
                for turn in range(count)
            ],
        }
        for number, count in enumerate(turns)
    ]
    with tempfile.TemporaryDirectory() as folder:
        run = run_of(Path(folder), rows)
        assert audit_all(run, lambda done, total: None).problems == ()
        result = records(run)
    assert [record.scores["reward"] for record in result] == [row["reward"] for row in rows]
    for record, row in zip(result, rows, strict=True):
        said = [text for turn in row[name] for text in (turn[asked], turn[answered])]
        assert [message["content"] for message in record.messages] == said
        assert record.extras["by_turn"] == {"mark": [turn["mark"] for turn in row[name]]}


def test_a_document_of_messages_is_a_conversation_where_it_is_named(tmp_path):
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(conversation(1, 3)))
    (record,) = records(Follower().run(info_at(path)))
    assert list(record.messages) == conversation(1, 3)
    assert record.ids["rollout_id"] == "talk"
    assert discover(tmp_path).runs == ()
