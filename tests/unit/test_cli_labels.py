"""The commands `label` and `labels`."""

import json
from pathlib import Path

import pytest
from written_logs import native_run, write_lines

from board import cli
from board.index import label_files


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv(label_files.NAMED_BY, raising=False)
    return str(native_run(tmp_path / "run"))


def first_step(run: str, capsys) -> str:
    assert cli.main(["steps", run, "--json"]) == 0
    return str(json.loads(capsys.readouterr().out)["rows"][0]["step"])


def test_a_label_is_written_listed_filtered_and_undone(run, capsys):
    at = ["--step", first_step(run, capsys), "--index", "1"]
    assert cli.main(["label", run, "cheat", *at, "--author", "ann"]) == 0
    assert cli.main(["label", run, *at, "--note", "why", "--author", "ann"]) == 0
    assert cli.main(["label", run, "unclear", *at, "--tokens", "1-3", "--author", "ann"]) == 0
    assert cli.main(["rollouts", run, "--where", "label = 'cheat'", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["index"], row["label_author"], row["label_note"]) == (1, "ann", "why")
    assert cli.main(["labels", run, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["counts"] == {"cheat": 1}
    assert document["rows"][0]["authors"]["ann"]["spans"] == [[1, 3, "unclear"]]
    for left in (1, 1, 0):  # of the span, the note and the label
        assert cli.main(["label", run, "--undo", "--author", "ann"]) == 0
        capsys.readouterr()
        assert cli.main(["labels", run, "--json"]) == 0
        assert sum(json.loads(capsys.readouterr().out)["counts"].values()) == left
    assert cli.main(["label", run, "--undo", "--author", "ann"]) == 2


@pytest.mark.parametrize(
    "options",
    [
        ["cheat"],
        ["--step", "1", "--index", "1"],
        ["cheat", "--note", "x", "--step", "1", "--index", "1"],
        ["cheat", "--step", "1", "--index", "1", "--tokens", "5-2"],
        ["cheat", "--step", "0", "--index", "0", "--tokens", "0-99999999999"],
        ["cheat", "--step", "99999", "--index", "0"],
        [" ", "--step", "1", "--index", "1"],
    ],
)
def test_what_is_incomplete_or_wrong_exits_2_and_writes_nothing(run, options, capsys):
    assert cli.main(["label", run, *options]) == 2
    assert "rollout-board: " in capsys.readouterr().err
    assert not [*Path(run).rglob("labels.jsonl")]


def test_a_sample_is_drawn_and_its_shares_are_printed(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ROLLOUT_BOARD_LABELS", "")  # which the option sets for the process
    file = ["--labels", str(tmp_path / "all.jsonl")]
    assert cli.main(["labels", run, "--draw", "6", *file]) == 0
    assert "sample01" in capsys.readouterr().err
    where = 'label_sample contains "sample01"'
    assert cli.main(["rollouts", run, "--where", where, "--json", *file]) == 0
    for row in json.loads(capsys.readouterr().out)["rows"]:
        at = ["--step", str(row["step"]), "--index", str(row["index"])]
        assert cli.main(["label", run, "good", *at, *file]) == 0
    capsys.readouterr()
    assert cli.main(["labels", run, *file]) == 0
    printed = capsys.readouterr().out
    assert "100 %" in printed
    assert "95 % interval" in printed
    assert not [*Path(run).rglob("labels.jsonl")]


def test_an_author_or_a_size_that_can_t_be_meant_is_refused_with_the_reason(run, capsys):
    assert cli.main(["labels", run, "--draw", "0"]) == 2
    assert "a sample of 0 rollouts can't be drawn" in capsys.readouterr().err
    at = ["--step", first_step(run, capsys), "--index", "1"]
    assert cli.main(["label", run, "cheat", *at, "--author", "ann"]) == 0
    capsys.readouterr()
    assert cli.main(["labels", run, "--author", "anne"]) == 2
    assert "anne has no label in run; did you mean ann?" in capsys.readouterr().err


def test_a_label_that_is_none_and_tokens_that_are_none_are_refused(run, tmp_path, capsys):
    at = ["--step", first_step(run, capsys), "--index", "1"]
    assert cli.main(["label", run, "chaet", *at]) == 2
    assert "there is no label 'chaet'; did you mean cheat?" in capsys.readouterr().err
    row = {"step": 1, "prompt": "Q", "response": "A", "reward": 1.0}
    write_lines(tmp_path / "texts" / "log.jsonl", [row])
    at = ["--step", "1", "--index", "0", "--tokens", "0-3"]
    assert cli.main(["label", str(tmp_path / "texts"), "cheat", *at]) == 2
    assert "no tokens" in capsys.readouterr().err
    write_lines(tmp_path / "texts" / "labels.toml", ["[labels]", 'mine = "own"'])
    assert cli.main(["label", str(tmp_path / "texts"), "cheat", *at[:4]]) == 2
    assert cli.main(["label", str(tmp_path / "texts"), "mine", *at[:4]]) == 0
