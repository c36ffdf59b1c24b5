"""What is asked of a run is answered as it was recorded, to 1e-6."""

import gzip
import json
import os
from typing import Any

import pytest
from contract.recorded_answers import FILE, answers, name_of, runs

ADDED = ("env", "where", "model", "temperature", "tools")
"""Keys of findings, and columns, that were not there when the answers were recorded."""
CHANGED = ("beside", "run")
"""Ignored files are grouped by their suffix, not by what their names meant; runs of verifiers are called
by environment and model."""
EVERY = bool(os.environ.get("ROLLOUT_BOARD_EVERY_ANSWER"))
"""Whether all commands are asked, which takes a minute; else every third."""
RECORDED = json.loads(gzip.decompress(FILE.read_bytes()))


def differences(result: Any, recorded: Any, place: str = "") -> list[str]:
    """Where two documents differ."""
    if isinstance(recorded, dict) and isinstance(result, dict):
        names = dict.fromkeys((*recorded, *(name for name in result if name not in ADDED)))
        absent = object()
        pairs = [(name, result.get(name, absent), recorded.get(name, absent)) for name in names]
        return [
            difference
            for name, a, b in pairs
            if name not in CHANGED
            for difference in differences(a, b, f"{place}.{name}")
        ]
    if isinstance(recorded, list) and isinstance(result, list) and len(result) == len(recorded):
        pairs = zip(result, recorded, strict=True)
        return [d for i, (a, b) in enumerate(pairs) for d in differences(a, b, f"{place}[{i}]")]
    if isinstance(recorded, float) and isinstance(result, int | float):
        same = result == pytest.approx(recorded, rel=1e-6, abs=1e-9)
    else:
        same = result == recorded and type(result) is type(recorded)
    return [] if same else [f"{place}: {result!r}, recorded {recorded!r}"]


@pytest.mark.parametrize("info", [i for i in runs() if name_of(i) in RECORDED], ids=name_of)
def test_a_run_is_answered_as_recorded(info):
    result = json.loads(json.dumps(answers(info, every=EVERY)))
    recorded = RECORDED[name_of(info)]
    assert result
    assert differences(result, {command: recorded[command] for command in result}) == []


def test_every_recorded_run_is_there():
    assert {name_of(info) for info in runs()} >= {*RECORDED}
