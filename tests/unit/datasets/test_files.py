"""Data sets hold the rollouts that were chosen, appear whole or not at all, and say what they are."""

import csv
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from datasets import load_dataset
from read_formats import DATA, SAMPLES, run_at, run_of
from written_logs import HOSTILE, native_run, write_lines

from board.cli import main
from board.datasets import files
from board.datasets.export import Request, write_dataset
from board.datasets.reading import column_names
from board.query.open_run import Run
from board.query.rollouts import Sorting
from board.query.sql.user_sql import select

RUNS = {
    "native": lambda: run_at(SAMPLES / "grpo_calculator").where(steps=(1, 4)),
    "joined": lambda: run_at(DATA / "areal" / "turns"),
    "evaluations": lambda: run_at(DATA / "areal" / "trial0"),
}


def write(run: Run, kind: str, target: Path, **choices: Any) -> Any:
    return write_dataset(run, Request(kind, target, **choices), lambda done, total: None)


def rows_of(kind: str, path: Path) -> list[dict[str, Any]]:
    """The rows of a file, each as what it holds."""
    if kind == "jsonl":
        return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    if kind == "csv":
        with path.open(encoding="utf-8", newline="") as file:
            return [*csv.DictReader(file)]
    rows = pq.read_table(path).to_pylist()
    for row in rows:
        if row.get("messages") is not None:
            row["messages"] = [json.loads(one) for one in row["messages"]]
    return rows


def as_cell(value: Any) -> str:
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(value)


@pytest.mark.parametrize("name", RUNS)
def test_tables_hold_the_columns_that_sql_has_and_nothing_else(name, tmp_path):
    run = RUNS[name]()
    table = select(run.whole or run, "select * from rollouts order by step, index")
    steps = run.step_range or (-1, 1 << 30)
    expected = [row for row in table.to_pylist() if steps[0] <= row["step"] <= steps[1]]
    for kind in ("parquet", "jsonl", "csv"):
        write(run, kind, tmp_path / kind)
        rows = rows_of(kind, tmp_path / kind)
        assert len(rows) == len(expected)
        for row, other in zip(rows, expected, strict=True):
            assert [*row] == column_names(run)
            assert set(row) - {"messages"} <= set(other)
            wanted = {key: other[key] for key in row if key != "messages"}
            wanted = {key: _replaced(value) for key, value in wanted.items()}
            # What is a list in the log is one in a data set, and its text in SQL.
            nested = {key for key, value in row.items() if isinstance(value, list | dict)}
            texts = {key for key in nested & wanted.keys() if isinstance(wanted[key], str)}
            wanted |= {key: json.loads(wanted[key]) for key in texts}
            if kind == "csv":
                wanted = {key: as_cell(value) for key, value in wanted.items()}
            assert {key: row[key] for key in wanted} == wanted
            lacking = {key: value for key, value in other.items() if key not in row}
            assert not any(lacking.values())
    of_lines = rows_of("jsonl", tmp_path / "jsonl")
    # A column of Parquet has one type: what is nested is its text there.
    as_texts = [{key: _text_of_nested(value) for key, value in row.items()} for row in of_lines]
    stored = rows_of("parquet", tmp_path / "parquet")
    assert [{k: _text_of_nested(v) for k, v in row.items()} for row in stored] == as_texts


