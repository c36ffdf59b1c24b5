"""Whatever stands under a key: other types, huge numbers, and arrays in arrays, of which parsers take a
thousand, and Python can neither compare nor print them.
"""

import json
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import cycle
from typing import Any

import pytest
from read_formats import DATA

from board.analysis.rollout import open_rollout
from board.cli import main
from board.errors import BoardError
from board.formats.io.torch_files import TORCH
from board.formats.sources import DamagedError
from board.index.discovery.discovered_runs import RunInfo, discover
from board.query.open_run import open_run

DEEP = ("[" * 1000 + "]" * 1000, '{"a":' * 1000 + "1" + "}" * 1000)
ODD = (
    *DEEP,
    *("null", "true", "1e999", "9" * 400, '""', '"\\ud800"'),
    *("[]", "{}", "[1]", '["x"]', '[{"a": [1]}]', '{"a": {"b": [1]}}'),
)
PLACE = "here something odd is put"


@cache
def logs() -> dict[str, RunInfo]:
    """A run of each reader of lines of JSON, each a record."""
    return {
        info.formats[0]: info
        for info in sorted(discover(DATA).runs, key=lambda info: info.name)
        if info.files[0].path.suffix == ".jsonl"
        and not info.is_joined
        and not info.files[0].path.read_bytes().startswith(b"{\n")
    }


def keys_in(value: Any) -> Iterator[str]:
    """The keys at every depth."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield key
            yield from keys_in(entry)
    elif isinstance(value, list) and value:
        yield from keys_in(value[0])


def with_place(value: Any, at: str) -> Any:
    """The value with the place instead of what a key holds, at every depth."""
    if isinstance(value, dict):
        return {key: PLACE if key == at else with_place(v, at) for key, v in value.items()}
    return [with_place(entry, at) for entry in value] if isinstance(value, list) else value


@pytest.mark.parametrize("reader", sorted(logs()))
def test_whatever_stands_where_something_else_is_expected_costs_its_line_at_most(tmp_path, reader):
    path = logs()[reader].files[0].path
    first = json.loads(max(path.read_bytes().split(b"\n"), key=len))  # some begin with a summary
    log = tmp_path / path.relative_to(DATA)
    log.parent.mkdir(parents=True)
    lines = [json.dumps(first)]
    for key in dict.fromkeys(keys_in(first)):
        stored = json.dumps(with_place(first, key))
        lines += [stored.replace(f'"{PLACE}"', unusual) for unusual in ODD]
    log.write_text("\n".join([*lines, lines[0]]) + "\n")
    (info,) = discover(tmp_path).runs
    assert info.formats == (reader,)
    run = open_run(info)
    # Spans of equal traces are one line from the first to the last of them.
    last = 1 if reader == "otlp" else len(lines) + 1
    assert last in set(run.rollouts["line"]) or run.repeated
    assert not run.where('any_text contains "nobody said this"').counts
    for row in run.rollouts.itertuples():
        if row.line % 13 == 0:  # another odd value of each key
            with suppress(BoardError):
                open_rollout(run, row.step, row.index)


@pytest.mark.parametrize("deep", DEEP, ids=["lists", "objects"])
def test_what_is_nested_deep_is_named_where_it_can_not_be_printed(tmp_path, capsys, deep):
    (tmp_path / "x.jsonl").write_text(
        f'{{"step": 1, "response": "r", "reward": 1, "odd": {deep}}}\n'
    )
    assert main(["show", str(tmp_path), "--step", "1", "--index", "0", "--json"]) == 2
    assert "nested too deep" in capsys.readouterr().err
    assert main(["rollouts", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["reward"] == 1


def test_a_torch_file_nested_deep_is_named(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"samples": []}, tmp_path / "plain.pt")
    samples = b"]" * 5000 + b"a" * 4999
    deep = b"\x80\x02}X\x07\x00\x00\x00samples" + samples + b"s."
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(tmp_path / "deep.pt", "w") as out,
    ):
        for entry in plain.namelist():
            out.writestr(entry, deep if entry.endswith("data.pkl") else plain.read(entry))
    with pytest.raises(DamagedError, match="nested too deep"):
        TORCH.fetch(tmp_path / "deep.pt", 0, 1)


@pytest.mark.parametrize(
    ("reader", "value"), [*zip(sorted(logs()), cycle((3, "seen", {"a": 1})), strict=False)]
)
def test_a_key_called_remarks_costs_no_rollout_of_any_log(tmp_path, reader, value):
    file = logs()[reader].files[0].path
    lines = [json.loads(line) for line in file.read_bytes().splitlines()[:40]]
    changed = [line if "header" in line.values() else {**line, "remarks": value} for line in lines]
    counts = []
    for name, own in (("as it is", lines), ("changed", changed)):
        path = tmp_path / name / file.relative_to(file.parents[2])
        path.parent.mkdir(parents=True)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in own))
        counts.append(dict(open_run(discover(tmp_path / name).runs[0]).counts))
    assert counts[0] == counts[1] != {}


@pytest.mark.parametrize("reader", ["rllb", "generic"])
def test_a_key_called_remarks_becomes_a_column(tmp_path, reader):
    names = ("response", "reward") if reader == "rllb" else ("completion", "score")
    line = {"step": 1, "prompt": "p", names[0]: "r", names[1]: 1.0, "remarks": "seen"}
    (tmp_path / "log.jsonl").write_text(f"{json.dumps(line)}\n{json.dumps(line)}\n")
    assert open_run(discover(tmp_path).runs[0]).rollouts["remarks"].tolist() == ["seen", "seen"]
