"""`rollout-board sniff` says why a file is or is not recognised, and what could read it."""

import gzip
import json
import os
import time
import tomllib
from pathlib import Path

import pandas as pd
import pytest
from read_formats import DATA, records, run_at

from board import cli
from board.formats import READERS
from board.formats.base import Head
from board.formats.generic import suggested_mapping
from board.formats.sources import JSON_LINES
from board.index.discovery.discovered_runs import discover
from board.index.discovery.sniff import sniff

RLLB = {"step": 1, "prompt": "p", "response": "r", "reward": 1.0}


def write(path: Path, *lines) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(x if isinstance(x, str) else json.dumps(x) + "\n" for x in lines))
    return path


def only(path: Path):
    (result,) = sniff(path).files
    return result


def test_a_recognised_file_has_its_reader_kind_and_layout():
    result = only(next((DATA / "verl" / "v1").rglob("*.jsonl")))
    assert (result.reader, result.kind, result.suggested, result.readers) == (
        *("verl", "JSON lines", None),
        {},
    )
    assert ("verl", int(result.path.stem)) in [(at.reader, at.step) for at in result.layouts]


def test_every_reader_says_why_it_passes_a_file_over(tmp_path):
    result = only(write(tmp_path / "x.jsonl", {"loss": "1.0"}))
    assert result.reader is None
    assert result.keys == ("loss",)
    assert {*result.readers} == {reader.name for reader in READERS}
    assert all(result.readers.values())
    assert result.readers["trl"] == "reads Parquet only"
    assert "verl names them" in result.readers["verl"]
    assert result.suggested is None


def test_the_verdict_is_that_of_discovery():
    by_path = {file.path: file.reader for file in sniff(DATA).files}
    read = {file.path: file.reader for run in discover(DATA).runs for file in run.files}
    assert read
    assert {path: reader for path, reader in by_path.items() if reader} == read


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.parquet", "text, which is no table", "not a Parquet file"),
        ("x.jsonl.xz", "x", "only .gz and .zst are unpacked"),
        ("x.pkl", "x", "it is a pickle, which is never opened"),
        ("rollout_data/0.pt", "PK", "not a torch.save"),
        ("rollout_data/0.pt", "version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ],
)
def test_what_can_not_be_read_is_named(tmp_path, name, content, message):
    result = only(write(tmp_path / name, content))
    assert result.reader is None
    assert message in result.reason


@pytest.mark.parametrize("age", [0, 3600])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"training_step": 1, "traj', "the document is cut off, or still being written"),
        (
            b'{"training_step": 1,\n  "loss": NaN,\n  "traj',
            "the document is not JSON, or half-written (expected: one",
        ),
        (b"[1, 2]", "the document is a number (expected: one JSON object)"),
        (b'"' + b"x" * 300 + b'"', "the document is text (expected: one JSON object)"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ],
)
def test_a_document_that_is_not_whole_is_called_a_document(tmp_path, content, message, age):
    path = tmp_path / "episodes" / "train_step_1_epoch_0" / "episode_hash1_id1.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    os.utime(path, (time.time() - age, time.time() - age))
    assert message in only(path).reason
    (problem,) = discover(tmp_path).left_out
    assert message in problem.reason
    assert "line" not in problem.reason.partition("the parser says")[0]
    is_pointer = content.startswith(b"version")
    assert problem.severity == ("lost" if age or is_pointer else "note")
    assert problem.hint == ("" if is_pointer else "it is checked again when it changes")


def test_pickles_that_trainers_dump_are_named_and_others_passed_over(tmp_path):
    for name in ("dumped_data/global_step_3_training_input.pkl", "train/step_000003.pkl", "a.pkl"):
        write(tmp_path / name, "x")
    files = sniff(tmp_path).files
    assert [file.path.name for file in files] == [
        "global_step_3_training_input.pkl",
        "step_000003.pkl",
    ]
    assert {file.kind for file in files} == {"pickle"}
    left_out = {problem.path: problem.severity for problem in discover(tmp_path).left_out}
    assert left_out == {
        "dumped_data/global_step_3_training_input.pkl": "note",
        "train/step_000003.pkl": "note",
    }


