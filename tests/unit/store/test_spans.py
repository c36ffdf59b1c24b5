from __future__ import annotations

from pathlib import Path

from written_logs import write_lines

from board.store.discovery import discover
from board.store.rollout import open_rollout
from board.store.run import Run, open_run
from board.store.spans import MOST_ROLLOUTS, in_loss, step_spans


def run_of(root: Path, rows: list[dict[str, object]]) -> Run:
    write_lines(root / "run" / "20260101T000000Z-rank00000-00000000.jsonl", rows)
    return open_run(discover(root).runs[0])


def row(step: int, value: float, **more: object) -> dict[str, object]:
    ids, entropy = [1, 2], [value, value + 1]
    return {"type": "sample", "step": step, "response_ids": ids, "entropy": entropy, **more}


def test_a_step_s_span_covers_its_rollouts_and_no_other_step(tmp_path: Path) -> None:
    run = run_of(tmp_path, [row(1, 0.0), row(1, 10.0), row(2, 1000.0)])
    found = step_spans(run, 1)
    low, high = found.spans["entropy"]
    assert 0 <= low < 0.1
    assert 10.9 < high <= 11
    assert (found.read, found.total) == (2, 2)


def test_tokens_outside_the_loss_do_not_widen_the_span(tmp_path: Path) -> None:
    run = run_of(tmp_path, [row(1, 5.0, loss_mask=[1, 0])])
    assert in_loss(open_rollout(run, 1, 0))["entropy"].tolist() == [5.0]


def test_a_large_step_is_sampled_and_says_so(tmp_path: Path) -> None:
    run = run_of(tmp_path, [row(1, float(i)) for i in range(MOST_ROLLOUTS + 8)])
    found = step_spans(run, 1)
    assert (found.read, found.total) == (MOST_ROLLOUTS, MOST_ROLLOUTS + 8)


def test_the_clip_range_of_the_settings_marks_clipped_tokens(tmp_path: Path) -> None:
    rows = [row(1, 0.0, logprobs=[-1, -1], old_logprobs=[-2, -1], advantage=1.0)]
    (tmp_path / "run").mkdir()
    settings = tmp_path / "run" / "run-20260101T000000Z.json"
    settings.write_text('{"config": {"epsilon": 0.2}}', encoding="utf-8")
    opened = open_rollout(run_of(tmp_path, rows), 1, 0)
    assert opened.metrics["clipped"].tolist() == [1.0, 0.0]
    assert opened.clip == {"ε low": 0.2, "ε high": 0.2}
