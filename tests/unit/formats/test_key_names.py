"""Keys are matched by the words in their names, whatever stands before and behind them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from read_formats import DATA, opened, run_at
from written_logs import write_lines

from board import cli
from board.formats.key_names import REFERENCES, field_of, words_of
from board.index.discovery.discovered_runs import discover
from board.index.discovery.sniff import sniff
from board.query.open_run import Follower

HARMLESS = st.sampled_from(
    ["decoded", "my", "train", "x", "v2", "best", "logged", "some", "clean", "actor"]
)
JOINED = st.sampled_from(
    [
        "_".join,
        "-".join,
        lambda words: words[0] + "".join(word.title() for word in words[1:]),
    ]
)
KINDS = {
    "response": (["completion", "response", "generation", "output", "prediction"], "It is 4."),
    "prompt": (["prompt", "question", "instruction", "problem"], "What is 2 + 2?"),
    "reward": (["reward", "score"], 0.5),
    "group_id": (["problem id", "task id", "prompt uid", "question id"], "p7"),
    "response_ids": (["completion ids", "response token ids", "output tokens"], [3, 4, 5]),
    "prompt_ids": (["prompt ids", "prompt token ids"], [3, 4]),
    "loss_mask": (["response mask", "loss mask", "action mask"], [1, 1, 0]),
    "step": (["step", "iteration"], 7),
}


@given(data=st.data(), field=st.sampled_from([*KINDS]), joined=JOINED)
def test_a_field_is_recognised_with_any_words_around_its_name(data, field, joined):
    names, value = KINDS[field]
    inner = data.draw(st.sampled_from(names)).split()
    before = data.draw(st.lists(HARMLESS, max_size=2))
    after = data.draw(st.lists(HARMLESS, max_size=1))
    assert field_of(joined([*before, *inner, *after]), value) == field


@given(
    words=st.lists(
        st.one_of(
            HARMLESS, st.sampled_from(["completion", "response", "output", "text", "rollout"])
        ),
        max_size=3,
    ),
    reference=st.sampled_from(sorted(REFERENCES)),
    place=st.integers(0, 3),
    value=st.sampled_from(["the text of it", [1, 2, 3], ["a", "b"]]),
)
def test_no_key_of_the_task_is_taken_for_what_the_model_generated(words, reference, place, value):
    name = "_".join([*words[:place], reference, *words[place:]])
    assert field_of(name, value) not in ("response", "response_ids", "loss_mask", "messages")


@pytest.mark.parametrize(
    "name",
    [
        *(
            "response_length",
            "completion_tokens",
            "output_path",
            "response_format",
            "generation_config",
        ),
        *(
            "num_completions",
            "completion_model",
            "system_prompt",
            "prompt_template",
            "response_language",
        ),
    ],
)
def test_what_is_said_about_a_text_is_not_the_text(name):
    for value in ("some text", 3):
        assert field_of(name, value) not in ("response", "prompt", "reward", "step")


def test_words_are_told_by_underscores_hyphens_and_capitals():
    assert words_of("rawCompletion_2-final") == ("raw", "completion", "2", "final")
    assert words_of("ref_log_probs") == ("ref", "logprobs")


@pytest.mark.parametrize(
    "name",
    [
        *(
            "decoded_completion",
            "raw_completion",
            "rollout",
            "sampled_text",
            "assistant",
            "generated",
        ),
        *("trajectory", "text", "what_was_said"),
    ],
)
def test_a_response_of_any_name_is_found_beside_a_step_and_a_prompt(name, tmp_path):
    rows = [
        {
            "step": n,
            "prompt": f"What is {n}?",
            name: f"The sum is {n}, I think.",
            "scalar_reward": n / 4,
        }
        for n in range(4)
    ]
    write_lines(tmp_path / "run" / "log.jsonl", rows)
    run = run_at(tmp_path / "run")
    assert run.info.formats != ("rllb",)
    records = [one.record for one in opened(run)]
    assert [record.texts["response"] for record in records] == [row[name] for row in rows]
    assert [record.scores["reward"] for record in records] == [0, 0.25, 0.5, 0.75]


def test_a_reward_that_several_keys_could_be_is_none_unless_one_is_the_total(tmp_path):
    rows = [
        {"step": 1, "prompt": "p q", "completion": "a b", "format_reward": 1, "math_reward": 0.5}
    ]
    write_lines(tmp_path / "parts" / "log.jsonl", rows)
    (record,) = (one.record for one in opened(run_at(tmp_path / "parts")))
    assert "reward" not in record.scores
    write_lines(tmp_path / "total" / "log.jsonl", [{**rows[0], "scalar_reward": 1.5}])
    (record,) = (one.record for one in opened(run_at(tmp_path / "total")))
    assert record.scores["reward"] == 1.5


def test_texts_alone_are_read_where_the_file_is_named_and_only_there(tmp_path):
    turns = [
        {"role": "user", "text": "please stop the job"},
        {"role": "assistant", "text": "I stop it now."},
    ]
    path = write_lines(
        tmp_path / "run" / "talk.jsonl", [{"run_id": n, "turns": turns} for n in range(3)]
    )
    assert discover(path.parent).runs == ()
    (info,) = discover(path).runs
    records = [one.record for one in opened(Follower().run(info))]
    assert [message["content"] for message in records[0].messages] == [
        turn["text"] for turn in turns
    ]


def test_conversations_of_sharegpt_have_their_roles(tmp_path):
    talk = [
        {"from": "human", "value": "What is 2 + 2?"},
        {"from": "gpt", "value": "It is 4, of course."},
    ]
    write_lines(tmp_path / "run" / "log.jsonl", [{"conversations": talk, "score": 0.5}])
    (record,) = (one.record for one in opened(run_at(tmp_path / "run")))
    assert [message["role"] for message in record.messages] == ["user", "assistant"]
    assert record.texts["response"] == "It is 4, of course."


def test_a_mapping_without_a_text_is_not_suggested_and_what_is_missing_is_said(tmp_path, capsys):
    rows = [
        {
            "type": "request",
            "request_params": {"model": "m", "messages": [{"role": "user", "content": "Hi."}]},
        },
        {
            "type": "response",
            "response": {"id": "c1"},
            "outputs": [{"message": "Hello there."}],
            "cost": 0.1,
        },
    ]
    path = write_lines(tmp_path / "api.jsonl", rows)
    (result,) = sniff(path).files
    assert result.suggested is None
    assert "reward" in result.lacks
    cli.main(["sniff", str(path)])
    printed = capsys.readouterr().out
    assert printed.count("not found:") <= 3
    assert "no key is named as" in printed


def test_readers_whose_keys_a_file_has_are_named_first(tmp_path):
    path = write_lines(
        tmp_path / "log.jsonl", [{"task_id": 3, "completion": [1], "result": json.dumps(1)}]
    )
    (result,) = sniff(path).files
    assert next(iter(result.readers)) == "human_eval"


def test_a_transition_is_a_prompt_and_a_response_and_loses_nothing():
    first, *_, last = (one.record for one in opened(run_at(DATA / "transitions")))
    assert first.texts["prompt"] == "You are in room 0. There is a door."
    assert first.texts["response"] == "open the door to room 1"
    assert first.extras["next_state"] == "You are in room 1. There is a door."
    assert last.scores["reward"] == 0.75


def test_a_table_of_prefixed_names_is_read_whole():
    records = [one.record for one in opened(run_at(DATA / "tables"))]
    assert [record.step for record in records] == [0, 0, 1, 1, 2, 2]
    assert records[3].texts["response"] == 'It is "4", I think.'
    assert records[3].response_ids.values().tolist() == [5, 6, 10]
    assert records[3].ids["group_id"] == "sum:1"


def test_the_total_of_a_reward_that_is_an_object_is_the_reward_and_the_others_are_its_parts(
    tmp_path,
):
    rows = [
        {
            "step": 1,
            "prompt": "p q",
            "response": f"a {n}",
            "reward": {"total": n / 2, "score": 1, "form": 0},
        }
        for n in range(3)
    ]
    write_lines(tmp_path / "run" / "log.jsonl", rows)
    records = [one.record for one in opened(run_at(tmp_path / "run"))]
    assert [record.scores["reward"] for record in records] == [0, 0.5, 1]
    assert [record.scores["rewards.score"] for record in records] == [1, 1, 1]