def test_what_an_evaluation_was_run_with_is_named_with_what_it_belongs_to():
    metadata = next((DATA / "verifiers").rglob("metadata.json"))
    assert "read together with the results.jsonl beside" in only(metadata).reason


def test_odd_names_and_packed_logs_are_said_to_be_ones(tmp_path):
    assert only(write(tmp_path / "x.md", "# Notes\n")).kind == ".md, tried as JSON lines"
    packed = tmp_path / "x.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps(RLLB).encode() + b"\n"))
    assert (only(packed).reader, only(packed).kind) == ("rllb", "JSON lines, packed")


def test_runs_are_listed_by_the_title_of_their_mapping(tmp_path, capsys):
    (tmp_path / "rollout-board.toml").write_text('title = "My own"\n[keys]\nresponse = "o"\n')
    write(tmp_path / "x.jsonl", {"o": "text"})
    cli.main(["runs", str(tmp_path)])
    listed = capsys.readouterr().out
    assert "My own" in listed
    assert "mapping:" not in listed
    cli.main(["runs", str(tmp_path), "--json"])
    assert json.loads(capsys.readouterr().out)["rows"][0]["format"].startswith("mapping:")


def test_readers_of_other_kinds_of_files_are_named_in_one_line(tmp_path, capsys):
    cli.main(["sniff", str(write(tmp_path / "x.jsonl", {"loss": "1.0"}))])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "other kinds" in line]
    others = set(line.partition(": ")[2].split(", "))
    assert others == {r.name for r in READERS if JSON_LINES not in r.sources}


def test_texts_of_a_torch_file_are_not_called_keys(capsys):
    cli.main(["sniff", str(DATA / "slime" / "details" / "rollout_data" / "0.pt")])
    assert "  keys and texts: rollout_id, samples" in capsys.readouterr().out


def test_the_first_bad_line_of_a_log_is_told_beside_its_reader(tmp_path):
    result = only(write(tmp_path / "x.jsonl", "shell text\n", RLLB))
    assert result.reader == "rllb"
    assert result.first_error.startswith("line 1: the line is not JSON")


def test_keys_that_a_mapping_names_and_no_record_has_are_told(tmp_path):
    (tmp_path / "rollout-board.toml").write_text('[keys]\nresponse = "o"\nreward = "r.total"\n')
    result = only(write(tmp_path / "x.jsonl", {"o": "text", "r": 1}))
    assert result.reader.startswith("mapping:")
    assert result.mapping == tmp_path / "rollout-board.toml"
    assert result.missing == ("r.total",)


@pytest.mark.parametrize(
    ("path", "lines", "wanted"),
    [
        ("step_4/a_0.jsonl", [{"n": 1}, {"items": [{"text": "y", "score": "1"}]}], (4, "y", 1.0)),
        ("a.jsonl", [{"odd.name": 1, "output": "y", "return": {"total": 2}}], (0, "y", 2.0)),
    ],
)
def test_a_suggested_mapping_reads_the_file(tmp_path, path, lines, wanted):
    file = write(tmp_path / path, *lines)
    suggested = only(file).suggested
    (tmp_path / "rollout-board.toml").write_text(suggested)
    (record,) = records(run_at(tmp_path))
    assert (record.step, record.texts["response"], record.scores["reward"]) == wanted


