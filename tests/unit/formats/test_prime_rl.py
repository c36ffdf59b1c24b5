import json
import math

import numpy as np
import pytest
from read_formats import DATA, records, run_at

from board.errors import RecordError

VOCAB = 50_000
LINE = {
    "schema_version": 1,
    "step": 4,
    "rank": 2,
    "micro_step": 1,
    "micro_sequence_idx": 0,
    "export_sequence_idx": 9,
    "env_name": "math",
    "token_ids": [11, 12, 13, 14, 15],
    "position_ids": [0, 1, 2, 3, 4],
    "loss_mask": [False, False, True, False, True],
    "advantages": [0.0, 0.0, 0.5, 0.0, 0.5],
    "inference_logprobs": [0.0, 0.0, -1.0, 0.0, -2.0],
    "trainer_logprobs": [-math.log(VOCAB), -0.5, -1.5, -0.1, -2.5],
    "entropy": [math.log(VOCAB), 0.1, 0.2, 0.3, 0.4],
    "mismatch_kl": [9.0] * 5,
    "log_importance_ratio": [9.0] * 5,
    "importance_ratio": [9.0] * 5,
    "prob_delta": [9.0] * 5,
    "is_masked": [False, False, True, False, False],
    "is_masked_high": [False] * 5,
    "is_masked_low": [False, False, True, False, False],
    "rl_weights": [1.0, 1.0, 1.0, 1.0, 1.0],
    "ce_weights": [None] * 5,
    "ref_kl_weights": [None] * 5,
}


TOKENS = DATA / "prime_rl" / "tokens"


def exported() -> list[dict]:
    """All lines of all ranks, by step, rank and place."""
    return [
        json.loads(line)
        for step in (1, 2, 10)
        for rank in (0, 1)
        for line in (TOKENS / f"token_exports/step_{step}/rank_{rank}.jsonl")
        .read_text()
        .splitlines()
    ]


def test_every_row_and_value_of_an_export_is_that_of_the_files():
    names = {
        "trainer_logprobs": "logprobs",
        "inference_logprobs": "sampling_logprobs",
        **{k: k for k in ("entropy", "advantages", "is_masked", "is_masked_high", "is_masked_low")},
    }
    run, expected = run_at(TOKENS), exported()
    for record, row in zip(records(run), expected, strict=True):
        start = row["loss_mask"].index(True)
        assert (record.step, record.ids["rank"]) == (row["step"], row["rank"])
        assert (record.ids["micro_step"], record.ids["env"]) == (row["micro_step"], row["env_name"])
        assert record.prompt_ids.values().tolist() == row["token_ids"][:start]
        assert record.response_ids.values().tolist() == row["token_ids"][start:]
        for theirs, ours in names.items():
            plain = np.array(row[theirs][start:], float)  # null is NaN
            np.testing.assert_array_equal(record.tokens[ours].values(), plain)


def values(record, name):
    return record.tokens[name].values().tolist()


@pytest.mark.parametrize(
    "mask", [None, [None] * 5, [False] * 5, [True] * 5, [True, False], "x", [1, 1, "x", 1, 1]]
)
def test_fillers_at_position_zero_never_enter_without_a_usable_mask_either(read_line, mask):
    record = read_line("prime_rl_tokens", {**LINE, "loss_mask": mask})
    assert len(record.response_ids) == 4
    assert values(record, "entropy") == [0.1, 0.2, 0.3, 0.4]


def test_null_streams_are_not_recorded(read_line):
    record = read_line("prime_rl_tokens", {**LINE, "trainer_logprobs": [None] * 5})
    assert "logprobs" not in record.tokens
    assert "ce_weights" not in record.tokens
    assert record.remarks == []


def test_streams_that_follow_from_others_are_derived_and_not_taken(read_line):
    record = read_line("prime_rl_tokens", LINE)
    assert not {"mismatch_kl", "importance_ratio", "prob_delta"} & set(record.tokens)


def test_a_stream_of_another_length_is_kept_whole_and_named(read_line):
    record = read_line("prime_rl_tokens", {**LINE, "entropy": [1.0, 2.0, 3.0, 4.0]})
    assert values(record, "entropy") == [1, 2, 3, 4]
    assert [remark.field for remark in record.remarks] == ["entropy"]
    assert values(record, "logprobs") == [-1.5, -0.1, -2.5]


def test_an_unknown_stream_of_another_length_is_no_token_metric(read_line):
    record = read_line("prime_rl_tokens", {**LINE, "rl_weights": [1.0]})
    assert "rl_weights" not in record.tokens
    assert "rl_weights" in record.extras


def test_the_reward_repeated_for_each_token_is_the_rollouts_reward(read_line):
    record = read_line("prime_rl_tokens", {**LINE, "rewards": [0.75] * 5})
    assert record.scores == {"reward": 0.75}
    assert "rewards" not in record.tokens


def test_rewards_that_differ_from_token_to_token_stay_a_stream(read_line):
    record = read_line("prime_rl_tokens", {**LINE, "rewards": [0.0, 0.0, 0.0, 0.5, 1.0]})
    assert record.scores == {}
    assert values(record, "rewards") == [0, 0.5, 1]


def test_a_sequence_is_told_apart_by_where_the_trainer_had_it(read_line):
    record = read_line("prime_rl_tokens", LINE)
    assert record.ids == {"rank": 2, "micro_step": 1, "env": "math", "rollout_id": "2-1-0-9"}
    assert "schema_version" not in record.extras


def test_a_sequence_without_a_place_has_no_id(read_line):
    fields = {"step": 1, "token_ids": [1, 2], "trainer_logprobs": [0, -1]}
    assert "rollout_id" not in read_line("prime_rl_tokens", fields).ids


@pytest.mark.parametrize("token_ids", [None, "x", [[1]], {"a": 1}, 5])
def test_a_line_without_token_ids_is_refused(read_line, token_ids):
    with pytest.raises(RecordError, match="token_ids") as caught:
        read_line("prime_rl_tokens", {**LINE, "token_ids": token_ids})
    assert caught.value.field == "token_ids"


@pytest.mark.parametrize("length", [0, 1])
def test_the_shortest_sequences_are_read(read_line, length):
    cut = {k: v[:length] if isinstance(v, list) else v for k, v in LINE.items()}
    record = read_line("prime_rl_tokens", cut)
    assert len(record.response_ids) == 0
