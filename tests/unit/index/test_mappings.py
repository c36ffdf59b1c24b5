"""Runs that are read by a mapping file, from the folder to the rollout."""

import json
import re
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from read_formats import opened, reasons, records, run_at

from board import cli
from board.formats import READERS, loaded, mapping_text, reader_named
from board.formats.base import LineContext
from board.formats.mapping import MappingReader
from board.index.discovery.discovered_runs import discover
from board.index.reading.scan import index_shard
from board.index.reading.shard import Shard

DOCUMENT = Path(__file__).parents[3] / "docs" / "own_format.md"
MAPPING = '[keys]\nresponse = "out"\nreward = "score"\nstep = "it"\n'
LINES = [{"it": 1, "out": "a", "score": 0.5}, {"it": 2, "out": "b", "score": 1.0}]


def example(name: str) -> str:
    result = re.search(rf"<!-- example: {name} -->\n```\w+\n(.*?)```", DOCUMENT.read_text(), re.S)
    return result[1]


def write(folder: Path, lines=LINES, mapping: str | None = MAPPING, name="log.jsonl") -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    if mapping is not None:
        (folder / "rollout-board.toml").write_text(mapping)
    return folder


def test_the_documented_mapping_reads_the_documented_line(tmp_path):
    line = json.loads(example("line"))
    write(tmp_path, [line], example("mapping"), "run/iter_7/train.jsonl")
    run = run_at(tmp_path)
    assert run.info.name == "run"
    samples = line["samples"]
    for index, (result, sample) in enumerate(zip(opened(run), samples, strict=True)):
        record = result.record
        assert (record.step, result.index) == (7, index)
        assert record.texts["prompt"] == line["ask"]["text"]
        assert record.texts["response"] == sample["out"]
        scores = sample["scores"]
        assert record.scores["reward"] == scores["total"]
        assert record.scores["rewards.right"] == scores["right"]
        assert record.scores["rewards.form"] == scores["form"]
        assert record.tokens["logprobs"].values().tolist() == sample["tok"]["lp"]
        assert (record.ids["group_id"], record.ids["split"]) == ("17", "train")
    assert run.steps["reward_mean"].tolist() == [np.mean([s["scores"]["total"] for s in samples])]
    assert reasons(run) == []


def test_the_documented_reader_reads_its_lines_when_a_package_names_it(monkeypatch, tmp_path):
    (tmp_path / "documented_reader.py").write_text(example("reader"))
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("my_trainer", "documented_reader:MyReader", "rollout_board.readers")
    (reader,) = loaded([point])
    answers = [{"text": "4", "mark": 1}, {"text": "5", "mark": 0}]
    line = {"iteration": 3, "question": "2 + 2 =", "answers": answers}
    at = LineContext(Path("log.jsonl"))
    result = [reader.read(row, at) for row in reader.rows(line, at)]
    assert [(r.step, r.texts["response"], r.scores["reward"]) for r in result] == [
        (3, "4", 1.0),
        (3, "5", 0.0),
    ]


def test_the_nearest_mapping_file_wins(tmp_path):
    write(tmp_path / "near")
    write(tmp_path / "far", mapping=None)
    (tmp_path / "rollout-board.toml").write_text(MAPPING.replace("score", "it"))
    result = discover(tmp_path)
    names = {run.name: run.formats[0] for run in result.runs}
    assert names["near"] != names["far"]
    rewards = {name: records(run_at(tmp_path / name))[1].scores["reward"] for name in ("near",)}
    assert rewards == {"near": 1.0}
    assert '"score"' in mapping_text(names["near"])
    assert '"score"' not in mapping_text(names["far"])


def test_a_changed_mapping_reads_anew(tmp_path):
    write(tmp_path)
    assert [r.scores["reward"] for r in records(run_at(tmp_path))] == [0.5, 1.0]
    (tmp_path / "rollout-board.toml").write_text(MAPPING.replace('"score"', '"it"'))
    assert [r.scores["reward"] for r in records(run_at(tmp_path))] == [1.0, 2.0]
    (tmp_path / "rollout-board.toml").unlink()
    assert discover(tmp_path).runs == ()


def test_a_mapping_that_can_not_be_used_is_named_and_costs_no_run(tmp_path):
    native = [{"step": 1, "prompt": "p", "response": "r", "reward": 1.0}]
    write(tmp_path, native, "[keys]\nrespnse = 'out'\n")
    (run,) = discover(tmp_path).runs
    assert run.formats == ("rllb",)
    (problem,) = run.left_out
    assert problem.path == "rollout-board.toml"
    assert "keys.respnse" in problem.reason
    assert problem.severity == "lost"
    (single,) = discover(tmp_path / "log.jsonl").runs
    assert "keys.respnse" in single.left_out[0].reason


def test_why_a_mapping_does_not_fit_stands_beside_the_file(tmp_path):
    write(tmp_path, [{"answer": "x"}])
    (problem,) = discover(tmp_path).left_out
    assert "of the mapping file: no record has 'out', 'score'" in problem.reason


def test_a_mapping_that_is_a_link_out_of_the_root_is_not_read(tmp_path):
    outside = tmp_path / "outside.toml"
    outside.write_text(MAPPING)
    root = write(tmp_path / "root", mapping=None)
    (root / "rollout-board.toml").symlink_to(outside)
    assert discover(root).runs == ()


@pytest.mark.parametrize("opened_path", ["run", "run/log.jsonl"])
@pytest.mark.parametrize("command", ["steps", "runs", "sniff"])
def test_a_mapping_above_what_is_opened_is_named(tmp_path, capsys, command, opened_path):
    write(tmp_path / "run", mapping=None)
    (tmp_path / "rollout-board.toml").write_text(MAPPING)
    cli.main([command, str(tmp_path / opened_path)])
    assert (
        f"{tmp_path / 'rollout-board.toml'} is above the opened folder" in capsys.readouterr().err
    )
    cli.main([command, str(tmp_path)])
    assert "is above" not in capsys.readouterr().err


def test_documents_and_tables_are_read_by_a_mapping(tmp_path):
    rollouts = [{"it": 1, "out": "a", "score": 0.5}]
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x_1.json").write_text(json.dumps({"all": rollouts}))
    (tmp_path / "d" / "rollout-board.toml").write_text(
        "rows = 'all'\nfiles = 'x_[0-9]+\\.json'\n" + MAPPING
    )
    write(tmp_path / "p", [], MAPPING)
    pd.DataFrame(rollouts).to_parquet(tmp_path / "p" / "t.parquet")
    for folder in ("d", "p"):
        (record,) = records(run_at(tmp_path / folder))
        assert (record.step, record.texts["response"], record.scores["reward"]) == (1, "a", 0.5)


def test_a_process_that_has_not_seen_the_mapping_reads_by_it(tmp_path, monkeypatch):
    write(tmp_path)
    (run,) = discover(tmp_path).runs
    name = run.formats[0]
    shard = Shard(tmp_path / "log.jsonl", "log.jsonl", name, mapping=mapping_text(name))
    monkeypatch.setattr("board.formats._mappings", {})
    with pytest.raises(KeyError):
        reader_named(name)
    (part,) = index_shard(shard)
    assert part.table.column("reward").to_pylist() == [0.5, 1.0]


def test_no_reader_that_comes_along_is_a_mapping():
    assert not any(isinstance(reader, MappingReader) for reader in READERS)
    assert [mapping_text(reader.name) for reader in READERS] == [""] * len(READERS)
