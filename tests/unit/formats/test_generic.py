"""Logs that no framework wrote, which are read by the names of their keys."""

import json

import pytest
from read_formats import reasons, records, run_at

from board import cli
from board.formats import reader_named
from board.index.discovery.discovered_runs import discover

ASKED = "2 + 2?"


def write(folder, *lines, name="log.jsonl"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def read(record):
    return (
        record.step,
        record.texts.get("prompt"),
        record.texts.get("response"),
        record.scores.get("reward"),
    )


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ({"step": 1, "prompt": ASKED, "completion": "4", "reward": 1, "answer": "4"}, 1.0),
        ({"step": 1, "prompt": ASKED, "response": "4", "score": 1}, 1.0),
        ({"step": 1, "prompt": ASKED, "completion": "4", "reward": 1, "group_id": "a"}, 1.0),
        ({"iteration": 1, "question": ASKED, "output": "4", "correct": True}, 1.0),
        ({"global_step": 1, "problem": ASKED, "generation": "4", "score": 0.5}, 0.5),
        ({"step": 1, "input": ASKED, "output": "4"}, None),
    ],
)
def test_a_line_of_a_prompt_and_a_response_is_read_whatever_its_keys_are_called(
    tmp_path, line, wanted
):
    run = run_at(write(tmp_path / "run", line))
    assert [reader_named(name).title for name in run.info.formats] == ["generic"]
    assert [read(record) for record in records(run)] == [(1, ASKED, "4", wanted)]
    assert reasons(run) == []


def test_an_answer_is_the_response_only_where_it_differs_between_rollouts_of_a_prompt(tmp_path):
    own = [{"problem": ASKED, "answer": text, "correct": text == "4"} for text in ("4", "5")]
    run = run_at(write(tmp_path / "own", *own))
    assert [record.texts["response"] for record in records(run)] == ["4", "5"]
    reference = [{"problem": ASKED, "answer": "4", "correct": True}] * 2
    assert discover(write(tmp_path / "reference", *reference)).runs == ()


def test_a_key_that_is_null_in_the_first_lines_is_found_in_later_ones(tmp_path):
    lines = [{"step": n, "prompt": ASKED, "completion": "4", "score": n or None} for n in (0, 1)]
    run = run_at(write(tmp_path / "run", *lines))
    assert [record.scores.get("reward") for record in records(run)] == [None, 1.0]


def test_rllbs_own_lines_stay_its_own_and_say_which_reward_was_not_read(tmp_path):
    line = {"step": 1, "prompt": "p", "response_tokens": ["a"], "logprobs": [-1.0], "score": 0.5}
    run = run_at(write(tmp_path / "run", line))
    assert run.info.formats == ("rllb",)
    assert reasons(run) == [("score is not read as the reward, and no other reward is there", 1)]


def test_a_log_that_a_mapping_file_does_not_fit_is_not_read_as_generic(tmp_path):
    folder = write(tmp_path / "run", {"step": 1, "prompt": ASKED, "completion": "4", "reward": 1})
    (folder / "rollout-board.toml").write_text('[keys]\nresponse = "text.out"\n')
    result = discover(folder)
    assert result.runs == ()
    assert "no record has 'text.out'" in result.left_out[0].reason


def test_the_suggested_mapping_is_saved_once_and_reads_the_log(tmp_path, capsys):
    folder = write(tmp_path / "run", {"out": "four", "data": {"score": 0.5}})
    assert discover(folder).runs == ()
    assert cli.main(["sniff", str(folder), "--write"]) == 1
    assert "response four, reward 0.5" in capsys.readouterr().out
    assert [read(record) for record in records(run_at(folder))] == [(0, None, "four", 0.5)]
    assert cli.main(["sniff", str(folder), "--write"]) == 2


def test_files_and_problems_of_one_reason_are_listed_once_unless_all_are_asked_for(
    tmp_path, capsys
):
    for number in range(5):
        write(tmp_path / "run", {"step": 1, "loss": "x"}, name=f"a{number}.jsonl")
    for command in ("sniff", "check"):
        cli.main([command, str(tmp_path / "run")])
        few = capsys.readouterr().out.count(".jsonl")
        cli.main([command, str(tmp_path / "run"), "--all"])
        assert (few, capsys.readouterr().out.count(".jsonl")) == (1, 5)


def test_names_of_runs_are_listed_whole(tmp_path, capsys):
    name = "a" * 80
    write(tmp_path / name, {"step": 1, "prompt": ASKED, "completion": "4", "reward": 1})
    cli.main(["runs", str(tmp_path)])
    assert name in capsys.readouterr().out


def test_a_mapping_file_that_does_not_fit_is_named_also_where_another_reader_takes_the_file(
    tmp_path,
):
    line = {"step": 1, "prompt": "p", "response_tokens": ["a"], "logprobs": [-1.0]}
    folder = write(tmp_path / "run", line)
    mapping = folder / "rollout-board.toml"
    mapping.write_text('[keys]\nresponse = "text.out"\n')
    run = run_at(folder)
    assert run.info.formats == ("rllb",)
    (problem,) = [p for p in run.problems if p.severity == "partial"]
    assert "does not fit; it is read as RLLoggingBoard" in problem.reason
    assert "no record has 'text.out'" in problem.reason
    mapping.write_text("files = 'other.*'\n[keys]\nresponse = \"text.out\"\n")
    assert not [p for p in run_at(folder).problems if p.severity == "partial"]


def test_a_file_that_is_named_and_can_not_be_read_is_lost(tmp_path, capsys):
    folder = write(tmp_path / "run", {"step": 1, "loss": "x"})
    assert cli.main(["check", str(folder / "log.jsonl")]) == 1
    assert "1 lost" in capsys.readouterr().out


def test_documents_that_are_passed_over_by_name_are_listed_with_the_runs(tmp_path, capsys):
    folder = write(tmp_path / "run", {"step": 1, "prompt": ASKED, "completion": "4", "reward": 1})
    (folder / "airline.json").write_text('{"tasks": []}')
    cli.main(["runs", str(tmp_path)])
    assert "not opened, by name: .json: airline.json" in capsys.readouterr().err


@pytest.mark.parametrize("group", [2, 8])
@pytest.mark.parametrize("prompts", [1, 4])
def test_an_id_that_the_rollouts_of_a_step_share_is_the_step(tmp_path, group, prompts):
    """slime calls its training steps rollout_id."""
    lines = [
        {
            "rollout_id": step,
            "group_index": prompt,
            "prompt": ASKED,
            "response": f"r{n}",
            "reward": 1,
        }
        for step in (1, 2, 3)
        for prompt in range(prompts)
        for n in range(group)
    ]
    run = run_at(write(tmp_path / "run", *lines))
    assert run.counts == dict.fromkeys((1, 2, 3), prompts * group)
    assert "rollout_id" not in run.columns
    assert run.rollouts["group_id"].nunique() == prompts


def test_an_id_of_each_rollout_stays_its_id(tmp_path):
    lines = [
        {"rollout_id": n, "step": n // 4, "prompt": ASKED, "response": f"r{n}", "reward": 1}
        for n in range(12)
    ]
    run = run_at(write(tmp_path / "run", *lines, lines[-1]))
    assert run.counts == dict.fromkeys((0, 1, 2), 4) | {2: 5}
    assert run.rollouts["rollout_id"].nunique() == 12
