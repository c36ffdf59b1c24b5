from typing import Any

import numpy as np
import pytest
from read_formats import run_at, run_of, sample_run
from written_logs import native_run

from board.analysis.rollout import open_rollout
from board.analysis.utterances import Hit, compiled, hit_in
from board.analysis.words import trending_phrases, watch, within_groups
from board.errors import ChoiceError
from board.query.open_run import Run


def test_hits_and_misses_have_their_own_mean_reward(tmp_path):
    rows = [
        {"step": 1, "env": "a", "prompt": "wait", "response": "Wait. wait!", "reward": 1.0},
        {"step": 1, "env": "a", "prompt": "wait", "response": "no", "reward": 0.25},
        {"step": 1, "env": "b", "prompt": "wait", "response": "no", "reward": None},
    ]
    run = run_of(tmp_path, rows)
    first, second = watch(run, compiled("wait"))
    assert (first.env, first.rollouts, first.hits, first.times) == ("a", 2, 1, 2)
    assert (first.reward_hits, first.reward_misses, first.examples) == (1.0, 0.25, [0])
    assert (second.env, second.rollouts, second.hits) == ("b", 1, 0)
    assert second.reward_misses != second.reward_misses
    assert [w.hits for w in watch(run, compiled("wait"), by="prompt")] == [2, 1]


def test_a_phrase_is_no_pattern_unless_asked_for(tmp_path):
    run = run_at(native_run(tmp_path / "run"))
    assert sum(w.hits for w in watch(run, compiled("2*3*4"))) == run.rollout_count // 2
    assert sum(w.hits for w in watch(run, compiled("2.3.4", regex=True))) == run.rollout_count // 2
    with pytest.raises(ChoiceError, match="regular expression"):
        compiled("(", regex=True)


@pytest.mark.parametrize("by", ["response", "prompt", "answer", "reasoning"])
def test_a_rollout_without_a_text_neither_says_nor_lacks_a_word(tmp_path, by):
    rows = [{"step": 1, "reward": 1.0, "group_id": "a"}]
    run = run_of(tmp_path, rows)
    (result,) = watch(run, compiled("wait"), by=by)
    assert (result.rollouts, result.not_recorded, result.scored_misses) == (0, 1, 0)


def test_an_empty_response_says_nothing(tmp_path):
    rows = [{"step": 1, "prompt": "p", "response": "", "reward": 1.0}]
    run = run_of(tmp_path, rows)
    (result,) = watch(run, compiled("wait"))
    assert (result.rollouts, result.hits, result.not_recorded) == (1, 0, 0)


def spoken(**more: Any) -> dict[str, Any]:
    """Five tokens of an assistant, a tool and the assistant again; of the messages, other words."""
    tokens = [" look", " it", " up", " error 5", " done"]
    return {
        "step": 1,
        "prompt": "p",
        "response_tokens": tokens,
        "segments": [
            {"start": 0, "end": 3, "role": "assistant"},
            {"start": 3, "end": 4, "role": "tool", "name": "search"},
            {"start": 4, "end": 5, "role": "assistant"},
        ],
        "messages": [
            {"role": "assistant", "content": "look it up"},
            {"role": "tool", "content": "said by the message"},
        ],
    } | more


def hits(run: Run, text: str, by: str) -> list[tuple[int, int, int]]:
    return [(w.hits, w.times, w.not_recorded) for w in watch(run, compiled(text), by=by)]


@pytest.mark.parametrize(
    ("keys", "heard"),
    [
        pytest.param(
            {"response_tokens": None},
            {("message", "tool"): (1, 1, 0), ("look", "assistant"): (1, 1, 0)},
            id="messages",
        ),
        pytest.param(
            {},
            {
                ("error", "tool"): (1, 1, 0),
                ("message", "tool"): (0, 0, 0),
                ("error", "assistant"): (0, 0, 0),
                ("done", "assistant"): (1, 1, 0),
            },
            id="segments before messages",
        ),
        pytest.param(
            {"response_tokens": None, "response_ids": [1, 2, 3, 4, 5]},
            {
                ("message", "tool"): (1, 1, 0),
                ("look", "assistant"): (1, 1, 0),
                ("4", "tool"): (0, 0, 0),
            },
            id="messages where ids have no vocabulary",
        ),
        pytest.param(
            {"segments": [], "messages": []},
            {
                ("error", "tool"): (0, 0, 1),
                ("error", "answer"): (1, 1, 0),
                ("error", "reasoning"): (0, 0, 1),
            },
            id="nothing",
        ),
    ],
)
def test_who_speaks_is_told_by_segments_and_then_by_messages(tmp_path, keys, heard):
    run = run_of(tmp_path, [spoken(**keys)])
    assert {one: hits(run, *one) for one in heard} == {
        one: [message] for one, message in heard.items()
    }


@pytest.mark.parametrize(
    "row",
    [
        {"response": "<think>hmm, 4?</think>It is 5."},
        {"response": "hmm, 4?</think>It is 5."},
        {
            "response_tokens": ["hmm,", " 4?", "It", " is", " 5."],
            "segments": [
                {"start": 0, "end": 2, "role": "reasoning"},
                {"start": 2, "end": 5, "role": "assistant"},
            ],
        },
    ],
)
def test_reasoning_and_answer_are_told_apart(tmp_path, row):
    rows = [{"step": 1, "prompt": "4 or 5", **row}]
    run = run_of(tmp_path, rows)
    for reported, reasoning, answer in (("4", 1, 0), ("5", 0, 1), ("think", 0, 0)):
        assert hits(run, reported, "reasoning") == [(reasoning, reasoning, 0)]
        assert hits(run, reported, "answer") == [(answer, answer, 0)]


