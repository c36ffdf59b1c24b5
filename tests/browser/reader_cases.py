"""What the reader's test page shows: hostile text, and a long response made by rule."""

from typing import Any

import numpy as np

from board.components.token_data import (
    PromptPart,
    TokenContent,
    TokenSegment,
)
from board.core.metrics.definitions import Metric, token_metric
from board.core.records import TopK
from board.core.tokens.pieces import PLACEHOLDER
from board.core.tokens.scales import Span

HOSTILE = [
    "Hi", " there", "\n", "<script>", "window.hacked=1", "</script>", "\n",
    "<img src=x onerror=window.hacked=2>", "\n", "<iframe srcdoc='<b>x</b>'></iframe>", "\n",
    "![i](http://127.0.0.1:9/x.png)", " **bold** $x^2$ `c` :smile: {{7*7}} ${7*7}", "\n",
    "\ttab", "\u202eabc", "\u200b", "\x07", "", "你", "好", "\n", "שלום", " עולם", "\n", "end",
]  # fmt: skip
PEAK = 19
GIVEN = ["<script>window.hacked=3</script>", "What", " now?", "\n"] * 200

SPECS = {
    "k1": Metric("k1", "KL(policy‖ref), k1", "nats", "logprobs - ref_logprobs", "diverging"),
    "entropy": Metric("entropy", "Entropy, policy", "nats", "over the full vocabulary"),
    "values": Metric("values", "Value", kind="diverging"),
    **{f"m{i}": Metric(f"m{i}", f"Metric {i}") for i in range(7)},
}


def hostile() -> dict[str, Any]:
    count = len(HOSTILE)
    k1 = np.linspace(-0.1, 0.1, count)
    k1[PEAK] = 2.5
    entropy = np.linspace(0.0, 1.0, count)
    entropy[3] = np.nan
    entropy_recorded = np.ma.MaskedArray(entropy, mask=np.arange(count) == 5)
    mask = np.ones(count)
    mask[:3] = 0
    return {
        "tokens": HOSTILE,
        "metrics": {"k1": k1, "entropy": entropy_recorded, "values": None},
        "loss_mask": mask,
        "prompt": [
            PromptPart("".join(GIVEN), tokens=GIVEN, ids=np.arange(len(GIVEN)) + 100.0),
            PromptPart(GIVEN[0] * 40, "user"),
        ],
        "segments": [
            TokenSegment(0, 3, "tool", "<b>search</b>"),
            TokenSegment(3, count, "assistant"),
        ],
    }


