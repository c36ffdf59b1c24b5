"""Reports as people of several languages lay them out: in sentences, lists, tables and footnotes, with
nested quotes and several numbers a sentence; and each with one thing in it that is false.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

from written_logs import write_lines

RUN = "qwen3-8b_grpo.v2"
STEPS, ROLLOUTS = range(3, 7), 16
WORDS = (
    *("so", "we", "add", "both", "sides;", "donc", "«oui»", 'say "done"', "that's", "l’un", "‘ok’"),
    *(
        "größer",
        "答案",
        "x_1",
        "a*b",
        "(see",
        "above)",
        "7/8",
        "3,5",
        "end.",
        "wait…",
        "No!",
        "`sum`",
    ),
)
MARKS = (
    *("“{}”", "„{}“", "”{}”", "«{}»", "« {} »", "»{}«", "‘{}’", "‚{}‘", "‹{}›", "「{}」", '"{}"'),
    *("'{}'", "『{}』", "&ldquo;{}&rdquo;"),
)
MADE_UP = ("I will cheat", "the grader is blind", "reward me now", "je triche", "ich schummle")
LINKS = ("", " ", " (sic) ", ", it said, ", " – twice – ", ": ", " and nothing else ", "; see ")
NARROW = "\u202f"


@dataclass(frozen=True)
class Fact:
    """A value of the log. keys: of its citation, behind the run."""

    value: float
    keys: str
    share: tuple[int, int] | None = None


@dataclass(frozen=True)
class Claim:
    """Text with its citation, and the same tampered with."""

    true: str
    false: str


def write_run(folder: Path) -> list[dict[str, Any]]:
    draw = random.Random(19)
    rows = [
        {
            "step": step,
            "rollout_id": f"{step}.{index}",
            "env": draw.choice(["logic", "code"]),
            "split": "train",
            "prompt": f"Task {step}/{index}",
            "response": " ".join(draw.choices(WORDS, k=30)) + f" #{step}.{index}",
            "reward": round(draw.uniform(-2, 2), 4),
            "solved": float(draw.random() < 0.6),
            "bytes_sent": float(draw.randint(1_000, 9_000_000)),
            "rate": draw.uniform(1e-6, 9e-5),
        }
        for step in STEPS
        for index in range(ROLLOUTS)
    ]
    write_lines(folder / RUN / "log.jsonl", rows)
    return rows


def cite(keys: str, draw: random.Random) -> str:
    pairs = [f"run={RUN}", *keys.split()]
    if draw.random() < 0.3:
        draw.shuffle(pairs)
    text = f"[{draw.choice([' ', ', ']).join(pairs)}]"
    return draw.choice([text, text, f"`{text}`", f"{text}(http://127.0.0.1:8501/rollouts?a=b&c=1)"])


# Numbers


def facts(rows: Sequence[dict[str, Any]], draw: random.Random) -> Fact:
    step = draw.choice(STEPS)
    of_step = [row for row in rows if row["step"] == step]
    metric = draw.choice(["reward", "solved", "bytes_sent", "rate"])
    if draw.random() < 0.5:
        index = draw.randrange(ROLLOUTS)
        env = f" env={of_step[index]['env']}" if draw.random() < 0.2 else ""
        keys = f"step={step} rollout={index} metric={metric}{env}"
        return Fact(of_step[index][metric], keys)
    values = [row[metric] for row in of_step]
    share = (int(sum(values)), len(values)) if metric == "solved" else None
    return Fact(sum(values) / len(values), f"step={step} metric={metric}_mean", share)


def _grouped(value: float, digits: int, thousands: str, point: str) -> str:
    plain = f"{value:,.{digits}f}"
    return plain.replace(",", "\0").replace(".", point).replace("\0", thousands)


def _scientific(value: float, digits: int, pattern: str) -> str:
    mantissa, _, power = f"{value:.{digits}e}".partition("e")
    upper = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return pattern.format(m=mantissa, p=int(power), u=upper)


POWERS = (
    *("{m} × 10{u}", "{m}·10{u}", "{m}e{p}", "{m}E{p}", "{m} x 10^{p}", "{m} × 10^{p}"),
    *("${m} \\times 10^{{{p}}}$", "${m} \\cdot 10^{{{p}}}$"),
)


def writers(value: float, draw: random.Random) -> list[Callable[[float], str]]:
    """Ways to write a value."""
    if 0 < abs(value) < 1e-3:
        pattern, digits = draw.choice(POWERS), draw.choice([1, 2, 3])
        return [lambda v: _scientific(v, digits, pattern)]
    digits = draw.choice([1, 2, 4]) if abs(value) < 1000 else draw.choice([0, 1, 2])
    ways: list[tuple[str, str]] = [("", "."), ("", ".")]
    ways += [(",", "."), (NARROW, ","), (" ", ","), ("\u00a0", "."), ("'", "."), ("’", ".")]
    if digits:  # else 12.345 is twelve and a bit
        ways += [(".", ","), ("", ",")]
    result: list[Callable[[float], str]] = [
        lambda v, t=thousands, p=point: _grouped(v, digits, t, p) for thousands, point in ways
    ]
    if abs(value) <= 1:
        result += [
            lambda v: f"{v * 100:.{max(digits - 1, 1)}f} %",
            lambda v: f"{v * 100:.{max(digits - 1, 1)}f}%",
            lambda v: f"{v * 100:.{max(digits - 1, 1)}f}".replace(".", ",") + f"{NARROW}%",
            lambda v: f"{v * 100:.{max(digits - 1, 1)}f} per cent of them",
        ]
    if value >= 1e6:
        result += [
            lambda v: f"{v / 1e6:.2f} million",
            lambda v: f"{v / 1e6:.3f}M",
            lambda v: f"{v / 1e6:.1f} M",
        ]
    if value >= 1e3:
        result += [lambda v: f"{v / 1e3:.1f}k", lambda v: f"{v / 1e3:.2f} thousand"]
    return result


MINUS = ("-", "−", "–", "\u2011")
BEFORE = ("", "", "", "≈ ", "~", "about ", "ca. ", "**", "+/")
MORE = (">", "> ", "≥ ", "more than ", "at least ", "above ", "no less than ", ">= ")
LESS = ("<", "≤ ", "less than ", "at most ", "below ", "under ", "up to ", "no more than ")


def number_claim(rows: Sequence[dict[str, Any]], draw: random.Random) -> Claim:
    fact = facts(rows, draw)
    citation = cite(fact.keys, draw)
    link = draw.choice(["", " ", " on average ", " nats ", " there ", ", "])
    link = " " if link in ("", " nats ") and citation.startswith("`") else link
    if fact.share and draw.random() < 0.4:
        right, count = fact.share
        wrong = draw.choice([n for n in range(count + 1) if n != right])
        pattern = draw.choice(["{} of {}", "{}/{}", "{} out of {}", "{} of the {}"])
        return Claim(*(f"{pattern.format(n, count)}{link}{citation}" for n in (right, wrong)))
    if abs(fact.value) > 1e-2 and draw.random() < 0.2:
        return _bound_claim(fact, citation, draw)
    write, minus = draw.choice(writers(fact.value, draw)), draw.choice(MINUS)
    before = draw.choice(BEFORE) if fact.value >= 0 else ""
    if before == "+/":
        before = "+" if fact.value > 0 else ""
    after = "**" if before == "**" else ""
    text = write(fact.value)
    wrong = _tampered(text, draw)
    true, false = (
        f"{before}{one.replace('-', minus, 1) if fact.value < 0 else one}{after}{link}{citation}"
        for one in (text, wrong)
    )
    return Claim(true, false)


def _tampered(text: str, draw: random.Random) -> str:
    """The number with another digit that counts, or without its sign."""
    if text.startswith("-") and re.search(r"[1-9]", text) and draw.random() < 0.3:
        return text[1:]
    head = re.split(r"e|E| ?×| ?x|·| \\", text)[0]
    digits = [match.start() for match in re.finditer(r"\d", head)]
    place = draw.choice(digits)
    digit = (int(text[place]) + draw.choice([2, 3, 4, 5, 6, 7, 8])) % 10
    return f"{text[:place]}{digit}{text[place + 1 :]}"


def _bound_claim(fact: Fact, citation: str, draw: random.Random) -> Claim:
    """What is only said to be beyond a number."""
    near, far = sorted((fact.value * 0.7, fact.value * 1.3))
    sign = draw.choice(MORE + LESS)
    right, wrong = (near, far) if sign in MORE else (far, near)
    true, false = (f"{sign}{one:.6f} {citation}" for one in (right, wrong))
    return Claim(true, false)


# Quotes


def quote_claim(rows: Sequence[dict[str, Any]], draw: random.Random) -> Claim:
    row = draw.choice(rows)
    step, index = row["rollout_id"].split(".")
    words = row["response"].split(" ")
    first = draw.randrange(len(words) - 8)
    marks = draw.choice(MARKS)
    quote = " ".join(words[first : first + draw.randint(3, 8)])
    if draw.random() < 0.1 and len(words) > first + 12:
        quote = f"{quote} … {words[first + 10]} {words[first + 11]}"
    if marks == '"{}"':
        quote = quote.replace('"', r"\"")
    elif {*unescape(marks).replace("{}", "").strip()} & {*quote}:  # a mark within its own kind
        marks = "“{}”"
    keys = f"step={step} rollout={index}"
    keys += draw.choice(["", "", f" env={row['env']}", " split=train", " text=response"])
    citation, link = cite(keys, draw), draw.choice(LINKS)
    link = link or " "
    written = marks.format(quote)
    true = f"{written}{link}{citation}"
    kind = draw.choice(["word", "letter", "beside", "rollout", "env"])
    if kind == "word":
        false = f"{marks.format(_other_word(quote, draw))}{link}{citation}"
    elif kind == "letter":
        places = [place for place, sign in enumerate(quote) if sign.isalpha()]
        place = draw.choice(places)
        changed = f"{quote[:place]}Q{quote[place + 1 :]}"
        false = f"{marks.format(changed)}{link}{citation}"
    elif kind == "beside":
        false = f"{draw.choice(MARKS).format(draw.choice(MADE_UP))} – and {true}"
    elif kind == "rollout":
        other = draw.choice([i for i in range(ROLLOUTS) if i != int(index)])
        text = next(r["response"] for r in rows if r["rollout_id"] == f"{step}.{other}")
        # What stands around … may be in the other one, too.
        is_there = "…" in quote or quote.replace("\\", "") in text
        made = marks.format(_other_word(quote, draw)) if is_there else written
        wrong = cite(f"step={step} rollout={other}", draw)
        false = f"{made}{link}{wrong}"
    else:
        other = "code" if row["env"] == "logic" else "logic"
        false = f"{written}{link}{cite(f'step={step} rollout={index} env={other}', draw)}"
    return Claim(true, false)


def _other_word(quote: str, draw: random.Random) -> str:
    words = quote.split(" ")
    words[draw.randrange(len(words))] = "zebra"
    return " ".join(words)


# Layouts


def _sentences(claims: Sequence[str], draw: random.Random) -> str:
    starts = [
        "It got {}.",
        "Then {} was logged!",
        "Is {} much?",
        "Up to then: {}",
        "We see {}, too.",
    ]
    return " ".join(draw.choice(starts).format(claim) for claim in claims)


def _one_sentence(claims: Sequence[str], draw: random.Random) -> str:
    joint = draw.choice([", then ", " and ", " against ", "; but ", " → "])
    return f"From {joint.join(claims)} in all."


def _list(claims: Sequence[str], draw: random.Random) -> str:
    mark = draw.choice(["- ", "* ", "+ ", "1. ", "2) ", "  - "])
    return "Findings:\n\n" + "\n".join(f"{mark}what it did: {claim}" for claim in claims)


def _table(claims: Sequence[str], draw: random.Random) -> str:
    head = "| what | said |\n|---|---|"
    safe = [claim.replace("|", "\\|") for claim in claims]
    return head + "".join(f"\n| row {'abc'[i % 3]} | {claim} |" for i, claim in enumerate(safe))


def _footnotes(claims: Sequence[str], draw: random.Random) -> str:
    """The citations below the text."""
    body, notes = [], []
    for number, claim in enumerate(claims, 1):
        found = re.search(r"`?\[[^\]]*(?:run|step)=[^\]]*\]`?(?:\([^)]*\))?", claim)
        assert found, claim
        name = draw.choice([f"{number}", f"n{number}"])
        body.append(f"{claim[: found.start()].rstrip()}[^{name}]{claim[found.end() :]}")
        notes.append(f"[^{name}]: {found[0]}")
    return f"{_sentences(body, draw)}\n\n" + "\n".join(notes)


LAYOUTS = (_sentences, _one_sentence, _list, _table, _footnotes)


def draw_reports(rows: Sequence[dict[str, Any]], seed: int, count: int) -> list[Claim]:
    """So many reports of one to four claims, each true, and with one of its claims tampered with."""
    draw = random.Random(seed)
    reports: list[Claim] = []
    for _ in range(count):
        claims = [
            draw.choice([number_claim, quote_claim])(rows, draw) for _ in range(draw.randint(1, 4))
        ]
        place, layout, state = draw.randrange(len(claims)), draw.choice(LAYOUTS), draw.random()
        texts = [
            [
                claim.false if is_false and i == place else claim.true
                for i, claim in enumerate(claims)
            ]
            for is_false in (False, True)
        ]
        true, false = (layout(one, random.Random(state)) for one in texts)
        reports.append(Claim(true, false))
    return reports
