from __future__ import annotations

from pathlib import Path

from written_logs import write_lines

from board.analysis.rollout import open_rollout
from board.analysis.step_spans import in_loss, read_spans
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Run, open_run


def run_of(root: Path, rows: list[dict[str, object]]) -> Run:
    write_lines(root / "run" / "20260101T000000Z-rank00000-00000000.jsonl", rows)
    return open_run(discover(root).runs[0])


def row(step: int, value: float, **more: object) -> dict[str, object]:
    ids, entropy = [1, 2], [value, value + 1]
    return {"type": "sample", "step": step, "response_ids": ids, "entropy": entropy, **more}


def test_a_step_s_span_covers_its_rollouts_and_no_other_step(tmp_path: Path) -> None:
    run = run_of(tmp_path, [row(1, 0.0), row(1, 10.0), row(2, 1000.0)])
    found = read_spans(run, 1, lambda done, total: None)
    assert found.spans["entropy"] == (0.0, 11.0)
    assert (found.read, found.total) == (2, 2)


def test_tokens_outside_the_loss_do_not_widen_the_span(tmp_path: Path) -> None:
    run = run_of(tmp_path, [row(1, 5.0, loss_mask=[1, 0])])
    assert in_loss(open_rollout(run, 1, 0).metrics)["entropy"].tolist() == [5.0]


def test_a_rollout_that_can_t_be_read_is_passed_over_and_counted(tmp_path: Path) -> None:
    run = run_of(tmp_path, [row(1, 0.0), row(1, 9.0)])
    file = next((tmp_path / "run").glob("*.jsonl"))
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"#" * (len(lines[0]) - 1) + b"\n" + lines[1])
    found = read_spans(run, 1, lambda done, total: None)
    assert (found.read, found.total) == (1, 2)
    assert found.spans["entropy"] == (9.0, 10.0)


def test_the_clip_range_of_the_settings_marks_clipped_tokens(tmp_path: Path) -> None:
    rows = [row(1, 0.0, logprobs=[-1, -1], old_logprobs=[-2, -1], advantage=1.0)]
    (tmp_path / "run").mkdir()
    settings = tmp_path / "run" / "run-20260101T000000Z.json"
    settings.write_text('{"config": {"epsilon": 0.2}}', encoding="utf-8")
    opened = open_rollout(run_of(tmp_path, rows), 1, 0)
    assert opened.metrics["clipped"].tolist() == [1.0, 0.0]
    assert opened.clip == {"ε low": 0.2, "ε high": 0.2}


def test_the_discount_of_the_settings_enters_the_td_error(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    settings = tmp_path / "run" / "run-20260101T000000Z.json"
    settings.write_text('{"config": {"gamma": 0.5}}', encoding="utf-8")
    run = run_of(tmp_path, [row(1, 0.0, token_rewards=[0, 1], values=[2, 4])])
    assert open_rollout(run, 1, 0).metrics["td_error"].tolist() == [0.0, -3.0]
