"""Outlines say of ids and scores what the whole run says, whatever the log."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from read_formats import DATA, REAL_RUNS, info_at, real_run

from board.analysis.rollout import open_rollout
from board.cli import main
from board.formats import reader_named
from board.formats.io import inspect_files
from board.formats.io.inspect_files import INSPECT
from board.formats.number_arrays import LineParser
from board.formats.sources import Row
from board.index.discovery.run_info import RunInfo
from board.index.segments import CAUSE_COLUMNS
from board.query import outlines
from board.query.columns import rows_of
from board.query.open_run import Follower, OpenOptions, Run
from board.query.outlines import may_tell, outlined
from board.query.rollouts import Sorting, rollout_table

OUTLINED = [i for i in REAL_RUNS if all(reader_named(n).has_outline for n in i.formats)]
MADE_OF_TEXTS = {*CAUSE_COLUMNS, "is_truncated"}


def outline(info: RunInfo) -> Run:
    return Follower(outlined(OpenOptions())).run(info)


def rows(run: Run, names: list[str]) -> list[dict[str, object]]:
    return rows_of(rollout_table(run, names, Sorting(), limit=None))


@pytest.mark.parametrize("info", OUTLINED, ids=lambda info: info.name)
def test_an_outline_has_the_rollouts_and_the_values_of_the_whole_run(info):
    short, whole = outline(info), real_run(info)
    names = [name for name in short.columns if name not in MADE_OF_TEXTS]
    assert {*names} <= {*whole.columns}
    assert rows(short, names) == rows(whole, names)
    assert (short.superseded, short.repeated) == (whole.superseded, whole.repeated)
    of_step = [name for name in short.step_table().column_names if may_tell([name])]
    tables = (run.step_table().select(of_step).to_pylist() for run in (short, whole))
    assert repr(next(tables)) == repr(next(tables))


def test_a_question_about_scores_is_answered_as_the_whole_log_answers_it(
    tmp_path, monkeypatch, capsys
):
    def asked(*arguments: str) -> object:
        assert main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    lines = [
        {"step": step, "group_id": str(place), "response": "r" * 9, "reward": step / (place + 2)}
        | {"prompt": "p", "split": ("train", "eval")[place > 2], "logprobs": [-0.1, -0.2]}
        for step in (*range(6), *range(4, 9))  # resumed at step 4
        for place in range(4)
    ]
    for name in ("outlined", "whole"):
        (tmp_path / name).mkdir()
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / name / "log.jsonl").write_text(text)
    opened = list[bool]()
    run = Follower.run

    def counted(follower: Follower, *others, **options):
        opened.append(follower.options.read.outline)
        return run(follower, *others, **options)

    monkeypatch.setattr(Follower, "run", counted)
    questions = (
        ("steps", "--columns", "step,rollouts,reward_mean,reward_std"),
        ("steps", "--columns", "step,reward_mean", "--split", "all"),
        ("rollouts", "--columns", "step,index,group_id,reward", "--sort", "reward"),
        ("steps", "--columns", "step,response_tokens_mean"),
        ("rollouts", "--columns", "step,reward", "--where", "reward > 1"),
    )
    for command, *options in questions:
        monkeypatch.setattr(outlines, "OUTLINE_BYTES", 1 << 40)
        whole = asked(command, str(tmp_path / "whole"), *options)
        monkeypatch.setattr(outlines, "OUTLINE_BYTES", 1)
        assert asked(command, str(tmp_path / "outlined"), *options) == whole
    assert opened == [False, True] * 3 + [False] * 4


TEXTS = st.lists(
    st.sampled_from(["]", '"]', '" ]', "\\", "a", ", ", '"k": [', "{", "é"]), max_size=6
)


@given(
    lines=st.lists(
        st.fixed_dictionaries(
            {"step": st.integers(1, 3), "response": st.just("r"), "pieces": TEXTS},
            optional={"k": TEXTS, "reward": st.floats(0, 1), "n": st.just([0.5, 1])},
        ).flatmap(lambda line: st.permutations([*line.items()]).map(dict)),
        min_size=1,
        max_size=6,
    ),
    end=st.sampled_from(["]", " ]", "\t]"]),
)
def test_arrays_of_texts_that_an_outline_leaves_hide_no_other_value(lines, end):
    written = [json.dumps(line) for line in lines]
    written[-1] = written[-1].replace('"]', f'"{end}')  # a line by another hand
    try:
        same = [json.loads(text) for text in written] == lines
    except ValueError:
        same = False
    assume(same)
    parser, whole = LineParser(leaves_texts=True), LineParser()
    for text in written:
        found, expected = (one.parse(text.encode())[0] for one in (parser, whole))
        assert found.keys() == expected.keys()
        for key in ("step", "reward", "response"):
            assert found.get(key) == expected.get(key)


SUMMARIES = {
    "at the end": {"summaries.json": slice(None)},
    "of a log that is written": {
        "_journal/summaries/1.json": slice(0, 2),
        "_journal/summaries/2.json": slice(2, None),
    },
    "of fewer samples": {"summaries.json": slice(1, None)},
    "none": {},
}


def eval_log(folder: Path, parts: dict[str, slice]) -> RunInfo:
    """A log of the samples of a real one, with an error and a limit, and these parts of its summaries."""
    (log,) = (DATA / "inspect").glob("*.eval")
    samples = [dict(row.record) for row in INSPECT.lines(log) if isinstance(row, Row)]
    header = samples[0]["header"]
    samples[1] |= {"error": {"message": "it broke", "traceback": "", "traceback_ansi": ""}}
    samples[2] |= {"limit": {"type": "token", "limit": 10}}
    with zipfile.ZipFile(folder / log.name, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        summaries = list[dict[str, Any]]()
        for sample in samples:
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            archive.writestr(name, json.dumps({k: v for k, v in sample.items() if k != "header"}))
            kept = ("id", "epoch", "input", "target", "scores", "model_usage", "total_time")
            summary = {key: sample.get(key) for key in (*kept, "working_time", "metadata")}
            summary["error"] = (sample.get("error") or {}).get("message")
            summaries.append(summary | {"limit": (sample.get("limit") or {}).get("type")})
        for name, part in parts.items():
            archive.writestr(name, json.dumps(summaries[part]))
    return info_at(folder)


@pytest.mark.parametrize("kind", SUMMARIES)
def test_an_outline_of_an_eval_is_made_of_summaries_where_there_is_one_of_each_sample(
    kind, tmp_path, monkeypatch
):
    info = eval_log(tmp_path, SUMMARIES[kind])
    read = list[str]()
    content = inspect_files._content
    monkeypatch.setattr(
        inspect_files, "_content", lambda a, m: read.append(m.filename) or content(a, m)
    )
    short = outline(info)
    samples = [name for name in read if name.startswith("samples/")]
    is_complete = kind in ("at the end", "of a log that is written")
    assert bool(samples) != is_complete
    whole = Follower().run(info)
    names = [name for name in short.columns if name not in MADE_OF_TEXTS]
    assert {"group_id", "epoch", "reward", "split", "error", "limit"} <= {*names}
    assert rows(short, names) == rows(whole, names)
    for step, index in ((0, 0), (0, 3)):
        assert open_rollout(short, step, index).texts == open_rollout(whole, step, index).texts
