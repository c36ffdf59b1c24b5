import pytest
from read_formats import DATA, json_lines, reasons, records, run_at

EVERY_KEY = {
    "prompt": "2+2?",
    "response": "4",
    "response_tokens": ["4", "<|im_end|>"],
    "logprobs": [-0.1, -0.2],
    "ref_logprobs": [-0.3, -0.4],
    "values": [0.5, 0.6],
    "token_rewards": [0.0, 1.0],
    "reward": 1.0,
    "step": 7,
    "ref_response": "5",
    "ref_reward": 0.25,
    "valid_reward": 0.5,
    "ref_valid_reward": 0.75,
    "ground_truth": "4",
    "rm_response": "fine",
    "image_path": "a.png",
}


def test_every_key_of_the_format_has_its_place(read_line):
    record = read_line("rllb", EVERY_KEY)
    assert record.step == 7
    assert record.texts == {
        k: EVERY_KEY[k] for k in ("prompt", "response", "ref_response", "ground_truth")
    }
    assert record.scores == {
        k: EVERY_KEY[k] for k in ("reward", "ref_reward", "valid_reward", "ref_valid_reward")
    }
    assert {k: a.values().tolist() for k, a in record.tokens.items()} == {
        k: EVERY_KEY[k] for k in ("logprobs", "ref_logprobs", "values", "token_rewards")
    }
    assert record.response_tokens == EVERY_KEY["response_tokens"]
    assert record.extras == {"rm_response": "fine", "image_path": "a.png"}
    assert record.remarks == []


@pytest.mark.parametrize(
    ("pieces", "words"), [(["a", "b", "c"], "one entry more"), (["a"], "one entry less")]
)
def test_one_piece_more_or_less_than_values_is_a_note_and_shifts_nothing(read_line, pieces, words):
    record = read_line("rllb", {**EVERY_KEY, "response_tokens": pieces})
    assert record.tokens["logprobs"].values().tolist() == [-0.1, -0.2]
    assert record.response_tokens == pieces
    assert [remark.severity for remark in record.remarks] == ["note"]
    assert words in record.remarks[0].reason


def test_one_piece_more_is_seen_beside_an_unrelated_list(read_line):
    fields = {**EVERY_KEY, "response_tokens": ["a", "b", "c"], "image_size": [1, 2, 3, 4]}
    assert [remark.severity for remark in read_line("rllb", fields).remarks] == ["note"]


def test_two_pieces_more_than_values_is_named_for_each_array(read_line):
    record = read_line("rllb", {**EVERY_KEY, "response_tokens": list("abcd")})
    assert {remark.field for remark in record.remarks} == {
        *("logprobs", "ref_logprobs", "values", "token_rewards")
    }


def test_a_row_without_pieces_keeps_its_own_values(read_line):
    fields = {key: value for key, value in EVERY_KEY.items() if key != "response_tokens"}
    record = read_line("rllb", fields)
    assert record.response_tokens is None
    assert record.tokens["logprobs"].values().tolist() == [-0.1, -0.2]
    assert record.response_length == 2


def test_a_type_key_is_an_ordinary_extra_here(read_line):
    record = read_line("rllb", {**EVERY_KEY, "type": "step_end"})
    assert record.extras["type"] == "step_end"


VARIANTS = DATA / "rllb"


def rows(name):
    return json_lines(VARIANTS / name)


def test_openrlhfs_rows_have_values_where_there_is_a_critic():
    run, expected = run_at(VARIANTS / "openrlhf"), rows("openrlhf/rl_logging_board_data.jsonl")
    for record, row in zip(records(run), expected, strict=True):
        visible = {key: array.values().tolist() for key, array in record.tokens.items()}
        arrays = ("logprobs", "ref_logprobs", "values", "token_rewards")
        assert visible == {key: row[key] for key in arrays if row[key] is not None}
        assert record.texts == {"prompt": row["prompt"], "response": row["response"]}
        assert list(record.response_tokens or ()) == row["response_tokens"]
        assert (record.step, record.scores["reward"]) == (row["step"], row["reward"])
    assert [row["values"] is None for row in expected] == [True, True, False, False]
    assert reasons(run) == []


def test_every_row_of_a_verl_fork_is_that_of_the_file():
    run, expected = run_at(VARIANTS / "verl"), rows("verl/rollout_data_rank0.jsonl")
    train = [r for r in records(run) if r.ids.get("split") is None]
    for record, row in zip(train, expected, strict=True):
        visible = {key: array.values().tolist() for key, array in record.tokens.items()}
        assert visible == {k: row[k] for k in ("logprobs", "values", "token_rewards") if k in row}
        assert (record.step, record.scores["reward"]) == (row["step"], row["reward"])
        assert record.texts.get("ground_truth") == row.get("ground_truth")
        assert record.texts["prompt"] == row["prompt"]
        assert list(record.response_tokens or ()) == row["response_tokens"]
    assert reasons(run) == []


def test_what_a_verl_fork_could_not_write_is_not_recorded(read_line):
    row = {**rows("verl/rollout_data_rank0.jsonl")[0], "values": "", "ref_logprobs": ""}
    record = read_line("rllb", {**row, "ground_truth": ""})
    assert record.tokens.keys() == {"logprobs", "token_rewards"}
    assert record.remarks == []


def test_a_verl_forks_validation_is_the_eval_split():
    result = [r for r in records(run_at(VARIANTS / "verl")) if r.ids.get("split") == "eval"]
    assert [r.scores["reward"] for r in result] == [0.0, 1.0]
    assert [r.step for r in result] == [2, 2]
