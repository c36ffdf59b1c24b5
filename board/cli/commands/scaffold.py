"""The command `scaffold-reader`: a package with a reader, its test and a fixture, to start from."""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from board.cli import output
from board.errors import ChoiceError, UnreadableError
from board.formats.io.locations import open_binary
from board.index.discovery.sniff import sniff

_FIXTURE_LINES: Final = 3
_MOST_KEYS: Final = 4
"""Of a line, that the reader knows it by."""
_CHECKED: Final = ("step", "reward", "prompt", "response")
_LONGEST_LINE: Final = 10_000_000
_PLAIN: Final = re.compile(r"[\w .-]+")
"""Keys that a docstring can name."""
_PROJECT: Final = """\
# pip install -e .   makes the board know the reader; pip uninstall {package} ends it.
[build-system]
requires = ["setuptools>=78.1.1"]
build-backend = "setuptools.build_meta"

[project]
name = "{package}"
version = "0.1.0"
description = "Rollout logs of {name}, for Rollout Board."
dependencies = ["rollout-board[board]"]

[project.entry-points."rollout_board.readers"]
{name} = "{module}:{type}"

[tool.setuptools]
py-modules = ["{module}"]
"""
_READER: Final = '''\
"""The rollout logs of {name}: which code writes them, in which version, is worth a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from board.formats.base import Head, LineContext, Reader
from board.formats.fields import Fields, at_step


class {type}(Reader):
    """Reads the rollouts that {name} writes."""

    name = "{name}"
    title = "{name}"
    # Keys of the line -> fields of the record (docs/record.md); "" leaves one out; others are columns.
    keys: Mapping[str, str] = {keys}

    def recognises(self, head: Head) -> bool:
        """{sentence}"""
        return head.has({known})

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        """Return the fields of one rollout."""
        fields = self.fields(line)
{inner}        return {result}
'''
_TEST: Final = '''\
"""Each line of the fixture is a rollout with the values that a plain reading finds."""

import json
from pathlib import Path

import board

FIXTURE = Path(__file__).parent / "data" / "{fixture}"


def test_every_line_is_a_rollout_with_its_values():
    run = board.open_run(FIXTURE)
    assert run.sql("select count(*) as n from rollouts").n[0] == {count}
    first = run.rollouts().iloc[0]
    line = json.loads(FIXTURE.read_text(encoding="utf-8").splitlines()[0])
{checks}    assert not len(run.sql("select * from problems where severity <> 'note'"))
'''


def scaffold_reader(args: argparse.Namespace) -> int:
    """Writes the package into a new folder and says what to do with it."""
    name = args.name
    if not name.isidentifier() or name != name.lower():
        raise ChoiceError(
            f"{name!r} can't be the name of a reader: small letters, digits and _, such as my_trainer"
        )
    lines = _first_lines(args.file)
    suggested = next((file.suggested for file in sniff(args.file).files if file.suggested), "")
    keys = {str(k): str(v) for k, v in tomllib.loads(suggested).get("keys", {}).items()}
    folder = Path(args.output or f"{name}_reader")
    contents = {
        "pyproject.toml": _PROJECT.format(
            package=f"rollout-board-{name.replace('_', '-')}",
            name=name,
            module=f"{name}_reader",
            type=_type_name(name),
        ),
        f"{name}_reader.py": _reader(name, keys, lines[0]),
        f"tests/test_{name}_reader.py": _test(keys, args.file.name, lines),
        f"tests/data/{args.file.name}": "".join(json.dumps(line) + "\n" for line in lines),
    }
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise ChoiceError(f"{folder} already exists; give another --output") from None
    for path, text in contents.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    output.print_lines(str(folder / path) for path in contents)
    output.say(
        f"the fixture has the first {len(lines)} lines of {args.file.name}: replace what is private in "
        f"them. Then: pip install -e {folder} && pytest {folder}"
    )
    return 0


def _first_lines(path: Path) -> list[dict[str, Any]]:
    """The first lines of a file, as objects. Raises UnreadableError where they are none."""
    try:
        with open_binary(path) as file:
            texts = [*islice(iter(lambda: file.readline(_LONGEST_LINE), b""), _FIXTURE_LINES)]
        lines = [json.loads(text) for text in texts]
    except (OSError, ValueError) as error:
        raise UnreadableError(
            f"{path}: not lines of JSON, which a reader begins with: {error}"
        ) from error
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise UnreadableError(f"{path}: its first lines are no JSON objects")
    return lines


def _type_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_")) + "Reader"


def _reader(name: str, keys: Mapping[str, str], line: Mapping[str, Any]) -> str:
    """The module of the reader. keys: of the suggested mapping, a field to the path of its key."""
    renamed = {path: field for field, path in keys.items() if path in line and path != field}
    inner = {field: path.split(".") for field, path in keys.items() if path not in line}
    statements = (
        f'        fields["{field}"] = {_looked_up(path)}\n' for field, path in inner.items()
    )
    known = [*line][:_MOST_KEYS]
    has_step = "step" in keys or "step" in line
    return _READER.format(
        name=name,
        type=_type_name(name),
        keys=json.dumps(renamed),
        sentence=f"Lines with {', '.join(f'`{key}`' for key in known if _PLAIN.fullmatch(key))}.",
        known=", ".join(json.dumps(key) for key in known),
        inner="".join(statements),
        result="fields" if has_step else "at_step(fields, at.step)  # or a key of the line",
    )


def _looked_up(path: list[str]) -> str:
    """An expression that is None where one of the keys of a path is missing."""
    text = "line"
    for key in path[:-1]:
        text = f"({text}.get({json.dumps(key)}) or {{}})"
    return f"{text}.get({json.dumps(path[-1])})"


def _test(keys: Mapping[str, str], fixture: str, lines: list[dict[str, Any]]) -> str:
    values = {
        field: "".join(f"[{json.dumps(key)}]" for key in path.split("."))
        for field, path in keys.items()
        if field in _CHECKED
    }
    checks = "".join(f'    assert first["{f}"] == line{value}\n' for f, value in values.items())
    return _TEST.format(fixture=fixture, count=len(lines), checks=checks)
