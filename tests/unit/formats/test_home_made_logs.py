"""Twenty shapes of home-made logs: each opens, or does by the mapping that sniff suggests."""

import json

import pytest
from read_formats import records, run_at

from board import cli
from board.index.discovery.discovered_runs import discover
from board.query.open_run import open_run

ASKED = "2 + 2?"
USER = {"role": "user", "content": ASKED}
TALK = [USER, {"role": "assistant", "content": "4"}]
TWO = [(0, ASKED, "4", 1.0), (0, ASKED, "5", 0.0)]
BOTH = (("4", 1), ("5", 0))
AT_3 = [(3, *row[1:]) for row in TWO]


def lines(*records):
    return "".join(f"{json.dumps(record)}\n" for record in records)


SHAPES = {
    "prompt, completion": (
        "log.jsonl",
        lines(*({"step": 3, "prompt": ASKED, "completion": t, "reward": r} for t, r in BOTH)),
        AT_3,
    ),
    "question, output, score": (
        "log.jsonl",
        lines(*({"iteration": 3, "question": ASKED, "output": t, "score": r} for t, r in BOTH)),
        AT_3,
    ),
    "problem, model_output, correct": (
        "log.jsonl",
        lines(
            *(
                {"problem": ASKED, "model_output": t, "correct": bool(r), "gold": "4"}
                for t, r in BOTH
            )
        ),
        TWO,
    ),
    "an answer that differs": (
        "log.jsonl",
        lines(*({"problem": ASKED, "answer": t, "correct": r} for t, r in BOTH)),
        TWO,
    ),
    "a generation that differs beside an output that does not": (
        "log.jsonl",
        lines(*({"input": ASKED, "output": "4", "generation": t, "reward": r} for t, r in BOTH)),
        TWO,
    ),
    "parallel lists": (
        "log.jsonl",
        lines({"global_step": 3, "prompt": ASKED, "responses": ["4", "5"], "rewards": [1, 0]}),
        AT_3,
    ),
    "parallel lists beside others of another length": (
        "log.jsonl",
        lines({"query": ASKED, "outputs": ["4", "5"], "scores": [1, 0], "tags": ["a", "b", "c"]}),
        TWO,
    ),
    "a list of objects": (
        "log.jsonl",
        lines({"prompt": ASKED, "samples": [{"text": t, "reward": r} for t, r in BOTH]}),
        TWO,
    ),
    "a list of objects two deep": (
        "log.jsonl",
        lines(
            {
                "batch": {
                    "rollouts": [{"prompt": ASKED, "response": t, "reward": r} for t, r in BOTH]
                }
            }
        ),
        TWO,
    ),
    "scores in an object": (
        "log.jsonl",
        lines(
            *(
                {"prompt": ASKED, "response": t, "scores": {"total": r, "format": 1}}
                for t, r in BOTH
            )
        ),
        TWO,
    ),
    "messages": (
        "log.jsonl",
        lines({"step": 3, "messages": TALK, "reward": 1}),
        [(3, ASKED, "4", 1.0)],
    ),
    "messages under a name of their own": (
        "log.jsonl",
        lines({"step": 3, "traj": TALK, "reward": 1}),
        [(3, "[user]\n2 + 2?", "4", 1.0)],
    ),
    "messages as the prompt": (
        "log.jsonl",
        lines({"step": 3, "prompt": [USER], "completion": "4", "score": 1}),
        [(3, "[user]\n2 + 2?", "4", 1.0)],
    ),
    "a step in the path": (
        "step_3.jsonl",
        lines(*({"prompt": ASKED, "completion": t, "reward": r} for t, r in BOTH)),
        AT_3,
    ),
    "a document that is a list": (
        "results.json",
        json.dumps(
            [{"question": ASKED, "output": t, "correct": bool(r)} for t, r in BOTH], indent=1
        ),
        TWO,
    ),
    "a document with a list": (
        "run_3.json",
        json.dumps(
            {"model": "m", "results": [{"input": ASKED, "output": t, "score": r} for t, r in BOTH]}
        ),
        TWO,
    ),
    "a table of columns and rows": (
        "media.table.json",
        json.dumps(
            {
                "columns": ["step", "prompt", "completion", "reward"],
                "data": [[3, ASKED, t, r] for t, r in BOTH],
            }
        ),
        AT_3,
    ),
    "a table whose answers differ": (
        "any.json",
        json.dumps(
            {
                "columns": ["question", "answer", "reward"],
                "rows": [[ASKED, text, reward] for text, reward in BOTH],
            }
        ),
        TWO,
    ),
    "an array under any name": (
        "preds.json",
        json.dumps([{"input": ASKED, "prediction": t, "is_correct": bool(r)} for t, r in BOTH]),
        TWO,
    ),
    "a document of parallel lists": (
        "outputs.json",
        json.dumps({"prompts": [ASKED, ASKED], "responses": ["4", "5"], "scores": [1, 0]}),
        TWO,
    ),
    "a response in an object": (
        "log.jsonl",
        lines({"prompt": ASKED, "reward": 1, "step": 3, "output": {"text": "4"}}),
        [(3, ASKED, "4", 1.0)],
    ),
    "a reference under the names of responses": (
        "log.jsonl",
        lines(
            *(
                {
                    "prompt": ASKED,
                    "doc": {"answer": "4", "output": "x"},
                    "gen": {"text": t},
                    "reward": r,
                }
                for t, r in BOTH
            )
        ),
        TWO,
    ),
    "prompts whose keys come late": (
        "log.jsonl",
        lines(
            {"event": "start", "lr": 1e-6},
            *({"step": 3, "prompt": ASKED, "response": t, "reward": r} for t, r in BOTH),
        ),
        AT_3,
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_home_made_log_opens_or_does_by_the_mapping_that_sniff_saves(tmp_path, shape, capsys):
    name, content, expected = SHAPES[shape]
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / name).write_text(content)
    if not discover(folder).runs:
        assert cli.main(["sniff", str(folder / name), "--write"]) in (0, 1), capsys.readouterr().out
    run = run_at(folder)
    rows = run.rollouts.reindex(columns=["step", "prompt", "response", "reward"])
    assert rows.to_numpy().tolist() == [list(row) for row in expected]


def test_rollouts_of_a_line_are_a_group_and_others_none(tmp_path):
    for name, is_group in (("parallel lists", True), ("prompt, completion", False)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "log.jsonl").write_text(SHAPES[name][1])
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
