"""Nothing that a log holds steers the terminal of who prints it."""

import contextlib
import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_logs import write_lines

from board import cli
from board.cli.output import print_json
from board.cli.terminal import HarmlessStream, escaped_json, one_line
from board.core.csv_rows import harmless_cell

STEERING = "\x1b]0;title\x07\x1b[31m \x9b31m \u202e \u2066 \u061c \x7f \x00 \r"
CONTROLS = {
    chr(n) for n in (*range(32), *range(127, 160), 0x61C, 0x2028, 0x2029, *range(0x202A, 0x202F))
}
CONTROLS |= {chr(n) for n in (0x200E, 0x200F, *range(0x2066, 0x206A))}
TEXTS = st.one_of(st.text(), st.text(st.sampled_from(sorted(CONTROLS))))


def steers(text: str) -> set[str]:
    return (CONTROLS - {"\n"}) & {*text}


@given(TEXTS)
def test_what_a_stream_passes_on_steers_nothing(text):
    sink = io.StringIO()
    HarmlessStream(sink).write(text)
    assert not steers(sink.getvalue())
    assert sink.getvalue().count("\n") == text.count("\n")
    assert not CONTROLS & {*one_line(text)}


@given(st.recursive(TEXTS, lambda inner: st.dictionaries(TEXTS, inner) | st.lists(inner)))
def test_json_steers_nothing_and_is_read_back_as_it_was(document):
    sink = io.StringIO()
    with contextlib.redirect_stdout(sink):
        print_json({"answer": document})
    assert not steers(sink.getvalue())
    assert json.loads(sink.getvalue())["answer"] == document
    assert escaped_json(sink.getvalue()) == sink.getvalue()


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A run whose names, keys, texts and files try to steer."""
    folder = tmp_path / f"run {STEERING}".replace("\x00", "").replace("/", "")
    trap = {f"key {STEERING}": STEERING, "=1+1": "=1+1"}
    rows = [
        {
            "step": step,
            "prompt": f"p {STEERING}",
            "response": f"=cmd|' /C calc'!A1 {STEERING} {index}",
            "reward": float(index % 2),
            "rewards": {f"part {STEERING}": 0.5, "=2+2": 1.0},
            "group_id": f"g{STEERING}",
            "env": f"env {STEERING}{index % 2}",
            "finish_reason": STEERING,
            "messages": [{"role": f"user {STEERING}", "content": STEERING}],
            "error": STEERING if index == 3 else None,
            **trap,
        }
        for step in (1, 2)
        for index in range(8)
    ]
    write_lines(
        folder / f"log {STEERING}.jsonl".replace("\x00", ""), [*rows, f"no JSON {STEERING}"]
    )
    (folder / "thresholds.toml").write_text('[x]\n"\\u001b[31mbad" = "\\u001b[31m"\n')
    return folder


COMMANDS = (
    *(
        "runs",
        "steps",
        "rollouts --csv",
        "rollouts --jsonl",
        "show",
        "show --json",
        "check",
        "findings",
    ),
    *("failures", "labels", "sql", "sql --csv", "index", "sniff", "export"),
)
GIVEN = {
    "sql": ("select * from rollouts",),
    "show": ("--step", "1", "--index", "0"),
}


def test_no_command_prints_what_steers(hostile, capfd, monkeypatch):
    monkeypatch.chdir(hostile.parent)
    for written in COMMANDS:
        name, *options = written.split()
        with contextlib.suppress(SystemExit):
            cli.main([name, str(hostile), *GIVEN.get(name, ()), *options])
        out, err = capfd.readouterr()
        assert out or err, written
        assert not steers(out), written
        assert not steers(err), written


def test_no_cell_of_a_table_for_spreadsheets_is_a_formula(hostile, capfd):
    assert cli.main(["rollouts", str(hostile), "--csv"]) == 0
    rows = [*csv.reader(io.StringIO(capfd.readouterr().out))]
    assert len(rows) == 17
    assert any("=cmd" in cell for row in rows for cell in row)
    assert "'=1+1" in rows[0]
    assert [cell for row in rows for cell in row if harmless_cell(cell) != cell] == []
