"""What `--json` of each command holds, from answers.toml: its keys with their types, and pages of them.

`python -m board.cli.answer_pages docs` writes the pages.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, NamedTuple

from board.cli.output import SCHEMA

_TITLE: Final = "# What `--json` prints"
_EXPLAINED: Final = (
    "Each answer is one object: `schema` (such as `steps/1`; another number when keys change their "
    "meaning), `rows`, what\nelse the page of the command lists, and `notes`, what it also says on "
    "stderr. `[]` is each item of a list, `*` a name\nof the log, `?` after a type: null where it is not "
    "recorded; optional: the key is not always there. Numbers\nthat are NaN or infinite are null. Keys "
    "may be added: pass over those that you do not know."
)
_WRITTEN: Final = (
    "Written from `board/cli/answers.toml` by `python -m board.cli.answer_pages docs`."
)


class Key(NamedTuple):
    """Where a value stands in an answer, its type, and what it is."""

    path: str
    type: str
    about: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What `--json` of a command holds, beside schema and notes."""

    command: str
    about: str
    keys: tuple[Key, ...]


@cache
def answers() -> Mapping[str, Answer]:
    """The answers of all commands that have `--json`, by command."""
    text = resources.files("board.cli").joinpath("answers.toml").read_text(encoding="utf-8")
    return {name: _answer(name, table) for name, table in tomllib.loads(text).items()}


def _answer(command: str, table: Mapping[str, str]) -> Answer:
    described = {path: text.split(": ", 1) for path, text in table.items() if path != "about"}
    keys = (Key(path, kind, about) for path, (kind, about) in described.items())
    return Answer(command, table["about"], tuple(keys))


def pages() -> Mapping[str, str]:
    """The text of each page by its path in docs: one that lists the commands, and one of each."""
    return {"json.md": "\n".join(_contents()), **{_file(a): _page(a) for a in answers().values()}}


def _file(answer: Answer) -> str:
    return f"json/{answer.command}.md"


def _contents() -> Iterator[str]:
    yield f"{_TITLE}\n\n{_EXPLAINED}\n\n| command | answers |\n|---|---|"
    for answer in answers().values():
        yield f"| [`{answer.command}`]({_file(answer)}) | {answer.about} |"
    yield f"\n{_WRITTEN}\n"


def _page(answer: Answer) -> str:
    rows = [f"| `{key.path}` | {key.type} | {key.about} |" for key in answer.keys]
    head = (
        f"# `{answer.command} --json`\n\n{answer.about}. `schema` is `{answer.command}/{SCHEMA}`."
    )
    how = "[How to read this](../json.md)."
    table = ("| key | type | what it is |", "|---|---|---|", *rows)
    return "\n".join((f"{head} {how}", "", *table, ""))


def main(folder: Path) -> None:
    """Writes the pages into a folder."""
    for name, text in pages().items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