def _text_of_nested(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def _replaced(value: Any) -> Any:
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def test_columns_are_chosen_in_order_and_rows_are_limited(tmp_path):
    run = run_at(SAMPLES / "grpo_calculator")
    wanted = ["reward", "messages", "step"]
    summary = write(run, "parquet", tmp_path / "a", columns=wanted, limit=1100)
    table = pq.read_table(tmp_path / "a")
    assert (table.column_names, table.num_rows) == (wanted, 1100)
    assert summary.rows == {"train": 1100}
    assert any("1,100" in note for note in summary.notes)


def test_a_folder_is_a_data_set_of_the_runs_splits(tmp_path):
    run = run_at(DATA / "areal" / "trial0")
    write(run, "hf", tmp_path / "set")
    data = load_dataset(str(tmp_path / "set"), cache_dir=str(tmp_path / "cache"))
    splits = run.rollouts["split"].astype("str").value_counts().to_dict()
    assert {name: len(split) for name, split in data.items()} == splits
    assert len(splits) == 2
    assert set(data["train"].column_names) == set(column_names(run))


def test_large_data_sets_are_several_files_that_are_numbered(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SHARD_BYTES", 10)
    run = run_at(SAMPLES / "grpo_calculator")
    write(run, "sft", tmp_path / "set", leave_out=["nothing"])
    names = sorted(path.name for path in (tmp_path / "set" / "data").iterdir())
    assert names == ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"]
    data = load_dataset(str(tmp_path / "set"), cache_dir=str(tmp_path / "cache"))
    assert len(data["train"]) == run.rollout_count


@pytest.fixture
def hostile_card(tmp_path: Path) -> str:
    """The card of a run whose names, filter and columns mean something in YAML, Markdown and HTML."""
    name = HOSTILE[0].replace("/", "∕") + '`: "\n---\nx\u202e'
    row = {"step": 1, "prompt": "Q", "response": "A", "a|`b\n<i>": 2.0}
    rows = [{**row, "split": split} for split in ("train", "all", "a/b", "a-b", "*")]
    write_lines(tmp_path / "runs" / name / "log.jsonl", rows)
    run = run_at(tmp_path / "runs" / name)
    choices = {"filter": "response contains '`` | <b> ${x}'\n# no"}
    write(run, "hf", tmp_path / "set", choices=choices)
    data = load_dataset(str(tmp_path / "set"), cache_dir=str(tmp_path / "cache"))
    assert sorted(data) == ["a_b", "a_b_2", "all_2", "split", "train"]
    return (tmp_path / "set" / "README.md").read_text("utf-8")


def test_no_name_changes_what_a_card_means(hostile_card):
    _, head, text = hostile_card.split("---\n", 2)
    parsed = yaml.safe_load(head)
    assert parsed["pretty_name"].startswith('<script>window.hacked="{n}"<∕script>`: "')
    assert parsed["configs"][0]["data_files"][0] == {"split": "train", "path": "data/train-*"}
    assert "\u202e" not in hostile_card
    lines = text.split("\n")
    assert [line for line in lines if line.startswith("#")] == [
        next(line for line in lines if line.startswith("# ")),
        "## Counts",
        "## Columns",
    ]
    for line in lines:
        outside = "".join(_outside_code(line))
        assert "<" not in outside
        assert "$" not in outside
    (row,) = [line for line in lines if "<i>" in line and line.startswith("|")]
    assert row.replace("\\|", "").count("|") == 5


def _outside_code(line: str) -> Iterator[str]:
    """What of a line is in no code span, as CommonMark reads it."""
    rest = line
    while "`" in rest:
        before, _, after = rest.partition("`")
        ticks = "`" * (len(after) - len(after.lstrip("`")) + 1)
        yield before
        content = after.lstrip("`")
        pieces = content.split(ticks)
        end = next(
            i
            for i in range(1, len(pieces))
            if not pieces[i - 1].endswith("`") and not pieces[i].startswith("`")
        )
        rest = ticks.join(pieces[end:])
    yield rest


def test_characters_that_no_file_can_hold_are_replaced_and_counted(tmp_path):
    half = {"role": "assistant", "content": "b\0\udc00"}
    rows = [
        {"step": 1, "messages": [{"role": "user", "content": "a\0a"}, half]},
        {"step": 1, "prompt": "Q\0", "response": "A"},
    ]
    run = run_of(tmp_path, rows)
    summary = write(run, "sft", tmp_path / "set.jsonl")
    contents = [
        [message["content"] for message in row["messages"]]
        for row in rows_of("jsonl", tmp_path / "set.jsonl")
    ]
    assert contents == [["a\ufffda", "b\ufffd\ufffd"], ["Q\ufffd", "A"]]
    assert summary.notes[1:] == [
        "lines of the run's log with bytes that are no text, which became U+FFFD: 1",
        "texts in which NUL or half a character became U+FFFD: 3",
    ]


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv", "hf", "sft", "dpo"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_what_ends_early_leaves_nothing(kind, error, tmp_path):
    def stop(done: int, total: int) -> None:
        raise error

    run = run_at(native_run(tmp_path / "run"))
    before = write_dataset(run, Request("sft", tmp_path / "set"), lambda done, total: None)
    old = (tmp_path / "set" / "README.md").read_text("utf-8")
    assert before.rows
    for target in (tmp_path / "new", tmp_path / "set"):
        request = Request(kind, target, overwrite=target.name == "set" and kind != "csv")
        with pytest.raises((KeyboardInterrupt, files.ChoiceError)):
            write_dataset(run, request, stop)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "set"}
    assert (tmp_path / "set" / "README.md").read_text("utf-8") == old


def test_only_data_sets_and_files_are_replaced_and_only_when_asked(tmp_path, capsys):
    run = native_run(tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()

    def code(target: Path, *options: str) -> int:
        return main(["export", str(run), "--as", "sft", "-o", str(target), *options])

    for target in (tmp_path / "set", tmp_path / "set.jsonl"):
        assert [code(target), code(target), code(target, "--overwrite")] == [0, 2, 0]
    assert code(tmp_path / "mine", "--overwrite") == 2
    assert code(run / "set.jsonl") == 2
    (log, *_) = sorted(run.glob("*.jsonl"))
    beside = ["export", str(log), "--as", "csv", "-o", str(run / "rollouts.csv")]
    assert main(beside) == 0
    assert code(tmp_path / "no" / "set.jsonl") == 2
    assert code(tmp_path / "set.txt") == 2
    assert (tmp_path / "mine" / "thesis.tex").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"run", "mine", "set", "set.jsonl"}
    assert all(line for line in capsys.readouterr().err.splitlines())


def test_options_that_do_not_go_together_are_refused(tmp_path, capsys):
    run = native_run(tmp_path / "run")
    for options, words in (
        ("--as sft --margin 1", "--margin goes with"),
        ("--as dpo --margin -1", "is not 0 or more"),
        ("--as dpo --columns step", "whose columns are fixed"),
        ("--as csv --columns rewrad", "did you mean reward"),
        ("--as csv --where 'reward > 9e9'", "nothing to write"),
        ("--as csv --step 7", "step 7 is not in"),
    ):
        assert main(["export", str(run), "-o", str(tmp_path / "x"), *shlex.split(options)]) == 2
        assert words in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"run"}


