"""The same rollouts in another container are the same rollouts; what is cut off is named."""

import csv
import gzip
import io
import json
import os
import random
import time

import pytest
import zstandard
from read_formats import opened, run_at, values_of
from written_logs import write_lines

from board import cli
from board.analysis.audit import audit_all
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Follower

LETTERS = "aé漢字🙂 \t'\"\\,;{}[]\n:0.5é"


def some_rows(seed):
    """Rollouts of texts with all that containers have to quote, of numbers and lists."""
    dice = random.Random(seed)

    def text():
        return f"a {''.join(dice.choices(LETTERS, k=dice.randrange(30)))} b"

    return [
        {
            "step": n // 2,
            "group_id": f"p{n // 2}",
            "prompt": text(),
            "response": text() if dice.random() < 0.7 else str(dice.randrange(99)),
            "reward": dice.randrange(5) / 4,
            "response_ids": dice.choices(range(9), k=3),
            "note": text(),
        }
        for n in range(dice.randrange(1, 9))
    ]


def lines_of(rows):
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()


def table_of(rows, delimiter):
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys(), delimiter=delimiter)
    writer.writeheader()
    for row in rows:
        writer.writerow({k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()})
    return text.getvalue().encode()


def pretty(rows):
    return "\n".join(json.dumps(row, indent=2) for row in rows).encode() + b"\n"


CONTAINERS = {
    "log.csv": lambda rows: table_of(rows, ","),
    "log.tsv": lambda rows: table_of(rows, "\t"),
    "semicolons.csv": lambda rows: table_of(rows, ";"),
    "excel.csv": lambda rows: table_of(rows, "\t").decode().encode("utf-16"),
    "log.csv.gz": lambda rows: gzip.compress(table_of(rows, ",")),
    "utf16.jsonl": lambda rows: lines_of(rows).decode().encode("utf-16"),
    "utf16_without_mark.jsonl": lambda rows: lines_of(rows).decode().encode("utf-16-le"),
    "utf32.jsonl": lambda rows: lines_of(rows).decode().encode("utf-32"),
    "log.jsonl.gz": lambda rows: gzip.compress(lines_of(rows)),
    "gzip.jsonl": lambda rows: gzip.compress(lines_of(rows)),
    "zstd.jsonl": lambda rows: zstandard.compress(lines_of(rows)),
    "log.jsonl.zst": lambda rows: zstandard.compress(lines_of(rows)),
    "utf16_in_gzip.jsonl": lambda rows: gzip.compress(lines_of(rows).decode().encode("utf-16")),
    "pretty.jsonl": pretty,
    "pretty.jsonl.gz": lambda rows: gzip.compress(pretty(rows)),
    "array.jsonl": lambda rows: json.dumps(rows).encode(),
    "pretty_array.jsonl": lambda rows: json.dumps(rows, indent=1).encode(),
    "rollouts.json.gz": lambda rows: gzip.compress(json.dumps(rows).encode()),
    "gzip_rollouts.json": lambda rows: gzip.compress(json.dumps(rows, indent=1).encode()),
    "utf16_rollouts.json": lambda rows: json.dumps(rows).encode("utf-16"),
}


def seen(folder):
    """What all rollouts of the run at a folder hold, and what is lost or not shown."""
    run = Follower().run(next(iter(discover(folder).runs)))
    missing = [p for p in run.problems if p.severity != "note"]
    missing += audit_all(run, lambda done, total: None).problems
    ordered = sorted((values_of(one.record) for one in opened(run)), key=repr)
    return ordered, missing


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ROLLOUT_BOARD_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", CONTAINERS)
def test_rollouts_are_equal_in_every_container(name, tmp_path):
    for seed in range(3):
        rows = some_rows(f"{name} {seed}")
        both = {"plain/log.jsonl": lines_of(rows), f"other/{name}": CONTAINERS[name](rows)}
        for path, content in both.items():
            (tmp_path / str(seed) / path).parent.mkdir(parents=True)
            (tmp_path / str(seed) / path).write_bytes(content)
        plain, missing = seen(tmp_path / str(seed) / "plain")
        assert missing == []
        assert len(plain) == len(rows)
        assert seen(tmp_path / str(seed) / "other") == (plain, [])


FEW = [
    {"step": n, "prompt": f"What is {n}?", "response": f"It is number {n}.", "reward": n / 2}
    for n in range(6)
]