def test_a_hit_names_the_token_that_it_begins_in(tmp_path):
    run = run_of(tmp_path, [spoken()])
    whole = open_rollout(run, 1, 0)
    for by, reported, token in (("response", "up", 2), ("tool", "5", 3), ("assistant", "done", 4)):
        result = hit_in(run, whole, compiled(reported), by, 160)
        assert result.token == token
        assert result.after.startswith(reported)
    assert hit_in(run, whole, compiled("nothing"), "response", 160) is None


def first_hit(run: Run, text: str, by: str) -> Hit:
    return hit_in(run, open_rollout(run, 1, 0), compiled(text), by, 160)


def test_a_hit_in_a_message_is_placed_by_the_text_of_the_tokens(tmp_path):
    # The tool's output is not written in the message as it was in the tokens.
    tokens = ["look", " it", " up", "\n", '{"out": "', "it was an", " error", '"}', "all", " done"]
    messages = [
        {"role": "user", "content": "is it done?"},
        {"role": "assistant", "content": " look it up"},
        {"role": "tool", "content": "out = it was an error"},
        {"role": "assistant", "content": "all done"},
    ]
    row = {"step": 1, "prompt": "p", "response_tokens": tokens, "messages": messages}
    run = run_of(tmp_path, [row])
    assert first_hit(run, "up", "assistant").token == 2
    assert first_hit(run, "done", "assistant").token == 9
    assert first_hit(run, "error", "tool").token == 6


@pytest.mark.parametrize(
    ("keys", "by", "text", "why"),
    [
        ({}, "user", "right", "before the response"),
        ({}, "prompt", "p", "before the response"),
        ({}, "tool", "elsewhere", "do not occur exactly once"),
        ({}, "assistant", "yes", "do not occur exactly once"),
        ({"response_tokens": None}, "assistant", "yes", "no tokens"),
        ({"response_tokens": None, "response_ids": [1, 2]}, "assistant", "yes", "no vocabulary"),
    ],
)
def test_a_hit_of_no_one_token_says_why(keys, by, text, why, tmp_path):
    row = spoken(
        response_tokens=["yes", " right", " yes"],
        segments=[],
        messages=[
            {"role": "user", "content": "right?"},
            {"role": "assistant", "content": "yes"},
            {"role": "tool", "content": "elsewhere"},
        ],
        response="yes right yes",
    )
    run = run_of(tmp_path, [{**row, **keys}])
    result = first_hit(run, text, by)
    assert result.token is None
    assert why in result.unplaced


@pytest.mark.timeout(20)
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(a*)*b", r"(?:.*?,){20}P"])
def test_no_pattern_takes_longer_than_the_text_is_long(pattern):
    assert compiled(pattern, regex=True).counts(["a" * 50_000 + "!"]).tolist() == [0]


@pytest.mark.parametrize("pattern", ["(?=a)b", r"(a)\1", "((a{1000}){1000}){1000}", "a" * 2000])
def test_a_pattern_that_is_not_bounded_is_refused(pattern):
    with pytest.raises(ChoiceError):
        compiled(pattern, regex=True)


def test_half_characters_and_signs_of_patterns_are_only_text():
    result = compiled("2*3 4\n#-&~é😀")
    assert result.counts(["\ud83d x 2*3 4\n#-&~É😀 2*3 4\n#-&~é😀", "2x3"]).tolist() == [2, 0]
    assert compiled("É").first("😀 \ud83dé") == 3
    assert compiled("é").first("e") == -1


def test_the_reward_hack_is_heard_in_what_it_says():
    result = trending_phrases(sample_run("grpo_reward_hack"))
    changes = {one.phrase: one.change for one in result.phrases}
    assert changes["check"] > 0.3
    assert changes["answer"] < -0.5
    assert (result.steps[0], result.steps[-1], len(result.steps)) == (1, 100, 12)
    assert result.rollouts == 12 * 24


def test_of_large_rollouts_fewer_are_read():
    result = trending_phrases(sample_run("grpo_reward_hack"), budget=100_000)
    assert 24 <= result.rollouts < 100


def test_a_run_that_does_not_tell_who_speaks_has_no_words_of_it(tmp_path):
    rows = [{"step": s, "prompt": "p", "response": "r", "reward": 1.0} for s in (1, 2)]
    result = trending_phrases(run_of(tmp_path, rows), "tool")
    assert (result.phrases, result.rollouts) == ((), 0)


def rollout(step: int, group: str | None, said: str, reward: float) -> dict[str, Any]:
    return {"step": step, "group_id": group, "prompt": "p", "response": said, "reward": reward}


def test_rewards_with_and_without_a_word_are_compared_within_a_group_and_step(tmp_path):
    # Said more and more, and paid more and more: over all steps hits are better, in each group worse.
    rows = [
        rollout(step, f"g{g}", word, step + (word == "no"))
        for step in range(6)
        for g in range(2)
        for word in ["wait"] * (step + 1) + ["no"] * (6 - step)
    ]
    entries = [*watch(run_of(tmp_path, rows), compiled("wait"))]
    own = within_groups(entries)
    assert (own.groups, own.difference) == (12, -1.0)
    assert np.isnan([own.low, own.high]).all()  # groups that are all alike say nothing of others
    assert np.nanmean([one.reward_hits for one in entries[3:]]) > entries[0].reward_misses


def test_one_rollout_against_many_is_too_few_for_a_difference(tmp_path):
    rows = [rollout(1, None, "wait" if n else "no", 1.0) for n in range(32)]
    (entry,) = watch(run_of(tmp_path, rows), compiled("wait"))
    own = within_groups([entry])
    assert (own.groups, entry.scored_misses) == (1, 1)
    assert own.difference != own.difference
