"""Findings code the group ids of a run as a whole: of a step, they would be all names again."""

from __future__ import annotations

import json
from pathlib import Path

from board.analysis.findings import diagnose
from board.index import group_ids
from board.index.discovery.discovered_runs import discover
from board.query.open_run import open_run


def test_group_ids_are_coded_for_the_run_and_not_by_step(tmp_path: Path, monkeypatch) -> None:
    lines = (
        {"step": n // 4, "group_id": f"g{n // 2}", "response": "x", "reward": n % 2}
        for n in range(80)
    )
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (info,) = discover(tmp_path).runs
    calls: list[int] = []
    group_codes = group_ids.group_codes
    monkeypatch.setattr(
        group_ids, "group_codes", lambda rows: calls.append(len(rows)) or group_codes(rows)
    )
    assert diagnose(open_run(info)).steps_read == 20
    assert set(calls) == {80}