@pytest.mark.parametrize(
    "name",
    [
        *("log.jsonl", "log.jsonl.gz", "gzip.jsonl", "zstd.jsonl", "pretty.jsonl", "array.jsonl"),
        "log.jsonl.zst",
        *("pretty.jsonl.gz", "rollouts.json", "log.csv"),
    ],
)
def test_a_prefix_of_a_file_is_opened_whole_or_named(name, tmp_path):
    makers = {
        **CONTAINERS,
        "log.jsonl": lines_of,
        "rollouts.json": lambda rows: json.dumps(rows).encode(),
    }
    content = makers[name](FEW)
    for size in range(1, len(content), max(len(content) // 20, 1)):
        path = tmp_path / str(size) / name
        path.parent.mkdir()
        path.write_bytes(content[:size])
        os.utime(path, (1, 1))
        found = discover(path)
        run = next((Follower().run(info) for info in found.runs), None)
        named = found.left_out if run is None else run.problems
        is_lost = any(problem.severity == "lost" for problem in named)
        is_plain = name in ("log.jsonl", "log.csv", "pretty.jsonl")
        at_end_of_row = is_plain and is_row_end(content, size, name)
        assert is_lost or at_end_of_row or (run is not None and run.rollout_count == len(FEW)), size


def is_row_end(content, size, name):
    """Whether a file that ends there is a whole one: nobody can know what was to follow."""
    before = content[:size].rpartition(b"\n")[2].rstrip(b"\r")
    if name == "log.csv":  # its last cell may be shorter, which nothing says
        return before.count(b",") in (0, 3)
    if name.startswith("pretty"):
        return before == b"}" or not before
    return not before or before.endswith(b"}")


def test_a_torn_line_of_a_file_that_is_young_is_noted_with_its_size(tmp_path):
    path = write_lines(tmp_path / "run" / "log.jsonl", FEW)
    with path.open("ab") as file:
        file.write(b'{"step": 9, "prom')
    (note,) = (p for p in run_at(path.parent).problems if "no end yet" in p.reason)
    assert (note.severity, note.line) == ("note", len(FEW) + 1)
    assert "17 bytes" in note.hint
    os.utime(path, (time.time() - 3600,) * 2)
    (lost,) = (p for p in run_at(path.parent).problems if p.severity == "lost")
    assert lost.line == len(FEW) + 1


def test_a_row_that_is_torn_or_has_cells_too_many_costs_itself_alone(tmp_path):
    path = tmp_path / "run" / "log.csv"
    path.parent.mkdir()
    path.write_text("step,prompt,response,reward\n1,a b,c d,1\n1,a b\n2,a,b,c,d\n2,e f,g h,0\n")
    run = run_at(path.parent)
    assert run.rollout_count == 2
    assert [(p.line, p.severity) for p in run.problems if p.severity == "lost"] == [(3, "lost")]
    (problem,) = [p for p in run.problems if p.severity == "lost"]
    assert "4 cells" in problem.reason
    assert problem.count == 2


def test_columns_that_pandas_writes_as_python_are_lists_of_messages(tmp_path):
    messages = [
        {"role": "user", "content": "it's 2 + 2?"},
        {"role": "assistant", "content": "4, I say"},
    ]
    text = io.StringIO()
    csv.writer(text).writerows([["step", "messages", "reward"], [1, messages, 0.5]])
    path = tmp_path / "run" / "rollouts.csv"
    path.parent.mkdir()
    path.write_text(text.getvalue())
    (record,) = (one.record for one in opened(Follower().run(discover(path).runs[0])))
    assert [turn["content"] for turn in record.messages] == ["it's 2 + 2?", "4, I say"]


def test_tables_of_metrics_stay_the_trainers_and_other_tables_are_named(tmp_path, capsys):
    write_lines(tmp_path / "run" / "log.jsonl", FEW)
    (tmp_path / "run" / "progress.csv").write_text("step,loss\n1,0.5\n2,0.25\n")
    (tmp_path / "run" / "people.csv").write_text("name,age\nAda,36\n")
    (tmp_path / "run" / "page.html").write_text("<!doctype html><p>no log</p>")
    (info,) = discover(tmp_path / "run").runs
    assert [path.name for path in info.metric_files] == ["progress.csv"]
    cli.main(["check", str(tmp_path / "run")])
    printed = capsys.readouterr().out
    assert "people.csv" in printed
    assert "page.html" in printed
    assert "progress.csv (CSV): 1 metrics" in printed


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"<!DOCTYPE html><html><body>no</body></html>", "an HTML page"),
        (b"a,b,c\n1,2,3\n", "a CSV table"),
        (b"PK\x03\x04rest of an archive", "a ZIP archive"),
        (b"SQLite format 3\x00pages", "an SQLite database"),
        (b"\x80\x04\x95pickled", "a pickle"),
        (b"just some words\nand more\n", "plain text"),
    ],
)
def test_what_a_file_is_that_is_no_log_is_said(content, kind, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(content)
    (problem,) = discover(path).left_out
    assert kind in problem.reason
    assert problem.severity == "lost"
