"""What a user says of metrics of their own, in metrics.toml of their configuration folder.

[grad_norm_of_token]                # an array over tokens, or a number of a rollout, as logged
label = "Gradient norm of a token"
unit = "nats"                       # optional
aggregate = ["max"]                 # of an array, over a rollout: mean, max, min, sum
diverging = true                    # whether it is looked at around zero
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from board.errors import BoardError

Aggregate = Literal["mean", "max", "min", "sum"]
AGGREGATES: Final = get_args(Aggregate)
USUAL: Final[tuple[Aggregate, ...]] = ("mean", "max")
"""What the board makes of an array that nothing is said of."""
ENDINGS: Final[Mapping[Aggregate, str]] = {
    "mean": "",
    "max": ", largest token",
    "min": ", smallest token",
    "sum": ", sum over tokens",
}
_KINDS: Final = {"label": str, "unit": str, "aggregate": list, "diverging": bool}
_EXPECTED: Final = {
    "label": "a text",
    "unit": "a text",
    "aggregate": f"a list of {', '.join(AGGREGATES)}",
    "diverging": "true or false",
}


@dataclass(frozen=True, slots=True)
class OwnMetric:
    """The words of a user for a metric of theirs. aggregate: columns that are made of an array [R]."""

    label: str
    unit: str = ""
    aggregate: tuple[Aggregate, ...] = USUAL
    diverging: bool = False


def config_folder() -> Path:
    """Where a user's settings are."""
    if given := os.environ.get("ROLLOUT_BOARD_CONFIG"):
        return Path(given)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path("~/.config").expanduser()) / "rollout-board"


@cache
def own_metrics() -> Mapping[str, OwnMetric]:
    """What metrics.toml says, by name; it is read once. Raises BoardError with what is wrong in it."""
    path = config_folder() / "metrics.toml"
    try:
        return parsed_metrics(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, BoardError) as error:
        raise BoardError(f"{path}: {error}; see docs/own_metrics.md") from error


def parsed_metrics(text: str) -> dict[str, OwnMetric]:
    """The metrics of a file's text. Raises BoardError naming metric and key, and what was expected."""
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BoardError(f"is not TOML: {error or 'too deep'}") from None
    return {name: _metric(name, table) for name, table in tables.items()}


def aggregates_of(name: str) -> tuple[Aggregate, ...]:
    """What is made of the array `name` over the tokens of a rollout."""
    own = own_metrics().get(name)
    return USUAL if own is None else own.aggregate


def own_metric(column: str) -> OwnMetric | None:
    """What is said of a name that was logged, or of an aggregate of it: `NAME_max`."""
    own = own_metrics()
    if column in own:
        return own[column]
    name, _, how = column.rpartition("_")
    if name not in own or how not in own[name].aggregate:
        return None
    about = own[name]
    return OwnMetric(about.label + ENDINGS[how], about.unit, about.aggregate, about.diverging)


def index_key() -> str:
    """Another text where other columns are made of the same log; "" where they are the usual ones."""
    unusual = {name: own.aggregate for name, own in own_metrics().items() if own.aggregate != USUAL}
    return ";".join(f"{name}={','.join(unusual[name])}" for name in sorted(unusual))


def _metric(name: str, table: Any) -> OwnMetric:
    if not isinstance(table, dict):
        raise BoardError(f"{name}: expected a table [{name}] with a label")
    table = cast("dict[str, Any]", table)
    for key, value in table.items():
        if key not in _KINDS:
            raise BoardError(f"[{name}] {key}: unknown; expected {', '.join(_KINDS)}")
        is_good = isinstance(value, _KINDS[key])
        if is_good and key == "aggregate":
            is_good = bool(value) and all(how in AGGREGATES for how in value)
        if not is_good:
            raise BoardError(f"[{name}] {key}: expected {_EXPECTED[key]}")
    if not table.get("label"):
        raise BoardError(f"[{name}] label: expected a text, which the metric is called by")
    wanted = table.get("aggregate", USUAL)
    return OwnMetric(
        label=table["label"],
        unit=table.get("unit", ""),
        aggregate=tuple(how for how in AGGREGATES if how in wanted),
        diverging=table.get("diverging", False),
    )
