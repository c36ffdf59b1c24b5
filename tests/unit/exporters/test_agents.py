"""What agents' rollouts hold beside tokens goes into the log, and the board opens it."""

import hashlib
import json

import numpy as np
import pytest
from opened_logs import lines, opened

from exporters import RolloutExporter
from exporters.writing.images import MOST_CHARS

CALL = {"type": "function", "id": "c1", "function": {"name": "add", "arguments": "{}"}}
MESSAGES = [
    {"role": "user", "content": "1 + 1?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL], "seconds": 1.5},
    {"role": "tool", "name": "add", "tool_call_id": "c1", "content": "2", "seconds": 0.25},
    {"role": "assistant", "content": "2"},
]
SPANS = [{"name": "generate", "start": 0.0, "seconds": 1.5}, {"name": "add", "start": 1.5}]


def test_conversations_agents_and_spans_are_opened_as_they_were_logged(tmp_path):
    meta = {
        "messages": [MESSAGES] * 2,
        "spans": [SPANS] * 2,
        "seconds": [2.25, 2.5],
        "trajectory": ["t1", "t1"],
        "agent": ["planner", "solver"],
        "parent": [None, "r0"],
        "rollout_id": ["r0", "r1"],
    }
    with RolloutExporter(tmp_path, strict=True) as exporter:
        versions = np.array([[3, 3, 4], [4, 4, 5]])
        exporter.log(1, response_ids=np.ones((2, 3), int), versions=versions, meta=meta)
    first, second = lines(exporter, "sample")
    assert (first["messages"], first["spans"]) == (MESSAGES, SPANS)
    assert (second["versions"], second["parent"]) == ([4, 4, 5], "r0")
    rollouts = opened(tmp_path)
    assert [rollout["agent"] for rollout in rollouts] == ["planner", "solver"]
    assert rollouts[1]["trajectory"] == "t1"
    assert rollouts[1]["versions"] == [4, 4, 5]


def test_a_thumbnail_stays_and_of_a_large_image_the_log_says_what_it_is(tmp_path):
    small, large = (f"data:image/png;base64,{'A' * size}" for size in (100, MOST_CHARS))
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in (small, large)]
    messages = [{"role": "user", "content": parts}]
    with RolloutExporter(tmp_path) as exporter:
        exporter.log(1, response_ids=[[1]], meta={"messages": [messages], "raw": [b"\x89PNG"]})
    (sample,) = lines(exporter, "sample")
    kept, reference = (part["image_url"]["url"] for part in sample["messages"][0]["content"])
    assert kept == small
    digest = hashlib.sha256(large.encode()).hexdigest()[:16]
    assert reference == f"image/png, {len(large)} bytes, sha256 {digest}, not in the log"
    assert sample["raw"].startswith("bytes, 4 bytes")
    assert messages[0]["content"][1]["image_url"]["url"] == large, "the caller's are as they were"


def test_of_an_image_in_memory_the_log_says_what_it_is(tmp_path):
    image = pytest.importorskip("PIL.Image").new("RGB", (64, 48), "red")
    pixels = np.asarray(image)
    messages = [{"role": "user", "content": [{"type": "image", "image": image}, pixels]}]
    with RolloutExporter(tmp_path) as exporter:
        exporter.log(1, response_ids=[[1]], meta={"messages": [messages]})
    (sample,) = lines(exporter, "sample")
    part, array = sample["messages"][0]["content"]
    digest = hashlib.sha256(pixels.tobytes()).hexdigest()[:16]
    expected = f"9216 bytes, sha256 {digest}, not in the log"
    assert part["image"] == f"image RGB 64x48, {expected}"
    assert array == f"image 48x64x3, {expected}"


def test_what_cannot_be_json_in_the_run_document_costs_itself(tmp_path):
    run = {"config": {"seed": 1 << 80, "name": "\ud800", "lr": 0.5}}
    with RolloutExporter(tmp_path, run=run):
        pass
    (file,) = tmp_path.glob("run-*.json")
    assert json.loads(file.read_text())["config"] == {
        "seed": str(1 << 80),
        "name": "\ufffd",
        "lr": 0.5,
    }