def test_a_table_is_suggested_by_the_names_of_its_columns(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame([{"iteration": 2, "output": "y", "total_reward": 1.5}]).to_parquet(path)
    (tmp_path / "rollout-board.toml").write_text(only(path).suggested or "")
    (record,) = records(run_at(tmp_path))
    assert (record.step, record.texts["response"], record.scores["reward"]) == (2, "y", 1.5)


def suggested(line: dict) -> dict | None:
    result = suggested_mapping(Head(Path("x.jsonl"), [line]))
    return None if result is None else tomllib.loads(result)


@pytest.mark.parametrize(
    "key", ["ask", "question", "inputs", "query", "instruction", "problem", "user"]
)
def test_what_is_below_a_prompt_is_no_response(key):
    asked = {key: {"text": "2 + 2 =", "output_ids": [1]}}
    assert suggested(asked) is None
    assert suggested({key: [{"text": "2 + 2 ="}]}) is None
    assert suggested({**asked, "assistant": {"text": "4"}}) == {
        "keys": {"prompt": f"{key}.text", "response": "assistant.text"}
    }


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (  # a list of what nobody generated is no second list of rollouts
            {"outputs": [{"output": "a", "score": 1.0}], "tests": [{"in": 1, "want": 2}]},
            {"rows": "outputs", "keys": {"response": "output", "reward": "score"}},
        ),
        (
            {"output": None, "completion": "a", "score": 1.0},
            {"keys": {"response": "completion", "reward": "score"}},
        ),
        (  # what is of the line is of no row, but for what rows share
            {"text": "2 + 2 =", "id": 3, "query": "q", "samples": [{"out": "4", "score": 1}]},
            {
                "rows": "samples",
                "group": "line",
                "keys": {"prompt": "query", "response": "out", "reward": "score"},
            },
        ),
        (  # several lists: none can be told to be the one
            {"samples": [{"out": "4", "score": 1}], "references": [{"text": "4", "score": 1}]},
            None,
        ),
        (
            {"output": "4", "graders": [{"name": "a", "score": 1}]},
            {"keys": {"response": "output"}},
        ),
        (  # keys beside the list below one key are of no row that the mapping makes
            {"data": {"prompt": "p", "samples": [{"out": "4"}]}},
            {"rows": "data.samples", "keys": {"response": "out"}},
        ),
        (
            {"out": "4", "scores": {"total": 1.5, "is right": 1}},
            {"keys": {"response": "out", "reward": "scores.total"}},
        ),
    ],
)
def test_rows_are_suggested_where_one_list_holds_them(line, wanted):
    assert suggested(line) == wanted


@pytest.mark.parametrize("key", ['o"ut', "\x7f", "\ud800", "a\nb", "'", "x" * 500])
def test_hostile_names_of_keys_make_no_broken_suggestion(key):
    head = Head(Path(f"step_1/{key[:9]}.jsonl"), [{key: {"output": "text"}}])
    assert suggested_mapping(head) is None or "output" in str(suggested_mapping(head))


def test_the_command_exits_0_when_recognised_1_when_not_and_2_on_an_error(tmp_path, capsys):
    good = write(tmp_path / "good.jsonl", RLLB)
    (tmp_path / "bad").mkdir()
    bad = write(tmp_path / "bad" / "x.jsonl", {"output": "\x1b[31m", "\x1b]0;x": 1}).parent
    assert cli.main(["sniff", str(good), "--json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["rows"]
    assert (file["recognised"], file["reader"]) == (True, "rllb")
    assert cli.main(["sniff", str(bad)]) == 1
    printed = capsys.readouterr().out
    assert "not recognised" in printed
    assert 'response = "output"' in printed
    assert "\x1b" not in printed
    assert cli.main(["sniff", str(tmp_path)]) == 0
    assert cli.main(["sniff", str(tmp_path / "none")]) == 2
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"step": 1, "loss": 0.5, "grad_norm": None}, "metrics by step, not rollouts"),
        ({"trace_ids": ["a"], "chunk": 0, "offset": 12, "reward": 1.0}, "index another file"),
        ({"trace_id": "a", "info": {}, "branches": []}, "read together with the traces"),
    ],
)
def test_what_lies_beside_logs_is_called_by_its_name(tmp_path, row, text):
    result = only(write(tmp_path / "x.jsonl", row))
    assert text in result.reason
    assert not result.readers
    assert result.suggested is None
    (problem,) = discover(tmp_path).left_out
    assert text in problem.reason
    assert problem.severity == "note"
