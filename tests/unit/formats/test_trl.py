import numpy as np
import pandas as pd
import pytest
from read_formats import DATA, assert_fields, opened, reasons, records, run_at

from board.index.discovery.discovered_runs import discover


def plain(folder: str, *steps: int) -> pd.DataFrame:
    names = [f"completions_{step:05d}.parquet" for step in steps]
    tables = [pd.read_parquet(DATA / "trl" / folder / "completions" / name) for name in names]
    return pd.concat(tables, ignore_index=True)


def test_every_row_and_value_is_that_of_the_tables():
    expected = plain("text", 1, 3)
    parts = {f"rewards.{name}": name for name in ("count_e", "short")}
    same = ("step", "prompt", "advantage", "seen")
    rows = expected.to_dict("records")
    assert_fields(
        records(run_at(DATA / "trl" / "text")), rows, *same, response="completion", **parts
    )


def test_several_parts_without_weights_have_no_total_and_a_note_says_so():
    texts = run_at(DATA / "trl" / "text")
    assert "reward" not in texts.rollouts
    begin = "no reward is recorded, only its parts count_e and short;"
    assert [n for reason, n in reasons(texts) if reason.startswith(begin)] == [1]


def test_one_reward_function_is_the_reward(tmp_path):
    frame = plain("text", 1).drop(columns="count_e")
    (tmp_path / "completions").mkdir()
    frame.to_parquet(tmp_path / "completions" / "completions_00001.parquet")
    run = run_at(tmp_path)
    np.testing.assert_array_equal(run.rollouts["reward"], frame["short"])
    assert not any("reward" in reason for reason, _ in reasons(run))


@pytest.mark.parametrize("missing", [[0, 1, 2, 3, 4, 5, 6, 7], [2, 5], []])
@pytest.mark.parametrize("value", ["a text of log_extra", ["img"], {"name": "x"}])
def test_a_column_of_anything_but_numbers_is_no_reward_where_it_is_null(tmp_path, missing, value):
    frame = plain("text", 1).drop(columns="count_e")
    frame["images"] = [None if row in missing else value for row in range(len(frame))]
    (tmp_path / "completions").mkdir()
    frame.to_parquet(tmp_path / "completions" / "completions_00001.parquet")
    run = run_at(tmp_path)
    np.testing.assert_array_equal(run.rollouts["reward"], frame["short"])


def test_a_buffer_that_was_written_again_is_shown_once_and_counted():
    texts = run_at(DATA / "trl" / "text")
    assert texts.repeated == 16
    assert texts.rollout_count == len(texts.rollouts) == 16
    message = [p for p in texts.problems if "written again" in p.reason]
    assert [(p.path[-9:], p.count) for p in message] == [("2.parquet", 8), ("4.parquet", 8)]


def test_chat_messages_are_messages():
    run = run_at(DATA / "trl" / "chat")
    expected = plain("chat", 1, 3)
    for rollout, prompt, completion in zip(
        opened(run), expected["prompt"], expected["completion"], strict=True
    ):
        assert list(rollout.record.messages) == [*prompt, *completion]
        assert rollout.record.texts["response"] == completion[0]["content"]
        assert rollout.line["completion"] == list(completion)


@pytest.mark.parametrize("size", [0, 4, 300, 5000])
def test_a_half_written_table_is_named_and_costs_no_other(tmp_path, size):
    source = DATA / "trl" / "text" / "completions"
    whole, cut = source / "completions_00001.parquet", source / "completions_00003.parquet"
    folder = tmp_path / "run" / "completions"
    folder.mkdir(parents=True)
    (folder / whole.name).write_bytes(whole.read_bytes())
    (folder / cut.name).write_bytes(cut.read_bytes()[:size])
    (info,) = discover(tmp_path).runs
    assert info.name == "run"
    assert [p.path for p in info.left_out] == [f"completions/{cut.name}"]
    assert run_at(tmp_path).rollout_count == 8


def test_data_sets_beside_a_run_are_one_quiet_note(tmp_path):
    for number in range(30):
        frame = pd.DataFrame({"question": ["q"], "answer": [number]})
        frame.to_parquet(tmp_path / f"train-{number:05d}.parquet")
    result = discover(tmp_path)
    assert result.runs == ()
    assert [(p.path, p.severity, p.count) for p in result.left_out] == [("*.parquet", "note", 30)]
