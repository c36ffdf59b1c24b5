"""Twenty shapes of home-made logs: each opens, or does by the mapping that sniff suggests."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import reasons, records, run_at, run_of

from board import cli
from board.index.discovery.discovered_runs import discover
from board.query.open_run import open_run

ASKED = "2 + 2?"
USER = {"role": "user", "content": ASKED}
TALK = [USER, {"role": "assistant", "content": "4"}]
BOTH = (("4", 1), ("5", 0))
TWO = [(0, ASKED, text, float(reward)) for text, reward in BOTH]
AT_3 = [(3, *row[1:]) for row in TWO]
TEXT, SCORE, RIGHT = "<text>", "<score>", "<right>"
"""What stands in a record for the response, its reward, and whether that is right."""


def lines(*records):
    return "".join(f"{json.dumps(record)}\n" for record in records)


def filled(value, text, reward):
    """The record of one rollout."""
    if isinstance(value, dict):
        return {key: filled(entry, text, reward) for key, entry in value.items()}
    if isinstance(value, list):
        return [filled(entry, text, reward) for entry in value]
    places = {TEXT: text, SCORE: reward, RIGHT: bool(reward)}
    return places.get(value, value)


def both(record):
    """The records of two rollouts."""
    return [filled(record, *one) for one in BOTH]


SAMPLES = both({"text": TEXT, "reward": SCORE})
REFERENCE = {"prompt": ASKED, "doc": {"answer": "4", "output": "x"}}
COLUMNS = ["step", "prompt", "completion", "reward"]
SHAPES = {
    "prompt, completion": (
        both({"step": 3, "prompt": ASKED, "completion": TEXT, "reward": SCORE}),
        AT_3,
    ),
    "question, output, score": (
        both({"iteration": 3, "question": ASKED, "output": TEXT, "score": SCORE}),
        AT_3,
    ),
    "problem, model_output, correct": (
        both({"problem": ASKED, "model_output": TEXT, "correct": RIGHT, "gold": "4"}),
        TWO,
    ),
    "an answer that differs": (both({"problem": ASKED, "answer": TEXT, "correct": SCORE}), TWO),
    "a generation that differs beside an output that does not": (
        both({"input": ASKED, "output": "4", "generation": TEXT, "reward": SCORE}),
        TWO,
    ),
    "parallel lists": (
        [{"global_step": 3, "prompt": ASKED, "responses": ["4", "5"], "rewards": [1, 0]}],
        AT_3,
    ),
    "parallel lists beside others of another length": (
        [{"query": ASKED, "outputs": ["4", "5"], "scores": [1, 0], "tags": ["a", "b", "c"]}],
        TWO,
    ),
    "a list of objects": ([{"prompt": ASKED, "samples": SAMPLES}], TWO),
    "a list of objects two deep": (
        [{"batch": {"rollouts": both({"prompt": ASKED, "response": TEXT, "reward": SCORE})}}],
        TWO,
    ),
    "scores in an object": (
        both({"prompt": ASKED, "response": TEXT, "scores": {"total": SCORE, "format": 1}}),
        TWO,
    ),
    "messages": ([{"step": 3, "messages": TALK, "reward": 1}], AT_3[:1]),
    "messages under a name of their own": (
        [{"step": 3, "traj": TALK, "reward": 1}],
        [(3, "[user]\n2 + 2?", "4", 1.0)],
    ),
    "messages as the prompt": (
        [{"step": 3, "prompt": [USER], "completion": "4", "score": 1}],
        [(3, "[user]\n2 + 2?", "4", 1.0)],
    ),
    "a response in an object": (
        [{"prompt": ASKED, "reward": 1, "step": 3, "output": {"text": "4"}}],
        AT_3[:1],
    ),
    "a reference under the names of responses": (
        both({**REFERENCE, "gen": {"text": TEXT}, "reward": SCORE}),
        TWO,
    ),
    "prompts whose keys come late": (
        [
            {"event": "start", "lr": 1e-6},
            *both({"step": 3, "prompt": ASKED, "response": TEXT, "reward": SCORE}),
        ],
        AT_3,
    ),
    "step_3.jsonl": (both({"prompt": ASKED, "completion": TEXT, "reward": SCORE}), AT_3),
    # Documents.
    "results.json": (both({"question": ASKED, "output": TEXT, "correct": RIGHT}), TWO),
    "run_3.json": (
        {"model": "m", "results": both({"input": ASKED, "output": TEXT, "score": SCORE})},
        TWO,
    ),
    "media.table.json": (
        {"columns": COLUMNS, "data": both([3, ASKED, TEXT, SCORE])},
        AT_3,
    ),
    "any.json": (
        {"columns": ["question", "answer", "reward"], "rows": both([ASKED, TEXT, SCORE])},
        TWO,
    ),
    "preds.json": (both({"input": ASKED, "prediction": TEXT, "is_correct": RIGHT}), TWO),
    "outputs.json": (
        {"prompts": [ASKED, ASKED], "responses": ["4", "5"], "scores": [1, 0]},
        TWO,
    ),
}
"""What is logged, by its name or that of its file, and the rollouts in it."""


@pytest.mark.parametrize("shape", SHAPES)
def test_a_home_made_log_opens_or_does_by_the_mapping_that_sniff_saves(tmp_path, shape, capsys):
    content, expected = SHAPES[shape]
    folder = tmp_path / "run"
    folder.mkdir()
    path = folder / (shape if "." in shape else "log.jsonl")
    path.write_text(lines(*content) if path.suffix == ".jsonl" else json.dumps(content, indent=1))
    if not discover(folder).runs:
        assert cli.main(["sniff", str(path), "--write"]) in (0, 1), capsys.readouterr().out
    run = run_at(folder)
    rows = run.rollouts.reindex(columns=["step", "prompt", "response", "reward"])
    assert rows.to_numpy().tolist() == [list(row) for row in expected]


def test_rollouts_of_a_line_are_a_group_and_others_none(tmp_path):
    for name, is_group in (("parallel lists", True), ("prompt, completion", False)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "log.jsonl").write_text(lines(*SHAPES[name][0]))
        groups = [record.ids.get("group_id") for record in records(run_at(folder))]
        assert groups == (["log.jsonl:1"] * 2 if is_group else [None] * 2)


def test_home_made_lines_are_in_no_order_of_steps(tmp_path):
    steps = (1, 1, 2, 1, 2, 3, 2)
    content = lines(*({"step": s, "prompt": ASKED, "completion": "4", "reward": 1} for s in steps))
    (tmp_path / "log.jsonl").write_text(content)
    run = run_at(tmp_path)
    assert {**run.counts} == {1: 3, 2: 3, 3: 1}
    assert run.superseded == 0


def test_a_reward_that_is_no_number_and_parts_of_it_are_told(tmp_path):
    rows = [
        {
            "step": 1,
            "prompt": ASKED,
            "completion": "4",
            "score": score,
            "reward_parts": {"fmt": 0.5},
        }
        for score in (1, float("nan"))
    ]
    (tmp_path / "log.jsonl").write_text(lines(*rows))
    run = run_at(tmp_path)
    assert [r.scores.get("reward") for r in records(run)] == [1, None]
    assert run.rollouts["rewards.fmt"].tolist() == [0.5, 0.5]


def test_parts_of_a_reward_do_not_make_somebody_elses_lines_our_exporters(tmp_path):
    talk = [{"role": "assistant", "content": "4"}]
    line = {"step": 1, "prompt": [USER], "completion": talk, "rewards": {"acc": 1.0}, "reward": 1.0}
    (tmp_path / "log.jsonl").write_text(lines(line))
    (record,) = records(run_at(tmp_path))
    assert record.texts["response"] == "4"
    assert record.scores["rewards.acc"] == 1


def test_examples_in_a_prompt_are_no_response(tmp_path):
    line = {"step": 1, "prompt": [*TALK, USER], "score": 1, "note": "x"}
    (tmp_path / "log.jsonl").write_text(lines(line))
    assert not any(
        r.texts.get("response") for run in discover(tmp_path).runs for r in records(open_run(run))
    )


SENTENCES = st.lists(
    st.sampled_from(["It is twelve.", "Twelve, I think", "no idea at all"]), min_size=1
)


@settings(max_examples=20, deadline=None)
@given(SENTENCES, st.sampled_from(["response", "responses", "completions"]))
def test_a_list_of_responses_is_a_rollout_each(texts, key):
    row = {"step": 1, "prompt": ASKED, key: texts, "reward": 1.0}
    with TemporaryDirectory() as folder:
        run = run_of(Path(folder), [row])
        assert [r.texts["response"] for r in records(run)] == texts
        assert "response_tokens" not in run.columns


@settings(max_examples=20, deadline=None)
@given(SENTENCES, st.booleans())
def test_texts_of_several_words_are_no_tokens_and_are_shown(texts, has_response):
    row = {"step": 1, "prompt": ASKED, "response_tokens": texts, "reward": 1.0}
    row |= {"response": "It is twelve."} if has_response else {}
    with TemporaryDirectory() as folder:
        run = run_of(Path(folder), [row, row | {"step": 2}])
        assert "response_tokens" not in run.columns
        assert [r.extras["logged.response_tokens"] for r in records(run)] == [texts, texts]
        assert ("response_tokens holds texts of several words", 2) in reasons(run)


@settings(max_examples=20, deadline=None)
@given(SENTENCES, st.sampled_from(["logprobs", "response_ids", "my_array"]))
def test_texts_of_several_words_are_tokens_where_each_has_a_value(texts, key):
    row = {
        "step": 1,
        "prompt": ASKED,
        "response_tokens": texts,
        key: [1] * len(texts),
        "reward": 1.0,
    }
    with TemporaryDirectory() as folder:
        run = run_of(Path(folder), [row, row | {"step": 2}])
        assert run.rollouts["response_tokens"].tolist() == [len(texts)] * 2


def test_a_count_where_tokens_are_expected_is_shown(tmp_path):
    row = {"step": 1, "prompt": ASKED, "response": "4", "response_tokens": 123, "reward": 1.0}
    run = run_of(tmp_path, [row])
    assert run.rollouts["logged.response_tokens"].tolist() == [123]


@pytest.mark.parametrize("names", [("prompt", "response"), ("question", "output")])
def test_a_type_and_an_index_of_a_log_are_columns(tmp_path, names):
    rows = [
        {"step": 1, "type": "math", "index": 712 + n, "reward": 1.0}
        | {name: f"text {n} of {name}" for name in names}
        for n in range(2)
    ]
    frame = run_of(tmp_path, rows).frame(["type", "logged.index"])
    assert frame["type"].tolist() == ["math"] * 2
    assert frame["logged.index"].tolist() == [712, 713]
