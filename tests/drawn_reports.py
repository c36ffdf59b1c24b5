"""Reports on a run, drawn at random as people write them: what is true, and the same tampered with."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from written_logs import write_lines

RUN = 'a "run" [1]'
KEY = r'run="a \"run\" [1]"'
WORDS = [
    "the",
    "model",
    "then",
    "checks",
    "its",
    "sum,",
    "adds",
    "two;",
    "wait",
    "that's",
    "wrong:",
    "it’s",
    "größer",
    "北京",
    "x=1",
    "(so)",
    "3/4",
    "end",
]
MARKS = ['"{}"', "“{}”", "«{}»", "‘{}’", "„{}“"]
LINKS = [" ", ", ", " — ", " (as it says) ", ": ", " in its answer ", "\n", " – the last line – "]
UPPER = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Claim:
    """A sentence, and how it is tampered with: a sentence that is false."""

    text: str
    tampered: str


def write_run(folder: Path) -> list[dict[str, Any]]:
    """Four steps of eight rollouts with values of many sizes."""
    draw = random.Random(7)
    rows = [
        {
            "step": step,
            "rollout_id": f"{step}-{index}",
            "env": "math" if index % 2 else "code",
            "split": "train",
            "prompt": f"Task {step}.{index}: " + " ".join(draw.choices(WORDS, k=8)),
            "response": " ".join(draw.choices(WORDS, k=40)) + f" #{step}/{index}",
            "reward": round(draw.uniform(-1, 1), 6),
            "correct": float(draw.random() < 0.7),
            "cost": float(draw.randint(1200, 98765)),
            "tiny": draw.uniform(1e-7, 1e-5),
        }
        for step in range(1, 5)
        for index in range(8)
    ]
    write_lines(folder / RUN / "log.jsonl", rows)
    return rows


def _plain(value: float, digits: int) -> str:
    return f"{value:.{digits}f}"


def _styles(value: float, draw: random.Random) -> Iterator[tuple[str, Callable[[float], str]]]:
    """Ways to write a value: each makes the text of a number."""
    digits = draw.choice([2, 3, 4])
    yield "plain", lambda v: _plain(v, digits)
    yield "minus sign", lambda v: _plain(v, digits).replace("-", "−")
    if abs(value) < 1:
        yield "no zero", lambda v: _plain(v, digits).replace("0.", ".", 1)
        yield "percent", lambda v: f"{v * 100:.{digits - 1}f} %"
        yield "percent in words", lambda v: f"{v * 100:.{digits - 1}f} percent of the responses"
    if value >= 1000:
        yield "commas", lambda v: f"{v:,.0f}"
        yield "spaces", lambda v: f"{v:,.0f}".replace(",", draw.choice([" ", "\u202f", "\u00a0"]))
        yield "k", lambda v: f"{v / 1000:.{digits - 2}f}k"
    if 0 < abs(value) < 1e-3 or abs(value) >= 1000:
        yield "power", _power
        yield "e", lambda v: f"{v:.2e}"
    yield "unit", lambda v: f"{_plain(v, digits)} nats per token"
    yield "about", lambda v: f"about {_plain(v, digits)}"


def _power(value: float) -> str:
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa} × 10{str(int(exponent)).translate(UPPER)}"


def number_claim(rows: list[dict[str, Any]], draw: random.Random) -> Claim:
    """A value of a rollout, or a mean of a step."""
    step = draw.randint(1, 4)
    own = [row for row in rows if row["step"] == step]
    metric = draw.choice(["reward", "cost", "tiny", "correct"])
    if draw.random() < 0.5:
        index = draw.randrange(8)
        value, keys = own[index][metric], f"step={step} rollout={index} metric={metric}"
    else:
        value = float(np.mean([row[metric] for row in own]))
        keys = f"step={step} metric={metric}_mean"
    if metric == "correct" and "mean" in keys and draw.random() < 0.3:
        right = int(sum(row[metric] for row in own))
        text, wrong = f"{right}/8", f"{right - 1 if right else right + 1}/8"
    elif value > 0 and draw.random() < 0.1:
        sign = draw.choice([">", "more than ", "≥ "])
        text, wrong = f"{sign}{_plain(value * 0.9, 8)}", f"{sign}{_plain(value * 1.1, 8)}"
    else:
        styles = [*_styles(value, draw)]
        if metric == "tiny":
            styles = [one for one in styles if one[0] in ("power", "e")]
        _, write = draw.choice(styles)
        text = write(value)
        wrong = _changed(text, draw)
    link = draw.choice(["", " ", " there ", " on average "])
    begin = draw.choice(["It got ", "At that step the mean was ", "- ", "Its value is **"])
    end = "**" if begin.endswith("**") else ""
    sentence = f"{begin}{{}}{end}{link}[{KEY} {keys}]."
    return Claim(sentence.format(text), sentence.format(wrong))


def _changed(number: str, draw: random.Random) -> str:
    """The number with another digit: the last one two more, or one before it another."""
    mantissa = re.match(r"\D*[\d.,\s\u202f\u00a0]*\d", number)
    assert mantissa, number
    places = [match.start() for match in re.finditer(r"\d", mantissa[0])]
    place = draw.choice(places)
    digit = (int(number[place]) + draw.choice([2, 3, 4, 5, 6, 7])) % 10
    return number[:place] + str(digit) + number[place + 1 :]


def quote_claim(rows: list[dict[str, Any]], draw: random.Random) -> Claim:
    """What a rollout says, in the marks of some language, near or far from its citation."""
    row = draw.choice(rows)
    words = row["response"].split()
    first = draw.randrange(len(words) - 6)
    quote = " ".join(words[first : first + 6])
    marks, link = draw.choice(MARKS), draw.choice(LINKS)
    index = int(row["rollout_id"].split("-")[1])
    keys = f"step={row['step']} rollout={index}"
    keys += draw.choice(["", " split=train", f" env={row['env']}", " text=response"])
    made_up = draw.choice(["I cheat", "the reward is mine", "let us hack the grader"])
    sentence = f"It wrote {{}}{link}[{{}} {{}}], and went on."
    true = sentence.format(marks.format(quote), KEY, keys)
    kind = draw.choice(["quote", "another", "env", "split", "half"])
    if kind == "quote":
        false = sentence.format(marks.format(_misquoted(quote, draw)), KEY, keys)
    elif kind == "another":
        false = true.replace("and went on", f"and said {draw.choice(MARKS).format(made_up)}")
    elif kind == "half" and marks == '"{}"':
        false = sentence.format(f'"{quote}', KEY, keys)
    elif kind == "split":
        false = sentence.format(
            marks.format(quote), KEY, f"step={row['step']} rollout={index} split=eval"
        )
    else:
        env = "code" if row["env"] == "math" else "math"
        false = sentence.format(
            marks.format(quote), KEY, f"step={row['step']} rollout={index} env={env}"
        )
    return Claim(true, false)


def _misquoted(quote: str, draw: random.Random) -> str:
    place = draw.choice([i for i, sign in enumerate(quote) if sign.isalpha()])
    return f"{quote[:place]}q{quote[place + 1 :]}"


def draw_claims(rows: list[dict[str, Any]], seed: int, count: int) -> list[Claim]:
    """So many claims, each true as it is."""
    draw = random.Random(seed)
    return [draw.choice([number_claim, quote_claim])(rows, draw) for _ in range(count)]
