"""Options that choose rollouts answer as a log would that holds these rollouts alone."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from written_logs import write_lines

from board import cli

PLACES = frozenset(
    ("index", "line", "file", "path", "changed", "bytes", "notes", "seconds", "evidence", "env", "where")
)  # fmt: skip
"""What differs between a log and a part of it."""
COMMANDS = {
    "steps": "",
    "rollouts": "--columns step,group_id,env,reward,response",
    "contrasts": "",
    "failures": "",
    "sample-size": "--difference 0.2",
    "findings": "--index-only",
}
CHOICES = {
    "--last 3": lambda row: row["step"] > 3,
    "--where length>3 --env code --last 2": lambda row: (
        row["length"] > 3 and row["env"] == "code" and row["step"] > 4
    ),
}


def rows() -> list[dict[str, Any]]:
    draw = random.Random(3)
    return [
        {
            "step": step,
            "group_id": f"g{group}",
            "env": "code" if group % 2 else "math",
            "prompt": f"Task {group} of {step % 2}",
            "response": " ".join(draw.choices(["so", "wait", "add", "we"], k=12)) if member else "",
            "reward": float(draw.random() < 0.6),
            "length": draw.randint(0, 9),
        }
        for step in range(1, 7)
        for group in range(4)
        for member in range(6)
    ]


def said(value: Any) -> Any:
    """An answer without what depends on where a rollout stands."""
    if isinstance(value, dict):
        return {name: said(one) for name, one in value.items() if name not in PLACES}
    return [*map(said, value)] if isinstance(value, list) else value


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    cli.main([*arguments, "--json"])
    printed = capsys.readouterr()
    assert printed.out, printed.err
    return said(json.loads(printed.out))


@pytest.mark.parametrize("choice", CHOICES)
def test_a_part_of_a_run_is_answered_for_as_a_run_of_that_part(choice, tmp_path: Path, capsys):
    every = rows()
    chosen = [row for row in every if CHOICES[choice](row)]
    for root, lines in (("all", every), ("part", chosen)):
        write_lines(tmp_path / root / "run" / "log.jsonl", lines)
        others = [row | {"reward": 1 - row["reward"]} for row in lines]
        write_lines(tmp_path / root / "other" / "log.jsonl", others)
    for command, options in (*COMMANDS.items(), ("compare", "")):
        whole, part = (
            [str(tmp_path / root / name) for name in ("run", "other")[: 1 + (command == "compare")]]
            for root in ("all", "part")
        )
        narrowed = answer(capsys, command, *whole, *options.split(), *choice.split())
        assert narrowed == answer(capsys, command, *part, *options.split()), command
        assert narrowed != answer(capsys, command, *whole, *options.split()), command
