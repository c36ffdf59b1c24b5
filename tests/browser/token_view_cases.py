"""What the token view's test page shows: hostile text, and a long response made by rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from board.components.token_data import PromptPart, TokenMetricSpec, TokenSegment

HOSTILE = [
    "Hi", " there", "\n", "<script>", "window.hacked=1", "</script>", "\n",
    "<img src=x onerror=window.hacked=2>", "\n", "<iframe srcdoc='<b>x</b>'></iframe>", "\n",
    "![i](http://127.0.0.1:9/x.png)", " **bold** $x^2$ `c` :smile: {{7*7}} ${7*7}", "\n",
    "\ttab", "\u202eabc", "\u200b", "\x07", "", "你", "好", "\n", "שלום", " עולם", "\n", "end",
]  # fmt: skip
PEAK = 19


SPECS = {
    "k1": TokenMetricSpec("KL(policy‖ref), k1", "nats", "logprobs - ref_logprobs", "diverging"),
    "entropy": TokenMetricSpec("Entropy, policy", "nats", "over the full vocabulary"),
    "values": TokenMetricSpec("Value", kind="diverging"),
    **{f"m{i}": TokenMetricSpec(f"Metric {i}") for i in range(7)},
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
        "prompt": [PromptPart("<script>window.hacked=3</script>What now?\n" * 40, tokens=120)],
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


def content_of(case: str) -> dict[str, Any]:
    if case == "hostile":
        return hostile()
    if case == "empty":
        return {"tokens": [], "metrics": {"k1": np.empty(0)}}
    if case == "long":
        return {"tokens": ["a", "x" * 10_000, "b"], "metrics": {"k1": np.array([0.0, 1.0, -1e-5])}}
    return large(int(case))