def large(count: int) -> dict[str, Any]:
    """Made by rule, for layout and speed only."""
    words = ["The", " sum", " of", " two", " is", " 12", ",", " so", " we", " carry", ".", "\n"]
    index = np.arange(count)
    metrics = {
        name: np.sin(index * (0.37 + rank)) * np.cos(index * 0.011) ** 3
        for rank, name in enumerate(SPECS)
    }
    metrics["k1"][count // 2] = 9.0
    return {"tokens": [words[(i * 7 + i // 12) % 12] for i in index], "metrics": metrics}


def masked() -> dict[str, Any]:
    """Made by rule: ratios and advantages that every mask rule hits at some tokens."""
    index = np.arange(200)
    old, sampled = -1.0 - 0.5 * np.sin(index), -1.0 - 0.9 * np.cos(index * 1.7)
    logprobs = np.full(200, -1.0)
    metrics = {
        "logprobs": logprobs,
        "importance_ratio": np.exp(logprobs - old),
        "mismatch_ratio": np.exp(logprobs - sampled),
        "prob_delta": np.exp(logprobs) - np.exp(sampled),
        "advantages": np.where(index % 3 == 0, -1.0, 1.0),
        "is_masked": (index % 20 == 0).astype(float),
    }
    mask = np.ones(200)
    mask[:10] = 0
    return {
        "tokens": [f" t{i}" for i in index],
        "metrics": metrics,
        "specs": {name: token_metric(name) for name in metrics},
        "loss_mask": mask,
        "clip": {"ε low": 0.1, "ε high": 0.3},
    }


def alternatives() -> dict[str, Any]:
    places = np.array([[0, 1], [1, -1], [2, 0]], np.int32)
    logprobs = np.log(np.array([[0.75, 0.25], [1.0, np.nan], [0.5, 0.125]])).astype(np.float32)
    return {
        "tokens": ["yes", "no", "<b>no</b>"],
        "metrics": {"k1": np.zeros(3)},
        "ids": np.array([4, 5, 6]),
        "top_k": TopK(["yes", "no", "<b>maybe</b>"], places, logprobs),
    }


def longer_values() -> dict[str, Any]:
    return {
        "tokens": ["a", "b", "", ""],
        "metrics": {"k1": np.array([0.0, 1.0, 2.0, 3.0]), "nothing": np.full(4, np.nan)},
        "surplus": 2,
    }


def split_characters() -> dict[str, Any]:
    tokens = [PLACEHOLDER, PLACEHOLDER, "你", "·", "e\u0301", "❤\ufe0f", "\ufe0f", "مرحبا", " بك"]
    return {"tokens": tokens, "metrics": {"k1": np.arange(9.0)}}


def turns() -> dict[str, Any]:
    content = large(600)
    content["segments"] = [
        TokenSegment(0, 200, "assistant"),
        TokenSegment(200, 400, "tool", "search"),
        TokenSegment(400, 600, "assistant"),
    ]
    return content


TRAP = (
    "<script>window.hacked=1</script><iframe src=http://127.0.0.1:9/f srcdoc='<script>parent.hacked=1"
    "</script>'></iframe><img src=http://127.0.0.1:9/x onerror=window.hacked=1>"
    "[l](http://127.0.0.1:9/y)<a href='javascript:window.hacked=1'>a</a>\u202e{{7*7}}${7*7}<%=7*7%>"
)
TRAP_METRIC = f"m {TRAP}"


def traps() -> dict[str, Any]:
    """The same payload in every field that a log can fill."""
    name = TRAP_METRIC
    return {
        "tokens": [TRAP, "b"],
        "metrics": {name: np.array([0.0, 1.0]), "k1": np.zeros(2)},
        "specs": {name: Metric(name, TRAP, TRAP, TRAP)},
        "prompt": [PromptPart(TRAP, TRAP, TRAP), PromptPart(TRAP, tokens=[TRAP], ids=[7.0])],
        "segments": [TokenSegment(0, 1, TRAP, TRAP), TokenSegment(1, 2, "tool", TRAP)],
        "top_k": TopK([TRAP], np.zeros((2, 1), np.int32), np.zeros((2, 1), np.float32)),
    }


CASES = {
    "hostile": hostile,
    "masks": masked,
    "topk": alternatives,
    "surplus": longer_values,
    "split": split_characters,
    "turns": turns,
    "traps": traps,
}


def content_of(case: str) -> TokenContent:
    """The content of a case by its name, or of so many tokens."""
    return TokenContent(**{"specs": SPECS, **fields_of(case)})


def fields_of(case: str) -> dict[str, Any]:
    if case in CASES:
        return CASES[case]()
    if case == "empty":
        return {"tokens": [], "metrics": {"k1": np.empty(0)}}
    if case == "long":
        return {"tokens": ["a", "x" * 10_000, "b"], "metrics": {"k1": np.array([0.0, 1.0, -1e-5])}}
    return large(int(case))


def step_spans() -> dict[str, Span]:
    """Those of "traps" have hostile words, as everything there."""
    return {
        "k1": Span(-50.0, 50.0, -60.0, 60.0, "of the step"),
        TRAP_METRIC: Span(0.0, 1.0, 0.0, 1.0, TRAP),
    }
