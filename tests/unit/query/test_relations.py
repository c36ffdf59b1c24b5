"""What a log says twice: learnt from its first rollouts, and reported where it breaks."""

import json
import random
from pathlib import Path

import pytest

from board.analysis.contradictions import contradictions
from board.analysis.findings import diagnose
from board.core.findings.finding import Finding
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Run, open_run


def run_of(folder: Path, seed: int, broken: float, at: int = 20) -> Run:
    """40 steps of 32 rollouts: acc is [score = 1], n_turns is turns_used, the reward is the sum of its
    parts. broken: the share of rollouts from `at` on in which acc says something else.
    """
    dice, lines = random.Random(seed), []
    for step in range(40):
        for number in range(32):
            right, form, turns = dice.random() < 0.5, dice.random() < 0.8, dice.randrange(1, 6)
            acc = right != (step >= at and dice.random() < broken)
            parts = {"correct": float(right), "format": float(form)}
            lines.append(
                {
                    "type": "sample",
                    "step": step,
                    "group_id": f"{step}-{number // 4}",
                    "prompt": f"p{number // 4}",
                    "response": f"answer {dice.random()}",
                    "reward": parts["correct"] + 0.25 * parts["format"],
                    "rewards": parts,
                    "acc": float(acc),
                    "n_turns": turns,
                    "turns_used": turns,
                }
            )
    folder.mkdir(parents=True)
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return open_run(discover(folder).runs[0])


def told(run: Run) -> list[Finding]:
    return [f for f in diagnose(run, tokens=False).findings if f.rule == "contradiction"]


@pytest.mark.parametrize(("seed", "broken", "at"), [(0, 0.3, 10), (1, 0.6, 30), (2, 1.0, 17)])
def test_a_relation_that_breaks_is_told_with_its_step_and_its_rollouts(tmp_path, seed, broken, at):
    run = run_of(tmp_path / "run", seed, broken, at)
    found = told(run)
    assert {f.first_step for f in found} == {at}
    assert any("acc" in f.title for f in found)
    frame = run.frame(["acc", "rewards.correct"], (at, at))
    differ = frame.loc[frame["acc"] != frame["rewards.correct"], "index"].tolist()
    for one in found:
        assert {e.index for e in one.evidence} <= {*differ}
        assert one.evidence


def test_relations_that_hold_to_the_end_are_no_finding(tmp_path):
    assert not told(run_of(tmp_path / "run", 0, 0.0))


@pytest.mark.parametrize("broken", [0.0, 1.0])
def test_check_has_a_note_of_each_contradiction(tmp_path, broken):
    notes = contradictions(run_of(tmp_path / "run", 1, broken))
    assert bool(notes) == (broken > 0)
    assert all(note.severity == "note" for note in notes)