def test_the_command_says_what_it_left_out_and_why(tmp_path, capsys):
    run = native_run(tmp_path / "run")
    where = ["--where", "env == 'math'", "--step", "10"]
    assert main(["export", str(run), "--as", "dpo", "-o", str(tmp_path / "set"), *where]) == 0
    said = capsys.readouterr().err.splitlines()
    assert "chosen rollouts: 4 of 32" in said
    text = (tmp_path / "set" / "README.md").read_text("utf-8")
    assert "- filter: `env == 'math'`" in text
    assert "- step: `10`" in text
    assert all(line in text.replace("\\", "") for line in said[:4])


def test_ctrl_c_within_a_query_ends_the_command_as_elsewhere(tmp_path, monkeypatch):
    def interrupted(*_: object) -> None:
        raise RuntimeError("Query interrupted")  # as DuckDB says it

    monkeypatch.setattr("board.datasets.shapes.count", interrupted)
    run = native_run(tmp_path / "run")
    assert main(["export", str(run), "--as", "sft", "-o", str(tmp_path / "set")]) == 130


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_tables_have_the_order_that_is_asked_for_and_its_first_rows(kind, tmp_path):
    rows = [{"step": n // 3, "response": f"r{n}", "reward": n * 7 % 5} for n in range(9)]
    run = run_of(tmp_path / "run", rows)
    sorting = Sorting("reward", descending=True)
    best = sorted(range(9), key=lambda n: (-(n * 7 % 5), n))
    for limit in (None, 4):
        target = tmp_path / f"{kind}{limit}"
        write(run, kind, target, sorting=sorting, limit=limit)
        written = rows_of(kind, target)
        assert [row["response"] for row in written] == [f"r{n}" for n in best[:limit]]


def test_no_cell_of_a_spreadsheet_is_a_formula_and_no_heading(tmp_path):
    rows = [{"step": 1, "prompt": "=1+1", "response": "-x", "reward": -0.5, "=odd": "@a"}]
    write(run_of(tmp_path / "run", rows), "spreadsheet", tmp_path / "a.csv")
    (row,) = rows_of("csv", tmp_path / "a.csv")
    assert (row["prompt"], row["response"], row["reward"]) == ("'=1+1", "'-x", "-0.5")
    assert not any(text.startswith(tuple("=+-@")) for text in row)
