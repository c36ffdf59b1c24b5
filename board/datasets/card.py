"""The card of a data set folder: by what rollouts were chosen, how many there are, where they are from.

Names, filters and columns are of the log or its user. They stand in code spans, in which Markdown and
HTML mean nothing, and in JSON strings, which YAML reads as texts.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import Any, Final

import pyarrow as pa

from board import __version__
from board.core.metrics.definitions import rollout_metric
from board.datasets.files import JSON, JSON_LIST

_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = tomllib.loads(
    resources.files("board.datasets").joinpath("columns.toml").read_text(encoding="utf-8")
)
_SIZES: Final = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"))
_LARGER: Final = "1M<n<10M"
_TICKS: Final = re.compile("`+")
_TAGS: Final = ("rollout-board", "reinforcement-learning")


@dataclass(frozen=True, slots=True)
class Summary:
    """What was written. chosen: rollouts by the choices, of `total` of the run. rows: of `unit`, by
    split. groups, prompts: different ones among them, 0 where not recorded. left_out: of the unit `of`,
    by reason.
    """

    unit: str
    of: str
    total: int
    chosen: int
    rows: Mapping[str, int]
    groups: int
    prompts: int
    left_out: Mapping[str, int]
    notes: Sequence[str]

    def lines(self) -> list[str]:
        """The counts in words, one fact a line."""
        rows = sum(self.rows.values())
        different = {"groups": self.groups, "prompts": self.prompts}
        counts = [
            f"{words}: {n:,}" if n else f"{words}: not recorded" for words, n in different.items()
        ]
        chosen = f"chosen rollouts: {self.chosen:,} of {self.total:,}"
        reasons = [f"{self.of} left out: {n:,}, {reason}" for reason, n in self.left_out.items()]
        return [f"{self.unit}: {rows:,}", *counts, chosen, *reasons, *self.notes]


@dataclass(frozen=True, slots=True)
class Source:
    """Where rollouts are from, and what they were chosen by. choices: words -> what the user wrote."""

    run: str
    formats: Sequence[str]
    choices: Mapping[str, str]


def card(source: Source, summary: Summary, schema: pa.Schema, names: Mapping[str, str]) -> str:
    """The text of README.md. names: by split of the run, its name in the data set."""
    rows = sum(summary.rows.values())
    size = next((words for least, words in _SIZES if rows < least), _LARGER)
    files = [{"split": name, "path": f"data/{name}-*"} for name in names.values()]
    head = {
        "pretty_name": _one_line(source.run),
        "configs": [{"config_name": "default", "data_files": files}],
        "size_categories": [size],
        "tags": _TAGS,
    }
    choices = [f"- {words}: {_code(text)}" for words, text in source.choices.items()]
    splits = [
        f"- {_code(name)}: {summary.rows[split]:,} {summary.unit} of the run's split {_code(split)}"
        for split, name in names.items()
    ]
    lines = [
        "---",
        *(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()),
        "---",
        "",
        f"# Rollouts of {_code(source.run)}",
        "",
        f"- run: {_code(source.run)}",
        f"- format: {', '.join(map(_code, source.formats))}",
        f"- written by: Rollout Board {__version__}, {datetime.now(UTC):%Y-%m-%d}",
        *(choices or ["- chosen: all rollouts"]),
        "",
        "## Counts",
        "",
        *(f"- {_escaped(line)}" for line in summary.lines()),
        *splits,
        "",
        "## Columns",
        "",
        "| column | type | unit | what it is |",
        "|---|---|---|---|",
        *(_described(field) for field in schema),
        "",
    ]
    return "\n".join(lines)


def _described(field: Any) -> str:
    about = _COLUMNS.get(field.name)
    if about is None:
        metric = rollout_metric(field.name)
        words = (
            metric.formula if metric.label == field.name else f"{metric.label}: {metric.formula}"
        )
        about = {"about": _code(words), "unit": metric.unit}
    kinds = {JSON_LIST: "list of JSON objects", JSON: "JSON"}
    kind = next((words for kind, words in kinds.items() if field.type == kind), str(field.type))
    cells = (_code(field.name), kind, about.get("unit", ""), about["about"])
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _code(text: str) -> str:
    """A text as a code span of one line."""
    line = _one_line(text)
    ticks = "`" * (max(map(len, _TICKS.findall(line)), default=0) + 1)
    space = " " if line.startswith("`") or line.endswith("`") or not line.strip() else ""
    return f"{ticks}{space}{line}{space}{ticks}"


def _one_line(text: str) -> str:
    """The text without what is no printable character: line breaks, and what turns a line around."""
    return "".join(one if one.isprintable() else " " for one in text)


def _escaped(text: str) -> str:
    """A line of the board's own words, which may quote a number or a name."""
    return re.sub(r"([\\`*_{}\[\]<>#|~$])", r"\\\1", _one_line(text))
