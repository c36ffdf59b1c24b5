"""Styles of failure, of infrastructure and of the policy, with random parts: what a log shows of each."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from faults.rollout_logs import Rollout

Change = Callable[[Rollout, random.Random], None]
Written = Literal["known", "later", "held out"]


@dataclass(frozen=True)
class Style:
    """A way in which a rollout fails. change: makes one of a rollout. is_infrastructure: whether the
    policy can't cause it. written: "known", while the patterns were; "later", after them, and they were
    widened when it was first measured; "held out", after that, and nothing was changed for it. formats:
    in which it can be written, all of them where there are none.
    """

    name: str
    change: Change
    is_infrastructure: bool
    written: Written
    formats: tuple[str, ...] = ()


STYLES: list[Style] = []
SEARCH = ("search", "web_search", "retrieve", "lookup_docs", "wiki_query")
CODE = ("python", "bash", "code_interpreter", "execute_code", "terminal")
GIVES_UP = ("I could not find it.", "So the answer is 7.", "I will stop here.", "Answer: unknown")


def _add(
    name: str, change: Change, infrastructure: bool, written: Written, formats: tuple[str, ...]
) -> None:
    STYLES.append(Style(name, change, infrastructure, written, formats))


def broken(name: str, change: Change, *formats: str, written: Written = "known") -> None:
    """Lists a style of infrastructure."""
    _add(name, change, True, written, formats)


def honest(name: str, change: Change, *formats: str, written: Written = "known") -> None:
    """Lists a style of the policy's own failures."""
    _add(name, change, False, written, formats)


def filled(text: str, dice: random.Random) -> str:
    """A text with random parts: {n} a number, {p} a port, {h} a host, {x} an id, {s} seconds, {w}."""
    words = ("alpha", "orders", "shard", "north", "kilo", "ledger")
    parts = {
        "{n}": str(dice.randrange(2, 5000)),
        "{p}": str(dice.choice((443, 8000, 8080, 30000, 5432))),
        "{h}": f"10.{dice.randrange(256)}.{dice.randrange(256)}.{dice.randrange(256)}",
        "{x}": f"{dice.getrandbits(48):012x}",
        "{s}": str(dice.choice((10, 30, 60, 120, 600))),
        "{w}": dice.choice(words),
    }
    for key, value in parts.items():
        text = text.replace(key, value)
    return text


def says(*texts: str) -> Change:
    """The model's whole response is one of these texts."""

    def change(one: Rollout, dice: random.Random) -> None:
        one.turns = [("model", filled(dice.choice(texts), dice))]

    return change


def ends(tools: tuple[str, ...], *texts: str) -> Change:
    """A tool's last output is one of these texts, and the model gives up."""

    def change(one: Rollout, dice: random.Random) -> None:
        output = (dice.choice(tools), filled(dice.choice(texts), dice))
        one.turns = [("model", "Let me look."), output, ("model", dice.choice(GIVES_UP))]

    return change


def notes(key: str, *values: object) -> Change:
    """The harness or the judge writes one of these values under a key; dots make objects."""

    def change(one: Rollout, dice: random.Random) -> None:
        value = dice.choice(values)
        value = filled(value, dice) if isinstance(value, str) else value
        *outer, last = key.split(".")
        fields = one.extras
        for name in outer:
            fields = fields.setdefault(name, {})
        fields[last] = value

    return change


def finishes(*reasons: str) -> Change:
    """The rollout ends for one of these reasons."""

    def change(one: Rollout, dice: random.Random) -> None:
        one.finish = dice.choice(reasons)

    return change


def both(*changes: Change) -> Change:
    """All of these."""

    def change(one: Rollout, dice: random.Random) -> None:
        for each in changes:
            each(one, dice)

    return change


def nothing(one: Rollout, dice: random.Random) -> None:
    """No output of the model."""
    one.turns, one.tokens = [], 0
