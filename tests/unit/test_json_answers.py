"""Each `--json` holds what its page says, and the pages are those of the registry."""

import json
import shutil
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from read_formats import DATA
from written_logs import native_run, write_lines

from board import cli
from board.cli.answer_pages import Key, answers, pages
from board.cli.output import SCHEMA
from board.cli.parser import COMMANDS

DOCS = Path(__file__).parents[2] / "docs"
ENVELOPE = (
    Key("schema", "text", ""),
    Key("rows", "list", ""),
    Key("notes", "list", ""),
    Key("notes[]", "text", ""),
)
TYPES = {"text": str, "integer": int, "number": (int, float), "boolean": bool}
TYPES |= {"list": list, "object": dict, "any": object}


def test_the_pages_are_what_the_registry_says():
    assert {name: (DOCS / name).read_text(encoding="utf-8") for name in pages()} == pages()
    assert {f"json/{path.name}" for path in (DOCS / "json").iterdir()} <= {*pages()}


def test_every_command_with_json_is_documented():
    assert {*answers()} == {
        name for name, command in COMMANDS.items() if "--json" in command.arguments
    }


class Node:
    """A place in an answer: what may stand there, and what in it, by key or pattern; "[]" is an item."""

    def __init__(self) -> None:
        self.type, self.inner = "", dict[str, Node]()

    def at(self, path: str) -> "Node":
        node = self
        for name in path.replace("[]", ".[]").split("."):
            node = node.inner.setdefault(name, Node())
        return node

    def child(self, name: str) -> "Node | None":
        if name in self.inner:
            return self.inner[name]
        fitting = [pattern for pattern in self.inner if fnmatchcase(name, pattern)]
        return self.inner[max(fitting, key=len)] if fitting else None


def tree(command: str) -> Node:
    root = Node()
    for key in (*ENVELOPE, *answers()[command].keys):
        root.at(key.path).type = key.type
    return root


def faults(value: Any, node: Node, path: str = "") -> Iterator[str]:
    """Where a value is not what its node says."""
    kind, _, optional = node.type.partition(", ")
    assert optional in ("", "optional"), (path, node.type)
    if value is None:
        if kind and not kind.endswith("?") and kind != "any":
            yield f"{path} is null, and not {kind}"
        return
    kind = kind.removesuffix("?")
    is_flag = isinstance(value, bool) and kind in ("integer", "number")
    if kind and (is_flag or not isinstance(value, TYPES[kind])):
        yield f"{path} is {value!r}, and not {kind}"
    if isinstance(value, list) and (item := node.inner.get("[]")):
        for one in value:
            yield from faults(one, item, f"{path}[]")
    if isinstance(value, Mapping) and node.inner:
        for name, one in value.items():
            inner = node.child(name)
            if inner is None:
                yield f"{path}.{name} is not documented"
            else:
                yield from faults(one, inner, f"{path}.{name}")
        for name, inner in node.inner.items():
            is_needed = "*" not in name and not inner.type.endswith("optional")
            if is_needed and name not in value:
                yield f"{path}.{name} is not there"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of several kinds, one of them labelled, and a report on them."""
    root = tmp_path_factory.mktemp("logs")
    for name in ("native", "other"):
        native_run(root / name)
    bare = [{"step": 0, "prompt": "p", "response": f"r{n}"} for n in range(2)]
    write_lines(root / "bare" / "log.jsonl", bare)
    failed = {"step": 1, "prompt": "p", "response": "", "response_ids": [], "reward": 0.0}
    fine = {"step": 1, "prompt": "p", "response": "r", "response_ids": [4]}
    rows = [fine | {"reward": reward, "group_id": "a"} for reward in (1.0, 3.0, 2.0)]
    write_lines(root / "failing" / "log.jsonl", [*rows, failed | {"group_id": "a"}])
    metrics = ['{"step": 1, "reward": 0.5, "lr": 0.1}', '{"step": 2, "lr": NaN}']
    write_lines(root / "failing" / "metrics.jsonl", metrics)
    write_lines(root / "torn" / "log.jsonl", [fine | {"reward": "x"}, "{"])
    shutil.copytree(DATA / "prime_rl" / "joined", root / "joined")
    report = 'It wrote "x" [run=bare step=0 rollout=0], and 3.5 [run=failing step=1 metric=reward].'
    (root / "report.md").write_text(report)
    bare_run = str(root / "bare")
    for author in ("ann", "bob"):
        place = ["--step", "0", "--index", "0", "--author", author]
        assert cli.main(["label", bare_run, "good", *place]) == 0
        assert cli.main(["label", bare_run, "--note", "why", *place]) == 0
    assert cli.main(["labels", bare_run, "--draw", "1", "--author", "ann"]) == 0
    return root


OF_RUNS = (
    *(
        "steps",
        "rollouts",
        "metrics",
        "contrasts",
        "check",
        "sniff",
        "findings",
        "failures",
        "labels",
    ),
)
RUNS = ("native", "bare", "failing", "torn")
CASES = [
    *(f"{command} {run}" for command in OF_RUNS for run in RUNS),
    *("runs .", "index bare", "check joined --all", "metrics failing --names", "verify report.md"),
    *("show native --step 20 --index 0", "show bare --step 0 --index 0"),
    *("sample-size native --difference 0.1", "contrasts native --columns kind,feature"),
    *("compare native bare", "compare native other failing"),
]


@pytest.mark.parametrize("case", CASES)
def test_an_answer_holds_what_its_page_says(case, logs, monkeypatch, capsys):
    monkeypatch.chdir(logs)
    command, *arguments = case.split()
    cli.main([command, *arguments, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == f"{command}/{SCHEMA}"
    wrong = [*faults(answer, tree(command))]
    if "--columns" in arguments:
        wrong = [one for one in wrong if not one.endswith("is not there")]
    assert wrong == []


def test_a_wrong_answer_is_told_from_a_right_one():
    row = {"run": "a", "step": 1, "index": True, "other": 1}
    told = {one.split(" ", 1)[0] for one in faults({"schema": "x", "rows": [row]}, tree("show"))}
    assert {".rows[].index", ".rows[].other", ".rows[].file", ".notes"} <= told
