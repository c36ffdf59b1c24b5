import pytest
from read_formats import DATA, json_lines, reasons, records, run_at

FOLDER = DATA / "relax" / "rollout_result"
FILES = ((0, "eval"), (0, "train"), (2, "train"), (10, "train"))


def plain(step: int, split: str) -> list[dict]:
    return json_lines(FOLDER / split / f"{step}.jsonl")


@pytest.fixture(scope="module")
def run():
    return run_at(FOLDER)


@pytest.mark.parametrize(("step", "split"), FILES)
def test_every_row_and_value_is_that_of_the_file(run, step, split):
    found = [r for r in records(run) if (r.step, r.ids["split"]) == (step, split)]
    for record, row in zip(found, plain(step, split), strict=True):
        prompt = row["prompt"]
        asked = prompt if isinstance(prompt, str) else prompt[-1]["content"]
        assert record.texts["prompt"].endswith(asked)
        assert record.texts["response"] == row["response"]
        assert record.texts.get("ground_truth") == row.get("label")
        assert record.ids["rollout_id"] == str(row["sample_index"])
        assert record.ids["group_id"] == str(row["group_index"])
        assert record.ids.get("env") == row.get("dataset")
        same = {*("prompt_length", "response_length", "total_length", "status")}
        for key in same | {"image_count", "agent_turns"}:
            assert record.extras[key] == row[key]
        reward = row["reward"]
        total = reward["score"] if isinstance(reward, dict) else reward
        assert record.scores.get("reward") == total


def test_ids_and_log_probabilities_of_later_versions_are_token_arrays(run):
    for record, row in zip(
        (r for r in records(run) if r.step == 2), plain(2, "train"), strict=True
    ):
        assert record.response_ids.values().tolist() == row["response_token_ids"]
        shown = {key: array.values().tolist() for key, array in record.tokens.items()}
        assert shown == {
            "sampling_logprobs": row["response_rollout_log_probs"],
            "rollout_log_probs_mask": row["response_rollout_log_probs_mask"],
        }


def test_a_reward_by_name_has_its_score_as_total_and_its_other_numbers_as_parts(run):
    record = next(r for r in records(run) if r.ids["split"] == "eval")
    assert record.scores["rewards.format"] == 0.5
    assert record.extras["reward_payload"] == {"reason": "boxed"}
    assert reasons(run) == []


def test_only_an_ended_response_is_known_to_be_truncated_or_not(run):
    shown = [r.scores.get("is_truncated") for r in records(run) if r.step == 2]
    assert shown == [0.0, 1.0, None, 0.0]


def test_the_one_version_of_the_weights_that_sampled_is_the_policys(read_line):
    versions = [["3"], ["3", "4"], []]
    found = [read_line("relax", {**plain(0, "train")[0], "weight_versions": v}) for v in versions]
    assert [r.ids.get("policy_version") for r in found] == [3, None, None]
    assert found[1].extras["weight_versions"] == ["3", "4"]
