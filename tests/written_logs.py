"""Small logs for tests of the pages, written as the frameworks write them, and one full of traps."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PIECES = ["I", " think", " it", " is", " 4", ".", "\n", "<eos>"]
ANSWERS = {
    "math": "So 2*3*4 is __init__ and $5 and $6\n#### 69",
    "code": "<think>x<y and y>z</think>",
}

HOSTILE = (
    '<script>window.hacked="{n}"</script>',
    "![x](http://127.0.0.1:9/{n}.png)",
    "<img src=http://127.0.0.1:9/{n} onerror=window.hacked=1>",
    "<iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
    ":smile: :material/skull: :red[boo{n}]",
    "$5 and $6 $$x^2$$",
    "2*3*4 **bold{n}** __init__ ~~gone~~ `code`",
    "#### 69",
    "<think>x<y and y>z</think>",
    "[link{n}](javascript:alert(1)) https://127.0.0.1:9/auto{n}",
)
"""Texts that a renderer of HTML or Markdown would turn into something else; {n} tells them apart."""


def write_lines(path: Path, rows: Iterable[Mapping[str, Any] | str]) -> Path:
    """Rows as JSON lines; a text stands in the file as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def age(folder: Path, seconds: float) -> Path:
    """Sets the time of every file back, so that runs have an order."""
    for path in folder.rglob("*"):
        if path.is_file():
            then = path.stat().st_mtime - seconds
            os.utime(path, (then, then))
    return folder


def native_sample(step: int, rank: int, index: int) -> dict[str, Any]:
    """A rollout of the native format: group and env by index, all arrays of 8 tokens."""
    env = "math" if index % 2 == 0 else "code"
    level = 0.1 * index + 0.01 * step + rank
    return {
        "type": "sample",
        "step": step,
        "rank": rank,
        "rollout_id": f"{step}-{rank}-{index}",
        "group_id": f"group {index // 2}",
        "env": env,
        "prompt": f"You are terse. END What is 2+{index}?",
        "response": f"{ANSWERS[env]} ({step}/{rank}/{index})",
        "ref_response": "I do not know.",
        "ground_truth": "4",
        "finish_reason": "length" if index == 3 else "stop",
        "reward": level,
        "ref_reward": 0.25,
        "rewards": {"correct": float(index % 2), "format": 1.0},
        "advantage": level - 0.5,
        "prompt_ids": [0, 1],
        "response_ids": list(range(8)),
        "loss_mask": [1, 1, 1, 1, 1, 1, 0, 0],
        "logprobs": [-0.5 - 0.01 * t * (index + 1) for t in range(8)],
        "old_logprobs": [-0.5] * 8,
        "sampling_logprobs": [-0.52] * 8,
        "ref_logprobs": [-0.6] * 8,
        "entropy": [0.2 * t for t in range(8)],
        "grad_norm": 1.0 + step,
    }


def native_run(folder: Path, *, per_rank: int = 4) -> Path:
    """Two ranks, two attempts: steps 0, 10, 20, then 20 again and 35 after a resume at step 20."""
    for attempt, started, start_step, steps in (
        ("a1", 1.0, 0, (0, 10, 20)),
        ("a2", 2.0, 20, (20, 35)),
    ):
        about = {"attempt": attempt, "started": started, "start_step": start_step, "world_size": 2}
        for rank in range(2):
            rows: list[dict[str, Any]] = [{"type": "header", "schema": 1, "rank": rank, **about}]
            for step in steps:
                rows += [native_sample(step, rank, i) for i in range(per_rank)]
                rows.append({"type": "step_end", "step": step, "rank": rank, "records": per_rank})
            write_lines(folder / f"{attempt}-rank{rank:05d}-{rank}{attempt}.jsonl", rows)
        settings = {"name": "arithmetic", "config": {"lr": 1e-5}, **about}
        (folder / f"run-{attempt}.json").write_text(json.dumps(settings))
    (folder / "vocab.json").write_text(json.dumps({"pieces": PIECES, "coding": "text"}))
    return folder


def rllb_run(folder: Path) -> Path:
    """RLLoggingBoard's format, padded; no group, no env."""
    pieces = ["<pad>", "It", " is", " 4", "<pad>", "<pad>"]
    write_lines(
        folder / "data.jsonl",
        (
            {
                "step": step,
                "prompt": "What is 2+2?",
                "response": "It is 4",
                "response_tokens": pieces,
                "logprobs": [-0.1] * 6,
                "ref_logprobs": [-0.2] * 6,
                "values": [0.5] * 6,
                "token_rewards": [0.0] * 6,
                "reward": float(index),
                "ref_reward": 0.5,
            }
            for step in (1, 2, 3)
            for index in range(3)
        ),
    )
    return folder


def texts_only_run(folder: Path) -> Path:
    """Prompts and responses, and nothing measured."""
    write_lines(
        folder / "texts.jsonl",
        ({"step": s, "prompt": f"question {s}", "response": f"answer {s}"} for s in range(3)),
    )
    return folder


def hostile_texts(name: str) -> str:
    """All traps, made tell-tale by the name of the place they stand in."""
    return "\n".join(text.replace("{n}", name) for text in HOSTILE)


def hostile_run(root: Path) -> Path:
    """A run whose texts, ids, names of columns and parts, and whose folder's name are traps.

    Names that stand in a menu or a title hold one trap each, so that none is cut off.
    """
    folder = root / "![x](http:__127.0.0.1:9_run.png) :smile: *b* <b>x<y and y>z `$5 and $6$`"
    names = [text.replace("{n}", "part").replace("/", "_") for text in HOSTILE]
    rows: list[dict[str, Any]] = []
    for step in (1, 2):
        for index, trap in enumerate(HOSTILE):
            here = trap.replace("{n}", f"id{index}")
            row: dict[str, Any] = {
                "step": step,
                "rollout_id": here,
                "group_id": here,
                "env": trap.replace("{n}", "env"),
                "finish_reason": trap.replace("{n}", "finish"),
                "reward": float(index),
                "rewards": {name: float(index) for name in names},
                "response_tokens": [*HOSTILE, trap],
                "logprobs": [-0.1 * index] * 11,
                "ref_logprobs": [-0.3] * 11,
                "messages": [{"role": here, "content": trap}],
                "segments": [{"start": 0, "end": 5, "role": here, "name": here}],
            }
            if index % 4 == 1:
                row |= {trap.replace("{n}", "column"): float(index)}
                row |= {f"array {trap}": [float(index)] * 11, f"text {trap}": trap}
            for text in ("prompt", "response", "ref_response", "ground_truth"):
                row[text] = hostile_texts(text)
            rows.append(row)
    broken = '{"step": "![x](http://127.0.0.1:9/step.png)", "prompt": "p", "response": "r"}'
    write_lines(folder / "<b>*rank* $5 and $6.jsonl", [*rows, broken])
    (folder / "run-![x](a) *b* :smile:.json").write_text(json.dumps({"name": HOSTILE[1]}))
    return folder
